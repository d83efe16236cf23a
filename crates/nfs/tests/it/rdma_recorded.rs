//! Replays recorded kernel traffic over RDMA: our server answers the kernel client's calls as the kernel's server did,
//! and our client processes the replies of that server.

use crate::ends::raw::Raw;
use crate::ends::{NOW, RecordedPipe, config, entropy, noise, payload, word};
use onego_buf::{List, Pool, SegmentMut};
use onego_nfs::rpc::rdma::{Answer, Chunks, Config, Content, Header, RdmaSegment, Requester, Responder};
use onego_nfs::rpc::{Accepted, Record, Reply, Split, Splitter};
use onego_nfs::v3;
use onego_nfs::xdr::{Reader, Writer, Xdr as _};
use onego_rdma::iwarp::{self, Connection, Event};
use onego_rdma::{Key, Memory, QueuePair as _, Remote};
use std::collections::BTreeMap;
use std::sync::Arc;

const RECORDED: &str = include_str!("../data/rdma.txt");

/// Private data of the kernel's client and server (RFC 8797): 4 KiB messages, remote invalidation.
const TOLD: [u8; 8] = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3];

struct Nfs;

impl Splitter for Nfs {
    fn split(&mut self, start: &[u8]) -> Split {
        v3::split_call(start)
    }

    fn place(&mut self, _: &[u8], _: usize) -> Option<SegmentMut> {
        None
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn parse(message: &[u8]) -> (Header, Vec<u8>) {
    let mut r = Reader::new(message);
    let header = Header::decode(&mut r).unwrap();
    (header, message[message.len() - r.left()..].to_vec())
}

fn chunks(header: &mut Header) -> &mut Chunks {
    match &mut header.content {
        Content::Message(chunks) | Content::NoMessage(chunks) => chunks,
        Content::Error(_) => panic!("no error was recorded"),
    }
}

/// Returns all segments of a header, and whether each is to be read.
fn targets(header: &mut Header) -> impl Iterator<Item = (&mut RdmaSegment, bool)> {
    let Chunks { reads, writes, reply } = chunks(header);
    let sinks = writes.iter_mut().chain(reply).flat_map(|chunk| &mut chunk.0);
    reads.iter_mut().map(|read| (&mut read.target, true)).chain(sinks.map(|target| (target, false)))
}

fn written(header: &Header, body: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    header.encode(&mut w);
    [w.as_slice(), body].concat()
}

fn lengths<'a>(targets: impl IntoIterator<Item = &'a RdmaSegment>) -> usize {
    targets.into_iter().map(|target| target.length as usize).sum()
}

struct RecordedServer {
    responder: Responder<Connection>,
    incoming: RecordedPipe,
    client: Raw,
    calls: Vec<Record>,
}

impl RecordedServer {
    fn new() -> Self {
        let transport = Arc::new(iwarp::Config::new(Pool::new(8 << 20)));
        // The kernel's server grants 64.
        let config = Config { credits: 64, ..Config::new(Pool::new(8 << 20)) };
        let responder = Responder::new(Connection::serve(NOW, transport, entropy(1)), config);
        let (incoming, client) = (RecordedPipe::default(), Raw::client(&TOLD));
        Self { responder, incoming, client, calls: Vec::new() }
    }

    fn settle(&mut self) {
        loop {
            let mut moved = self.incoming.fill(&mut self.client.connection, 1 << 20);
            moved |= self.incoming.drain(self.responder.queue_pair_mut(), usize::MAX);
            while let Some(event) = self.responder.queue_pair_mut().event() {
                if let Event::Requested(told) = event {
                    let told = self.responder.requested(&told);
                    self.responder.queue_pair_mut().accept(&told).unwrap();
                }
            }
            while let Some(call) = self.responder.next(&mut Nfs).unwrap() {
                self.calls.push(call);
            }
            moved |= self.client.incoming.fill(self.responder.queue_pair_mut(), 1 << 20);
            moved |= self.client.incoming.drain(&mut self.client.connection, usize::MAX);
            self.client.collect(&[]);
            assert_eq!(self.client.fault, None);
            if !moved {
                return;
            }
        }
    }

