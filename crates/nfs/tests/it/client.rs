//! An RPC client, and a server that replies as the test specifies, without a network.

use onego_buf::{List, Pool, SegmentMut};
use onego_nfs::client::{Awaited, Call, Client, Config, Error, ServerId, Sink, WaitCause, Waiting, Way};
use onego_nfs::rpc::{self, Accepted, Credential, Record, Split, Splitter, Stream};
use onego_nfs::v3::{self, Getattr, Handle, Read, ReadArgs, Status};
use onego_nfs::xdr::{Reader, Writer, Xdr as _};
use onego_wire::{Action, ConnId, Disconnect, LocalPort, Machine as _, Time};
use std::time::Duration;

struct Calls;

impl Splitter for Calls {
    fn split(&mut self, _: &[u8]) -> Split {
        Split::Never
    }

    fn place(&mut self, _: &[u8], _: usize) -> Option<SegmentMut> {
        None
    }
}

struct Ends {
    client: Client<u32>,
    server: ServerId,
    now: Time,
    conn: Option<ConnId>,
    stream: Stream,
}

impl Ends {
    fn new() -> Self {
        let pool = Pool::new(1 << 20);
        let mut client = Client::new(Config::new(Credential::None, 1000, pool.clone()));
        let server = client.server("10.0.0.1:2049".parse().unwrap(), LocalPort::Any, &Way::Tcp, 1);
        let stream = Stream::new(1 << 20, pool);
        Self { client, server, now: Time::default(), conn: None, stream }
    }

    fn getattr(&mut self, ticket: u32) {
        let call = Call::new::<Getattr>(&Handle::new(b"file").unwrap());
        self.client.call(self.now, self.server, call, ticket);
    }

    fn drive(&mut self) {
        while let Some(action) = self.client.next_action(self.now) {
            match action {
                Action::Connect { conn, .. } => {
                    self.conn = Some(conn);
                    self.stream = Stream::new(1 << 20, Pool::new(1 << 20));
                    self.client.connected(self.now, conn, "10.0.0.2:999".parse().unwrap());
                }
                Action::Transmit { conn } => {
                    let mut out = List::new();
                    self.client.transmit(self.now, conn, &mut out, usize::MAX);
                    self.stream.received(out.to_segment());
                }
                Action::Close { .. } => self.conn = None,
                Action::LowWater { .. } => {}
                other => panic!("unexpected action {other:?}"),
            }
        }
    }

    fn calls(&mut self) -> Vec<u32> {
        self.drive();
        let record = |stream: &mut Stream| stream.next(&mut Calls).unwrap();
        let xid = |Record { front, .. }: Record| Reader::new(&front).u32("xid").unwrap();
        std::iter::from_fn(|| record(&mut self.stream)).map(xid).collect()
    }

