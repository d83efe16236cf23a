//! The disk of a virtual machine, used by a front end and a driver of the tests' own.

use crate::support::front::{
    DATA, FrontEnd, GuestSide, INDIRECT, MEMORY, NEXT, Piece, QUEUE_SIZE, Served, WRITE,
};
use onego_block::{Device, Geometry, Memory, Request};
use onego_wire::Time;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const SIZE: u64 = 4 << 20;
const AT: u64 = 2 << 20;

fn memory() -> Rc<Memory> {
    Rc::new(Memory::new(Geometry::new(SIZE)))
}

fn data(length: u32, flags: u16) -> Piece {
    Piece { address: AT, length, flags, next: 0 }
}

/// A server, its front end, and a guest whose first queue runs.
fn running(device: Rc<dyn Device>) -> (Served, FrontEnd, GuestSide) {
    let (mut served, guest) = (Served::new(device), GuestSide::new());
    let front = FrontEnd::begin(&mut served, &guest);
    front.start(&mut served, &guest, 0, 0);
    // Once, in case that a server before this one could not.
    assert_eq!(guest.calls(0), 1);
    (served, front, guest)
}

/// A device that keeps its requests until it is told to carry them out, and whose size may change.
struct Slow {
    inner: Memory,
    size: Cell<u64>,
    held: RefCell<Vec<Request>>,
    order: RefCell<Vec<u64>>,
}

impl Slow {
    fn new() -> Rc<Self> {
        let inner = Memory::new(Geometry::new(SIZE));
        Rc::new(Self { inner, size: Cell::new(SIZE), held: RefCell::default(), order: RefCell::default() })
    }

    fn carry_out(&self) {
        for request in std::mem::take(&mut *self.held.borrow_mut()) {
            self.inner.submit(Time::default(), request);
        }
    }
}

impl Device for Slow {
    fn geometry(&self) -> Geometry {
        let mut geometry = self.inner.geometry();
        geometry.size = self.size.get();
        geometry
    }

    fn submit(&self, _: Time, request: Request) {
        self.order.borrow_mut().push(request.offset);
        self.held.borrow_mut().push(request);
    }
}

#[test]
fn what_is_written_is_read_again_and_the_driver_is_told() {
    let (mut served, _front, mut guest) = running(memory());
    let written: Vec<u8> = (0..4096_u32).map(|i| (i * 7) as u8).collect();
    guest.put(AT, &written);
    guest.request(0, 0, 1, 8, data(4096, 0));
    served.turn();
    assert_eq!((guest.used(0), guest.status(0, 0), guest.calls(0)), (Some((0, 1)), 0, 1));
    guest.put(AT, &[0; 4096]);
    guest.request(0, 3, 0, 8, data(4096, WRITE));
    served.turn();
    assert_eq!((guest.used(0), guest.status(0, 3)), (Some((3, 4097)), 0));
    assert_eq!(guest.get(AT, 4096), written);
    for (kind, length, status) in [(4, 0, 0), (8, 20, 0), (99, 0, 2), (0, 100, 1), (0, 0, 1)] {
        guest.request(0, 0, kind, 0, data(length, WRITE));
        served.turn();
        assert_eq!((guest.used(0).unwrap().0, guest.status(0, 0)), (0, status), "type {kind}");
    }
    assert_eq!(&guest.get(AT, 7), b"a disk\0");
    let counters = served.pump.machine().counters();
    assert_eq!((counters.read, counters.written, counters.errors), (4096, 4096, 3));
}

#[test]
fn ranges_are_made_zeros_and_discarded() {
    let (mut served, _front, mut guest) = running(memory());
    for (kind, flags, status) in [(13, 1, 0), (13, 0, 0), (11, 0, 0), (11, 1, 2), (13, 2, 2)] {
        guest.put(AT, &[7; 8192]);
        guest.request(0, 0, 1, 0, data(8192, 0));
        served.turn();
        assert_eq!(guest.used(0), Some((0, 1)));
        guest.put(AT, &8_u64.to_le_bytes());
        guest.put(AT + 8, &8_u32.to_le_bytes());
        guest.put(AT + 12, &u32::to_le_bytes(flags));
        guest.request(0, 3, kind, 0, data(16, 0));
        served.turn();
        assert_eq!((guest.used(0), guest.status(0, 3)), (Some((3, 1)), status), "{kind} {flags}");
        guest.request(0, 0, 0, 0, data(8192, WRITE));
        served.turn();
        guest.used(0).unwrap();
        let rest = if status == 0 { 0 } else { 7 };
        assert_eq!(guest.get(AT, 8192), [[7; 4096], [rest; 4096]].concat());
    }
}