    /// Makes a recorded call with memory of this test and replies with the recorded data. Checks that the reply's
    /// message matches the recorded one, with the recorded handles, and that it invalidates the same handle.
    fn replay(&mut self, call: &[u8], reply: &[u8], invalidates: Option<u32>) {
        let (mut header, body) = parse(call);
        let mut original = BTreeMap::new();
        for (target, is_source) in targets(&mut header) {
            let stand_in = self.client.stand_in(target, is_source);
            original.insert(stand_in.handle, target.handle);
            *target = stand_in;
        }
        self.client.say(&written(&header, &body), None);
        self.settle();
        let record = self.calls.pop().expect("the call comes");
        let read = lengths(chunks(&mut header).reads.iter().map(|read| &read.target));
        assert_eq!(payload(&record), vec![7; read]);

        let (mut answer, mut front) = parse(reply);
        let in_chunks = chunks(&mut answer);
        let beside = lengths(in_chunks.writes.iter().flat_map(|chunk| &chunk.0));
        let in_reply_chunk = lengths(in_chunks.reply.iter().flat_map(|chunk| &chunk.0));
        if in_reply_chunk > 0 {
            // The front was not in the message.
            front = header.xid.to_be_bytes().to_vec();
            front.resize(in_reply_chunk, 0);
            // The kernel's server uses a reply chunk whenever there is one; ours only for replies that do not fit.
            let unused = Chunks { reply: in_chunks.reply.clone(), ..Chunks::default() };
            answer.content = Content::Message(unused);
            targets(&mut answer).for_each(|(target, _)| target.length = 0);
        }
        self.responder.reply(&front, List::from(vec![9; beside]));
        self.settle();
        let (mut told, body) = parse(&self.client.messages.pop().expect("the reply comes"));
        targets(&mut told).for_each(|(target, _)| target.handle = original[&target.handle]);
        let invalidated = self.client.invalidated.pop().map(|key| original[&key]);
        assert_eq!(written(&told, &body), written(&answer, &front));
        assert_eq!(invalidated, invalidates);
    }
}

struct Replies(u32);

impl Splitter for Replies {
    fn split(&mut self, start: &[u8]) -> Split {
        v3::split_reply(start, self.0)
    }

    fn place(&mut self, _: &[u8], _: usize) -> Option<SegmentMut> {
        None
    }
}

struct RecordedClient {
    requester: Requester<Connection>,
    incoming: RecordedPipe,
    server: Raw,
}

impl RecordedClient {
    fn new() -> Self {
        let transport = Arc::new(iwarp::Config::new(Pool::new(8 << 20)));
        let told = config().parameters().encode();
        let mut connection = Connection::connect(NOW, transport, entropy(2), &told).unwrap();
        connection.opened(NOW);
        let requester = Requester::new(connection, config());
        Self { requester, incoming: RecordedPipe::default(), server: Raw::server() }
    }

    /// Exchanges all data and returns the answer to a call of `procedure`, if any.
    fn settle(&mut self, procedure: u32) -> Option<Answer> {
        let mut answer = None;
        loop {
            let mut moved = self.server.incoming.fill(self.requester.queue_pair_mut(), 1 << 20);
            moved |= self.server.incoming.drain(&mut self.server.connection, usize::MAX);
            self.server.collect(&TOLD);
            moved |= self.incoming.fill(&mut self.server.connection, 1 << 20);
            moved |= self.incoming.drain(self.requester.queue_pair_mut(), usize::MAX);
            while let Some(event) = self.requester.queue_pair_mut().event() {
                match event {
                    Event::Established(how) => self.requester.connected(&how.private_data),
                    other => panic!("{other:?}"),
                }
            }
            while let Some(next) = self.requester.next(&mut Replies(procedure)).unwrap() {
                assert!(answer.replace(next).is_none(), "one reply");
            }
            if !moved {
                assert_eq!(self.server.fault, None);
                return answer;
            }
        }
    }

