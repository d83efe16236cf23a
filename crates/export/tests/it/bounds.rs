//! What clients make the server hold is bounded, and comes to an end.

use crate::support::devices::{Late, Timeless};
use crate::support::{Net, Reply, Who, export, request};
use onego_block::{Device, Geometry, Memory, Null, Op, Request};
use onego_nbd::codec::{CommandFlags, HeaderStyle, RequestType};
use onego_wire::Time;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const SIZE: u64 = 1 << 30;

#[test]
fn a_client_that_never_reads_is_not_read_from_and_others_are_served() {
    let mut net = Net::new(Rc::new(Null::new(Geometry::new(SIZE))));
    net.takes = true;
    let (lazy, other) = (net.open(HeaderStyle::Simple), net.open(HeaderStyle::Simple));
    net.set_reading(lazy, false);
    for cookie in 0..120 {
        net.send(lazy, request(RequestType::Read, cookie, 0, 1 << 20), &[]);
    }
    net.turn();
    let answered = net.machine.counters().requests;
    assert!((64..=70).contains(&answered), "{answered} MiB wait");
    net.send(lazy, request(RequestType::Flush, 120, 0, 0), &[]);
    net.turn();
    assert!(net.unreceived(lazy) > 0, "the server has stopped to receive");
    assert_eq!(net.read(other, 0, 5), Reply::Data(vec![0; 5]));
    // It goes on where it stopped once the client reads.
    net.set_reading(lazy, true);
    assert_eq!(net.replies(lazy).len(), 121);
}

#[test]
fn requests_in_flight_are_bounded_by_number_and_by_bytes() {
    for (length, most) in [(1, 128), (1 << 20, 64)] {
        let device = Rc::new(Late::new(Geometry::new(SIZE)));
        let mut net = Net::new(Rc::clone(&device) as _);
        let who = net.open(HeaderStyle::Structured);
        for cookie in 0..1000 {
            // Neighbours would be merged.
            net.send(who, request(RequestType::Read, cookie, 2 * cookie * length % (SIZE / 2), length), &[]);
        }
        net.turn();
        assert_eq!((net.machine.in_flight(), device.held()), (most, most));
        let mut replies = 0;
        while device.held() > 0 {
            device.complete(net.now, 0);
            replies += net.replies(who).len();
            assert!(device.held() <= most);
        }
        assert_eq!(replies, 1000);
    }
}

#[test]
fn requests_of_clients_that_are_gone_are_bounded() {
    let device = Rc::new(Late::new(Geometry::new(SIZE)));
    let mut net = Net::new(Rc::clone(&device) as _);
    for _ in 0..300 {
        let who = net.open(HeaderStyle::Simple);
        (0..128).for_each(|n| net.send(who, request(RequestType::Flush, n, 0, 0), &[]));
        net.turn();
        net.disconnect(who);
    }
    let held = net.machine.in_flight();
    assert!((16_000..=33_000).contains(&held), "{held}");
    device.complete_all(net.now);
    net.turn();
    assert_eq!(net.machine.in_flight(), 0);
}

/// Sends half of a write of that length.
fn half_a_write(net: &mut Net, length: usize) -> Who {
    let who = net.open(HeaderStyle::Simple);
    let write = net.encoded(who, request(RequestType::Write, 1, 0, length as u64), &vec![7; length]);
    net.send_bytes(who, &write[..write.len() / 2]);
    net.turn();
    who
}

#[test]
fn half_a_write_is_given_up_and_a_slow_one_is_not() {
    for length in [1000, 100_000] {
        let mut net = Net::new(Rc::new(Memory::new(Geometry::new(SIZE))));
        let (half, slow) = (half_a_write(&mut net, length), half_a_write(&mut net, length));
        for _ in 0..100 {
            net.pass(Duration::from_secs(1));
            if net.is_closed(half) {
                break;
            }
            net.send_bytes(slow, &[7; 4]);
            net.turn();
        }
        assert!(net.is_closed(half));
        assert_eq!(net.machine.counters().given_up, 1);
        // Bytes at the rate that is asked for keep a connection.
        let steady = half_a_write(&mut net, 1 << 20);
        for _ in 0..100 {
            net.send_bytes(steady, &[7; 5000]);
            net.pass(Duration::from_secs(1));
        }
        assert!(!net.is_closed(steady));
        net.send_bytes(steady, &vec![7; (1 << 19) + 14 - 500_000]);
        assert_eq!(net.replies(steady), [(1, Reply::Done)]);
    }
}

#[test]
fn large_writes_wait_for_each_other_and_all_come_in() {
    let mut net = Net::new(Rc::new(Null::new(Geometry::new(SIZE))));
    let length = 32 << 20;
    let all: Vec<Who> = (0..12).map(|_| half_a_write(&mut net, length)).collect();
    let waiting = all.iter().filter(|who| net.unreceived(**who) > 0).count();
    assert_eq!(waiting, 4, "memory for eight of the longest is taken at a time");
    for who in &all {
        net.send_bytes(*who, &vec![7; length / 2 + 14]);
    }
    for who in &all {
        assert_eq!(net.replies(*who), [(1, Reply::Done)]);
    }
}

