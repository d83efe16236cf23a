//! A client of NBD, and what a server that a fuzzer plays says to it.

use arbitrary::Arbitrary;
use onego_block::{BlockStatus, Completions, Device, Flags, Op, Outcome, Request, StatusExtent};
use onego_buf::{List, SegmentMut};
use onego_nbd::client::{Config, Endpoint, NbdClient};
use onego_nbd::codec::{
    BlockSizes, ChunkHeader, ChunkType, EXTENDED_CHUNK_LEN, ExportInfo, Greeting, HandshakeFlags,
    HeaderStyle, InfoItem, MetaContext, OptionCode, OptionError, OptionReply, OptionReplyType, RequestHeader,
    RequestType, SIMPLE_REPLY_LEN, STRUCTURED_CHUNK_LEN, SimpleReply, StatusChunk, TransmissionFlags,
};
use onego_testkit::{Delivery, Pipe};
use onego_wire::{Action, ConnId, Disconnect, Machine as _, Reader, Time};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Bytes of the export.
const SIZE: u64 = 1 << 20;

/// What the fuzzer does.
#[derive(Debug, Arbitrary)]
pub struct Input<'a> {
    style: u8,
    /// What the export can.
    flags: u16,
    /// Shakes hands by itself, so that requests follow.
    shakes: bool,
    /// Bytes that are carried at a time.
    cut: u16,
    items: Vec<PlayedItem<'a>>,
}

