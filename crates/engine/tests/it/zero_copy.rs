//! Memory that is being sent is never reused early: buffers are overwritten as soon as they are released, and the
//! received bytes are checked.
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_engine::zero_copy::{Flush, Mode, Policy, RingSender, Settings, SocketSender, Thresholds, bare};
use onego_engine::{Engine, EngineKind, Event, Wait, now, open};
use onego_testkit::{Need, NeedyTest, needy_tests};
use onego_wire::LocalPort;
use rustix::net::sockopt;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub(crate) const TESTS: &[NeedyTest] = &needy_tests![
    &[];
    nothing_is_used_early_by_sendmsg,
    nothing_is_used_early_by_epoll,
    nothing_is_used_early_by_uepoll,
    a_dropped_engine_returns_memory_even_if_the_peer_does_not_read,
    a_list_of_more_segments_than_a_call_takes_is_sent_whole,
    a_datagram_of_more_segments_than_a_call_takes_is_one_datagram,
];

pub(crate) const URING: &[NeedyTest] = &needy_tests![
    crate::URING;
    nothing_is_used_early_by_a_ring,
    nothing_is_used_early_by_uring,
    registered_memory_goes_out_in_one_piece_and_in_several,
    a_dropped_bare_loop_never_sends_reused_memory,
];

pub(crate) const VETH: &[NeedyTest] = &needy_tests![
    &[Need::Root, Need::Program("ip")];
    nothing_is_used_early_by_sendmsg_between_namespaces,
    nothing_is_used_early_by_epoll_between_namespaces,
    nothing_is_used_early_by_uepoll_between_namespaces,
];

pub(crate) const VETH_URING: &[NeedyTest] = &needy_tests![
    &[Need::Root, Need::Program("ip"), Need::Uring];
    nothing_is_used_early_by_a_ring_between_namespaces,
    nothing_is_used_early_by_uring_between_namespaces,
];

/// Size of a message in bytes: a head, and a block of memory that is reused.
const HEAD: usize = 8;
const BLOCK: usize = 64 << 10;

/// Messages, and far fewer blocks for them, but more than a socket takes at once.
const MESSAGES: u64 = 400;
const BLOCKS: usize = 48;

const PATIENCE: Duration = Duration::from_secs(20);

fn fill(block: &mut [u8], number: u64) {
    for (i, word) in block.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(number << 32 | i as u64).to_le_bytes());
    }
}

/// Blocks that are overwritten with the next message as soon as they are released.
struct Blocks {
    free: Vec<SegmentMut>,
    out: Vec<Segment>,
    next: u64,
}

impl Blocks {
    fn new() -> Self {
        let pool = Pool::registrable(0, 16 << 20);
        Self { free: (0..BLOCKS).map(|_| pool.get(BLOCK)).collect(), out: Vec::new(), next: 0 }
    }

    fn next(&mut self) -> Option<List> {
        self.collect();
        let mut block = self.free.pop()?;
        fill(&mut block, self.next);
        let block = block.freeze();
        self.out.push(block.clone());
        let head = Segment::from(self.next.to_le_bytes().to_vec());
        self.next += 1;
        Some([head, block].into_iter().collect())
    }

    fn collect(&mut self) {
        for segment in std::mem::take(&mut self.out) {
            match segment.try_into_mut() {
                Ok(mut block) => {
                    // If the kernel still reads this memory, the receiver sees wrong bytes.
                    block.fill(0xee);
                    self.free.push(block);
                }
                Err(segment) => self.out.push(segment),
            }
        }
    }
}

/// Location of both ends: this host, or two namespaces joined by a pair of virtual Ethernet devices.
struct Net {
    here: Option<File>,
    there: Option<File>,
    addr: Ipv4Addr,
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("iproute2 is installed");
    assert!(output.status.success(), "ip {arguments}, as root: {}", String::from_utf8_lossy(&output.stderr));
}

impl Net {
    fn loopback() -> Self {
        Self { here: None, there: None, addr: Ipv4Addr::LOCALHOST }
    }

    /// The names are gone when this returns: an open file or a process inside keeps a namespace alive.
    fn veth(test: &str) -> Self {
        let names = ["here", "there"].map(|end| format!("onego-test-{}-{test}-{end}", std::process::id()));
        names.iter().for_each(|name| ip(&format!("netns add {name}")));
        ip(&format!("-n {} link add veth type veth peer name veth netns {}", names[0], names[1]));
        for (name, last) in names.iter().zip([1, 2]) {
            ip(&format!("-n {name} address add 10.11.12.{last}/24 dev veth"));
            ip(&format!("-n {name} link set veth up"));
        }
        let [here, there] = names.each_ref().map(|name| File::open(format!("/run/netns/{name}")).ok());
        names.iter().for_each(|name| ip(&format!("netns delete {name}")));
        assert!(here.is_some() && there.is_some());
        Self { here, there, addr: Ipv4Addr::new(10, 11, 12, 2) }
    }
}

