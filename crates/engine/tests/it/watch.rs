//! Watched descriptors: every engine reports them for as long as they are readable.
use onego_buf::{List, Segment, SegmentMut};
use onego_engine::{EngineKind, Pump, Wait, now, open};
use onego_wire::{Action, ConnId, ConnTable, Disconnect, Landing, ListenerId, Machine, Time};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::time::Duration;

#[derive(Default)]
struct Watcher {
    actions: VecDeque<Action>,
    told: Vec<ConnId>,
}

impl Watcher {
    fn watch(&mut self, conn: ConnId, stream: &UnixStream) {
        let descriptor = stream.try_clone().unwrap().into();
        self.actions.push_back(Action::Watch { conn, descriptor });
    }
}

impl Machine for Watcher {
    fn next_action(&mut self, _: Time) -> Option<Action> {
        self.actions.pop_front()
    }

    fn ready(&mut self, _: Time, conn: ConnId) {
        self.told.push(conn);
    }

    fn listening(&mut self, _: Time, _: ListenerId, _: io::Result<SocketAddr>) {}

    fn accepted(&mut self, _: Time, _: ListenerId, _: SocketAddr, _: SocketAddr) -> Option<ConnId> {
        None
    }

    fn connected(&mut self, _: Time, _: ConnId, _: SocketAddr) {}

    fn disconnected(&mut self, _: Time, conn: ConnId, cause: Disconnect) {
        panic!("{conn:?}: {cause:?}");
    }

    fn landing(&mut self, _: ConnId) -> Landing {
        panic!("nothing is received")
    }

    fn landed(&mut self, _: Time, _: ConnId, _: SegmentMut, _: usize) {}

    fn received(&mut self, _: Time, _: ConnId, _: Segment) {}

    fn transmit(&mut self, _: Time, _: ConnId, _: &mut List, _: usize) {
        panic!("nothing is sent")
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn timeout(&mut self, _: Time) {}
}

fn a_descriptor_is_reported_while_it_is_readable(kind: EngineKind) {
    let mut names = ConnTable::default();
    let (one, other) = (names.insert(()), names.insert(()));
    let mut pump = Pump::new(open(kind).unwrap(), Watcher::default());
    let [(mut ours, mut theirs), (ours_too, mut theirs_too)] =
        std::array::from_fn(|_| UnixStream::pair().unwrap());
    pump.machine_mut().watch(one, &ours);
    pump.machine_mut().watch(other, &ours_too);
    let told = |pump: &mut Pump<_, Watcher>, millis| {
        let end = now() + Duration::from_millis(millis);
        pump.machine_mut().told.clear();
        // Pending events are reported, however late they are.
        loop {
            pump.turn(Wait::Until(end)).unwrap();
            if !pump.machine().told.is_empty() || now() >= end {
                return pump.machine().told.clone();
            }
        }
    };
    assert_eq!(told(&mut pump, 20), [], "{kind}: there is nothing to read");
    theirs.write_all(b"ab").unwrap();
    for round in 0..3 {
        assert_eq!(told(&mut pump, 10_000), [one], "{kind}, round {round}");
    }
    ours.read_exact(&mut [0; 2]).unwrap();
    // One more event may have been in flight.
    told(&mut pump, 20);
    assert_eq!(told(&mut pump, 20), [], "{kind}: all was read");
    theirs_too.write_all(b"c").unwrap();
    assert_eq!(told(&mut pump, 10_000), [other], "{kind}");
    pump.machine_mut().actions.push_back(Action::Close { conn: other });
    theirs.write_all(b"d").unwrap();
    assert_eq!(told(&mut pump, 10_000), [one], "{kind}: the other is not watched any more");
    assert_eq!(pump.connections(), 1);
}

on_each_engine![a_descriptor_is_reported_while_it_is_readable];
