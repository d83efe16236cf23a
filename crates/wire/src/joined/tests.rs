//! Members that check which connection each call concerns, and a driver that checks the ids, over random sequences and
//! in single cases.

use super::*;
use crate::machine::LocalPort;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

const NOW: Time = Time::from_nanos(1_000);

/// Returns an address that identifies a connection among those of all members.
fn addr(serial: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], serial))
}

fn label(serial: u16) -> Segment {
    Segment::from(serial.to_le_bytes().to_vec())
}

fn serial_of(bytes: &[u8]) -> u16 {
    u16::from_le_bytes(bytes.try_into().expect("a label"))
}

/// Machine whose connections have globally unique numbers. All input for a connection contains its number.
#[derive(Debug, Default)]
struct Member {
    conns: ConnTable<u16>,
    actions: VecDeque<Action>,
    /// Connections that the driver is to close, and the one that it closes now. Their ids are still taken.
    closing: Vec<ConnId>,
    closed: Option<ConnId>,
    /// Closed connections: the driver may hold receive buffers or ask for output.
    over: BTreeMap<ConnId, u16>,
    listening: Vec<(ListenerId, SocketAddr)>,
    alarm: Option<Time>,
    timeouts: usize,
    wakes: usize,
    /// Connections that another member asks this one to open.
    inbox: Rc<RefCell<Vec<u16>>>,
    /// Connections that this one asks another to open, passed on when it is asked for actions.
    outbox: Vec<(u16, Rc<RefCell<Vec<u16>>>)>,
    passed: bool,
}

impl Member {
    fn connect(&mut self, serial: u16) {
        let conn = self.conns.insert(serial);
        self.actions.push_back(Action::Connect { conn, addr: addr(serial), local: LocalPort::Any });
    }

    fn listen(&mut self, number: u32, port: u16) {
        self.actions.push_back(Action::Listen { listener: ListenerId(number), addr: addr(port) });
    }

    fn close(&mut self, serial: u16) {
        let conn = self.conn(serial).expect("it is open");
        if !self.closing.contains(&conn) {
            self.closing.push(conn);
            self.actions.push_back(Action::Close { conn });
        }
    }

    fn forget(&mut self, conn: ConnId) {
        let serial = self.conns.remove(conn).expect("a connection that the member knows");
        self.over.insert(conn, serial);
    }

    fn conn(&self, serial: u16) -> Option<ConnId> {
        self.conns.iter().find(|(_, of)| **of == serial).map(|(conn, _)| conn)
    }

    fn open(&self, conn: ConnId, serial: u16) {
        assert_eq!(self.conns.get(conn), Some(&serial), "the input is for an open connection");
    }
}

impl Machine for Member {
    fn next_action(&mut self, _now: Time) -> Option<Action> {
        let wanted = std::mem::take(&mut *self.inbox.borrow_mut());
        wanted.into_iter().for_each(|serial| self.connect(serial));
        if let Some((serial, inbox)) = self.outbox.pop() {
            inbox.borrow_mut().push(serial);
            self.passed = true;
        }
        if let Some(closed) = self.closed.take() {
            self.closing.retain(|conn| *conn != closed);
            self.forget(closed);
        }
        let action = self.actions.pop_front();
        if let Some(Action::Close { conn }) = action {
            self.closed = Some(conn);
        }
        action
    }

    fn listening(&mut self, _now: Time, listener: ListenerId, result: io::Result<SocketAddr>) {
        self.listening.push((listener, result.expect("the driver's listeners never fail")));
    }

    fn accepted(
        &mut self,
        _now: Time,
        listener: ListenerId,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Option<ConnId> {
        assert!(self.listening.contains(&(listener, local)), "{listener:?} {local}");
        (!peer.port().is_multiple_of(7)).then(|| self.conns.insert(peer.port()))
    }

    fn connected(&mut self, _now: Time, conn: ConnId, local: SocketAddr) {
        self.open(conn, local.port());
    }

    fn disconnected(&mut self, _now: Time, conn: ConnId, cause: Disconnect) {
        let Disconnect::Failed(error) = cause else { panic!("the driver gives the connection in the error") };
        self.open(conn, error.to_string().parse().unwrap());
        if !self.closing.contains(&conn) {
            self.forget(conn);
        }
    }

    fn landing(&mut self, conn: ConnId) -> Landing {
        let serial = *self.conns.get(conn).expect("a connection that the member knows");
        let place = |serial: u16| SegmentMut::from(serial.to_le_bytes().to_vec());
        match serial % 3 {
            0 => Landing::shared(9),
            1 => Landing::at(place(serial), 9),
            _ => {
                Landing { place: Some(place(serial)), further: vec![place(serial)], ahead: 9, descriptors: 0 }
            }
        }
    }

    fn landed(&mut self, _now: Time, conn: ConnId, place: SegmentMut, filled: usize) {
        let serial = self.conns.get(conn).or_else(|| self.over.get(&conn)).expect("a known id");
        assert_eq!((serial_of(&place), filled), (*serial, 2));
    }

    fn received(&mut self, _now: Time, conn: ConnId, bytes: Segment) {
        self.open(conn, serial_of(&bytes));
    }

    fn transmit(&mut self, _now: Time, conn: ConnId, out: &mut List, _limit: usize) {
        let serial = self.conns.get(conn).or_else(|| self.over.get(&conn)).expect("a known id");
        out.push(label(*serial));
    }

    fn ready(&mut self, _now: Time, conn: ConnId) {
        assert!(self.conns.get(conn).is_some());
    }

    fn deadline(&self) -> Option<Time> {
        self.alarm
    }

    fn timeout(&mut self, now: Time) {
        assert!(self.alarm.take().is_some_and(|alarm| alarm <= now), "it is not time");
        self.timeouts += 1;
    }

    fn woken(&mut self, _now: Time) {
        self.wakes += 1;
    }
}

impl Members for Vec<Member> {
    fn count(&self) -> usize {
        self.len()
    }