/// One thing that it does.
#[derive(Debug, Arbitrary)]
pub enum PlayedItem<'a> {
    /// The caller of the device makes a request.
    Submit { op: u8, flags: u8, offset: u32, length: u16 },
    /// The server answers one of the requests that it has, with a chunk or as a simple reply.
    Reply { which: u8, kind: u16, done: bool, skip: u16, length: u16 },
    /// The server answers a request as it should.
    Answer { which: u8 },
    /// The server sends the header of a chunk of any fields.
    Chunk { kind: u16, done: bool, cookie: u64, offset: u64, length: u64 },
    /// The server answers an option.
    Option { code: u8, kind: u32, data: &'a [u8] },
    /// The server sends any bytes.
    Bytes(&'a [u8]),
    /// The connection ends.
    Disconnect,
    /// Time passes.
    Pass(u8),
}

/// A client, and what the server knows of it.
struct PlayedServer {
    now: Time,
    client: NbdClient,
    device: Rc<dyn Device>,
    completions: Completions,
    conn: Option<ConnId>,
    /// Nobody has greeted on the connection.
    is_new: bool,
    style: HeaderStyle,
    flags: TransmissionFlags,
    cut: usize,
    /// What the client has sent, and nobody has looked at.
    sent: Vec<u8>,
    /// Requests without an answer.
    requests: Vec<RequestHeader>,
    /// The memory of requests that bring their own, and bytes of all reads, by tag.
    asked: BTreeMap<u64, (Option<usize>, u64)>,
    tags: u64,
}

impl PlayedServer {
    fn new(style: HeaderStyle, flags: u16, cut: u16) -> Self {
        let endpoint = Endpoint::Tcp(vec!["10.0.0.1:10809".parse().unwrap()]);
        let client = NbdClient::new(Config::new("disk"), endpoint).unwrap();
        let device = client.device();
        let mut this = Self {
            now: Time::from_nanos(1 << 60),
            client,
            device,
            completions: Completions::default(),
            conn: None,
            is_new: false,
            style,
            flags: TransmissionFlags(flags & !2) | TransmissionFlags::HAS_FLAGS,
            cut: usize::from(cut).max(1),
            sent: Vec::new(),
            requests: Vec::new(),
            asked: BTreeMap::new(),
            tags: 0,
        };
        this.turn();
        this
    }

    fn turn(&mut self) {
        while let Some(action) = self.client.next_action(self.now) {
            match action {
                Action::Connect { conn, addr, .. } => {
                    (self.conn, self.is_new) = (Some(conn), true);
                    self.sent.clear();
                    self.requests.clear();
                    self.client.connected(self.now, conn, addr);
                }
                Action::Transmit { conn } => {
                    let mut out = List::new();
                    self.client.transmit(self.now, conn, &mut out, usize::MAX);
                    self.sent.extend(out.to_vec());
                }
                Action::Close { conn } if self.conn == Some(conn) => self.conn = None,
                _ => {}
            }
        }
        self.settle();
    }

    /// Looks at what has completed.
    fn settle(&mut self) {
        while let Some(completion) = self.completions.take() {
            let (place, length) = self.asked.remove(&completion.tag).expect("a request completes once");
            match completion.result {
                Ok(Outcome::Data(data)) => assert_eq!(data.len() as u64, length),
                Ok(Outcome::Filled(buffer)) => {
                    assert_eq!((Some(buffer.as_ptr() as usize), buffer.len() as u64), (place, length));
                }
                Ok(Outcome::Status(runs)) => {
                    let told: u64 = runs.iter().map(|run| run.length).sum();
                    assert!(told <= length && (told > 0 || length == 0));
                }
                Ok(Outcome::Done) | Err(_) => {}
            }
        }
    }

    fn say(&mut self, bytes: &[u8]) {
        let mut pipe = Pipe::from(bytes);
        while let Some(conn) = self.conn.filter(|_| !pipe.is_empty()) {
            let landing = self.client.landing(conn);
            let (client, now) = (&mut self.client, self.now);
            pipe.deliver(landing, self.cut, |delivery| match delivery {
                Delivery::Landed(place, filled) => client.landed(now, conn, place, filled),
                Delivery::Received(bytes) => client.received(now, conn, bytes),
            });
            self.turn();
        }
    }

    fn option(&mut self, code: OptionCode, kind: OptionReplyType, data: &[u8]) {
        let header = OptionReply { code, kind, length: data.len() as u32 }.encode();
        self.say(&[&header, data].concat());
    }

    /// Does its part of a handshake.
    fn shake_hands(&mut self) {
        let (ack, refused) = (OptionReplyType::Ack, OptionReplyType::Error(OptionError::Unsupported));
        self.say(&Greeting(HandshakeFlags::FIXED_NEWSTYLE | HandshakeFlags::NO_ZEROES).encode());
        let extended = self.style == HeaderStyle::Extended;
        self.option(OptionCode::ExtendedHeaders, if extended { ack } else { refused }, b"");
        if !extended {
            let structured = self.style == HeaderStyle::Structured;
            self.option(OptionCode::StructuredReply, if structured { ack } else { refused }, b"");
        }
        if self.style != HeaderStyle::Simple {
            let context = MetaContext { id: 3, name: b"base:allocation" }.encode();
            self.option(OptionCode::SetMetaContext, OptionReplyType::MetaContext, &context);
            self.option(OptionCode::SetMetaContext, ack, b"");
        }
        let info = InfoItem::Export(ExportInfo { size: SIZE, flags: self.flags }).encode();
        self.option(OptionCode::Go, OptionReplyType::Info, &info);
        let sizes = BlockSizes { minimum: 1, preferred: 4096, payload_max: 1 << 16 };
        self.option(OptionCode::Go, OptionReplyType::Info, &InfoItem::BlockSize(sizes).encode());
        self.option(OptionCode::Go, ack, b"");
        self.sent.clear();
        self.turn();
    }

    fn submit(&mut self, op: u8, flags: u8, offset: u32, length: u16) {
        let (offset, length) = (u64::from(offset) % SIZE, u64::from(length));
        self.tags += 1;
        let mut place = None;
        let op = match op % 7 {
            0 => Op::Read { length },
            1 => {
                let buffer = SegmentMut::zeroed(length as usize);
                place = Some(buffer.as_ptr() as usize);
                Op::ReadInto { buffer }
            }
            2 => Op::Write { data: vec![7; length as usize].into() },
            3 => Op::Flush,
            4 => Op::Trim { length },
            5 => Op::Zero { length },
            _ => Op::Status { length },
        };
        let offset = if matches!(op, Op::Flush) { 0 } else { offset };
        let flags = Flags { fua: flags & 1 != 0, no_hole: flags & 2 != 0, fast: flags & 4 != 0 };
        self.asked.insert(self.tags, (place, length));
        let request = Request::new(self.completions.caller(self.tags), offset, op).with_flags(flags);
        self.device.submit(self.now, request);
        self.turn();
    }

    /// Takes the requests out of what the client has sent.
    fn take_requests(&mut self) {
        let mut at = 0;
        loop {
            let mut r = Reader::new(&self.sent[at..]);
            let left = r.left();
            let Ok(header) = RequestHeader::decode(&mut r, self.style) else { break };
            let payload = header.payload(self.style) as usize;
            if r.left() < payload {
                break;
            }
            at += left - r.left() + payload;
            self.requests.push(header);
        }
        self.sent.drain(..at);
    }

    fn take_request(&mut self, which: u8) -> Option<RequestHeader> {
        self.take_requests();
        let at = usize::from(which).checked_rem(self.requests.len())?;
        Some(self.requests[at])
    }

    fn chunk(&mut self, header: &ChunkHeader, payload: &[u8]) {
        let mut bytes = match self.style {
            HeaderStyle::Extended => {
                let mut bytes = [0; EXTENDED_CHUNK_LEN];
                header.encode_extended(&mut bytes);
                bytes.to_vec()
            }
            _ => {
                let mut bytes = [0; STRUCTURED_CHUNK_LEN];
                header.encode_structured(&mut bytes);
                bytes.to_vec()
            }
        };
        bytes.extend(payload);
        self.say(&bytes);
    }

    fn simple(&mut self, cookie: u64, error: u32, data: &[u8]) {
        let mut bytes = [0; SIMPLE_REPLY_LEN];
        SimpleReply { error, cookie }.encode(&mut bytes);
        self.say(&[&bytes, data].concat());
    }

    /// An answer that may be one.
    fn reply(&mut self, which: u8, kind: u16, done: bool, skip: u16, length: u16) {
        let Some(request) = self.take_request(which) else { return };
        if self.style == HeaderStyle::Simple {
            return self.simple(request.cookie, u32::from(kind), &vec![1; usize::from(length)]);
        }
        let kind = ChunkType::of((kind % 8) | (kind & 0x8000));
        let place = (request.offset + u64::from(skip)).to_be_bytes();
        let payload = match kind {
            ChunkType::OffsetData => [&place[..], &vec![1; usize::from(length)]].concat(),
            ChunkType::OffsetHole => [&place[..], &u32::from(length).to_be_bytes()].concat(),
            _ => vec![0; usize::from(length % 64)],
        };
        let RequestHeader { cookie, offset, .. } = request;
        self.chunk(&ChunkHeader { done, kind, cookie, offset, length: payload.len() as u64 }, &payload);
    }

    /// The answer that a server gives.
    fn answer(&mut self, which: u8) {
        let Some(request) = self.take_request(which) else { return };
        self.requests.retain(|other| other.cookie != request.cookie);
        let RequestHeader { cookie, offset, length, command, .. } = request;
        let data = vec![9; length as usize];
        if self.style == HeaderStyle::Simple {
            let data = if command == RequestType::Read { &data[..] } else { b"" };
            return self.simple(cookie, 0, data);
        }
        let (kind, payload) = match command {
            RequestType::Read => (ChunkType::OffsetData, [&offset.to_be_bytes()[..], &data].concat()),
            RequestType::BlockStatus => {
                let extents = vec![StatusExtent { length, status: BlockStatus::HOLE }];
                let extended = self.style == HeaderStyle::Extended;
                let kind = if extended { ChunkType::BlockStatusExt } else { ChunkType::BlockStatus };
                (kind, StatusChunk { context: 3, extents }.encode(extended))
            }
            _ => (ChunkType::None, Vec::new()),
        };
        self.chunk(&ChunkHeader { done: true, kind, cookie, offset, length: payload.len() as u64 }, &payload);
    }

    fn disconnect(&mut self) {
        if let Some(conn) = self.conn.take() {
            self.client.disconnected(self.now, conn, Disconnect::Closed);
        }
        self.turn();
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        if self.client.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.client.timeout(self.now);
        }
        self.turn();
    }

    /// The client is gone: every request has completed.
    fn end(mut self) {
        let completions = self.completions.clone();
        let waiting = self.asked.len();
        drop(self.client);
        for _ in 0..waiting {
            let completion = completions.take().expect("every request completes");
            self.asked.remove(&completion.tag).expect("a request completes once");
        }
        assert!(completions.is_empty());
    }
}

