//! Both sides of a connection, compared with recordings of real programs.

use onego_buf::{List, Pool, Segment};
use onego_ceph::messages::{Subscribe, kind};
use onego_ceph::types::EntityName;
use onego_msgr::addr::AddrVec;
use onego_msgr::auth::Login;
use onego_msgr::{Config, Connection, Event, NoPlacer, Target, Visitor, features};
use onego_wire::Time;
use std::net::SocketAddr;
use std::sync::Arc;

const MON_CLIENT: &[u8] = include_bytes!("../../../msgr/tests/data/msgr2-mon-client.bin");
const MON_SERVER: &[u8] = include_bytes!("../../../msgr/tests/data/msgr2-mon-server.bin");
const NOW: Time = Time::from_nanos(1_700_000_000_000_000_000);

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn events(connection: &mut Connection, bytes: &'static [u8]) -> Vec<Event> {
    connection.received(NOW, Segment::from_static(bytes), &mut NoPlacer);
    std::iter::from_fn(|| connection.poll()).collect()
}

#[test]
fn a_recorded_kernel_client_is_served() {
    let addrs: AddrVec = "[v2:10.77.0.1:3300,v1:10.77.0.1:6789]".parse().unwrap();
    let config = Arc::new(Config::server(EntityName::mon(0), addrs, Pool::new(1 << 20)));
    let visitor = Visitor { addr: addr("10.77.0.5:52616"), fresh_global_id: 4123 };
    let mut server = Connection::accept(NOW, config, visitor, addr("10.77.0.1:3300"));
    let mut events = events(&mut server, MON_CLIENT);
    let [Event::Ready(peer), Event::Message(subscribe)] = &mut events[..] else { panic!("{events:?}") };
    // The recorded client sends the id from its own monitor, but uses the new one from here.
    assert_eq!((peer.name, peer.global_id), (EntityName::client(4123), 4123));
    assert_eq!(peer.auth_name.as_ref().unwrap().to_string(), "client.admin");
    assert!(features::has(peer.features, features::SERVER_LUMINOUS));
    assert_eq!(subscribe.header.kind, kind::MON_SUBSCRIBE);
    let subscribe: Subscribe = subscribe.decode().unwrap();
    assert_eq!(subscribe.what.into_keys().collect::<Vec<_>>(), ["monmap", "osdmap"]);
    let mut out = List::new();
    server.transmit(&mut out, usize::MAX);
    assert!(!server.has_output());
}

#[test]
fn a_recorded_monitor_of_pacific_is_understood() {
    let config = Arc::new(Config::client(7, Pool::new(1 << 20)));
    let target = "v2:10.77.0.1:3300/0".parse().unwrap();
    let target = Target { kind: EntityName::MON, addr: target, login: Login::unproved("admin", true, 0) };
    let mut client = Connection::connect(NOW, config, target);
    client.opened(NOW, addr("10.77.0.5:52616"));
    let events = events(&mut client, MON_SERVER);
    let [Event::Ready(peer), Event::Message(monmap), Event::Message(osdmap)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(peer.name, EntityName::mon(0));
    assert_eq!(peer.addrs.to_string(), "[v2:10.77.0.1:3300/0,v1:10.77.0.1:6789/0]");
    assert_eq!(peer.own_addrs.to_string(), "10.77.0.5:0/7");
    assert_eq!(peer.features, 0x3f01_cfbd_fffd_ffff);
    assert_eq!((monmap.header.kind, monmap.front.len()), (kind::MON_MAP, 205));
    assert_eq!((osdmap.header.kind, osdmap.front.len()), (kind::OSD_MAP, 1685));
}