    fn member(&self, index: usize) -> &dyn Machine {
        &self[index]
    }

    fn member_mut(&mut self, index: usize) -> &mut dyn Machine {
        &mut self[index]
    }

    fn passed_work(&mut self) -> bool {
        self.iter_mut().any(|member| std::mem::take(&mut member.passed))
    }
}

fn members(count: usize) -> Joined<Vec<Member>> {
    Joined::new((0..count).map(|_| Member::default()).collect())
}

struct Driver {
    joined: Joined<Vec<Member>>,
    serials: u16,
    /// Open connections, with their receive buffers.
    open: BTreeMap<ConnId, (u16, Vec<SegmentMut>)>,
    /// Connections closed by a member, with their receive buffers.
    closed: Vec<(ConnId, u16, Vec<SegmentMut>)>,
    stale: BTreeSet<ConnId>,
    listeners: Vec<(ListenerId, SocketAddr)>,
}

impl Driver {
    fn new(joined: Joined<Vec<Member>>) -> Self {
        Self {
            joined,
            serials: 0,
            open: BTreeMap::new(),
            closed: Vec::new(),
            stale: BTreeSet::new(),
            listeners: Vec::new(),
        }
    }

    fn serial(&mut self) -> u16 {
        self.serials += 1;
        self.serials
    }

    fn begin(&mut self, conn: ConnId, serial: u16) {
        assert!(!self.stale.contains(&conn) && self.closed.iter().all(|closed| closed.0 != conn));
        assert!(self.open.insert(conn, (serial, Vec::new())).is_none(), "two connections with one id");
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Connect { conn, addr, .. } => self.begin(conn, addr.port()),
            Action::Listen { listener, addr } => {
                assert!(self.listeners.iter().all(|known| (known.0 == listener) == (known.1 == addr)));
                self.listeners.push((listener, addr));
                self.joined.listening(NOW, listener, Ok(addr));
            }
            Action::Close { conn } => {
                let (serial, buffers) = self.open.remove(&conn).expect("only what is open is closed");
                let mut out = List::new();
                self.joined.transmit(NOW, conn, &mut out, 9);
                assert!(out.is_empty() || serial_of(&out.to_vec()) == serial);
                self.stale.extend(buffers.is_empty().then_some(conn));
                self.closed.extend((!buffers.is_empty()).then_some((conn, serial, buffers)));
            }
            other => panic!("{other:?}"),
        }
    }

    fn act_on_all(&mut self) {
        while let Some(action) = self.joined.next_action(NOW) {
            self.act(action);
        }
    }

    fn accept(&mut self, which: usize) {
        let serial = self.serial();
        let Some(&(listener, local)) = self.listeners.get(which % self.listeners.len().max(1)) else {
            return;
        };
        match self.joined.accepted(NOW, listener, addr(serial), local) {
            Some(conn) => self.begin(conn, serial),
            None => assert_eq!(serial % 7, 0),
        }
    }

    fn nth(&self, which: usize) -> Option<(ConnId, u16)> {
        let nth = self.open.iter().nth(which % self.open.len().max(1))?;
        Some((*nth.0, nth.1.0))
    }

    fn is_known(&self, serial: u16) -> bool {
        self.joined.members().iter().any(|member| member.conn(serial).is_some())
    }

    /// Delivers an event to an open connection that its member has not closed.
    fn happens(&mut self, what: u8, which: usize) {
        let Some((conn, serial)) = self.nth(which).filter(|open| self.is_known(open.1)) else { return };
        let joined = &mut self.joined;
        let buffers = &mut self.open.get_mut(&conn).unwrap().1;
        match what {
            0 => joined.connected(NOW, conn, addr(serial)),
            1 if buffers.is_empty() => buffers.extend(joined.landing(conn).into_places()),
            1 => buffers.drain(..).for_each(|place| joined.landed(NOW, conn, place, 2)),
            2 => joined.received(NOW, conn, label(serial)),
            3 => {
                let mut out = List::new();
                joined.transmit(NOW, conn, &mut out, 9);
                assert_eq!(serial_of(&out.to_vec()), serial);
            }
            4 => joined.ready(NOW, conn),
            _ => {
                buffers.drain(..).for_each(|place| joined.landed(NOW, conn, place, 2));
                joined.disconnected(NOW, conn, Disconnect::Failed(io::Error::other(serial.to_string())));
                self.open.remove(&conn);
                self.stale.insert(conn);
            }
        }
    }