fn style_of(number: u8) -> HeaderStyle {
    [HeaderStyle::Simple, HeaderStyle::Structured, HeaderStyle::Extended][usize::from(number % 3)]
}

/// Does what the input says.
pub fn run(input: &Input<'_>) {
    let mut server = PlayedServer::new(style_of(input.style), input.flags, input.cut);
    if input.shakes && std::mem::take(&mut server.is_new) {
        server.shake_hands();
    }
    for item in &input.items {
        match item {
            PlayedItem::Submit { op, flags, offset, length } => server.submit(*op, *flags, *offset, *length),
            PlayedItem::Reply { which, kind, done, skip, length } => {
                server.reply(*which, *kind, *done, *skip, *length);
            }
            PlayedItem::Answer { which } => server.answer(*which),
            PlayedItem::Chunk { kind, done, cookie, offset, length } => {
                let (kind, done) = (ChunkType::of(*kind), *done);
                let (cookie, offset, length) = (*cookie, *offset, *length);
                server.chunk(&ChunkHeader { done, kind, cookie, offset, length }, b"");
            }
            PlayedItem::Option { code, kind, data } => {
                let (code, kind) = (OptionCode::of(u32::from(*code % 14)), OptionReplyType::of(*kind));
                server.option(code, kind, data);
            }
            PlayedItem::Bytes(bytes) => server.say(bytes),
            PlayedItem::Disconnect => server.disconnect(),
            PlayedItem::Pass(seconds) => server.pass(Duration::from_secs(u64::from(*seconds))),
        }
        if input.shakes && std::mem::take(&mut server.is_new) {
            server.shake_hands();
        }
    }
    server.end();
}

/// Checks that every request can succeed in every style: a harness in which none does finds nothing.
pub fn check_floor() {
    for style in 0..3 {
        let mut server = PlayedServer::new(style_of(style), u16::MAX, u16::MAX);
        server.shake_hands();
        for op in 0..7 {
            server.submit(op, 0, 4096, 20_000);
            server.answer(0);
            assert!(server.asked.is_empty(), "request {op} in style {style} has no answer");
        }
        assert!(server.conn.is_some());
        server.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_succeeds_in_every_style() {
        check_floor();
    }
}
