//! Peers that violate RPC over RDMA: each gets the error that the RFC prescribes, and no one else is affected.

use crate::ends::raw::{Raw, header, message, reads, writes};
use crate::ends::{NONE, NOW, RecordedPipe, Splits, config, entropy, front, noise, payload, word};
use onego_buf::{List, Pool, SegmentMut};
use onego_nfs::rpc::Record;
use onego_nfs::rpc::rdma::{
    Answer, Chunks, Config, Content, Error, RdmaError, RdmaSegment, Requester, Responder, WriteChunk,
};
use onego_rdma::iwarp::{self, Connection, Event, Violation};
use std::sync::Arc;

/// A server, and a client that sends what a test specifies.
struct LyingServer {
    responder: Responder<Connection>,
    incoming: RecordedPipe,
    client: Raw,
    calls: Vec<Record>,
    fault: Option<iwarp::Error>,
}

impl LyingServer {
    fn new(config: Config) -> Self {
        let transport = Arc::new(iwarp::Config::new(Pool::new(8 << 20)));
        let told = config.parameters().encode();
        let mut this = Self {
            responder: Responder::new(Connection::serve(NOW, transport, entropy(1)), config),
            incoming: RecordedPipe::default(),
            client: Raw::client(&told),
            calls: Vec::new(),
            fault: None,
        };
        this.settle();
        this
    }

    fn step(&mut self) -> bool {
        let mut moved = self.incoming.fill(&mut self.client.connection, 1 << 20);
        moved |= self.incoming.drain(self.responder.queue_pair_mut(), usize::MAX);
        while let Some(event) = self.responder.queue_pair_mut().event() {
            match event {
                Event::Requested(told) => {
                    let told = self.responder.requested(&told);
                    self.responder.queue_pair_mut().accept(&told).unwrap();
                }
                Event::Fault(fault) => self.fault = Some(fault),
                _ => {}
            }
        }
        while let Some(call) = self.responder.next(&mut Splits::default()).unwrap() {
            self.calls.push(call);
        }
        moved
    }

    fn settle(&mut self) {
        loop {
            let mut moved = self.step();
            moved |= self.client.incoming.fill(self.responder.queue_pair_mut(), 1 << 20);
            moved |= self.client.incoming.drain(&mut self.client.connection, usize::MAX);
            self.client.collect(&[]);
            if !moved {
                return;
            }
        }
    }

    /// Returns the server's reply to a message, if any.
    fn told(&mut self, bytes: &[u8]) -> Option<Content> {
        self.client.say(bytes, None);
        self.settle();
        assert_eq!((self.fault, self.client.fault), (None, None));
        assert!(self.client.messages.len() <= 1);
        self.client.messages.pop().map(|message| header(&message).content)
    }

    fn serves(&mut self) {
        let source = self.client.source(noise(5000, 3));
        let call = front(99, 40, 5000, [40, NONE]);
        let bytes = message(99, 9, Content::Message(reads([(40, source)])), &call);
        assert_eq!(self.told(&bytes), None);
        let record = self.calls.pop().expect("the call comes");
        assert_eq!(payload(&record), noise(5000, 3));
        self.responder.reply(&front(99, 40, NONE, [0; 2]), List::new());
        self.settle();
        let reply = header(&self.client.messages.pop().expect("the reply comes"));
        assert_eq!((reply.xid, reply.credits), (99, 9));
        assert_eq!(self.responder.under_way(), 0);
    }
}