    /// Lets a member close a connection that the driver knows.
    fn close(&mut self, which: usize) {
        let Some((_, serial)) = self.nth(which) else { return };
        let mut members = self.joined.members_mut().iter_mut();
        if let Some(member) = members.find(|member| member.conn(serial).is_some()) {
            member.close(serial);
        }
    }

    fn give_back(&mut self) {
        let Some((conn, _, buffers)) = self.closed.pop() else { return };
        buffers.into_iter().for_each(|place| self.joined.landed(NOW, conn, place, 2));
        self.stale.insert(conn);
    }

    /// Checks that calls with stale ids have no effect.
    fn call_stale(&mut self) {
        for conn in &self.stale {
            let joined = &mut self.joined;
            joined.connected(NOW, *conn, addr(0));
            joined.disconnected(NOW, *conn, Disconnect::Closed);
            joined.received(NOW, *conn, label(0));
            joined.ready(NOW, *conn);
            let landing = joined.landing(*conn);
            assert_eq!((landing.places(), landing.ahead), (0, 0));
        }
    }

    fn step(&mut self, op: u8, which: usize) {
        let count = self.joined.members().len();
        match op {
            0 | 1 => {
                let serial = self.serial();
                self.joined.members_mut()[which % count].connect(serial);
            }
            // Listeners of different members may have the same number.
            2 => {
                let (member, number) = (which % count, which / count % 3);
                self.joined.members_mut()[member].listen(number as u32, (3 * member + number) as u16);
            }
            3 | 4 => self.accept(which),
            5..=7 => self.act_on_all(),
            8 => {
                let action = self.joined.next_action(NOW);
                action.into_iter().for_each(|action| self.act(action));
            }
            9..=14 => self.happens(op - 9, which),
            15 | 16 => self.close(which),
            17 => self.give_back(),
            18 if count < 5 => self.joined.members_mut().push(Member::default()),
            _ => self.call_stale(),
        }
        let slots: usize = self.joined.names.iter().map(|names| names.0.len()).sum();
        assert!(self.joined.conns.len() <= slots + self.closed.len(), "ids are kept for nothing");
    }
}

proptest! {
    #[test]
    fn ids_are_never_confused(steps in prop::collection::vec((0..20_u8, any::<u16>()), 0..400)) {
        let mut driver = Driver::new(members(2));
        for (op, which) in steps {
            driver.step(op, which.into());
        }
        driver.act_on_all();
        let known: usize = driver.joined.members().iter().map(|member| member.conns.len()).sum();
        prop_assert_eq!(driver.open.len(), known);
        while !driver.closed.is_empty() {
            driver.give_back();
        }
        driver.call_stale();
    }
}

#[test]
fn work_passed_to_a_member_is_done_before_the_driver_sleeps() {
    for count in 2..5 {
        for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
            let mut joined = members(count);
            let inbox = Rc::clone(&joined.members()[to].inbox);
            joined.members_mut()[from].outbox = (1..4).map(|serial| (serial, Rc::clone(&inbox))).collect();
            let wanted = std::iter::from_fn(|| joined.next_action(NOW)).map(|action| match action {
                Action::Connect { addr, .. } => addr.port(),
                other => panic!("{other:?}"),
            });
            let mut wanted: Vec<u16> = wanted.collect();
            wanted.sort_unstable();
            assert_eq!(wanted, [1, 2, 3], "from {from} to {to} of {count}");
        }
    }
}

#[test]
fn only_due_members_time_out_and_all_are_woken() {
    let mut joined = members(3);
    assert_eq!(joined.deadline(), None);
    joined.members_mut()[1].alarm = Some(Time::from_nanos(20));
    joined.members_mut()[2].alarm = Some(Time::from_nanos(10));
    assert_eq!(joined.deadline(), Some(Time::from_nanos(10)));
    joined.timeout(Time::from_nanos(15));
    assert_eq!(joined.deadline(), Some(Time::from_nanos(20)));
    joined.timeout(Time::from_nanos(25));
    joined.woken(NOW);
    let counts = joined.into_members().into_iter().map(|member| (member.timeouts, member.wakes));
    assert_eq!(counts.collect::<Vec<_>>(), [(0, 1), (1, 1), (1, 1)]);
}

#[test]
fn no_members_request_nothing() {
    let mut joined = members(0);
    assert!(joined.next_action(NOW).is_none());
    assert!(joined.accepted(NOW, ListenerId(0), addr(1), addr(2)).is_none());
    assert_eq!(joined.deadline(), None);
}
