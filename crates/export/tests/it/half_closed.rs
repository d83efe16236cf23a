//! Clients that end their direction of the stream get the replies to what they have sent.

use crate::support::devices::Late;
use crate::support::{Net, STYLES, Who, request};
use onego_block::Geometry;
use onego_nbd::codec::{ClientFlags, HeaderStyle, OptionCode, RequestType};
use std::rc::Rc;
use std::time::Duration;

fn net() -> (Net, Rc<Late>) {
    let device = Rc::new(Late::new(Geometry::new(1 << 20)));
    (Net::new(Rc::clone(&device) as _), device)
}

/// Sends reads that the device does not merge.
fn send_reads(net: &mut Net, who: Who, count: u64) {
    for cookie in 0..count {
        net.send(who, request(RequestType::Read, cookie, cookie * 1024, 512), &[]);
    }
}

#[test]
fn requests_that_came_in_full_are_answered_after_a_half_close() {
    for style in STYLES {
        let (mut net, device) = net();
        let who = net.open(style);
        // More than may be in flight, and then a write of which the end is missing.
        send_reads(&mut net, who, 300);
        let write = net.encoded(who, request(RequestType::Write, 300, 0, 65_536), &[7; 40_000]);
        net.send_bytes(who, &write);
        net.half_close(who);
        let mut replies = Vec::new();
        while device.held() > 0 {
            assert!(!net.is_closed(who));
            device.complete(net.now, 0);
            replies.extend(net.replies(who).into_iter().map(|(cookie, _)| cookie));
        }
        assert_eq!(replies, (0..300).collect::<Vec<_>>(), "{style:?}");
        assert!(net.is_closed(who), "the connection ends with the last reply");
        assert_eq!(net.machine.counters().requests, 300, "the write did not come in full");
    }
}

#[test]
fn a_half_close_without_requests_in_flight_ends_the_connection() {
    let (mut net, _) = net();
    let who = net.open(HeaderStyle::Structured);
    net.half_close(who);
    assert!(net.is_closed(who));
    // Replies to options are sent, too.
    let who = net.connect();
    net.greet(who, ClientFlags::FIXED_NEWSTYLE | ClientFlags::NO_ZEROES);
    net.send_option(who, OptionCode::List, &[]);
    net.half_close(who);
    assert!(net.is_closed(who) && !net.came(who).is_empty());
}

#[test]
fn replies_after_a_half_close_are_not_waited_for_without_end() {
    let (mut net, device) = net();
    let who = net.open(HeaderStyle::Simple);
    send_reads(&mut net, who, 10);
    net.half_close(who);
    net.pass(Duration::from_secs(29));
    assert!(!net.is_closed(who));
    net.pass(Duration::from_secs(1));
    assert!(net.is_closed(who) && net.machine.connections() == 0);
    device.complete_all(net.now);
    net.turn();
    assert_eq!((net.replies(who).len(), net.machine.in_flight()), (0, 0));
}

/// Reads whose replies are more than a driver takes at a time, from a client that takes none of them yet; it sends its last
/// request, or ends its direction of the stream. The device has done them all.
fn replies_to_a_slow_reader(disconnects: bool) -> (Net, Who, usize) {
    const COUNT: u64 = 40;
    let (mut net, device) = net();
    let who = net.open(HeaderStyle::Simple);
    net.set_reading(who, false);
    net.takes = true;
    for cookie in 0..COUNT {
        net.send(who, request(RequestType::Read, cookie, 0, 65_536), &[]);
    }
    match disconnects {
        true => net.send(who, request(RequestType::Disconnect, COUNT, 0, 0), &[]),
        false => net.half_close(who),
    }
    net.turn();
    while device.held() > 0 {
        device.complete_all(net.now);
        net.turn();
    }
    (net, who, COUNT as usize)
}

#[test]
fn a_slow_reader_gets_all_replies_after_its_last_request() {
    for disconnects in [false, true] {
        let (mut net, who, count) = replies_to_a_slow_reader(disconnects);
        // The driver gives up what it has of a connection that the server has closed, in the end.
        net.pass(Duration::from_secs(20));
        assert!(!net.is_closed(who), "its replies are the server's");
        net.set_reading(who, true);
        net.set_reading(who, true);
        net.turn();
        assert_eq!(net.replies(who).len(), count);
        assert!(net.is_closed(who) && net.machine.connections() == 0);
    }
}

#[test]
fn a_reader_that_takes_nothing_after_its_last_request_is_given_up() {
    for disconnects in [false, true] {
        let (mut net, who, _) = replies_to_a_slow_reader(disconnects);
        net.pass(Duration::from_secs(250));
        assert!(!net.is_closed(who), "a slow link may take that long");
        net.pass(Duration::from_secs(60));
        assert!(net.is_closed(who) && net.machine.connections() == 0);
    }
}
