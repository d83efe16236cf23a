//! What fuzz targets have in common: connections in memory, and frames whose checksums are right, so that what
//! the fuzzer writes gets past them.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod iwarp;
pub mod nbd;
pub mod nbd_client;
pub mod nfs_server;
pub mod rpc_rdma;
pub mod vhost_user;

use arbitrary::Arbitrary;
use onego_buf::{List, Pool, crc32c};
use onego_ceph::types::EntityName;
use onego_msgr::addr::{AddrKind, AddrVec, EntityAddr};
use onego_msgr::auth::Login;
use onego_msgr::encoding::{Decode, Encode};
use onego_msgr::{Compression, Config, Connection, Limits, Method, NoPlacer, Target, Visitor};
use onego_testkit::{Delivery, Pipe};
use onego_wire::{Time, Writer};
use std::net::SocketAddr;
use std::sync::Arc;

/// Bytes that a connection's memory may idle in.
const IDLE: usize = 1 << 20;

fn address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 6800))
}

/// The server's end of a connection.
pub fn server() -> Connection {
    server_of(AddrKind::Msgr2)
}

/// The same in the version of that kind of addresses.
pub fn server_of(kind: AddrKind) -> Connection {
    server_with(server_config(kind))
}

fn server_config(kind: AddrKind) -> Config {
    let addrs = AddrVec(vec![EntityAddr { kind, nonce: 0, sock: Some(address()) }]);
    Config::server(EntityName { kind: EntityName::OSD, num: 0 }, addrs, Pool::new(IDLE))
}

fn server_with(config: Config) -> Connection {
    let visitor = Visitor { addr: address(), fresh_global_id: 4100 };
    Connection::accept(Time::default(), Arc::new(config), visitor, address())
}

/// The client's end of a connection.
pub fn client() -> Connection {
    client_of(AddrKind::Msgr2)
}

/// The same in the version of that kind of addresses.
pub fn client_of(kind: AddrKind) -> Connection {
    client_with(kind, Config::client(1, Pool::new(IDLE)))
}

fn client_with(kind: AddrKind, config: Config) -> Connection {
    let addr = EntityAddr { kind, nonce: 0, sock: Some(address()) };
    let target = Target { kind: EntityName::OSD, addr, login: Login::unproved("admin", false, 4100) };
    let mut client = Connection::connect(Time::default(), Arc::new(config), target);
    client.opened(Time::default(), address());
    client
}

/// Both ends of a connection whose handshake is through.
pub fn session() -> (Connection, Connection) {
    session_of(AddrKind::Msgr2)
}

/// The same in the version of that kind of addresses.
pub fn session_of(kind: AddrKind) -> (Connection, Connection) {
    let (mut client, mut server) = (client_of(kind), server_of(kind));
    connect(&mut client, &mut server);
    (client, server)
}

fn connect(client: &mut Connection, server: &mut Connection) {
    while !(client.is_ready() && server.is_ready()) {
        let moved = carry(client, server) + carry(server, client);
        assert!(moved > 0, "the handshake is stuck");
    }
}

/// Both ends of a connection that agree to be compressed by that method, with bounds that a small input can reach.
pub fn compressing(method: Method) -> (Connection, Connection) {
    let compression = Some(Compression { methods: vec![method], min_size: 0, secure: false });
    let limits = Limits {
        control: 64 << 10,
        front: 1 << 20,
        middle: 1 << 20,
        data: 4 << 20,
        unpacked: 4 << 20,
        discard: 16 << 20,
    };
    let with = |config| Config { compression: compression.clone(), limits, ..config };
    let client = client_with(AddrKind::Msgr2, with(Config::client(1, Pool::new(IDLE))));
    (client, server_with(with(server_config(AddrKind::Msgr2))))
}

/// The same with the handshake through.
pub fn compressed_session(method: Method) -> (Connection, Connection) {
    let (mut client, mut server) = compressing(method);
    connect(&mut client, &mut server);
    (client, server)
}

/// Carries what one end sends to the other.
fn carry(from: &mut Connection, to: &mut Connection) -> usize {
    let mut out = List::new();
    from.transmit(&mut out, usize::MAX);
    feed(to, &out.to_vec(), usize::MAX);
    out.len()
}

/// What an end has to say by itself.
pub fn said(from: &mut Connection, to: &mut Vec<u8>) {
    let mut out = List::new();
    from.transmit(&mut out, usize::MAX);
    to.extend(out.to_vec());
}

/// Gives bytes to a connection, at most `cut` at a time, as its driver would, and takes its events.
fn feed(connection: &mut Connection, bytes: &[u8], cut: usize) {
    let now = Time::default();
    let mut pipe = Pipe::from(bytes);
    while !pipe.is_empty() {
        let delivered = pipe.deliver(connection.landing(), cut, |delivery| match delivery {
            Delivery::Landed(place, n) => connection.landed(now, place, n),
            Delivery::Received(bytes) => connection.received(now, bytes, &mut NoPlacer),
        });
        while connection.poll().is_some() {}
        if delivered.bytes() == 0 {
            break;
        }
    }
}

/// As [`feed`], and lets the connection answer.
pub fn talk(connection: &mut Connection, bytes: &[u8], cut: usize) {
    feed(connection, bytes, cut);
    connection.transmit(&mut List::new(), usize::MAX);
}