    /// Makes a call with memory like that of a recorded one, and checks that it offers the same. The server then
    /// performs the recorded writes and reply, and the client's result is checked.
    fn replay(&mut self, call: &[u8], reply: &[u8], invalidates: Option<u32>) {
        let (mut original, front) = parse(call);
        let procedure = word(&front, 5).unwrap();
        let Chunks { reads, writes, reply: reply_chunk } = chunks(&mut original);
        let source = noise(lengths(reads.iter().map(|read| &read.target)), 1);
        let sink = writes.first().map(|chunk| SegmentMut::zeroed(lengths(&chunk.0)));
        let sink_len = sink.as_ref().map(|sink| sink.len());
        let reply_max = reply_chunk.as_ref().map_or(300, |chunk| lengths(&chunk.0));
        self.requester.call(&front, List::from(source), sink.map(Memory::Sink), reply_max);
        assert!(self.settle(procedure).is_none());
        let (mut made, made_front) = parse(&self.server.messages.pop().expect("the call comes"));
        assert_eq!((made.xid, &made_front), (original.xid, &front));
        let shape = |chunks: &Chunks| {
            let reads: Vec<_> = chunks.reads.iter().map(|read| (read.position, read.target.length)).collect();
            let writes: Vec<_> = chunks.writes.iter().map(|chunk| lengths(&chunk.0)).collect();
            (reads, writes, chunks.reply.as_ref().map(|chunk| lengths(&chunk.0)))
        };
        assert_eq!(shape(chunks(&mut made)), shape(chunks(&mut original)));

        let (mut answer, mut recorded) = parse(reply);
        let ours: Vec<RdmaSegment> = targets(&mut made).map(|(target, _)| *target).collect();
        let told = chunks(&mut answer);
        let beside = noise(lengths(told.writes.iter().flat_map(|chunk| &chunk.0)), 2);
        if let Some(chunk) = &mut told.reply {
            // The data was not in the message, and the kernel's client had three regions for it where ours has one.
            recorded = [&original.xid.to_be_bytes()[..], &noise(lengths(&chunk.0) - 4, 3)].concat();
            chunk.0 = vec![RdmaSegment { length: recorded.len() as u32, ..ours[0] }];
        }
        for target in told.writes.iter_mut().chain(&mut told.reply).flat_map(|chunk| &mut chunk.0) {
            let bytes = if sink_len.is_some() { &beside } else { &recorded };
            target.handle = ours[0].handle;
            target.offset = ours[0].offset;
            let to = Remote { key: Key(target.handle), offset: target.offset };
            self.server.connection.post_write(0, List::from(bytes.clone()), to).unwrap();
        }
        let is_in_message = told.reply.is_none();
        let in_message = if is_in_message { &recorded[..] } else { &[] };
        let invalidate = invalidates.map(|_| ours[0].handle);
        self.server.say(&written(&answer, in_message), invalidate);
        let came = self.settle(procedure).expect("the reply comes");
        assert_eq!(came.xid, original.xid);
        let record = came.reply.expect("the call was taken");
        assert_eq!(&*record.front, &recorded);
        assert_eq!(payload(&record), beside);
        if is_in_message {
            let reply = Reply::decode(&mut Reader::new(&record.front)).unwrap();
            assert_eq!(reply.result, Ok(Accepted::Success));
        }
        let len = record.placed.map_or(0, |placed| placed.len()) + came.rest.map_or(0, |rest| rest.len());
        assert_eq!(len, sink_len.unwrap_or(0), "the whole sink comes back");
        assert_eq!(self.requester.under_way(), 0);
    }
}

/// Returns the recorded calls, their replies, and the handles that these invalidate.
fn recorded() -> impl Iterator<Item = (Vec<u8>, Vec<u8>, Option<u32>)> {
    RECORDED.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut words = line.split(' ');
        let (call, reply) = (bytes(words.next().unwrap()), bytes(words.next().unwrap()));
        (call, reply, words.next().and_then(|key| u32::from_str_radix(key, 16).ok()))
    })
}

#[test]
fn our_client_accepts_the_replies_of_the_kernels_server() {
    let mut client = RecordedClient::new();
    client.settle(0);
    recorded().for_each(|(call, reply, invalidates)| client.replay(&call, &reply, invalidates));
}

#[test]
fn our_server_answers_the_kernels_client_as_the_kernels_server_does() {
    let mut server = RecordedServer::new();
    server.settle();
    let (mut reads, mut writes, mut replies, mut invalidated) = (0, 0, 0, 0);
    for (call, reply, invalidates) in recorded() {
        server.replay(&call, &reply, invalidates);
        let (mut header, _) = parse(&call);
        let chunks = chunks(&mut header);
        reads += usize::from(!chunks.reads.is_empty());
        writes += usize::from(!chunks.writes.is_empty());
        replies += usize::from(chunks.reply.is_some());
        invalidated += usize::from(invalidates.is_some());
    }
    let kinds = [reads, writes, replies, invalidated];
    assert!(kinds.iter().all(|count| *count > 0), "every kind was recorded: {kinds:?}");
}
