//! Descriptors received and sent with bytes, and eventfds that are never read.
use onego_buf::{List, Segment, SegmentMut};
use onego_engine::{EngineKind, Pump, Wait, now, open};
use onego_testkit::{NeedyTest, needy_tests};
use onego_wire::{Action, ConnId, ConnTable, Disconnect, Landing, ListenerId, Machine, Time};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const TESTS: &[NeedyTest] = &needy_tests![
    &[];
    descriptors_come_before_the_bytes_that_they_came_with_and_no_more_than_were_asked_for,
    each_signal_of_an_unread_eventfd_is_reported,
    a_descriptor_is_sent_with_its_message,
];

pub(crate) const URING: &[NeedyTest] = &needy_tests![
    crate::URING;
    an_engine_without_descriptors_ends_the_connection_and_names_others,
];

#[derive(Default)]
struct Taker {
    actions: VecDeque<Action>,
    descriptors: Vec<OwnedFd>,
    bytes: Vec<u8>,
    signals: usize,
    ended: Vec<Disconnect>,
}

impl Machine for Taker {
    fn next_action(&mut self, _: Time) -> Option<Action> {
        self.actions.pop_front()
    }

    fn ready(&mut self, _: Time, _: ConnId) {
        self.signals += 1;
    }

    fn listening(&mut self, _: Time, _: ListenerId, _: io::Result<SocketAddr>) {}

    fn accepted(&mut self, _: Time, _: ListenerId, _: SocketAddr, _: SocketAddr) -> Option<ConnId> {
        None
    }

    fn connected(&mut self, _: Time, _: ConnId, _: SocketAddr) {}

    fn disconnected(&mut self, _: Time, _: ConnId, cause: Disconnect) {
        self.ended.push(cause);
    }

    fn landing(&mut self, _: ConnId) -> Landing {
        Landing { ahead: 4, descriptors: 2, ..Landing::default() }
    }

    fn landed(&mut self, _: Time, _: ConnId, _: SegmentMut, _: usize) {}

    fn received(&mut self, _: Time, _: ConnId, bytes: Segment) {
        self.bytes.extend_from_slice(&bytes);
    }

    fn descriptors(&mut self, _: Time, _: ConnId, descriptors: Vec<OwnedFd>) {
        self.descriptors.extend(descriptors);
    }

    fn transmit(&mut self, _: Time, _: ConnId, _: &mut List, _: usize) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn timeout(&mut self, _: Time) {}
}

const ENGINES: [EngineKind; 2] = [EngineKind::Epoll, EngineKind::Uepoll];

fn pump(kind: EngineKind) -> Pump<onego_engine::AnyEngine, Taker> {
    Pump::new(open(kind).unwrap(), Taker::default())
}

fn conn() -> (ConnTable<()>, ConnId) {
    let mut table = ConnTable::default();
    let conn = table.insert(());
    (table, conn)
}

fn send(stream: &UnixStream, bytes: &[u8], descriptors: &[&OwnedFd]) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let descriptors: Vec<_> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    assert_eq!(sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()), Ok(bytes.len()));
}

fn turn_until(pump: &mut Pump<onego_engine::AnyEngine, Taker>, done: impl Fn(&Taker) -> bool) {
    let until = now() + Duration::from_secs(10);
    while !done(pump.machine()) {
        assert!(now() < until, "no event arrives");
        pump.turn(Wait::Until(until)).unwrap();
    }
}

fn descriptors_come_before_the_bytes_that_they_came_with_and_no_more_than_were_asked_for() {
    for kind in ENGINES {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut pump = pump(kind);
        let (_table, conn) = conn();
        pump.machine_mut().actions.push_back(Action::Attach { conn, socket: ours.into() });
        let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        send(&theirs, b"abcdefgh", &[&event]);
        send(&theirs, b"ijkl", &[&event, &event, &event]);
        turn_until(&mut pump, |taker| taker.bytes == b"abcdefghijkl");
        assert_eq!(pump.machine().descriptors.len(), 3, "{kind}");
        for descriptor in &pump.machine().descriptors {
            let flags = rustix::io::fcntl_getfd(descriptor).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
    }
}

fn an_engine_without_descriptors_ends_the_connection_and_names_others() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut pump = pump(EngineKind::Uring);
    let (_table, conn) = conn();
    pump.machine_mut().actions.push_back(Action::Attach { conn, socket: ours.into() });
    send(&theirs, b"abcd", &[]);
    turn_until(&mut pump, |taker| !taker.ended.is_empty());
    let Disconnect::Failed(error) = &pump.machine().ended[0] else { panic!("it failed") };
    assert!(error.to_string().contains("use epoll or uepoll"), "{error}");
}

fn each_signal_of_an_unread_eventfd_is_reported() {
    for kind in ENGINES {
        let mut pump = pump(kind);
        let (_table, conn) = conn();
        let event = Arc::new(eventfd(1, EventfdFlags::NONBLOCK).unwrap());
        let watched = event.try_clone().unwrap();
        pump.machine_mut().actions.push_back(Action::WatchSignals { conn, eventfd: watched });
        turn_until(&mut pump, |taker| taker.signals == 1);
        for round in 2..6 {
            for _ in 0..3 {
                pump.turn(Wait::Poll).unwrap();
            }
            assert_eq!(pump.machine().signals, round - 1, "{kind}");
            pump.machine_mut().actions.push_back(Action::Signal { eventfd: Arc::clone(&event) });
            turn_until(&mut pump, |taker| taker.signals == round);
        }
        let mut count = [0; 8];
        rustix::io::read(&event, &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 5);
    }
}

fn a_descriptor_is_sent_with_its_message() {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    for kind in ENGINES {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut pump = pump(kind);
        let (_table, conn) = conn();
        let (mut reader, writer) = io::pipe().unwrap();
        let actions = &mut pump.machine_mut().actions;
        actions.push_back(Action::Attach { conn, socket: ours.into() });
        let message = b"take this".to_vec();
        actions.push_back(Action::SendDescriptor { conn, message, descriptor: writer.into() });
        pump.turn(Wait::Poll).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 100];
        let mut slices = [std::io::IoSliceMut::new(&mut bytes)];
        let received = recvmsg(&theirs, &mut slices, &mut control, RecvFlags::empty()).unwrap();
        assert_eq!(&bytes[..received.bytes], b"take this");
        let descriptors = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors.collect::<Vec<_>>()),
            _ => None,
        });
        let descriptor = descriptors.unwrap().pop().unwrap();
        rustix::io::write(&descriptor, b"x").unwrap();
        drop(descriptor);
        let mut said = Vec::new();
        reader.read_to_end(&mut said).unwrap();
        assert_eq!(said, b"x");
    }
}