fn enter(namespace: Option<File>) {
    if let Some(file) = namespace {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }
}

/// Checks all messages of one connection, at times so slowly that the sender's memory waits.
fn receive(mut stream: TcpStream) {
    let (mut message, mut expected) = (vec![0; HEAD + BLOCK], vec![0; BLOCK]);
    for number in 0..MESSAGES {
        if number % 64 == 0 {
            thread::sleep(Duration::from_millis(10));
        }
        stream.read_exact(&mut message).unwrap();
        fill(&mut expected, number);
        assert_eq!(message[..HEAD], number.to_le_bytes());
        assert!(message[HEAD..] == expected, "message {number} was overwritten before it was sent");
    }
    assert_eq!(stream.read(&mut message).unwrap(), 0);
}

fn check(net: Net, send: impl FnOnce(SocketAddr) + Send + 'static) {
    let Net { here, there, addr } = net;
    let (tell, told) = mpsc::channel();
    let receiver: JoinHandle<()> = thread::spawn(move || {
        enter(there);
        let listener = TcpListener::bind((addr, 0)).unwrap();
        tell.send(listener.local_addr().unwrap()).unwrap();
        receive(listener.accept().unwrap().0);
    });
    let addr = told.recv_timeout(PATIENCE).unwrap();
    let sender = thread::spawn(move || {
        enter(here);
        send(addr);
    });
    sender.join().unwrap();
    receiver.join().unwrap();
}

fn connect(addr: SocketAddr) -> OwnedFd {
    let stream = TcpStream::connect(addr).unwrap();
    onego_engine::without_pacing(&stream);
    stream.into()
}

fn always() -> Policy {
    Policy::new(Mode::On, Thresholds::default())
}

fn by_sendmsg(addr: SocketAddr) {
    let mut sender = SocketSender::new(connect(addr), always(), Flush::Sends(3));
    let (mut blocks, mut freed) = (Blocks::new(), 0);
    while blocks.next < MESSAGES {
        let Some(mut message) = blocks.next() else {
            sender.wait(PATIENCE).unwrap();
            continue;
        };
        while !message.is_empty() {
            let sent = sender.send(message.clone()).unwrap();
            message.advance(sent);
        }
        sender.reap().unwrap();
        freed += std::iter::from_fn(|| sender.next_freed()).map(|freed| freed.sends).sum::<u32>();
    }
    sender.flush();
    assert!(sender.settle(PATIENCE).unwrap());
    freed += std::iter::from_fn(|| sender.next_freed()).map(|freed| freed.sends).sum::<u32>();
    let counters = sender.counters();
    assert_eq!((counters.zero_copy, u64::from(freed)), (counters.copied, counters.zero_copy));
    assert!(counters.zero_copy >= MESSAGES);
    blocks.collect();
    assert_eq!(blocks.free.len(), BLOCKS);
}

fn by_ring(addr: SocketAddr) {
    let mut sender = RingSender::open(connect(addr), always(), Flush::Asked).unwrap();
    let (mut blocks, mut bytes, mut events) = (Blocks::new(), 0, 0);
    while blocks.next < MESSAGES {
        let mut batch = 0;
        while batch < 8 && blocks.next < MESSAGES {
            let Some(message) = blocks.next() else { break };
            sender.send(message).unwrap();
            batch += 1;
        }
        if batch == 0 {
            sender.wait(PATIENCE).unwrap();
            continue;
        }
        sender.flush().expect("something was attached");
        bytes += sender.submit().unwrap();
        while let Some(freed) = sender.next_freed() {
            assert!((1..=8).contains(&freed.sends), "{freed:?}");
            events += freed.sends;
        }
    }
    assert!(sender.settle(PATIENCE).unwrap());
    events += std::iter::from_fn(|| sender.next_freed()).map(|freed| freed.sends).sum::<u32>();
    assert_eq!((bytes, u64::from(events)), (MESSAGES * (HEAD + BLOCK) as u64, MESSAGES));
    assert_eq!(sender.counters().zero_copy, sender.counters().copied);
    blocks.collect();
    assert_eq!(blocks.free.len(), BLOCKS);
}