#[test]
fn a_server_reports_unusable_messages_to_the_client() {
    let mut server = LyingServer::new(Config { inline: 64 << 10, ..config() });
    let call = front(7, 40, 5000, [40, NONE]);
    let plain = front(7, 40, NONE, [40, NONE]);
    let source = server.client.source(noise(1 << 20, 1));
    let of = |length| RdmaSegment { length, ..source };
    let send = |content, body: &[u8]| message(7, 1, content, body);
    let with = |chunks| Content::Message(chunks);
    let alone = |chunks| Content::NoMessage(chunks);
    let mut version = send(with(Chunks::default()), &plain);
    version[7] = 2;
    let mut procedure = send(with(Chunks::default()), &plain);
    procedure[15] = 2;
    let mut many = reads([]);
    many.reads = vec![reads([(40, of(1))]).reads[0]; 513];
    let chunk = Some(Content::Error(RdmaError::Chunk));
    let table: Vec<(&str, Vec<u8>, Option<Content>)> = vec![
        ("no xid", vec![1, 2, 3], None),
        ("another version", version, Some(Content::Error(RdmaError::Version(1, 1)))),
        ("an unused procedure", procedure, chunk.clone()),
        ("half a header", send(with(reads([(40, of(5000))])), &[])[..40].to_vec(), chunk.clone()),
        ("an error", send(Content::Error(RdmaError::Chunk), &[]), None),
        ("too many segments", send(with(many), &call), chunk.clone()),
        ("no message", send(with(Chunks::default()), &[]), chunk.clone()),
        ("the xid of another call", message(8, 1, with(Chunks::default()), &plain), chunk.clone()),
        ("no chunk with the message", send(alone(Chunks::default()), &[]), chunk.clone()),
        ("a message both inline and in a chunk", send(with(reads([(0, of(40))])), &plain), chunk.clone()),
        ("payloads at two positions", send(with(reads([(40, of(5000)), (44, of(4))])), &call), chunk.clone()),
        ("a payload within the front", send(with(reads([(36, of(5000))])), &call), chunk.clone()),
        ("a payload past the message", send(with(reads([(44, of(5000))])), &call), chunk.clone()),
        ("too little payload", send(with(reads([(40, of(4999))])), &call), chunk.clone()),
        ("too much payload", send(with(reads([(40, of(5001))])), &call), chunk.clone()),
        ("a payload of a message without one", send(with(reads([(40, of(5000))])), &plain), chunk.clone()),
        ("an empty payload", send(with(reads([(40, of(0))])), &front(7, 40, 0, [0; 2])), chunk.clone()),
        ("an empty message", send(alone(reads([(0, of(0))])), &[]), chunk.clone()),
        ("more than the maximum", send(alone(reads([(0, of(u32::MAX))])), &[]), chunk.clone()),
        (
            "more than the maximum, in segments",
            send(alone(reads([(0, of(600_000)), (0, of(600_000))])), &[]),
            chunk.clone(),
        ),
        ("a message with another xid, in a chunk", send(alone(reads([(0, of(400))])), &[]), chunk),
    ];
    for (what, bytes, expected) in table {
        assert_eq!(server.told(&bytes), expected, "{what}");
        assert!(server.calls.is_empty(), "{what}");
        assert_eq!(server.responder.under_way(), 0, "{what}");
        server.serves();
    }
}

#[test]
fn a_payload_may_be_padded_in_its_chunk() {
    let mut server = LyingServer::new(config());
    let source = server.client.source(noise(5004, 1));
    let call = front(7, 40, 5001, [40, NONE]);
    assert_eq!(server.told(&message(7, 1, Content::Message(reads([(40, source)])), &call)), None);
    assert_eq!(payload(&server.calls.pop().unwrap()), noise(5004, 1)[..5001]);
}

#[test]
fn a_truncated_message_is_delivered_to_its_reader() {
    let mut server = LyingServer::new(config());
    for len in [1, 9, u32::MAX - 1] {
        let call = front(7, 40, len, [40, NONE]);
        let bytes = message(7, 1, Content::Message(Chunks::default()), &call);
        assert_eq!(server.told(&bytes), None);
        let record = server.calls.pop().unwrap();
        assert_eq!((&*record.front, payload(&record).len()), (&call[..], 0));
        server.responder.forget(7);
    }
}

#[test]
fn reading_unregistered_memory_ends_the_connection() {
    let mut server = LyingServer::new(config());
    let target = RdmaSegment { handle: 0x1234_5678, length: 5000, offset: 0 };
    let call = front(7, 40, 5000, [40, NONE]);
    server.client.say(&message(7, 1, Content::Message(reads([(40, target)])), &call), None);
    server.settle();
    assert!(server.client.fault.is_some() && server.fault.is_some());
    assert!(server.calls.is_empty());
}

#[test]
fn a_client_that_repeats_a_call_on_a_connection_gets_one_reply() {
    let mut server = LyingServer::new(config());
    let bytes = message(7, 1, Content::Message(Chunks::default()), &front(7, 40, NONE, [0; 2]));
    (0..3).for_each(|_| assert_eq!(server.told(&bytes), None));
    assert_eq!((server.calls.len(), server.responder.under_way()), (1, 1));
}

#[test]
fn a_client_that_exceeds_its_grant_is_disconnected() {
    let credits = 5;
    let mut server = LyingServer::new(Config { credits, ..config() });
    for xid in 0..20 {
        let call = front(xid, 40, NONE, [40, NONE]);
        server.client.say(&message(xid, 1000, Content::Message(Chunks::default()), &call), None);
        server.settle();
    }
    assert_eq!(server.calls.len(), credits as usize);
    assert_eq!(server.fault, Some(iwarp::Error::Violation(Violation::NoReceive)));
}