    fn answer(&mut self, xid: u32, results: &[u8]) {
        let mut front = Writer::new();
        rpc::Reply { xid, result: Ok(Accepted::Success) }.encode(&mut front);
        front.append(results);
        self.stream.send(front.as_slice(), List::new());
        let mut out = List::new();
        self.stream.transmit(&mut out, usize::MAX);
        self.client.received(self.now, self.conn.unwrap(), out.to_segment());
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        if self.client.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.client.timeout(self.now);
        }
        self.drive();
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn calls_without_a_reply_are_resent_in_order_under_their_xids() {
    let mut ends = Ends::new();
    (1..=3).for_each(|ticket| ends.getattr(ticket));
    assert_eq!(ends.calls(), [1000, 1001, 1002]);
    ends.answer(1001, &words(&[Status::Stale as u32]));
    assert_eq!(ends.client.completion().unwrap().ticket, 2);
    let conn = ends.conn.unwrap();
    ends.client.disconnected(ends.now, conn, Disconnect::Closed);
    assert_eq!(ends.calls(), [1000, 1002]);
    // A reply to a call that was already answered changes nothing.
    ends.answer(1001, &words(&[0]));
    assert!(ends.client.completion().is_none());
}

#[test]
fn after_a_connection_without_a_reply_the_next_starts_with_one_call() {
    let mut ends = Ends::new();
    (1..=4).for_each(|ticket| ends.getattr(ticket));
    assert_eq!(ends.calls().len(), 4);
    let conn = ends.conn.unwrap();
    ends.client.disconnected(ends.now, conn, Disconnect::Closed);
    assert!(ends.calls().is_empty(), "the next try waits");
    ends.pass(Duration::from_millis(10));
    assert_eq!(ends.calls(), [1000]);
    ends.answer(1000, &words(&[Status::Stale as u32]));
    assert_eq!(ends.calls(), [1001, 1002]);
}

#[test]
fn an_overdue_call_is_resent_over_another_connection() {
    let mut ends = Ends::new();
    ends.getattr(1);
    assert_eq!(ends.calls(), [1000]);
    let first = ends.conn;
    ends.pass(Duration::from_secs(59));
    assert!(ends.calls().is_empty() && ends.conn == first);
    ends.pass(Duration::from_secs(2));
    ends.pass(Duration::from_millis(20));
    assert_eq!(ends.calls(), [1000]);
    assert_ne!(ends.conn, first);
}

#[test]
fn a_call_past_its_deadline_fails() {
    let mut ends = Ends::new();
    let deadline = Some(ends.now + Duration::from_secs(1));
    let call = Call { deadline, ..Call::new::<Getattr>(&Handle::new(b"file").unwrap()) };
    ends.client.call(ends.now, ends.server, call, 7);
    assert_eq!(ends.calls(), [1000]);
    ends.pass(Duration::from_millis(1100));
    let done = ends.client.completion().unwrap();
    assert!(matches!(done.result, Err(Error::NoReply { .. })) && done.ticket == 7);
    ends.answer(1000, &words(&[0]));
    assert!(ends.client.completion().is_none() && ends.client.is_idle());
}

#[test]
fn a_call_is_resent_under_a_new_xid_after_jukebox() {
    let mut ends = Ends::new();
    ends.getattr(1);
    assert_eq!(ends.calls(), [1000]);
    ends.answer(1000, &words(&[Status::Jukebox as u32]));
    assert!(ends.client.completion().is_none());
    ends.pass(Duration::from_millis(900));
    assert!(ends.calls().is_empty());
    ends.pass(Duration::from_millis(200));
    assert_eq!(ends.calls(), [1001]);
    ends.answer(1001, &words(&[Status::Stale as u32]));
    let reply = ends.client.completion().unwrap().result.unwrap();
    assert_eq!(reply.status(), Ok(Some(Status::Stale)));
}

#[test]
fn a_payload_is_received_into_its_sink_or_into_fresh_memory() {
    const LEN: usize = 40_000;
    let args = ReadArgs { file: Handle::new(b"file").unwrap(), offset: 0, count: LEN as u32 };
    let contents: Vec<u8> = (0..LEN).map(|at| at as u8).collect();
    // No attributes, all bytes, end of file.
    let results = [words(&[0, 0, LEN as u32, 1, LEN as u32]), contents.clone()].concat();
    let cases = [
        (Sink::Buffer(SegmentMut::zeroed(LEN + 2)), Some(LEN + 2)),
        (Sink::Fresh(LEN), Some(LEN)),
        (Sink::Fresh(LEN - 1), None),
        (Sink::None, None),
    ];
    for (sink, expected) in cases {
        let mut ends = Ends::new();
        let call = Call { sink, ..Call::new::<Read>(&args) };
        ends.client.call(ends.now, ends.server, call, 1);
        ends.calls();
        ends.answer(1000, &results);
        let done = ends.client.completion().unwrap();
        let reply = done.result.unwrap();
        assert_eq!(reply.status(), Ok(None));
        let read = reply.read_front(|r| r.u32("status").and_then(|_| v3::ReadFront::read(r)));
        let (front, filled) = read.unwrap();
        assert_eq!((front.count as usize, filled), (LEN, LEN));
        assert_eq!(done.sink.as_ref().map(|sink| sink.len()), expected);
        if let Some(sink) = done.sink {
            assert_eq!(sink[..LEN], contents);
        }
    }
}

fn read_call(buffer: SegmentMut) -> Call {
    let args = ReadArgs { file: Handle::new(b"file").unwrap(), offset: 0, count: buffer.len() as u32 };
    Call { sink: Sink::Buffer(buffer), ..Call::new::<Read>(&args) }
}

#[test]
fn a_call_cancelled_before_it_is_sent_is_never_sent() {
    let mut ends = Ends::new();
    ends.client.call(ends.now, ends.server, read_call(SegmentMut::zeroed(4096)), 1);
    ends.getattr(2);
    ends.client.cancel_where(|ticket| *ticket == 1);
    let cancelled = ends.client.completion().unwrap();
    assert_eq!((cancelled.ticket, cancelled.result.unwrap_err()), (1, Error::Cancelled));
    assert_eq!(cancelled.sink.map(|sink| sink.len()), Some(4096));
    assert_eq!(ends.calls(), [1001]);
}

#[test]
fn a_call_cancelled_in_flight_completes_with_its_reply() {
    let mut ends = Ends::new();
    ends.client.call(ends.now, ends.server, read_call(SegmentMut::zeroed(4096)), 1);
    assert_eq!(ends.calls(), [1000]);
    ends.client.cancel_where(|ticket| *ticket == 1);
    assert!(ends.client.completion().is_none(), "its reply may still arrive in its buffer");
    let mut results = words(&[0, 0, 4096, 1, 4096]);
    results.extend([7; 4096]);
    ends.answer(1000, &results);
    let cancelled = ends.client.completion().unwrap();
    assert_eq!(cancelled.result.unwrap_err(), Error::Cancelled);
    let sink = cancelled.sink.unwrap();
    assert_eq!(sink.len(), 4096);
    assert!(sink.iter().all(|byte| *byte == 0), "a dropped payload is not copied");
    assert!(ends.client.is_idle());
    ends.getattr(2);
    assert_eq!(ends.calls(), [1001], "the connection stays usable");
}

#[test]
fn a_cancelled_call_is_not_resent() {
    let mut ends = Ends::new();
    (1..=3).for_each(|ticket| ends.getattr(ticket));
    assert_eq!(ends.calls().len(), 3);
    ends.client.cancel_where(|ticket| *ticket != 2);
    ends.answer(1000, &words(&[Status::Jukebox as u32]));
    let cancelled = ends.client.completion().unwrap();
    assert_eq!((cancelled.ticket, cancelled.result.unwrap_err()), (1, Error::Cancelled));
    let conn = ends.conn.unwrap();
    ends.client.disconnected(ends.now, conn, Disconnect::Closed);
    let cancelled = ends.client.completion().unwrap();
    assert_eq!((cancelled.ticket, cancelled.result.unwrap_err()), (3, Error::Cancelled));
    ends.pass(Duration::from_secs(5));
    assert_eq!(ends.calls(), [1001]);
}

/// Returns what the client waits for, also as a sentence.
fn waiting(ends: &Ends) -> (Waiting, String) {
    let waiting = ends.client.waiting(ends.now).expect("the client waits for something");
    let sentence = waiting.to_string();
    (waiting, sentence)
}

#[test]
fn waiting_for_an_unreachable_server_reports_the_last_failure() {
    let mut ends = Ends::new();
    assert_eq!(ends.client.waiting(ends.now), None);
    ends.getattr(1);
    let Some(Action::Connect { conn, .. }) = ends.client.next_action(ends.now) else { panic!("it connects") };
    ends.now = ends.now + Duration::from_secs(3);
    let (first, sentence) = waiting(&ends);
    assert!(matches!(first.target, Awaited::Connection { .. }), "{first:?}");
    assert_eq!((first.elapsed, first.cause), (Duration::from_secs(3), WaitCause::Unanswered));
    assert!(sentence.contains("a connection to the NFS server at 10.0.0.1:2049"), "{sentence}");
    let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    ends.client.disconnected(ends.now, conn, Disconnect::Failed(refused));
    let (refused, sentence) = waiting(&ends);
    assert!(matches!(&refused.cause, WaitCause::Failed(reason) if reason.contains("refused")), "{refused:?}");
    assert!(sentence.ends_with("connection refused"), "{sentence}");
}

#[test]
fn waiting_for_a_reply_does_not_report_an_old_failure() {
    let mut ends = Ends::new();
    ends.getattr(1);
    assert_eq!(ends.calls(), [1000]);
    let (sent, sentence) = waiting(&ends);
    assert!(matches!(sent.target, Awaited::Reply { .. }) && sent.cause == WaitCause::Unanswered, "{sent:?}");
    assert!(sentence.ends_with("because it has not answered the call"), "{sentence}");
    ends.client.disconnected(ends.now, ends.conn.unwrap(), Disconnect::Closed);
    ends.pass(Duration::from_millis(10));
    assert_eq!(ends.calls(), [1000]);
    let (again, sentence) = waiting(&ends);
    assert!(matches!(again.target, Awaited::Reply { .. }), "{again:?}");
    assert!(sentence.ends_with("the server has closed the connection"), "{sentence}");
    ends.answer(1000, &words(&[Status::Stale as u32]));
    assert_eq!(ends.client.waiting(ends.now), None);
    ends.getattr(2);
    assert_eq!(waiting(&ends).0.cause, WaitCause::Unanswered, "this connection has received replies");
}

#[test]
fn waiting_after_jukebox_is_reported() {
    let mut ends = Ends::new();
    ends.getattr(1);
    assert_eq!(ends.calls(), [1000]);
    ends.answer(1000, &words(&[Status::Jukebox as u32]));
    assert_eq!(waiting(&ends).0.cause, WaitCause::Jukebox);
    ends.pass(Duration::from_millis(1100));
    assert_eq!(ends.calls(), [1001]);
    assert_eq!(waiting(&ends).0.cause, WaitCause::Jukebox, "the retry has no reply yet");
    ends.client.cancel_where(|_| true);
    assert_eq!(ends.client.waiting(ends.now), None, "a cancelled call is not waited for");
}
