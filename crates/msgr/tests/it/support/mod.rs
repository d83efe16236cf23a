//! Both ends of a connection in memory, on virtual time, and helpers that forge a peer's output.

use onego_buf::{List, Pool, Segment, SegmentMut, crc32c};
use onego_msgr::auth::Login;
use onego_msgr::types::{EntityName, Payload, kind};
use onego_msgr::{
    Blame, Config, Connection, Error, Event, Header, Limits, Message, NoPlacer, Peer, Placer, Tag, Target,
    Visitor,
};
use onego_testkit::{Delivery, Pipe};
use onego_wire::{Decoded, Reader, Time, Writer};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::sync::Arc;

pub(crate) const START: Time = Time::from_nanos(1_700_000_000_000_000_000);

/// Places payloads of at least this many bytes.
pub(crate) struct PlaceFrom(pub(crate) usize);

impl Placer for PlaceFrom {
    fn place(&mut self, _: &Header, _: &[u8], data_len: usize) -> Option<SegmentMut> {
        (data_len >= self.0).then(|| SegmentMut::zeroed(data_len))
    }
}

pub(crate) fn client_sock() -> SocketAddr {
    "10.0.0.9:50000".parse().unwrap()
}

pub(crate) fn server_sock() -> SocketAddr {
    "10.0.0.1:6800".parse().unwrap()
}

pub(crate) fn client_config() -> Config {
    Config::client(77, Pool::new(1 << 20))
}

pub(crate) fn server_config() -> Config {
    Config::server(EntityName::osd(3), "v2:10.0.0.1:6800/5".parse().unwrap(), Pool::new(1 << 20))
}

pub(crate) fn target() -> Target {
    target_of(EntityName::OSD)
}

/// Returns a server of this kind, where the client authenticates as `client.admin`.
pub(crate) fn target_of(kind: u8) -> Target {
    let login = Login::unproved("admin", kind == EntityName::MON, 4123);
    Target { kind, addr: "v2:10.0.0.1:6800/5".parse().unwrap(), login }
}

pub(crate) fn client(config: Config, target: Target) -> Connection {
    let mut client = Connection::connect(START, Arc::new(config), target);
    client.opened(START, client_sock());
    client
}

pub(crate) fn server(config: Config) -> Connection {
    let visitor = Visitor { addr: client_sock(), fresh_global_id: 9000 };
    Connection::accept(START, Arc::new(config), visitor, server_sock())
}

pub(crate) fn output(connection: &mut Connection) -> Vec<u8> {
    let mut out = List::new();
    while connection.has_output() {
        connection.transmit(&mut out, 1 << 16);
    }
    out.to_vec()
}

/// Delivers `bytes` as the connection requests them, in pieces of at most `cut()` bytes.
pub(crate) fn deliver(
    connection: &mut Connection,
    bytes: &[u8],
    placer: &mut dyn Placer,
    mut cut: impl FnMut() -> usize,
) {
    let mut pipe = Pipe::from(bytes);
    let mut deliver = || {
        pipe.deliver(connection.landing(), cut().max(1), |delivery| match delivery {
            Delivery::Landed(place, n) => connection.landed(START, place, n),
            Delivery::Received(bytes) => connection.received(START, bytes, placer),
        })
    };
    while deliver().bytes() > 0 {}
}

pub(crate) fn deliver_whole(connection: &mut Connection, bytes: &[u8]) {
    connection.received(START, Segment::copy_from(bytes), &mut NoPlacer);
}

pub(crate) fn events(connection: &mut Connection) -> Vec<Event> {
    std::iter::from_fn(|| connection.poll()).collect()
}

/// Returns the error that ended the connection, its last event.
pub(crate) fn fault(connection: &mut Connection) -> Error {
    let mut events = events(connection);
    match events.pop() {
        Some(Event::Fault(error)) => {
            assert!(connection.landing().ahead == 0 && connection.deadline().is_none());
            assert!(!connection.has_output());
            error
        }
        other => panic!("no fault but {other:?} after {events:?}"),
    }
}

/// Carries bytes both ways once.
pub(crate) fn exchange(client: &mut Connection, server: &mut Connection) {
    let bytes = output(client);
    deliver_whole(server, &bytes);
    let bytes = output(server);
    deliver_whole(client, &bytes);
}

/// Carries bytes both ways until neither end has output.
pub(crate) fn settle(client: &mut Connection, server: &mut Connection) {
    while client.has_output() || server.has_output() {
        exchange(client, server);
    }
}

/// Returns two ends with a complete handshake, and each one's view of the other.
pub(crate) fn ready_with(
    client_config: Config,
    server_config: Config,
) -> (Connection, Connection, Peer, Peer) {
    let (mut client, mut server) = (client(client_config, target()), server(server_config));
    settle(&mut client, &mut server);
    let peer = |events: Vec<Event>| match <[Event; 1]>::try_from(events) {
        Ok([Event::Ready(peer)]) => peer,
        other => panic!("not ready: {other:?}"),
    };
    let (of_client, of_server) = (peer(events(&mut client)), peer(events(&mut server)));
    (client, server, of_client, of_server)
}

pub(crate) fn ready() -> (Connection, Connection) {
    let (client, server, ..) = ready_with(client_config(), server_config());
    (client, server)
}

/// Returns `len` bytes that vary with their position.
pub(crate) fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 31 + seed * 17) ^ (i >> 8)) as u8).collect()
}

pub(crate) fn message(tid: u64, front: usize, data: usize) -> Message {
    let mut message = Message::new(42, 8, 3, pattern(1, front));
    message.header.tid = tid;
    message.data = pattern(2, data).into();
    message
}

/// Shape of a message: lengths of front, middle and the pieces of its data.
pub(crate) type Plan = (usize, Option<usize>, Vec<usize>);