#[test]
fn small_writes_do_not_keep_the_memory_that_they_came_in() {
    let device = Rc::new(Late::new(Geometry::new(SIZE)));
    let mut net = Net::new(Rc::clone(&device) as _);
    let who = net.open(HeaderStyle::Simple);
    for n in 0..100_u64 {
        net.send(who, request(RequestType::Write, n, n * 8192, 4096), &[n as u8 + 1; 4096]);
    }
    net.turn();
    device.complete_all(net.now);
    assert_eq!(net.replies(who).len(), 100);
    assert!(device.memory.pinned() < 1 << 20, "{}", device.memory.pinned());
}

#[test]
fn only_devices_that_keep_time_are_asked_for_it_until_they_are_gone() {
    let delay = Duration::from_secs(5);
    let timed = Rc::new(Late::with_delay(Geometry::new(SIZE), delay));
    let mut net = Net::new(Rc::clone(&timed) as _);
    for n in 0..1000 {
        let timeless = Rc::new(Timeless(Memory::new(Geometry::new(SIZE))));
        net.machine.add_export(export(&format!("timeless {n}"), timeless)).unwrap();
    }
    let who = net.open(HeaderStyle::Simple);
    net.send(who, request(RequestType::Read, 1, 0, 10), &[]);
    net.turn();
    // It goes on to keep time for what it has, and is let go of with its last client.
    assert!(net.machine.remove_export("disk"));
    net.pass(delay);
    assert_eq!(net.replies(who), [(1, Reply::Data(vec![0; 10]))]);
    net.disconnect(who);
    assert_eq!(Rc::strong_count(&timed), 1);
}

#[test]
fn zeroes_and_trims_of_all_of_a_large_device_are_no_work_where_it_holds_little() {
    let size = i64::MAX as u64 & !4095;
    let mut geometry = Geometry::new(size);
    geometry.trim_granularity = Some(1);
    let devices: [Rc<dyn Device>; 2] = [Rc::new(Null::new(geometry)), Rc::new(Memory::new(geometry))];
    for device in devices {
        let holds = device.geometry().max_zero == 0;
        let mut net = Net::new(device);
        let who = net.open(HeaderStyle::Extended);
        net.write(who, size - 4096, &[7; 4096]);
        net.write(who, 1 << 40, &[7; 4096]);
        let whole = |command, cookie| request(command, cookie, 0, size);
        let mut no_hole = whole(RequestType::WriteZeroes, 3);
        no_hole.flags = CommandFlags::NO_HOLE;
        net.send(who, whole(RequestType::Trim, 1), &[]);
        net.send(who, whole(RequestType::WriteZeroes, 2), &[]);
        if !holds {
            net.send(who, no_hole, &[]);
        }
        let mut done = Vec::new();
        for _ in 0..100 {
            net.step();
            done.extend(net.replies_here(who));
        }
        let expected: Vec<_> = (1..if holds { 3 } else { 4 }).map(|cookie| (cookie, Reply::Done)).collect();
        assert_eq!(done, expected);
        assert_eq!(net.read(who, size - 4096, 4096), Reply::Data(vec![0; 4096]));
    }
}

#[test]
fn a_client_that_goes_during_zeroes_of_a_large_device_ends_them() {
    let size = i64::MAX as u64 & !4095;
    let device = Rc::new(Stepwise(Memory::new(Geometry::new(size)), Cell::new(0)));
    let mut net = Net::new(Rc::clone(&device) as _);
    let (who, other) = (net.open(HeaderStyle::Extended), net.open(HeaderStyle::Extended));
    net.send(who, request(RequestType::WriteZeroes, 1, 0, size), &[]);
    steps(&mut net, 50);
    let done = device.1.get();
    assert!((50..=50 * 64 + 4).contains(&done), "{done} steps in 50 turns");
    net.send(other, request(RequestType::Read, 2, 0, 512), &[]);
    steps(&mut net, 10);
    assert_eq!(net.replies_here(other), [(2, Reply::Data(vec![0; 512]))]);
    net.disconnect(who);
    assert_eq!(net.machine.in_flight(), 0);
    // A client that only ends its direction of the stream is waited for, but not without end.
    net.send(other, request(RequestType::WriteZeroes, 3, 0, size), &[]);
    steps(&mut net, 10);
    net.half_close_later(other);
    steps(&mut net, 10);
    assert!(!net.is_closed(other) && net.machine.in_flight() == 1);
    net.now = net.now + Duration::from_secs(30);
    net.turn();
    assert!(net.is_closed(other) && net.machine.in_flight() == 0);
}

/// As a driver makes them: the tests' own turn goes on until all is done.
fn steps(net: &mut Net, count: usize) {
    for _ in 0..count {
        net.step();
    }
}

/// A device that makes zeros only a part at a time, and counts the parts.
struct Stepwise(Memory, Cell<usize>);

impl Device for Stepwise {
    fn geometry(&self) -> Geometry {
        let mut geometry = self.0.geometry();
        geometry.max_hole = 0;
        geometry
    }

    fn submit(&self, now: Time, request: Request) {
        if matches!(request.op, Op::Zero { .. }) {
            self.1.set(self.1.get() + 1);
        }
        self.0.submit(now, request);
    }
}