/// A frame as a fuzzer describes it.
#[derive(Debug, Arbitrary)]
pub struct Frame<'a> {
    pub tag: u8,
    pub segments: [&'a [u8]; 4],
    pub late_status: u8,
    /// Does the frame say that its segments are compressed?
    pub compressed: bool,
    /// Put them into snappy's format as they are, for a frame that says so.
    pub literal: bool,
    /// Lengths to claim that are not those of the segments.
    pub lie: Option<[u32; 4]>,
}

impl Frame<'_> {
    /// The frame's bytes, with right checksums (msgr2.rst, "Frame format").
    pub fn write(&self, w: &mut Writer) {
        let segments = self.segments.map(|segment| {
            if self.compressed && self.literal { snappy_literal(segment) } else { segment.to_vec() }
        });
        let lengths = self.lie.unwrap_or_else(|| segments.each_ref().map(|segment| segment.len() as u32));
        let used = lengths.iter().rposition(|length| *length > 0).map_or(1, |last| last + 1);
        let mut preamble = Writer::new();
        preamble.u8(self.tag);
        preamble.u8(used as u8);
        for length in lengths {
            preamble.u32(length);
            preamble.u16(8);
        }
        preamble.u8(u8::from(self.compressed));
        preamble.u8(0);
        let crc = crc32c(0, preamble.as_slice());
        preamble.u32(crc);
        w.put(preamble.as_slice());

        let [first, rest @ ..] = &segments;
        if !first.is_empty() {
            w.put(first);
            w.u32(crc32c(u32::MAX, first));
        }
        if used > 1 {
            for segment in rest {
                w.put(segment);
            }
            w.u8(self.late_status);
            for segment in rest {
                w.u32(crc32c(u32::MAX, segment));
            }
        }
    }
}

/// Bytes in snappy's format, without anything that is compressed (format_description.txt of snappy: the length as a
/// varint; a literal of up to 65,536 bytes has the tag 61 and two bytes of length).
fn snappy_literal(bytes: &[u8]) -> Vec<u8> {
    let Some(last) = bytes.len().checked_sub(1) else { return Vec::new() };
    let mut segment = Vec::new();
    let mut len = bytes.len();
    while len >= 0x80 {
        segment.push(len as u8 | 0x80);
        len >>= 7;
    }
    segment.push(len as u8);
    segment.push(61 << 2);
    segment.extend((last as u16).to_le_bytes());
    segment.extend(bytes);
    segment
}

/// What a fuzzer sends on a connection of version 1.
#[derive(Debug, Arbitrary)]
pub enum LegacyItem<'a> {
    Bytes(&'a [u8]),
    Message {
        kind: u16,
        parts: [&'a [u8]; 3],
        flags: u8,
        /// Lengths to claim that are not those of the parts.
        lie: Option<[u32; 3]>,
    },
}

impl LegacyItem<'_> {
    /// Its bytes, those of a message with right checksums (ceph src/include/msgr.h, `ceph_msg_header`,
    /// `ceph_msg_footer`).
    pub fn write(&self, seq: u64, w: &mut Writer) {
        let (kind, parts, flags, lie) = match self {
            Self::Bytes(bytes) => return w.put(bytes),
            Self::Message { kind, parts, flags, lie } => (*kind, parts, *flags, lie),
        };
        let mut header = Writer::new();
        header.u64(seq);
        header.u64(0);
        for field in [kind, 127, 1] {
            header.u16(field);
        }
        for len in lie.unwrap_or_else(|| parts.map(|part| part.len() as u32)) {
            header.u32(len);
        }
        header.put(&[0; 2 + 9 + 2 + 2]);
        w.u8(7);
        w.put(header.as_slice());
        w.u32(crc32c(0, header.as_slice()));
        parts.iter().for_each(|part| w.put(part));
        parts.iter().for_each(|part| w.u32(crc32c(0, part)));
        w.u64(0);
        w.u8(flags);
    }
}

/// Decodes a value; what could be decoded is encoded, and that must decode to a value that encodes to the same.
///
/// Bytes are compared and not values, because of fractions that are not numbers.
pub fn round_trip<T: Decode + Encode>(bytes: &[u8]) -> Option<T> {
    let value = T::from_bytes(bytes).ok()?;
    let written = value.to_bytes();
    let again = T::from_bytes(&written).expect("what was written can be read");
    assert!(again.to_bytes() == written, "what was read is written in the same way");
    Some(value)
}

/// Corrects the wrapper's length and the checksum of an encoded map (ceph src/osd/OSDMap.cc: version and length
/// around two envelopes, the checksum of everything else, and what follows), so that the fuzzer gets past them.
pub fn mend_map(bytes: &[u8]) -> Option<Vec<u8>> {
    const HEADER: usize = 6;
    let mut map = bytes.to_vec();
    let length = u32::try_from(map.len().checked_sub(HEADER)?).ok()?;
    map[2..HEADER].copy_from_slice(&length.to_le_bytes());
    let mut at = HEADER;
    for _part in 0..2 {
        let length = map.get(at + 2..at + HEADER)?;
        at += HEADER + u32::from_le_bytes(length.try_into().ok()?) as usize;
    }
    let rest = map.get(at + 4..)?;
    let crc = crc32c(crc32c(u32::MAX, &map[..at]), rest);
    map[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    Some(map)
}