/// Generates plans of a few messages with small and large parts.
pub(crate) fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let data = prop::collection::vec(prop_oneof![1..2000usize, 4000..70_000usize], 0..4);
    prop::collection::vec((0..3000usize, prop::option::of(1..500usize), data), 1..12)
}

pub(crate) fn planned(tid: usize, (front, middle, data): &Plan) -> Message {
    let mut message = message(tid as u64, *front, 0);
    message.middle = middle.map(|len| Segment::from(pattern(tid + 3, len)));
    message.data = data.iter().map(|&len| Segment::from(pattern(tid + len, len))).collect();
    message
}

/// Sends messages to the other end, about `limit` bytes at a time, cut into pieces of `cuts` bytes, and checks what
/// arrives.
pub(crate) fn carried(
    [from, to]: [&mut Connection; 2],
    plans: &[Plan],
    cuts: &[usize],
    limit: usize,
    place_from: usize,
) -> Result<(), TestCaseError> {
    for (tid, plan) in plans.iter().enumerate() {
        from.send(planned(tid, plan));
    }
    let mut cuts = cuts.iter().copied().cycle();
    while from.has_output() {
        let mut out = List::new();
        from.transmit(&mut out, limit);
        prop_assert!(!out.is_empty());
        deliver(to, &out.to_vec(), &mut PlaceFrom(place_from), || cuts.next().expect("there are some"));
    }
    arrived(to, plans, place_from)
}

/// Checks that the planned messages arrived complete and in order, those with payloads of at least `place_from` bytes
/// in their places.
pub(crate) fn arrived(to: &mut Connection, plans: &[Plan], place_from: usize) -> Result<(), TestCaseError> {
    let events = events(to);
    prop_assert_eq!(events.len(), plans.len());
    for ((tid, plan), event) in plans.iter().enumerate().zip(events) {
        let Event::Message(got) = event else { panic!("{event:?}") };
        let sent = planned(tid, plan);
        prop_assert_eq!((got.header.seq, got.header.tid, got.header.kind), (tid as u64 + 1, tid as u64, 42));
        prop_assert_eq!(&got.front, &sent.front);
        prop_assert_eq!(&got.middle, &sent.middle);
        prop_assert_eq!(payload(&got), sent.data.to_vec());
        prop_assert_eq!(got.placed.is_some(), sent.data.len() >= place_from && !sent.data.is_empty());
        prop_assert_eq!(got.data.is_empty(), got.placed.is_some() || sent.data.is_empty());
    }
    Ok(())
}

/// Limits that discard larger payloads.
pub(crate) const DISCARDING: Limits = Limits {
    control: 64 << 10,
    front: 1 << 20,
    middle: 1 << 20,
    data: 200,
    unpacked: u32::MAX,
    discard: 700_000,
};

/// Sends payloads below and above their limit to an end with the limits [`DISCARDING`], cut into pieces of at most
/// `step` bytes. Payloads above the limit take no memory, and their messages arrive without them. Then sends a corrupt
/// one.
pub(crate) fn discards([from, to]: [&mut Connection; 2], step: usize) {
    let sizes = [200, 201, 4096, 600_000, 100, 700_000, 0];
    sizes.iter().for_each(|data| from.send(message(1, 50, *data)));
    for part in output(from).chunks(10_000) {
        deliver(to, part, &mut PlaceFrom(150), || step);
        let held = to.unfinished().map_or(0, |unfinished| unfinished.held.max(unfinished.announced));
        assert!(held < 300_000, "{held} bytes");
    }
    let got = events(to);
    assert_eq!(got.len(), sizes.len());
    for (event, size) in got.into_iter().zip(sizes) {
        let Event::Message(got) = event else { panic!("{event:?}") };
        assert_eq!(&got.front[..], pattern(1, 50));
        let (kept, discarded) = if size > 200 { (0, size) } else { (size, 0) };
        assert_eq!((payload(&got), got.discarded), (pattern(2, kept), discarded));
    }
    from.send(message(1, 50, 600_000));
    let mut bytes = output(from);
    bytes[300_000] ^= 1;
    deliver(to, &bytes, &mut NoPlacer, || step);
    let Some(Event::Fault(error)) = events(to).pop() else { panic!("corruption is undetected") };
    assert_eq!(error.blame(), Blame::Transport, "{error}");
}

/// Returns the payload of a received message, placed or not.
pub(crate) fn payload(message: &Message) -> Vec<u8> {
    message.placed.as_deref().map_or_else(|| message.data.to_vec(), <[u8]>::to_vec)
}

/// Returns a preamble with these segment lengths and a correct checksum.
pub(crate) fn preamble(tag: u8, lens: &[u32]) -> Vec<u8> {
    let mut bytes = vec![tag, lens.len() as u8];
    for len in lens {
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&8u16.to_le_bytes());
    }
    bytes.resize(28, 0);
    let crc = crc32c(0, &bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

pub(crate) fn frame(tag: Tag, payload: &[u8]) -> Vec<u8> {
    let mut bytes = preamble(tag as u8, &[payload.len() as u32]);
    if !payload.is_empty() {
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(&crc32c(u32::MAX, payload).to_le_bytes());
    }
    bytes
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Versions {
    pub(crate) handle: u64,
    pub(crate) newest: u64,
    pub(crate) oldest: u64,
}

impl Payload for Versions {
    const KIND: u16 = kind::MON_GET_VERSION_REPLY;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, front: &mut Writer, _: &mut List) {
        for number in [self.handle, self.newest, self.oldest] {
            front.u64(number);
        }
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        Ok(Self { handle: r.u64("handle")?, newest: r.u64("newest")?, oldest: r.u64("oldest")? })
    }
}
