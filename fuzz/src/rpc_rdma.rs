//! Both ends of RPC over RDMA on a queue pair that is a few lists, and what a fuzzer says to them.

use arbitrary::Arbitrary;
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_nfs::rpc::rdma::{
    Chunks, Config, Content, Header, Parameters, RdmaError, RdmaSegment, ReadSegment, Requester, Responder,
    WriteChunk,
};
use onego_nfs::rpc::{Split, Splitter};
use onego_nfs::xdr::Writer;
use onego_rdma::{
    CompletedWork, Completion, Key, Memory, PostError, QueuePair, Refused, Remote, SendFlags, Status,
};
use std::collections::{BTreeMap, VecDeque};

/// Most bytes of a message in these runs, and of what is read at a time.
const MESSAGE: usize = 100_000;
const READING: usize = 150_000;
const CREDITS: u32 = 4;

/// Carries everything at once. Memory of the peer is full of its offsets.
#[derive(Debug, Default)]
pub struct Fake {
    receives: VecDeque<SegmentMut>,
    completions: VecDeque<Completion>,
    regions: BTreeMap<u32, Memory>,
    next_key: u32,
    /// Reads that are not answered.
    reads: VecDeque<SegmentMut>,
    reading: usize,
}

fn done(done: CompletedWork) -> Completion {
    Completion { id: 0, status: Status::Success, done }
}

impl QueuePair for Fake {
    fn register(&mut self, memory: Memory) -> Result<Remote, Refused<Memory>> {
        self.next_key += 1;
        self.regions.insert(self.next_key, memory);
        Ok(Remote { key: Key(self.next_key), offset: 0 })
    }

    fn invalidate(&mut self, key: Key) -> Result<Option<Memory>, PostError> {
        self.regions.remove(&key.0).map(Some).ok_or(PostError::UnknownKey(key))
    }

    fn withdraw(&mut self, key: Key) -> Result<Option<Memory>, PostError> {
        self.invalidate(key)
    }

    fn post_receive(&mut self, _: u64, buffer: SegmentMut) -> Result<(), Refused<SegmentMut>> {
        self.receives.push_back(buffer);
        Ok(())
    }

    fn post_send(&mut self, _: u64, bytes: List, _: SendFlags) -> Result<(), Refused<List>> {
        assert!(bytes.len() <= 4096, "no message is longer than the peer takes");
        self.completions.push_back(done(CompletedWork::Sent));
        Ok(())
    }

    fn post_write(&mut self, _: u64, bytes: List, _: Remote) -> Result<(), Refused<List>> {
        assert!(!bytes.is_empty());
        self.completions.push_back(done(CompletedWork::Written));
        Ok(())
    }

    fn post_read(&mut self, _: u64, sink: SegmentMut, _: Remote) -> Result<(), Refused<SegmentMut>> {
        self.reading += sink.len();
        assert!(self.reading <= READING, "no more is read at a time than its bound");
        self.reads.push_back(sink);
        Ok(())
    }

    fn poll(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    fn disconnect(&mut self) {}
}

impl Fake {
    /// A message comes, if there is a receive for it that is long enough.
    fn come(&mut self, bytes: &[u8], invalidate: Option<u32>) {
        let Some(mut buffer) = self.receives.pop_front_if(|buffer| buffer.len() >= bytes.len()) else {
            return;
        };
        buffer[..bytes.len()].copy_from_slice(bytes);
        let invalidated = invalidate.and_then(|key| Some((Key(key), self.regions.remove(&key)?)));
        let (len, solicited) = (bytes.len(), false);
        self.completions.push_back(done(CompletedWork::Received { buffer, len, solicited, invalidated }));
    }

    /// The first read is answered.
    fn answer(&mut self, byte: u8) {
        if let Some(mut sink) = self.reads.pop_front() {
            self.reading -= sink.len();
            sink.fill(byte);
            self.completions.push_back(done(CompletedWork::Read(sink)));
        }
    }
}

/// A front is twelve bytes: number, nothing, length of the payload.
#[derive(Default)]
struct Twelve;

impl Splitter for Twelve {
    fn split(&mut self, start: &[u8]) -> Split {
        let len = start.get(8..12).map(|word| u32::from_be_bytes(word.try_into().unwrap()) as usize);
        match len {
            None => Split::More(12),
            Some(len) if len % 7 == 6 => Split::Never,
            Some(len) => Split::At(12, len),
        }
    }