#[test]
fn a_client_that_reads_no_answers_cannot_exhaust_memory() {
    for broken in [false, true] {
        let mut server = LyingServer::new(Config { credits: 5, ..config() });
        let mut most = 0;
        for xid in 0..1000 {
            let mut bytes =
                message(xid, 5, Content::Message(Chunks::default()), &front(xid, 40, NONE, [0; 2]));
            bytes[7] += u8::from(broken);
            server.client.say(&bytes, None);
            while server.step() {}
            for record in std::mem::take(&mut server.calls) {
                let xid = word(&record.front, 0).unwrap();
                server.responder.reply(&front(xid, 40, NONE, [0; 2]), List::new());
            }
            most = most.max(server.responder.unsent());
        }
        assert!((1..10 * 100).contains(&most), "{most}");
        assert_eq!(server.fault, Some(iwarp::Error::Violation(Violation::NoReceive)));
    }
}

/// A client, and a server that sends what a test specifies.
struct LyingClient {
    requester: Requester<Connection>,
    incoming: RecordedPipe,
    server: Raw,
    answers: Vec<Answer>,
    fault: Option<iwarp::Error>,
}

impl LyingClient {
    fn new(config: Config) -> Self {
        let transport = Arc::new(iwarp::Config::new(Pool::new(8 << 20)));
        let told = config.parameters().encode();
        let mut connection = Connection::connect(NOW, transport, entropy(1), &told).unwrap();
        connection.opened(NOW);
        let mut this = Self {
            requester: Requester::new(connection, config),
            incoming: RecordedPipe::default(),
            server: Raw::server(),
            answers: Vec::new(),
            fault: None,
        };
        this.settle().unwrap();
        this
    }

    fn settle(&mut self) -> Result<(), Error> {
        loop {
            let mut moved = self.server.incoming.fill(self.requester.queue_pair_mut(), 1 << 20);
            moved |= self.server.incoming.drain(&mut self.server.connection, usize::MAX);
            self.server.collect(&config().parameters().encode());
            moved |= self.incoming.fill(&mut self.server.connection, 1 << 20);
            moved |= self.incoming.drain(self.requester.queue_pair_mut(), usize::MAX);
            while let Some(event) = self.requester.queue_pair_mut().event() {
                match event {
                    Event::Established(how) => self.requester.connected(&how.private_data),
                    Event::Fault(fault) => self.fault = Some(fault),
                    _ => {}
                }
            }
            while let Some(answer) = self.requester.next(&mut Splits::default())? {
                self.answers.push(answer);
            }
            if !moved {
                return Ok(());
            }
        }
    }

    /// Makes one call with a sink, and one without that may have a long reply. Returns the memory offered to the
    /// server.
    fn calls(&mut self) -> (RdmaSegment, RdmaSegment) {
        let call = |xid| message(xid, 64, Content::Message(Chunks::default()), &front(xid, 40, NONE, [0; 2]));
        // An answer raises the credits.
        self.requester.call(&front(1, 40, NONE, [0; 2]), List::new(), None, 64);
        self.settle().unwrap();
        self.server.say(&call(1), None);
        self.settle().unwrap();
        assert_eq!(self.answers.pop().map(|answer| answer.xid), Some(1));
        self.requester.call(
            &front(2, 40, NONE, [0; 2]),
            List::new(),
            Some(onego_rdma::Memory::Sink(SegmentMut::zeroed(9000))),
            64,
        );
        self.requester.call(&front(3, 40, NONE, [0; 2]), List::new(), None, 9000);
        self.settle().unwrap();
        let mut offered = self.server.messages.drain(1..).map(|message| match header(&message).content {
            Content::Message(Chunks { writes, reply, .. }) => {
                writes.into_iter().chain(reply).next().unwrap().0[0]
            }
            other => panic!("{other:?}"),
        });
        (offered.next().unwrap(), offered.next().unwrap())
    }
}

