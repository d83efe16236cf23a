//! Checks the provider on a device of this machine: `check ADDRESS DRIVER` runs both ends, connected through an address
//! of the device. `check layout` prints a C program that compiles if the libraries' headers match the crate's
//! declarations.
//!
//! Nothing polls without waiting for the descriptor, so a missing notification ends the check.
#![forbid(unsafe_code)]

use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_rdma::{
    Asked, CompletedWork, Completion, Endpoint, EndpointError, EndpointEvent, Key, Listener, Memory,
    PostError, Provider, Remote, SendFlags, Status,
};
use onego_verbs::{Config, Verbs};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Limit on each wait: some errors of RoCE follow after seconds of retries.
const PATIENCE: Duration = Duration::from_secs(20);

/// Depths of the queues: small enough to be full at times.
const CONFIG: Config = Config { send_queue: 32, receive_queue: 16 };

const RECEIVE: usize = 4096;

struct CheckEnd {
    endpoint: Box<dyn Endpoint>,
    completions: VecDeque<Completion>,
    established: Option<Vec<u8>>,
    fault: Option<EndpointError>,
    /// Posted receives, and other posted work, that has not come back.
    receives: usize,
    sends: usize,
}

struct Pair {
    client: CheckEnd,
    server: CheckEnd,
}

fn nothing() -> SendFlags {
    SendFlags::default()
}

/// Returns bytes that differ from place to place.
fn noise(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| ((at + seed) * (at + 7 * seed) / 13 + at / 251) as u8).collect()
}

/// Returns the same bytes in `count` segments that are not adjacent.
fn pieces(bytes: &[u8], count: usize) -> List {
    bytes.chunks(bytes.len().div_ceil(count)).map(Segment::copy_from).collect()
}

