//! A whole server of NBD, and what a fuzzer says to it.

use arbitrary::Arbitrary;
use onego_block::{Geometry, Memory};
use onego_buf::List;
use onego_export::nbd::{Config, Export, Server};
use onego_nbd::codec::{
    ChunkType, CommandFlags, ErrorChunk, HeaderStyle, InfoQuery, InfoType, MetaQuery, OptionCode,
    OptionHeader, ReplyHeader, RequestHeader, RequestType, StatusChunk,
};
use onego_testkit::{Delivery, Pipe};
use onego_wire::{Action, ConnId, Disconnect, ListenerId, Machine as _, Reader, Time};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Bytes of the device, and most bytes that its requests carry at a time: there are requests of several steps.
const SIZE: u64 = 64 << 10;
const MAX_IO: u64 = 10_000;

/// What the fuzzer does on one connection.
#[derive(Debug, Arbitrary)]
pub struct Input<'a> {
    style: u8,
    /// Sends the handshake by itself, so that requests follow.
    shakes: bool,
    /// Bytes that are carried at a time.
    cut: u16,
    items: Vec<Item<'a>>,
}

/// One thing that it does.
#[derive(Debug, Arbitrary)]
pub enum Item<'a> {
    /// Sends an option of any data.
    Option { code: u8, data: &'a [u8] },
    /// Asks for metadata contexts.
    Contexts { set: bool, name: &'a [u8], queries: Vec<&'a [u8]> },
    /// Sends a request that has its payload.
    Request { command: u8, flags: u8, offset: u32, length: u16 },
    /// Sends a request header of any fields.
    Header { command: u16, flags: u16, cookie: u64, offset: u64, length: u64 },
    /// Sends any bytes.
    Bytes(&'a [u8]),
    /// Time passes.
    Pass(u8),
    /// The export is removed.
    Remove,
}

/// A server with one client.
struct ServedClient {
    now: Time,
    server: Server,
    conn: ConnId,
    cut: usize,
    came: Vec<u8>,
    closed: bool,
}

impl ServedClient {
    fn new(cut: u16) -> Self {
        let mut geometry = Geometry::new(SIZE);
        geometry.max_io = MAX_IO;
        let (name, description) = (String::from("disk"), String::from("a disk"));
        let device = Rc::new(Memory::new(geometry));
        let mut server = Server::new(Config::default());
        server.add_export(Export { name, description, device, read_only: false }).unwrap();
        let addr = SocketAddr::from(([10, 0, 0, 1], 10809));
        let now = Time::from_nanos(1 << 60);
        let conn = server.accepted(now, ListenerId(0), addr, addr).unwrap();
        Self { now, server, conn, cut: usize::from(cut).max(1), came: Vec::new(), closed: false }
    }

    /// Carries bytes to the server, and all that comes of them back.
    fn send(&mut self, bytes: &[u8]) {
        self.turn();
        let mut pipe = Pipe::from(bytes);
        while !pipe.is_empty() && !self.closed {
            let landing = self.server.landing(self.conn);
            let delivered = pipe.deliver(landing, self.cut, |delivery| match delivery {
                Delivery::Landed(place, filled) => self.server.landed(self.now, self.conn, place, filled),
                Delivery::Received(bytes) => self.server.received(self.now, self.conn, bytes),
            });
            self.turn();
            // A client that has said that it leaves is not read any more.
            if delivered.bytes() == 0 {
                return;
            }
        }
    }

    fn turn(&mut self) {
        loop {
            let mut acted = false;
            while let Some(action) = self.server.next_action(self.now) {
                acted = true;
                self.closed |= matches!(action, Action::Close { .. });
            }
            let mut out = List::new();
            self.server.transmit(self.now, self.conn, &mut out, usize::MAX);
            self.came.extend(out.to_vec());
            let is_due = self.server.deadline().is_some_and(|deadline| deadline <= self.now);
            if is_due {
                self.server.timeout(self.now);
            }
            if !acted && !is_due && out.is_empty() {
                return;
            }
        }
    }

    /// The client and the server agree on a style, on contexts, and on the export.
    fn shake_hands(&mut self, style: HeaderStyle) {
        self.send(&3_u32.to_be_bytes());
        match style {
            HeaderStyle::Simple => {}
            HeaderStyle::Structured => self.option(OptionCode::StructuredReply, &[]),
            HeaderStyle::Extended => self.option(OptionCode::ExtendedHeaders, &[]),
        }
        let query = MetaQuery { name: b"disk", queries: vec![b"base:allocation"] };
        self.option(OptionCode::SetMetaContext, &query.encode());
        self.option(OptionCode::Go, &InfoQuery { name: b"", wanted: vec![InfoType::BlockSize] }.encode());
        self.came.clear();
    }

    fn option(&mut self, code: OptionCode, data: &[u8]) {
        let header = OptionHeader { code, length: data.len() as u32 }.encode();
        self.send(&[&header, data].concat());
    }

    /// Sends a request, and checks that it gets its reply. Has it succeeded?
    fn request(&mut self, style: HeaderStyle, header: RequestHeader) -> bool {
        self.came.clear();
        let payload = vec![header.cookie as u8; header.payload(style) as usize];
        self.send(&[&header.encode(style), &payload[..]].concat());
        if header.command == RequestType::Disconnect {
            assert!(self.closed, "a client that leaves with nothing in flight is let go");
            return true;
        }
        let mut r = Reader::new(&self.came);
        let reply = ReplyHeader::decode(&mut r, style).expect("each request is answered");
        match reply {
            ReplyHeader::Simple(simple) => {
                assert_eq!(simple.cookie, header.cookie);
                let has_data = header.command == RequestType::Read && simple.error == 0;
                assert_eq!(r.left() as u64, if has_data { header.length } else { 0 });
                simple.error == 0
            }
            ReplyHeader::Chunk(chunk) => {
                assert_eq!((chunk.cookie, chunk.length, chunk.done), (header.cookie, r.left() as u64, true));
                match chunk.kind {
                    ChunkType::None => assert!(r.is_empty()),
                    ChunkType::OffsetData => assert_eq!(r.left() as u64, 8 + header.length),
                    ChunkType::BlockStatus => drop(StatusChunk::decode(r.rest(), false).unwrap()),
                    ChunkType::BlockStatusExt => drop(StatusChunk::decode(r.rest(), true).unwrap()),
                    ChunkType::Error => drop(ErrorChunk::decode(r.rest()).unwrap().message.to_owned()),
                    other => panic!("a chunk of the kind {other:?}"),
                }
                chunk.kind != ChunkType::Error
            }
        }
    }

    /// The client is gone: nothing is left of it.
    fn end(mut self) {
        if !self.closed {
            self.server.disconnected(self.now, self.conn, Disconnect::Closed);
        }
        self.closed = true;
        while self.server.next_action(self.now).is_some() {}
        assert_eq!((self.server.in_flight(), self.server.connections()), (0, 0));
    }
}

fn style_of(number: u8) -> HeaderStyle {
    [HeaderStyle::Simple, HeaderStyle::Structured, HeaderStyle::Extended][usize::from(number % 3)]
}

/// A request of small numbers, in the right form.
fn small(style: HeaderStyle, cookie: u64, command: u8, flags: u8, offset: u32, length: u16) -> RequestHeader {
    let command = RequestType::of(u16::from(command % 8));
    let mut flags = CommandFlags(u16::from(flags) & 31);
    let has_mark = style == HeaderStyle::Extended && command == RequestType::Write && length > 0;
    flags = flags.with(CommandFlags::PAYLOAD_LEN, has_mark);
    let (offset, length) = if matches!(command, RequestType::Flush) { (0, 0) } else { (offset, length) };
    RequestHeader { flags, command, cookie, offset: u64::from(offset), length: u64::from(length) }
}

/// Does what the input says.
pub fn run(input: &Input<'_>) {
    let mut world = ServedClient::new(input.cut);
    let style = style_of(input.style);
    // Nobody knows what comes back once the fuzzer has sent bytes of its own.
    let mut spoilt = !input.shakes;
    if input.shakes {
        world.shake_hands(style);
    } else {
        world.send(&u32::from(input.style & 3).to_be_bytes());
    }
    for (n, item) in input.items.iter().enumerate() {
        if world.closed {
            break;
        }
        match item {
            Item::Request { command, flags, offset, length } if !spoilt => {
                let header = small(style, n as u64, *command, *flags, *offset, *length);
                world.request(style, header);
                continue;
            }
            Item::Request { command, flags, offset, length } => {
                let header = small(style, n as u64, *command, *flags, *offset, *length);
                let payload = vec![7; header.payload(style) as usize];
                world.send(&[&header.encode(style), &payload[..]].concat());
            }
            Item::Option { code, data } => world.option(OptionCode::of(u32::from(*code % 14)), data),
            Item::Contexts { set, name, queries } => {
                let code = if *set { OptionCode::SetMetaContext } else { OptionCode::ListMetaContext };
                world.option(code, &MetaQuery { name, queries: queries.clone() }.encode());
            }
            Item::Header { command, flags, cookie, offset, length } => {
                let (flags, command) = (CommandFlags(*flags), RequestType::of(*command));
                let (cookie, offset, length) = (*cookie, *offset, *length);
                world.send(&RequestHeader { flags, command, cookie, offset, length }.encode(style));
            }
            Item::Bytes(bytes) => world.send(bytes),
            Item::Pass(seconds) => {
                world.now = world.now + Duration::from_secs(u64::from(*seconds));
                world.server.timeout(world.now);
                world.turn();
                continue;
            }
            Item::Remove => {
                world.server.remove_export("disk");
                continue;
            }
        }
        spoilt = true;
    }
    world.end();
}

/// Checks that every command can succeed in every style: a harness in which no request succeeds finds nothing.
pub fn check_floor() {
    for number in 0..3 {
        let style = style_of(number);
        let mut world = ServedClient::new(u16::MAX);
        world.shake_hands(style);
        for command in [1, 0, 3, 4, 5, 6, 7, 2] {
            let header = small(style, 9, command, 0, 100, if command == 2 { 0 } else { 20_000 });
            let succeeds = style != HeaderStyle::Simple || header.command != RequestType::BlockStatus;
            assert_eq!(world.request(style, header), succeeds, "{header:?} in the style {style:?}");
        }
        world.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_succeeds_in_every_style() {
        check_floor();
    }
}