#[test]
fn an_invalid_reply_ends_the_connection_without_losing_memory() {
    let reply = |xid, payload| front(xid, 40, payload, [0; 2]);
    type Say = fn(&RdmaSegment, &RdmaSegment) -> (Content, u32);
    let none: Say = |_, _| (Content::Message(Chunks::default()), NONE);
    let table: [(&str, Say, Error); 12] = [
        ("read chunks in a reply", |sink, _| (Content::Message(reads([(40, *sink)])), NONE), Error::NoReply),
        (
            "another region written",
            |sink, _| (Content::Message(writes([RdmaSegment { handle: sink.handle ^ 1, ..*sink }])), 9000),
            Error::Written(2),
        ),
        (
            "another offset",
            |sink, _| (Content::Message(writes([RdmaSegment { offset: 1, ..*sink }])), 9000),
            Error::Written(2),
        ),
        (
            "more written than offered",
            |sink, _| (Content::Message(writes([RdmaSegment { length: 9001, ..*sink }])), 9001),
            Error::Written(2),
        ),
        ("two chunks written", |sink, _| (Content::Message(writes([*sink, *sink])), 9000), Error::Written(2)),
        (
            "segments that were not offered",
            |sink, _| {
                let halves = vec![RdmaSegment { length: 4500, ..*sink }; 2];
                (Content::Message(Chunks { writes: vec![WriteChunk(halves)], ..Chunks::default() }), 9000)
            },
            Error::Written(2),
        ),
        (
            "more announced than written",
            |sink, _| (Content::Message(writes([RdmaSegment { length: 10, ..*sink }])), 11),
            Error::Length { xid: 2, told: 11, written: 10 },
        ),
        (
            "a payload that was not written",
            |_, _| (Content::Message(Chunks::default()), 10),
            Error::Length { xid: 2, told: 10, written: 0 },
        ),
        (
            "written but not announced",
            |sink, _| (Content::Message(writes([*sink])), NONE),
            Error::Length { xid: 2, told: 0, written: 9000 },
        ),
        (
            "a reply in a chunk that was not offered",
            |_, reply| {
                let reply = Some(WriteChunk(vec![*reply]));
                (Content::NoMessage(Chunks { reply, ..Chunks::default() }), NONE)
            },
            Error::Written(2),
        ),
        ("a reply in no chunk", |_, _| (Content::NoMessage(Chunks::default()), NONE), Error::Written(2)),
        ("memory of another call invalidated", none, Error::Invalidated(2)),
    ];
    for (what, say, expected) in table {
        let mut client = LyingClient::new(config());
        let (sink, other) = client.calls();
        let (content, told) = say(&sink, &other);
        let invalidate = (expected == Error::Invalidated(2)).then_some(other.handle);
        client.server.say(&message(2, 5, content, &reply(2, told)), invalidate);
        assert_eq!(client.settle(), Err(expected), "{what}");
        client.requester.queue_pair_mut().closed();
        let mut unanswered = client.requester.unanswered();
        unanswered.sort_by_key(|call| call.xid);
        let back: Vec<_> =
            unanswered.iter().map(|call| (call.xid, call.sink.as_ref().map(|sink| sink.len()))).collect();
        assert_eq!(back, [(2, Some(9000)), (3, None)], "{what}");
    }
}

#[test]
fn a_message_that_is_not_a_reply_ends_the_connection() {
    let good = message(2, 5, Content::Message(Chunks::default()), &[]);
    for (at, value) in [(7, 2), (15, 2), (15, 5), (19, 7)] {
        let mut client = LyingClient::new(config());
        client.calls();
        let mut bytes = good.clone();
        bytes[at] = value;
        client.server.say(&bytes, None);
        assert_eq!(client.settle(), Err(Error::NoReply), "{value} at {at}");
    }
}

#[test]
fn a_reply_to_an_unknown_call_is_ignored() {
    let mut client = LyingClient::new(config());
    client.calls();
    client
        .server
        .say(&message(77, 5, Content::Message(Chunks::default()), &front(77, 40, NONE, [0; 2])), None);
    assert_eq!(client.settle(), Ok(()));
    assert!(client.answers.is_empty());
    assert_eq!(client.requester.under_way(), 2);
}

#[test]
fn grants_are_clamped() {
    for (granted, at_once) in [(0, 1), (1, 1), (3, 3), (u32::MAX, 16)] {
        let mut client = LyingClient::new(Config { credits: 16, ..config() });
        client.requester.call(&front(1, 40, NONE, [0; 2]), List::new(), None, 64);
        client.settle().unwrap();
        let reply = front(1, 40, NONE, [0; 2]);
        client.server.say(&message(1, granted, Content::Message(Chunks::default()), &reply), None);
        client.settle().unwrap();
        client.server.messages.clear();
        (2..60).for_each(|xid| {
            client.requester.call(&front(xid, 40, NONE, [0; 2]), List::new(), None, 64);
        });
        client.settle().unwrap();
        assert_eq!(client.server.messages.len(), at_once, "{granted} granted");
    }
}

#[test]
fn a_server_cannot_write_after_its_reply() {
    let mut client = LyingClient::new(config());
    let (sink, _) = client.calls();
    let unused = writes([RdmaSegment { length: 0, ..sink }]);
    client.server.say(&message(2, 5, Content::Message(unused), &front(2, 40, NONE, [0; 2])), None);
    client.settle().unwrap();
    let answer = client.answers.pop().unwrap();
    let to = onego_rdma::Remote { key: onego_rdma::Key(sink.handle), offset: 0 };
    use onego_rdma::QueuePair as _;
    client.server.connection.post_write(0, List::from(vec![1; 9000]), to).unwrap();
    let _ = client.settle();
    assert!(
        matches!(client.fault, Some(iwarp::Error::Violation(Violation::WriteKey(_)))),
        "{:?}",
        client.fault
    );
    assert_eq!(*answer.rest.unwrap(), [0; 9000]);
}