fn wait(descriptors: &[BorrowedFd<'_>], since: Instant, what: &str) {
    let left = PATIENCE.checked_sub(since.elapsed()).unwrap_or_else(|| panic!("{what}: no notification"));
    let mut polled: Vec<_> = descriptors.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    poll(&mut polled, Some(&left)).expect("the descriptors can be waited for");
}

impl CheckEnd {
    fn new(endpoint: Box<dyn Endpoint>) -> Self {
        Self { endpoint, completions: VecDeque::new(), established: None, fault: None, receives: 0, sends: 0 }
    }

    fn receive(&mut self, len: usize) {
        self.endpoint
            .post_receive(self.receives as u64, SegmentMut::zeroed(len))
            .expect("the queue has room");
        self.receives += 1;
    }

    fn send(&mut self, bytes: impl Into<List>) {
        self.endpoint.post_send(1, bytes.into(), nothing()).expect("the queue has room");
        self.sends += 1;
    }

    fn write(&mut self, bytes: impl Into<List>, to: Remote) {
        self.endpoint.post_write(2, bytes.into(), to).expect("the queue has room");
        self.sends += 1;
    }

    fn read(&mut self, id: u64, sink: SegmentMut, from: Remote) {
        self.endpoint.post_read(id, sink, from).expect("the queue has room");
        self.sends += 1;
    }

    fn look(&mut self) {
        self.endpoint.ready();
        while let Some(completion) = self.endpoint.poll() {
            match completion.done {
                CompletedWork::Received { .. } => self.receives -= 1,
                CompletedWork::Released(..) => {}
                _ => self.sends -= 1,
            }
            self.completions.push_back(completion);
        }
        while let Some(event) = self.endpoint.event() {
            match event {
                EndpointEvent::Established(told) => self.established = Some(told),
                EndpointEvent::Fault(error) => self.fault = Some(error),
            }
        }
    }

    /// Takes the next received message, and posts another receive.
    fn message(&mut self) -> Option<Vec<u8>> {
        let at =
            self.completions.iter().position(|next| matches!(next.done, CompletedWork::Received { .. }))?;
        let Completion { status, done: CompletedWork::Received { buffer, len, .. }, .. } =
            self.completions.remove(at)?
        else {
            return None;
        };
        assert_eq!(status, Status::Success);
        self.receive(RECEIVE);
        Some(buffer[..len].to_vec())
    }
}

impl Pair {
    fn new(verbs: &Verbs, addr: SocketAddr) -> Self {
        let (mut listener, mut client) = asking(verbs, addr);
        let Asked { endpoint, client: from, private_data } = asked(&mut listener, &mut client);
        assert_eq!(from.ip(), addr.ip());
        assert_eq!(private_data[..8], *b"request.");
        let mut server = CheckEnd::new(endpoint);
        server.receive(RECEIVE);
        server.endpoint.accept(b"response").expect("it can be accepted");
        let mut pair = Self { client, server };
        pair.until("established", |client, server| {
            client.established.is_some() && server.established.is_some()
        });
        assert_eq!(pair.client.established.as_ref().expect("success")[..8], *b"response");
        (1..8).for_each(|_| pair.server.receive(RECEIVE));
        pair
    }

    fn until(&mut self, what: &str, is: impl Fn(&CheckEnd, &CheckEnd) -> bool) {
        let since = Instant::now();
        loop {
            self.client.look();
            self.server.look();
            if is(&self.client, &self.server) {
                return;
            }
            wait(&[self.client.endpoint.descriptor(), self.server.endpoint.descriptor()], since, what);
        }
    }

    fn at_server(&mut self, what: &str) -> Vec<u8> {
        self.until(what, |_, server| server.completions.iter().any(is_message) || server.fault.is_some());
        self.server.message().unwrap_or_else(|| panic!("{what}: {:?}", self.server.fault))
    }

    fn at_client(&mut self, what: &str) -> Vec<u8> {
        self.until(what, |client, _| client.completions.iter().any(is_message) || client.fault.is_some());
        self.client.message().unwrap_or_else(|| panic!("{what}: {:?}", self.client.fault))
    }

    /// Expects both ends to fail, and to return everything, including `released` registrations of the server.
    fn fails(mut self, what: &str, released: usize) {
        self.until(what, |client, server| client.fault.is_some() && server.fault.is_some());
        println!("  {what}: client: {}; server: {}", error(&self.client), error(&self.server));
        for end in [&self.client, &self.server] {
            assert_eq!((end.receives, end.sends), (0, 0), "{what}: memory or work is missing");
        }
        let come = |next: &&Completion| matches!(next.done, CompletedWork::Released(..));
        assert_eq!(self.server.completions.iter().filter(come).count(), released);
        let refused = self
            .client
            .endpoint
            .post_send(1, vec![1].into(), nothing())
            .expect_err("the connection has ended");
        assert_eq!((refused.error, refused.given.to_vec()), (PostError::Over, vec![1]));
    }
}

fn error(end: &CheckEnd) -> String {
    end.fault.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn is_message(completion: &Completion) -> bool {
    matches!(completion.done, CompletedWork::Received { .. })
}

fn asking(verbs: &Verbs, addr: SocketAddr) -> (Box<dyn Listener>, CheckEnd) {
    let listener = verbs.listen(addr).expect("it listens");
    let endpoint = verbs.connect(listener.local_addr(), b"request.").expect("it connects");
    let mut client = CheckEnd::new(endpoint);
    // The device is not known yet.
    (0..8).for_each(|_| client.receive(RECEIVE));
    let early = client
        .endpoint
        .post_send(0, vec![1].into(), nothing())
        .expect_err("the connection is not established");
    assert_eq!(early.error, PostError::NotEstablished);
    (listener, client)
}

fn asked(listener: &mut Box<dyn Listener>, client: &mut CheckEnd) -> Asked {
    let since = Instant::now();
    loop {
        client.look();
        assert_eq!(client.fault, None, "a client cannot connect");
        if let Some(asked) = listener.accept() {
            return asked.expect("the client's connection can be taken");
        }
        wait(&[client.endpoint.descriptor(), listener.descriptor()], since, "a client asks");
    }
}

/// Messages of many sizes go both ways, in order, and more than the queues hold.
fn messages(verbs: &Verbs, addr: SocketAddr) {
    let mut pair = Pair::new(verbs, addr);
    for round in 0..100 {
        let bytes = noise([1, 7, 100, 1000, 4096][round % 5], round);
        pair.client.send(bytes.clone());
        assert_eq!(pair.at_server("a message"), bytes);
        pair.server.send(bytes.clone());
        assert_eq!(pair.at_client("an answer"), bytes);
    }
    // As many as there are receives, at once.
    (0..8).for_each(|number| pair.client.send(vec![number; 10]));
    for number in 0..8 {
        assert_eq!(pair.at_server("one of many messages"), vec![number; 10]);
    }
}

/// A message is gathered from few pieces and from many, from memory of a pool and from other memory.
fn gathered(verbs: &Verbs, addr: SocketAddr) {
    let mut pair = Pair::new(verbs, addr);
    let pool = Pool::registrable(1 << 20, 8 << 20);
    for count in [1, 2, 6, 7, 8, 9, 40, 1000] {
        let bytes = noise(3000, count);
        pair.client.send(pieces(&bytes, count));
        assert_eq!(pair.at_server("a gathered message"), bytes);
        let blocks = bytes.chunks(bytes.len().div_ceil(count)).map(|piece| {
            let mut block = pool.get(piece.len());
            block.truncate(piece.len());
            block.copy_from_slice(piece);
            block.freeze()
        });
        pair.server.send(blocks.collect::<List>());
        assert_eq!(pair.at_client("a message from a pool"), bytes);
    }
}

/// Writes arrive at their destination, and nowhere else.
fn writes(verbs: &Verbs, addr: SocketAddr) {
    let mut pair = Pair::new(verbs, addr);
    let len = 300_000;
    let mut whole = SegmentMut::from(vec![0xaa; len + 2000]);
    let mut rest = whole.split_to(1000);
    let mut sink = whole.split_to(len);
    std::mem::swap(&mut rest, &mut whole);
    sink.copy_from_slice(&vec![0xbb; len]);
    let to = pair.server.endpoint.register(Memory::Sink(sink)).expect("registration succeeds");
    let bytes = noise(len, 3);
    let mut at = 0;
    for (round, part) in [1, 4095, 4096, 65_536, 100_001].into_iter().enumerate() {
        let part = &bytes[at..at + part];
        pair.client.write(pieces(part, 1 + 5 * round), Remote { offset: to.offset + at as u64, ..to });
        at += part.len();
    }
    pair.client.send(b"written".to_vec());
    assert_eq!(pair.at_server("the message after the write"), b"written");
    let Ok(Some(Memory::Sink(sink))) = pair.server.endpoint.invalidate(to.key) else {
        panic!("the sink is missing");
    };
    assert!(sink[..at] == bytes[..at], "other bytes were written");
    assert!(sink[at..].iter().all(|byte| *byte == 0xbb), "more bytes were written");
    for beside in [rest, whole] {
        assert!(beside.iter().all(|byte| *byte == 0xaa), "adjacent bytes were written");
    }
    let again = pair.server.endpoint.invalidate(to.key);
    assert!(matches!(again, Err(PostError::UnknownKey(key)) if key == to.key));
}

/// More reads than may be in flight, of a source in one piece and of one in several.
fn reads(verbs: &Verbs, addr: SocketAddr) {
    let mut pair = Pair::new(verbs, addr);
    for count in [1, 30] {
        let bytes = noise(500_000, count);
        let from = pair.server.endpoint.register(Memory::Source(pieces(&bytes, count))).expect("success");
        let (step, mut next) = (20_000, 0);
        let mut back = Vec::new();
        while back.len() < bytes.len() {
            while next < bytes.len() {
                let place = Remote { offset: from.offset + next as u64, ..from };
                match pair.client.endpoint.post_read(next as u64, SegmentMut::zeroed(step), place) {
                    Ok(()) => (next, pair.client.sends) = (next + step, pair.client.sends + 1),
                    Err(refused) if matches!(refused.error, PostError::QueueFull { .. }) => break,
                    Err(refused) => panic!("{refused}"),
                }
            }
            pair.until("a read", |client, _| !client.completions.is_empty());
            while let Some(Completion { id, status, done: CompletedWork::Read(sink) }) =
                pair.client.completions.pop_front()
            {
                assert_eq!((id, status), (back.len() as u64, Status::Success), "reads complete in order");
                back.extend_from_slice(&sink);
            }
        }
        assert!(back == bytes, "other bytes were read");
        let source = pair.server.endpoint.invalidate(from.key).expect("a registered region");
        assert!(matches!(source, Some(Memory::Source(list)) if list.to_vec() == bytes));
    }
}

/// Work posted after a read may complete before it.
fn sends_after_reads(verbs: &Verbs, addr: SocketAddr) {
    let mut pair = Pair::new(verbs, addr);
    let bytes = noise(100_000, 7);
    let from =
        pair.server.endpoint.register(Memory::Source(bytes.clone().into())).expect("registration succeeds");
    for round in 0..10 {
        let message = noise(100, round);
        pair.client.read(round as u64, SegmentMut::zeroed(bytes.len()), from);
        pair.client.send(message.clone());
        pair.until("both", |client, server| client.sends == 0 && server.completions.iter().any(is_message));
        assert_eq!(pair.server.message(), Some(message));
        let is_read = |next: &Completion| {
            matches!(&next.done, CompletedWork::Read(sink) if **sink == bytes[..]) && next.id == round as u64
        };
        assert_eq!(pair.client.completions.drain(..).filter(is_read).count(), 1);
    }
}

/// The send queue takes exactly its depth, and polled work makes room.
fn full_queues(verbs: &Verbs, addr: SocketAddr) {
    let mut pair = Pair::new(verbs, addr);
    let to = pair.server.endpoint.register(Memory::Sink(SegmentMut::zeroed(100_000))).expect("success");
    for _ in 0..20 {
        let refused = loop {
            match pair.client.endpoint.post_write(0, noise(3000, 1).into(), to) {
                Ok(()) => pair.client.sends += 1,
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused.error, PostError::QueueFull { queue: "send queue", depth: 32 });
        assert_eq!(pair.client.sends, 32);
        pair.until("room", |client, _| client.sends == 0);
        let ok =
            |next: &Completion| next.status == Status::Success && matches!(next.done, CompletedWork::Written);
        assert!(pair.client.completions.drain(..).all(|next| ok(&next)));
    }
    while pair.server.receives < 16 {
        pair.server.receive(RECEIVE);
    }
    let refused = pair.server.endpoint.post_receive(0, SegmentMut::zeroed(1)).expect_err("the queue is full");
    assert_eq!(refused.error, PostError::QueueFull { queue: "receive queue", depth: 16 });
}

/// Protocol violations end the connection at both ends, and change nothing.
fn violations(verbs: &Verbs, addr: SocketAddr, driver: &str) {
    let sink = |pair: &mut Pair| {
        let memory = Memory::Sink(SegmentMut::from(vec![0xaa; 8192]));
        pair.server.endpoint.register(memory).expect("registration succeeds")
    };
    let mut pair = Pair::new(verbs, addr);
    let to = sink(&mut pair);
    pair.client.write(noise(5000, 1), Remote { offset: to.offset + 4096, ..to });
    pair.fails("a write beyond the end", 1);

    let mut pair = Pair::new(verbs, addr);
    let to = sink(&mut pair);
    pair.server.endpoint.invalidate(to.key).expect("a registered region");
    pair.client.write(vec![1; 10], to);
    pair.fails("a write to an unregistered region", 0);

    let mut pair = Pair::new(verbs, addr);
    let to = sink(&mut pair);
    pair.client.write(vec![1; 10], Remote { key: Key(to.key.0 ^ 0x5a00), ..to });
    pair.fails("a write under another key", 1);

    let mut pair = Pair::new(verbs, addr);
    let source = Memory::Source(noise(8192, 1).into());
    let from = pair.server.endpoint.register(source).expect("registration succeeds");
    pair.client.read(0, SegmentMut::zeroed(5000), Remote { offset: from.offset + 4096, ..from });
    pair.fails("a read beyond the end", 1);

    // siw checks only whether the memory is registered.
    if driver != "siw" {
        let mut pair = Pair::new(verbs, addr);
        let to = sink(&mut pair);
        pair.client.read(0, SegmentMut::zeroed(100), to);
        pair.fails("a read of a write-only region", 1);
    }

    let mut pair = Pair::new(verbs, addr);
    let source = Memory::Source(noise(100, 1).into());
    let from = pair.server.endpoint.register(source).expect("registration succeeds");
    pair.client.write(vec![1; 100], from);
    pair.fails("a write to a read-only region", 1);

    let mut pair = Pair::new(verbs, addr);
    pair.client.send(noise(RECEIVE + 1, 1));
    pair.fails("a message longer than its receive", 0);

    let mut pair = Pair::new(verbs, addr);
    (0..9).for_each(|_| pair.client.send(vec![1; 10]));
    pair.fails("more messages than receives", 0);
}

/// An end that disconnects returns all memory of the other.
fn ends(verbs: &Verbs, addr: SocketAddr) {
    let Pair { mut client, server } = Pair::new(verbs, addr);
    let sink = Memory::Sink(SegmentMut::zeroed(4096));
    client.endpoint.register(sink).expect("registration succeeds");
    drop(server);
    let since = Instant::now();
    while client.fault.is_none() {
        wait(&[client.endpoint.descriptor()], since, "the end of the peer");
        client.look();
    }
    println!("  the peer is gone: {}", error(&client));
    assert_eq!(client.receives, 0);
    assert!(client.completions.iter().any(|next| matches!(next.done, CompletedWork::Released(..))));

    let Pair { mut client, .. } = Pair::new(verbs, addr);
    client.endpoint.disconnect();
    client.look();
    assert_eq!((client.receives, client.fault), (0, None));
}

/// A server rejects a client; and there is no server.
fn refusals(verbs: &Verbs, addr: SocketAddr) {
    let (mut listener, mut client) = asking(verbs, addr);
    let mut asked = asked(&mut listener, &mut client);
    asked.endpoint.reject(b"no room!").expect("it can be refused");
    fault(&mut client, "a refusal");
    match &client.fault {
        Some(EndpointError::Rejected(told)) => assert_eq!(told[..8], *b"no room!"),
        other => panic!("{other:?}"),
    }
    assert_eq!(client.receives, 0);

    let port = listener.local_addr();
    drop((listener, asked));
    let mut client = CheckEnd::new(verbs.connect(port, b"").expect("it begins to connect"));
    fault(&mut client, "no server");
    println!("  no server: {}", error(&client));
    let long = verbs.connect(port, &[0; 57]).expect_err("the private data is too long");
    assert!(long.to_string().contains("private data"), "{long}");
}

fn fault(client: &mut CheckEnd, what: &str) {
    let since = Instant::now();
    while client.fault.is_none() {
        wait(&[client.endpoint.descriptor()], since, what);
        client.look();
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let argument = arguments.next().expect("an address, or `layout`");
    if argument == "layout" {
        print!("{}", onego_verbs::layout_in_c());
        return;
    }
    let addr = SocketAddr::new(argument.parse().expect("an address"), 0);
    let driver = arguments.next().expect("the driver's name");
    let verbs = Verbs::open(CONFIG).expect("the libraries are there");
    type Check<'a> = &'a dyn Fn(&Verbs, SocketAddr);
    let checks: [(&str, Check<'_>); 9] = [
        ("messages", &messages),
        ("gathered", &gathered),
        ("writes", &writes),
        ("reads", &reads),
        ("sends after reads", &sends_after_reads),
        ("full queues", &full_queues),
        ("violations", &|verbs, addr| violations(verbs, addr, &driver)),
        ("ends", &ends),
        ("refusals", &refusals),
    ];
    for (name, check) in checks {
        let since = Instant::now();
        check(&verbs, addr);
        println!("ok: {name} ({} ms)", since.elapsed().as_millis());
    }
    println!("all ok");
}