#[test]
fn a_table_of_indirect_descriptors_is_followed() {
    let (mut served, _front, mut guest) = running(memory());
    let header = DATA;
    guest.put(header, &[0; 16]);
    let mut table = Vec::new();
    let pieces =
        [(header, 16, NEXT), (AT, 512, NEXT | WRITE), (AT + 512, 512, NEXT | WRITE), (AT + 1024, 1, WRITE)];
    for (next, (address, length, flags)) in (1..).zip(pieces) {
        table.extend(GuestSide::encode(Piece { address, length, flags, next }));
    }
    guest.put(AT + 4096, &table);
    guest.put(AT, &[9; 1025]);
    let length = table.len() as u32;
    guest.descriptor(0, 5, Piece { address: AT + 4096, length, flags: INDIRECT, next: 0 });
    guest.offer(0, 5);
    served.turn();
    assert_eq!((guest.used(0), guest.get(AT, 1025)), (Some((5, 1025)), vec![0; 1025]));
}

#[test]
fn a_chain_that_cannot_be_answered_stops_its_queue_and_no_other() {
    let (mut served, front, mut guest) = running(memory());
    front.start(&mut served, &guest, 1, 0);
    // In a circle.
    guest.descriptor(0, 0, Piece { address: AT, length: 16, flags: NEXT, next: 0 });
    guest.offer(0, 0);
    served.turn();
    guest.request(0, 3, 4, 0, data(0, WRITE));
    served.turn();
    assert_eq!(guest.used(0), None);
    guest.request(1, 0, 4, 0, data(0, WRITE));
    served.turn();
    assert_eq!((guest.used(1), guest.status(1, 0)), (Some((0, 1)), 0));
    assert_eq!(served.pump.machine().counters().broken, 1);
}

#[test]
fn data_outside_of_the_guests_memory_fails_its_request() {
    let (mut served, _front, mut guest) = running(memory());
    for (kind, flags) in [(1, 0), (0, WRITE)] {
        guest.request(0, 0, kind, 0, Piece { address: MEMORY - 512, length: 1024, flags, next: 0 });
        served.turn();
        assert_eq!((guest.used(0).unwrap().0, guest.status(0, 0)), (0, 1), "type {kind}");
    }
    guest.request(0, 0, 0, u64::MAX, data(512, WRITE));
    served.turn();
    assert_eq!((guest.used(0).unwrap().0, guest.status(0, 0)), (0, 1));
}

#[test]
fn requests_in_flight_when_a_server_ends_are_carried_out_in_order_by_the_next() {
    let slow = Slow::new();
    let (mut served, mut guest) = (Served::new(Rc::clone(&slow) as Rc<dyn Device>), GuestSide::new());
    let front = FrontEnd::begin(&mut served, &guest);
    front.record(&mut served, &mut guest);
    front.start(&mut served, &guest, 0, 0);
    for (head, sector) in [(9, 8), (3, 16), (6, 24)] {
        guest.put(AT, &[head as u8; 512]);
        guest.request(0, head, 1, sector, data(512, 0));
        served.turn();
    }
    guest.request(0, 0, 4, 0, data(0, WRITE));
    served.turn();
    // One comes back, the others never do.
    let flush = slow.held.borrow_mut().pop().unwrap();
    slow.inner.submit(Time::default(), flush);
    served.turn();
    assert_eq!(guest.used(0), Some((0, 1)));
    drop((served, front));

    let next = Slow::new();
    let mut served = Served::new(Rc::clone(&next) as Rc<dyn Device>);
    let front = FrontEnd::begin(&mut served, &guest);
    front.record(&mut served, &mut guest);
    // The front end knows only what is used.
    front.start(&mut served, &guest, 0, 1);
    served.turn();
    assert_eq!(*next.order.borrow(), [8 * 512, 16 * 512, 24 * 512]);
    assert_eq!(served.pump.machine().counters().resubmitted, 3);
    next.carry_out();
    served.turn();
    assert_eq!([guest.used(0), guest.used(0), guest.used(0)].map(Option::unwrap), [(9, 1), (3, 1), (6, 1)]);
    guest.request(0, 0, 4, 0, data(0, WRITE));
    served.turn();
    next.carry_out();
    served.turn();
    assert_eq!(guest.used(0), Some((0, 1)));
}

#[test]
fn a_queue_is_stopped_once_its_requests_are_done() {
    let slow = Slow::new();
    let (mut served, front, mut guest) = running(Rc::clone(&slow) as Rc<dyn Device>);
    guest.request(0, 0, 1, 0, data(512, 0));
    served.turn();
    front.send(11, 0, &[0; 8], &[]);
    served.turn();
    assert!(front.reply().is_none());
    slow.carry_out();
    served.turn();
    let (request, _, payload, _) = front.reply().expect("it is stopped");
    assert_eq!((request, payload), (11, vec![0, 0, 0, 0, 1, 0, 0, 0]));
    assert_eq!(guest.used(0), Some((0, 1)));
    front.start(&mut served, &guest, 0, 1);
}

