//! Cancellation in the file client, with a server that replies when the test tells it to.

use onego_buf::{List, Pool, SegmentMut};
use onego_nfs::client::{Config, Error, FileClient, Way};
use onego_nfs::rpc::{self, Accepted, Call, Credential, Procedure as _, Split, Splitter, Stream};
use onego_nfs::v3::{Commit, Handle, Read, Stability, Write};
use onego_nfs::xdr::{Reader, Writer, Xdr as _};
use onego_wire::{Action, ConnId, LocalPort, Machine as _, Time};

struct Whole;

impl Splitter for Whole {
    fn split(&mut self, _: &[u8]) -> Split {
        Split::Never
    }

    fn place(&mut self, _: &[u8], _: usize) -> Option<SegmentMut> {
        None
    }
}

struct Ends {
    client: FileClient<u32>,
    now: Time,
    conn: Option<ConnId>,
    stream: Stream,
}

impl Ends {
    fn new() -> Self {
        let pool = Pool::new(1 << 20);
        let mut client = FileClient::new(Config::new(Credential::None, 1000, pool.clone()));
        client.connect("10.0.0.1:2049".parse().unwrap(), LocalPort::Any, &Way::Tcp, 1);
        Self { client, now: Time::default(), conn: None, stream: Stream::new(1 << 20, pool) }
    }

    fn cancel(&mut self, ticket: u32) {
        self.client.cancel_where(self.now, |other| *other == ticket);
    }

    fn calls(&mut self) -> Vec<(u32, u32)> {
        while let Some(action) = self.client.next_action(self.now) {
            match action {
                Action::Connect { conn, .. } => {
                    self.conn = Some(conn);
                    self.client.connected(self.now, conn, "10.0.0.2:999".parse().unwrap());
                }
                Action::Transmit { conn } => {
                    let mut out = List::new();
                    self.client.transmit(self.now, conn, &mut out, usize::MAX);
                    self.stream.received(out.to_segment());
                }
                Action::LowWater { .. } => {}
                other => panic!("unexpected action {other:?}"),
            }
        }
        let next = || self.stream.next(&mut Whole).unwrap();
        let calls =
            std::iter::from_fn(next).map(|record| Call::decode(&mut Reader::new(&record.front)).unwrap());
        calls.map(|call| (call.xid, call.procedure)).collect()
    }

    fn answer(&mut self, xid: u32, words: &[u32], bytes: &[u8]) {
        let mut front = Writer::new();
        rpc::Reply { xid, result: Ok(Accepted::Success) }.encode(&mut front);
        words.iter().for_each(|word| front.append(&word.to_be_bytes()));
        front.append(bytes);
        self.stream.send(front.as_slice(), List::new());
        let mut out = List::new();
        self.stream.transmit(&mut out, usize::MAX);
        self.client.received(self.now, self.conn.unwrap(), out.to_segment());
    }

    fn done(&mut self) -> (u32, Option<Error>, Option<usize>) {
        let done = self.client.completion().expect("a request is done");
        assert!(self.client.completion().is_none(), "a request completes once");
        (done.ticket, done.result.err(), done.buffer.map(|buffer| buffer.len()))
    }
}

fn file() -> Handle {
    Handle::new(b"file").unwrap()
}

const CANCELLED: Option<Error> = Some(Error::Cancelled);

#[test]
fn a_read_cancelled_before_it_is_sent_is_never_sent() {
    for len in [4 << 10, 24 << 10] {
        let mut ends = Ends::new();
        ends.client.read(ends.now, file(), 0, SegmentMut::zeroed(len), 1);
        ends.cancel(1);
        assert_eq!(ends.done(), (1, CANCELLED, Some(len)));
        assert!(ends.client.is_idle());
        assert_eq!(ends.calls(), []);
    }
}

#[test]
fn a_read_cancelled_in_flight_sends_no_more_calls() {
    let mut ends = Ends::new();
    ends.client.read(ends.now, file(), 0, SegmentMut::zeroed(16 << 10), 1);
    assert_eq!(ends.calls(), [(1000, Read::NUMBER), (1001, Read::NUMBER)]);
    // The first part returns four bytes, and the client requests its rest.
    ends.answer(1000, &[0, 0, 4, 0, 4], b"abcd");
    ends.cancel(1);
    ends.answer(1001, &[0, 0, 4, 0, 4], b"abcd");
    assert_eq!(ends.calls(), [(1002, Read::NUMBER)]);
    ends.answer(1002, &[0, 0, 4, 0, 4], b"abcd");
    assert_eq!(ends.calls(), []);
    assert_eq!(ends.done(), (1, CANCELLED, Some(16 << 10)));
    assert!(ends.client.is_idle());
}

#[test]
fn a_sync_waits_for_a_write_cancelled_in_flight() {
    let mut ends = Ends::new();
    ends.client.write(ends.now, file(), 0, vec![7; 12 << 10].into(), Stability::Unstable, 1);
    assert_eq!(ends.calls(), [(1000, Write::NUMBER), (1001, Write::NUMBER)]);
    ends.cancel(1);
    ends.client.sync(ends.now, file(), 2);
    // No attributes, all bytes, unstable, and the server's verifier.
    ends.answer(1000, &[0, 0, 0, 8 << 10, 0, 1, 1], &[]);
    assert_eq!(ends.calls(), []);
    ends.answer(1001, &[0, 0, 0, 4 << 10, 0, 1, 1], &[]);
    assert_eq!(ends.calls(), [(1002, Commit::NUMBER)]);
    assert_eq!(ends.done(), (1, CANCELLED, None));
    ends.answer(1002, &[0, 0, 0, 1, 1], &[]);
    assert_eq!(ends.calls(), []);
    assert_eq!(ends.done(), (2, None, None));
    assert!(ends.client.is_idle());
}