/// Sends through an engine; the upper layers see only the blocks that are released.
fn by_engine(kind: EngineKind, addr: SocketAddr) {
    let mut engine = open(kind).unwrap();
    assert_eq!(engine.kind(), kind);
    engine.set_zero_copy(Settings { mode: Mode::On, thresholds: Thresholds::default() });
    let socket = engine.connect(addr, LocalPort::Any).unwrap();
    let (mut blocks, mut rest, mut ready, mut events) = (Blocks::new(), List::new(), false, Vec::new());
    let end = now() + PATIENCE;
    while blocks.next < MESSAGES || !rest.is_empty() || !ready {
        assert!(now() < end, "timeout");
        while ready {
            if rest.is_empty() && blocks.next < MESSAGES {
                rest = blocks.next().unwrap_or_default();
            }
            if rest.is_empty() {
                break;
            }
            ready = false;
            if let Some(sent) = engine.send(socket, std::mem::take(&mut rest)) {
                (rest, ready) = (sent.rest, !sent.full);
            }
        }
        engine.poll(Wait::Until(now() + Duration::from_millis(1)), &mut events).unwrap();
        for event in events.drain(..) {
            match event {
                Event::Connected { result, .. } => ready = result.is_ok(),
                Event::Writable(_) => ready = true,
                Event::Sent(_, sent) => {
                    sent.result.unwrap();
                    (rest, ready) = (sent.rest, true);
                }
                Event::Readable(_) => panic!("a notification is nothing to be read"),
                _ => {}
            }
        }
    }
    engine.close(socket);
    while blocks.free.len() < BLOCKS {
        assert!(now() < end, "timeout: blocks are not released");
        engine.poll(Wait::Until(now() + Duration::from_millis(10)), &mut events).unwrap();
        blocks.collect();
    }
    let counters = engine.stats().zero_copy;
    assert!(counters.zero_copy >= MESSAGES, "{counters:?}");
}

fn nothing_is_used_early_by_sendmsg() {
    check(Net::loopback(), by_sendmsg);
}

fn nothing_is_used_early_by_sendmsg_between_namespaces() {
    check(Net::veth("sendmsg"), by_sendmsg);
}

fn nothing_is_used_early_by_a_ring() {
    check(Net::loopback(), by_ring);
}

fn nothing_is_used_early_by_a_ring_between_namespaces() {
    check(Net::veth("ring"), by_ring);
}

fn nothing_is_used_early_by_epoll() {
    check(Net::loopback(), |addr| by_engine(EngineKind::Epoll, addr));
}

fn nothing_is_used_early_by_epoll_between_namespaces() {
    check(Net::veth("epoll"), |addr| by_engine(EngineKind::Epoll, addr));
}

fn nothing_is_used_early_by_uepoll() {
    check(Net::loopback(), |addr| by_engine(EngineKind::Uepoll, addr));
}

fn nothing_is_used_early_by_uepoll_between_namespaces() {
    check(Net::veth("uepoll"), |addr| by_engine(EngineKind::Uepoll, addr));
}

fn nothing_is_used_early_by_uring() {
    check(Net::loopback(), |addr| by_engine(EngineKind::Uring, addr));
}

fn nothing_is_used_early_by_uring_between_namespaces() {
    check(Net::veth("uring"), |addr| by_engine(EngineKind::Uring, addr));
}

fn a_dropped_engine_returns_memory_even_if_the_peer_does_not_read() {
    for kind in [EngineKind::Epoll, EngineKind::Uepoll] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut engine = open(kind).unwrap();
        engine.set_zero_copy(Settings { mode: Mode::On, ..Settings::default() });
        let socket = engine.connect(listener.local_addr().unwrap(), LocalPort::Any).unwrap();
        let peer = listener.accept().unwrap();
        let (mut blocks, mut events) = (Blocks::new(), Vec::new());
        engine.poll(Wait::Until(now() + PATIENCE), &mut events).unwrap();
        for _ in 0..BLOCKS {
            let message = blocks.next().unwrap();
            let _ = engine.send(socket, message);
        }
        blocks.collect();
        assert!(blocks.free.len() < BLOCKS, "the peer holds some back");
        engine.close(socket);
        drop(engine);
        blocks.collect();
        assert_eq!(blocks.free.len(), BLOCKS, "{kind}");
        drop(peer);
    }
}