    fn place(&mut self, front: &[u8], payload: usize) -> Option<SegmentMut> {
        assert!(payload <= MESSAGE);
        (front[7] % 2 == 0).then(|| SegmentMut::zeroed(payload))
    }
}

fn front(xid: u32, len: u32) -> Vec<u8> {
    [xid, 0, len].iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A list of segments: positions or chunks, and lengths.
type Segments = Vec<(u8, u16)>;

/// What the fuzzer does.
#[derive(Debug, Arbitrary)]
pub enum Item<'a> {
    /// Any bytes come.
    Bytes(&'a [u8]),
    /// A message comes whose header is right as such.
    Message {
        xid: u8,
        inner: u8,
        kind: u8,
        credits: u32,
        reads: Segments,
        writes: Segments,
        reply: Option<Segments>,
        len: u16,
        body: u8,
        invalidate: Option<u8>,
    },
    /// A read is answered.
    Read(u8),
    /// This end replies, or calls.
    Act { xid: u8, front: u8, payload: u16, sink: Option<u16>, reply: u16 },
}

fn target(at: u8, len: u16) -> RdmaSegment {
    // Offsets of what the fuzzer was offered are zero.
    RdmaSegment { handle: u32::from(at) % 8, length: u32::from(len), offset: u64::from(at / 64) }
}

fn chunk(segments: &Segments) -> WriteChunk {
    WriteChunk(segments.iter().map(|(at, len)| target(*at, *len)).collect())
}

impl Item<'_> {
    /// The message that comes, and what it invalidates.
    fn message(&self) -> Option<(Vec<u8>, Option<u32>)> {
        let (xid, inner, kind, credits, reads, writes, reply, len, body, invalidate) = match self {
            Self::Bytes(bytes) => return Some((bytes.to_vec(), None)),
            Self::Message { xid, inner, kind, credits, reads, writes, reply, len, body, invalidate } => {
                (*xid, *inner, kind, credits, reads, writes, reply, *len, *body, invalidate)
            }
            _ => return None,
        };
        let chunks = Chunks {
            reads: (reads.iter())
                .map(|(at, len)| ReadSegment { position: u32::from(at % 8) * 4, target: target(*at, *len) })
                .collect(),
            writes: writes
                .chunk_by(|(a, _), (b, _)| a % 2 == b % 2)
                .map(|part| chunk(&part.to_vec()))
                .collect(),
            reply: reply.as_ref().map(chunk),
        };
        let content = match kind % 4 {
            0 => Content::Error(RdmaError::Chunk),
            1 => Content::NoMessage(chunks),
            _ => Content::Message(chunks),
        };
        let mut w = Writer::new();
        Header { xid: u32::from(xid % 8), credits: *credits, content }.encode(&mut w);
        let inner = if inner % 16 == 0 { inner } else { xid % 8 };
        let body = [front(u32::from(inner), u32::from(len)), vec![1; usize::from(body)]].concat();
        Some(([w.as_slice(), &body].concat(), invalidate.map(u32::from)))
    }
}

fn config() -> Config {
    let pool = Pool::new(1 << 20);
    Config { credits: CREDITS, message_max: MESSAGE, reading_max: READING, ..Config::new(pool) }
}

/// A server, whose client is the fuzzer.
pub fn serve(items: &[Item<'_>]) {
    let mut server = Responder::new(Fake::default(), config());
    let _ = server
        .requested(&Parameters { send_size: 4096, receive_size: 4096, remote_invalidation: true }.encode());
    let mut calls = Vec::new();
    for item in items {
        match item {
            Item::Read(byte) => server.queue_pair_mut().answer(*byte),
            Item::Act { xid, front: len, payload, .. } => {
                let xid = u32::from(xid % 8);
                let long = vec![0; usize::from(*len) * 64 & !3];
                server.reply(&[front(xid, 6), long].concat(), List::from(vec![3; usize::from(*payload)]));
                calls.retain(|call| *call != xid);
            }
            other => {
                let (bytes, _) = other.message().unwrap();
                server.queue_pair_mut().come(&bytes, None);
            }
        }
        while let Some(record) = server.next(&mut Twelve).unwrap() {
            let payload = record.payload.len() + record.placed.map_or(0, |placed| placed.len());
            assert!(payload <= MESSAGE);
            let xid = u32::from_be_bytes(record.front[..4].try_into().unwrap());
            assert!(!calls.contains(&xid), "a call is given up once");
            calls.push(xid);
        }
        assert!(calls.len() <= server.under_way() && server.under_way() <= CREDITS as usize);
    }
}

/// A client, whose server is the fuzzer.
pub fn call(items: &[Item<'_>]) {
    let mut client = Requester::new(Fake::default(), config());
    client
        .connected(&Parameters { send_size: 4096, receive_size: 4096, remote_invalidation: false }.encode());
    let mut sinks: BTreeMap<u32, Option<usize>> = BTreeMap::new();
    for item in items {
        match item {
            Item::Read(_) => {}
            Item::Act { xid, front: len, payload, sink, reply } => {
                let xid = u32::from(xid % 8);
                if sinks.contains_key(&xid) {
                    continue;
                }
                let sink = sink.map(usize::from);
                sinks.insert(xid, sink);
                let long = vec![0; usize::from(*len) * 64 & !3];
                let payload = List::from(Segment::from(vec![3; usize::from(*payload)]));
                let call = [front(xid, 6), long].concat();
                client.call(
                    &call,
                    payload,
                    sink.map(|len| Memory::Sink(SegmentMut::zeroed(len))),
                    usize::from(*reply),
                );
            }
            other => {
                let (bytes, invalidate) = other.message().unwrap();
                client.queue_pair_mut().come(&bytes, invalidate);
            }
        }
        loop {
            match client.next(&mut Twelve) {
                Ok(None) => break,
                Ok(Some(answer)) => {
                    let given = sinks.remove(&answer.xid).expect("a call is answered once");
                    let placed = answer.reply.ok().and_then(|record| record.placed);
                    if let Some(len) = given {
                        let back = placed.map_or(0, |placed| placed.len());
                        assert_eq!(back + answer.rest.map_or(0, |rest| rest.len()), len);
                    }
                }
                Err(_) => return end(client, sinks),
            }
        }
    }
    end(client, sinks);
}

/// The connection ends: everything comes back.
fn end(mut client: Requester<Fake>, mut sinks: BTreeMap<u32, Option<usize>>) {
    let fake = client.queue_pair_mut();
    while let Some((key, memory)) = fake.regions.pop_first() {
        let (id, status) = (key.into(), Status::Flushed);
        fake.completions.push_back(Completion {
            id,
            status,
            done: CompletedWork::Released(Key(key), memory),
        });
    }
    for call in client.unanswered() {
        let given = sinks.remove(&call.xid).expect("a call comes back once");
        assert_eq!(call.sink.map(|sink| sink.len()), given);
    }
    assert!(sinks.is_empty());
}
