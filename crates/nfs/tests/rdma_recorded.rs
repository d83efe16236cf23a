//! Calls of the kernel's client over RDMA, which our server's end answers as the kernel's server did.

mod ends;

use ends::raw::Raw;
use ends::{NOW, Pipe, entropy, payload};
use onego_buf::{List, Pool, SegmentMut};
use onego_nfs::rpc::rdma::{Chunks, Config, Content, Header, Responder, Target};
use onego_nfs::rpc::{Record, Split, Splitter};
use onego_nfs::v3;
use onego_nfs::xdr::{Reader, Writer};
use onego_rdma::iwarp::{self, Connection, Event};
use std::collections::BTreeMap;
use std::sync::Arc;

const RECORDED: &str = include_str!("data/rdma.txt");

/// What the kernel's client tells of itself (RFC 8797): messages of 4 KiB, remote invalidation.
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

/// A message: its header, and what follows.
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

/// All memory of a header, and whether it is to be read.
fn targets(header: &mut Header) -> impl Iterator<Item = (&mut Target, bool)> {
    let Chunks { reads, writes, reply } = chunks(header);
    let sinks = writes.iter_mut().chain(reply).flat_map(|chunk| &mut chunk.0);
    reads.iter_mut().map(|read| (&mut read.target, true)).chain(sinks.map(|target| (target, false)))
}

fn written(header: &Header, body: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    header.encode(&mut w);
    [w.as_slice(), body].concat()
}

fn lengths<'a>(targets: impl IntoIterator<Item = &'a Target>) -> usize {
    targets.into_iter().map(|target| target.length as usize).sum()
}

struct Server {
    responder: Responder<Connection>,
    incoming: Pipe,
    client: Raw,
    calls: Vec<Record>,
}

impl Server {
    fn new() -> Self {
        let transport = Arc::new(iwarp::Config::new(Pool::new(8 << 20)));
        // The kernel's server grants 64.
        let config = Config { credits: 64, ..Config::new(Pool::new(8 << 20)) };
        let responder = Responder::new(Connection::serve(NOW, transport, entropy(1)), config);
        let (incoming, client) = (Pipe::default(), Raw::client(&TOLD));
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

    /// Makes a recorded call, with memory of this test, and answers it with what was recorded. Checks that the message
    /// of the reply is that, with the memory as it was recorded, and that it invalidates the same.
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
            // It was not in the message.
            front = header.xid.to_be_bytes().to_vec();
            front.resize(in_reply_chunk, 0);
            // The kernel's server uses such a chunk whenever there is one, and ours only for what does not fit.
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

#[test]
fn our_server_answers_the_kernels_client_as_the_kernels_server_does() {
    let mut server = Server::new();
    server.settle();
    let (mut reads, mut writes, mut replies, mut invalidated) = (0, 0, 0, 0);
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let (call, reply) = (bytes(words.next().unwrap()), bytes(words.next().unwrap()));
        let invalidates = words.next().and_then(|key| u32::from_str_radix(key, 16).ok());
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