fn registered_memory_goes_out_in_one_piece_and_in_several() {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(receiver.local_addr().unwrap()).unwrap();
    let mut sender = RingSender::open(socket.into(), always(), Flush::EachSend).unwrap();
    let mut block = Pool::registrable(0, 2 << 20).get(16 << 10);
    fill(&mut block, 7);
    let block = block.freeze();
    let lists: [List; 3] = [
        block.clone().into(),
        [block.slice(..4096), block.slice(8192..)].into_iter().collect(),
        [block.slice(..10), Segment::from_static(b"not registered"), block.slice(100..200)]
            .into_iter()
            .collect(),
    ];
    let mut arrived = vec![0; 64 << 10];
    for list in lists {
        sender.send(list.clone()).unwrap();
        assert_eq!(sender.submit().unwrap(), list.len() as u64);
        let n = receiver.recv(&mut arrived).unwrap();
        assert!(arrived[..n] == list.to_vec());
    }
    assert!(sender.settle(PATIENCE).unwrap());
    assert_eq!(std::iter::from_fn(|| sender.next_freed()).count(), 3);
}

fn pieces(count: usize, size: usize) -> List {
    let mut block = SegmentMut::zeroed(count * (size + 1));
    block.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i % 251) as u8);
    let block = block.freeze();
    (0..count).map(|i| block.slice(i * (size + 1)..i * (size + 1) + size)).collect()
}

fn a_list_of_more_segments_than_a_call_takes_is_sent_whole() {
    let list = pieces(2500, 4);
    assert_eq!(list.segments().len(), 2500);
    for mode in [Mode::Off, Mode::On] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let policy = Policy::new(mode, Thresholds::default());
        let mut sender =
            RingSender::open(connect(listener.local_addr().unwrap()), policy, Flush::EachSend).unwrap();
        let mut peer = listener.accept().unwrap().0;
        sender.send(list.clone()).unwrap();
        assert_eq!(sender.submit().unwrap(), list.len() as u64, "{mode}");
        assert!(sender.settle(PATIENCE).unwrap());
        drop(sender);
        let mut read = Vec::new();
        peer.read_to_end(&mut read).unwrap();
        assert!(read == list.to_vec(), "{mode}: {} bytes of {}", read.len(), list.len());
    }
}

fn a_datagram_of_more_segments_than_a_call_takes_is_one_datagram() {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(receiver.local_addr().unwrap()).unwrap();
    let mut sender = RingSender::open(socket.into(), always(), Flush::EachSend).unwrap();
    let list = pieces(1500, 4);
    sender.send(list.clone()).unwrap();
    assert_eq!(sender.submit().unwrap(), list.len() as u64);
    let mut arrived = vec![0; 64 << 10];
    let n = receiver.recv(&mut arrived).unwrap();
    assert!(arrived[..n] == list.to_vec());
    assert!(sender.settle(PATIENCE).unwrap());
}

/// Overwrites memory that was freed before the peer has read the bytes sent from it, and checks that the peer sees none
/// of the new bytes.
fn overwritten_after_drop(start: impl FnOnce(OwnedFd) -> Box<dyn std::any::Any>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    // Accepted connections inherit it: sent bytes wait on the sender's side.
    sockopt::set_socket_recv_buffer_size(&listener, 1).unwrap();
    let socket = connect(listener.local_addr().unwrap());
    sockopt::set_socket_send_buffer_size(&socket, 1 << 20).unwrap();
    let mut peer = listener.accept().unwrap().0;
    drop(start(socket));
    let others: Vec<SegmentMut> = [4096, 8192, 16384, 32768]
        .into_iter()
        .flat_map(|size| (0..64).map(move |_| SegmentMut::zeroed(size)))
        .map(|mut block| {
            block.fill(0xee);
            block
        })
        .collect();
    let (mut piece, mut read) = (vec![0; 4096], 0);
    while let Ok(n @ 1..) = peer.read(&mut piece) {
        let wrong = piece[..n].iter().position(|byte| *byte != 0);
        assert_eq!(wrong.map(|at| read + at), None, "a byte of reused memory was sent");
        read += n;
    }
    drop(others);
}

fn a_dropped_bare_loop_never_sends_reused_memory() {
    overwritten_after_drop(|socket| {
        let mut bare = bare::Socket::new(socket, bare::How::ZeroCopy, 4096, 16).unwrap();
        bare.turn().unwrap();
        Box::new(bare)
    });
    for how in [bare::How::ZeroCopy, bare::How::Registered] {
        overwritten_after_drop(|socket| {
            let mut bare = bare::Ring::open(socket, how, 4096, 4).unwrap();
            (0..4).for_each(|_| bare.turn().unwrap());
            Box::new(bare)
        });
    }
}