#[test]
fn nothing_new_begins_before_what_a_gone_front_end_has_left_is_done() {
    let slow = Slow::new();
    let (mut served, front, mut guest) = running(Rc::clone(&slow) as Rc<dyn Device>);
    guest.request(0, 0, 1, 0, data(512, 0));
    served.turn();
    drop(front);
    served.turn();
    let mut guest = GuestSide::new();
    let front = FrontEnd::begin(&mut served, &guest);
    front.start(&mut served, &guest, 0, 0);
    guest.request(0, 0, 1, 8, data(512, 0));
    served.turn();
    assert_eq!(*slow.order.borrow(), [0]);
    slow.carry_out();
    served.turn();
    assert_eq!(*slow.order.borrow(), [0, 4096]);
    slow.carry_out();
    served.turn();
    assert_eq!(guest.used(0), Some((0, 1)));
}

#[test]
fn a_front_end_is_told_when_the_size_changes() {
    let slow = Slow::new();
    let (mut served, front, _guest) = running(Rc::clone(&slow) as Rc<dyn Device>);
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    assert!(front.tell(&mut served, 21, &[], &[&theirs.into()]));
    slow.size.set(SIZE * 2);
    served.turn();
    let channel = FrontEnd { stream: ours };
    let (request, flags, payload, _) = channel.reply().expect("it is told");
    assert_eq!((request, flags, payload.len()), (2, 1, 0));
    let wanted = [0_u32, 60, 0].map(u32::to_le_bytes);
    let asked = [wanted.as_flattened(), &[0; 60]].concat();
    let space = front.ask(&mut served, 24, &asked);
    assert_eq!(space[12..20], (SIZE * 2 / 512).to_le_bytes());
    served.turn();
    assert!(channel.reply().is_none(), "once");
}

#[test]
fn a_second_front_end_is_turned_away() {
    let (mut served, _front, _guest) = running(memory());
    let other = FrontEnd { stream: served.connect() };
    other.send(1, 0, &[], &[]);
    served.turn();
    assert!(other.reply().is_none());
    assert_eq!(served.pump.machine().counters().accepted, 1);
}

#[test]
fn a_refused_message_is_said_to_be_or_ends_the_connection() {
    let (mut served, front, guest) = running(memory());
    let pair = |a: u32, b: u32| [a, b].map(u32::to_le_bytes).as_flattened().to_vec();
    for (request, payload) in [
        (2, (1_u64 << 60).to_le_bytes().to_vec()),
        (8, pair(1, 3)),
        (8, pair(1, 4096)),
        (8, pair(7, 16)),
        (8, pair(0, 8)),
        (12, 1_u64.to_le_bytes().to_vec()),
        (77, vec![]),
        (25, [&[0; 12][..], &[1]].concat()),
    ] {
        assert!(!front.tell(&mut served, request, &payload, &[]), "message {request}");
    }
    assert_eq!(served.pump.machine().counters().given_up, 0);
    front.send(2, 0, &u64::MAX.to_le_bytes(), &[]);
    served.turn();
    assert_eq!(served.pump.machine().counters().given_up, 1);
    FrontEnd::begin(&mut served, &guest);
}

proptest! {
    /// Whatever a guest puts into a queue: the server neither fails nor touches what it must not, and serves the other queue.
    #[test]
    fn any_chain_is_answered_or_stops_its_queue(
        pieces in proptest::collection::vec(
            (0..MEMORY + 4096, prop_oneof![0..64_u32, 500..520_u32, any::<u32>()], 0..8_u16, 0..QUEUE_SIZE + 2),
            QUEUE_SIZE as usize,
        ),
        kinds in proptest::collection::vec(0..14_u32, QUEUE_SIZE as usize),
        heads in proptest::collection::vec(0..QUEUE_SIZE + 2, 1..40),
    ) {
        let (mut served, front, mut guest) = running(memory());
        front.start(&mut served, &guest, 1, 0);
        for (index, (&(address, length, flags, next), kind)) in pieces.iter().zip(&kinds).enumerate() {
            // Rings stay what they are.
            let address = if address < DATA { address + DATA } else { address };
            if address + 16 <= MEMORY {
                guest.put(address, &kind.to_le_bytes());
            }
            guest.descriptor(0, index as u16, Piece { address, length, flags, next });
        }
        let mut answered = 0;
        for head in heads {
            guest.offer(0, head);
            served.turn();
            while guest.used(0).is_some() {
                answered += 1;
            }
        }
        let counters = served.pump.machine().counters();
        prop_assert_eq!(counters.requests, answered);
        prop_assert_eq!(served.pump.machine().in_flight(), 0);
        guest.request(1, 0, 4, 0, data(0, WRITE));
        served.turn();
        prop_assert_eq!((guest.used(1), guest.status(1, 0)), (Some((0, 1)), 0));
    }
}
