//! A server and its clients in memory: bytes are carried by hand, time passes when a test says so.

#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod devices;

use onego_block::{Device, StatusExtent};
use onego_buf::{List, Segment};
use onego_export::nbd::{Config, Export, Server};
use onego_nbd::codec::{
    ChunkType, ClientFlags, CommandFlags, ErrorChunk, ErrorCode, ExportInfo, GREETING_LEN, Greeting,
    HeaderStyle, InfoItem, InfoQuery, InfoType, MetaQuery, OPTION_REPLY_LEN, OptionCode, OptionHeader,
    OptionReply, OptionReplyType, ReplyHeader, RequestHeader, RequestType, StatusChunk,
};
use onego_wire::{Action, ConnId, Disconnect, ListenerId, Machine as _, Reader, Time};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// Bytes that are taken from the server at a time.
const SEND: usize = 1 << 20;

/// A server, and the clients that came to it.
pub(crate) struct Net {
    pub(crate) now: Time,
    pub(crate) server: Server,
    clients: Vec<NbdClient>,
    /// Bytes that are carried at a time.
    pub(crate) cut: usize,
    /// The driver takes what is to be sent also to clients that do not read, as much as it may.
    pub(crate) takes: bool,
}

/// The end of a client.
struct NbdClient {
    conn: ConnId,
    /// Bytes on their way to the server.
    out: VecDeque<u8>,
    /// Bytes that came.
    came: Vec<u8>,
    reads: bool,
    closed: bool,
    /// Has the server asked to be offered bytes again?
    resumed: bool,
    /// Has the server said that there may be something to send?
    asked: bool,
    /// What the driver has taken, and the client has not.
    given: List,
    style: HeaderStyle,
    /// Lengths of reads whose simple replies have data.
    reading: HashMap<u64, usize>,
}

/// Names a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Who(usize);

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Done,
    Data(Vec<u8>),
    Status(Vec<StatusExtent>),
    Error(ErrorCode),
}

pub(crate) const STYLES: [HeaderStyle; 3] =
    [HeaderStyle::Simple, HeaderStyle::Structured, HeaderStyle::Extended];

pub(crate) fn export(name: &str, device: Rc<dyn Device>) -> Export {
    Export { name: name.into(), description: format!("the export {name}"), device, read_only: false }
}

/// A request without flags.
pub(crate) fn request(command: RequestType, cookie: u64, offset: u64, length: u64) -> RequestHeader {
    RequestHeader { flags: CommandFlags(0), command, cookie, offset, length }
}

impl Net {
    /// A server of one export, called "disk".
    pub(crate) fn new(device: Rc<dyn Device>) -> Self {
        let mut this = Self::with(Config::default());
        this.server.add_export(export("disk", device)).unwrap();
        this
    }

    pub(crate) fn with(config: Config) -> Self {
        let now = Time::from_nanos(1_700_000_000_000_000_000);
        let mut server = Server::new(config);
        let addr = "127.0.0.1:10809".parse().unwrap();
        server.listen(addr);
        assert!(matches!(server.next_action(now), Some(Action::Listen { .. })));
        server.listening(now, ListenerId(0), Ok(addr));
        assert_eq!(server.addresses(), Some(vec![addr]));
        Self { now, server, clients: Vec::new(), cut: usize::MAX, takes: false }
    }

    pub(crate) fn try_connect(&mut self, from: &str) -> Option<Who> {
        let (peer, local) = (from.parse().unwrap(), "127.0.0.1:10809".parse().unwrap());
        let conn = self.server.accepted(self.now, ListenerId(0), peer, local)?;
        self.clients.push(NbdClient {
            conn,
            out: VecDeque::new(),
            came: Vec::new(),
            reads: true,
            closed: false,
            resumed: true,
            asked: false,
            given: List::new(),
            style: HeaderStyle::Simple,
            reading: HashMap::new(),
        });
        Some(Who(self.clients.len() - 1))
    }

    pub(crate) fn connect(&mut self) -> Who {
        self.try_connect("10.0.0.2:1000").expect("the client is let in")
    }

    pub(crate) fn disconnect(&mut self, who: Who) {
        let client = &mut self.clients[who.0];
        if !std::mem::replace(&mut client.closed, true) {
            self.server.disconnected(self.now, client.conn, Disconnect::Closed);
        }
        self.turn();
    }

    pub(crate) fn set_reading(&mut self, who: Who, reads: bool) {
        self.clients[who.0].reads = reads;
    }

    pub(crate) fn is_closed(&self, who: Who) -> bool {
        self.clients[who.0].closed
    }

    /// Bytes that the server has not received.
    pub(crate) fn unreceived(&self, who: Who) -> usize {
        self.clients[who.0].out.len()
    }

    /// Bytes that wait for a client that does not read.
    pub(crate) fn given(&self, who: Who) -> usize {
        self.clients[who.0].given.len()
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.server.timeout(self.now);
        self.turn();
    }

    /// Sends bytes as they are.
    pub(crate) fn bytes(&mut self, who: Who, bytes: &[u8]) {
        self.clients[who.0].out.extend(bytes);
    }

    /// All that came since this was asked last.
    pub(crate) fn came(&mut self, who: Who) -> Vec<u8> {
        self.turn();
        std::mem::take(&mut self.clients[who.0].came)
    }

    // The handshake.

    /// Says that the client is there, with these flags.
    pub(crate) fn greet(&mut self, who: Who, flags: ClientFlags) {
        let came = self.came(who);
        assert_eq!(came.len(), GREETING_LEN);
        Greeting::decode(&mut Reader::new(&came)).unwrap();
        self.bytes(who, &flags.0.to_be_bytes());
    }

    pub(crate) fn send_option(&mut self, who: Who, code: OptionCode, data: &[u8]) {
        self.bytes(who, &OptionHeader { code, length: data.len() as u32 }.encode());
        self.bytes(who, data);
    }

    /// Sends an option, and gives all replies to it.
    pub(crate) fn option(
        &mut self,
        who: Who,
        code: OptionCode,
        data: &[u8],
    ) -> Vec<(OptionReplyType, Vec<u8>)> {
        self.send_option(who, code, data);
        let came = self.came(who);
        let mut r = Reader::new(&came);
        let mut replies = Vec::new();
        while r.left() >= OPTION_REPLY_LEN {
            let reply = OptionReply::decode(&mut r).unwrap();
            assert_eq!(reply.code, code);
            replies.push((reply.kind, r.take(reply.length as usize, "data").unwrap().to_vec()));
        }
        r.finish("replies").unwrap();
        replies
    }

    /// The last reply to an option.
    pub(crate) fn outcome(&mut self, who: Who, code: OptionCode, data: &[u8]) -> OptionReplyType {
        self.option(who, code, data).pop().expect("the option is answered").0
    }

    /// Asks for a style of headers.
    pub(crate) fn ask_style(&mut self, who: Who, style: HeaderStyle) {
        let code = match style {
            HeaderStyle::Simple => return,
            HeaderStyle::Structured => OptionCode::StructuredReply,
            HeaderStyle::Extended => OptionCode::ExtendedHeaders,
        };
        assert_eq!(self.outcome(who, code, &[]), OptionReplyType::Ack);
        self.clients[who.0].style = style;
    }

    /// Goes on to transmission.
    pub(crate) fn go(&mut self, who: Who, name: &str) -> ExportInfo {
        let query = InfoQuery { name: name.as_bytes(), wanted: vec![InfoType::BlockSize] }.encode();
        let replies = self.option(who, OptionCode::Go, &query);
        assert_eq!(replies.last().unwrap().0, OptionReplyType::Ack);
        let infos = replies.iter().filter(|(kind, _)| *kind == OptionReplyType::Info);
        let mut exports = infos.filter_map(|(_, data)| match InfoItem::decode(data).unwrap() {
            InfoItem::Export(info) => Some(info),
            _ => None,
        });
        exports.next().expect("size and flags are always told")
    }

    /// The whole handshake, with the allocation of the export where the style has it.
    pub(crate) fn open(&mut self, style: HeaderStyle) -> Who {
        let who = self.connect();
        self.open_on(who, style);
        who
    }

    pub(crate) fn open_on(&mut self, who: Who, style: HeaderStyle) -> ExportInfo {
        self.greet(who, ClientFlags::FIXED_NEWSTYLE | ClientFlags::NO_ZEROES);
        self.ask_style(who, style);
        if style != HeaderStyle::Simple {
            let query = MetaQuery { name: b"disk", queries: vec![b"base:allocation"] }.encode();
            assert_eq!(self.outcome(who, OptionCode::SetMetaContext, &query), OptionReplyType::Ack);
        }
        self.go(who, "disk")
    }

    // Transmission.

    /// The bytes of a request, with the flag of the payload where the style has it.
    pub(crate) fn encoded(&mut self, who: Who, mut header: RequestHeader, payload: &[u8]) -> Vec<u8> {
        let client = &mut self.clients[who.0];
        if client.style == HeaderStyle::Extended && header.command == RequestType::Write {
            header.flags = header.flags | CommandFlags::PAYLOAD_LEN;
        }
        if header.command == RequestType::Read {
            client.reading.insert(header.cookie, header.length as usize);
        }
        [&header.encode(client.style), payload].concat()
    }

    pub(crate) fn send(&mut self, who: Who, header: RequestHeader, payload: &[u8]) {
        let bytes = self.encoded(who, header, payload);
        self.bytes(who, &bytes);
    }

    /// Replies that came since this was asked last, with their cookies.
    pub(crate) fn replies(&mut self, who: Who) -> Vec<(u64, Reply)> {
        self.turn();
        self.replies_here(who)
    }

    /// Replies that are here already.
    pub(crate) fn replies_here(&mut self, who: Who) -> Vec<(u64, Reply)> {
        let client = &mut self.clients[who.0];
        let mut replies = Vec::new();
        while let Some((used, cookie, reply)) = client.reply() {
            client.came.drain(..used);
            client.reading.remove(&cookie);
            replies.push((cookie, reply));
        }
        replies
    }

    /// Sends a request, and gives the reply to it.
    pub(crate) fn call(&mut self, who: Who, header: RequestHeader, payload: &[u8]) -> Reply {
        self.send(who, header, payload);
        let mut replies = self.replies(who);
        assert_eq!(replies.len(), 1, "{header:?}: {replies:?}");
        let (cookie, reply) = replies.remove(0);
        assert_eq!(cookie, header.cookie);
        reply
    }

    pub(crate) fn write(&mut self, who: Who, offset: u64, data: &[u8]) -> Reply {
        self.call(who, request(RequestType::Write, offset ^ 77, offset, data.len() as u64), data)
    }

    pub(crate) fn read(&mut self, who: Who, offset: u64, length: u64) -> Reply {
        self.call(who, request(RequestType::Read, offset ^ 78, offset, length), &[])
    }

    // The driver.

    /// One turn, as a driver makes it: time that has come, what there is to do, and one delivery for each client.
    pub(crate) fn step(&mut self) {
        if self.server.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.server.timeout(self.now);
        }
        self.act();
        for n in 0..self.clients.len() {
            self.carry(n);
        }
    }

    pub(crate) fn server_deadline(&self) -> Option<Time> {
        self.server.deadline()
    }

    /// Carries bytes until none moves any more.
    pub(crate) fn turn(&mut self) {
        loop {
            let acted = self.act();
            let carried = (0..self.clients.len()).any(|n| self.carry(n));
            let is_due = self.server.deadline().is_some_and(|deadline| deadline <= self.now);
            if is_due {
                self.server.timeout(self.now);
            }
            if !acted && !carried && !is_due {
                return;
            }
        }
    }

    fn act(&mut self) -> bool {
        let mut acted = false;
        while let Some(action) = self.server.next_action(self.now) {
            acted = true;
            let at = |clients: &[NbdClient], conn| clients.iter().position(|client| client.conn == conn);
            match action {
                Action::Transmit { conn } => {
                    if let Some(n) = at(&self.clients, conn) {
                        self.clients[n].asked = true;
                    }
                }
                Action::Close { conn } => {
                    if let Some(n) = at(&self.clients, conn) {
                        let client = &mut self.clients[n];
                        client.closed = true;
                        self.server.transmit(self.now, conn, &mut client.given, usize::MAX);
                        client.came.extend(std::mem::take(&mut client.given).to_vec());
                    }
                }
                Action::Resume { conn } => {
                    if let Some(n) = at(&self.clients, conn) {
                        self.clients[n].resumed = true;
                    }
                }
                Action::LowWater { .. } => {}
                Action::Listen { .. }
                | Action::Connect { .. }
                | Action::Adopt { .. }
                | Action::Attach { .. }
                | Action::Watch { .. } => {
                    panic!("a server has its listeners")
                }
            }
        }
        acted
    }

    /// Carries something between a client and the server.
    fn carry(&mut self, n: usize) -> bool {
        let client = &mut self.clients[n];
        if client.closed {
            return false;
        }
        let mut moved = false;
        let left = client.given.len();
        if (client.reads || self.takes) && client.asked && left < SEND / 4 {
            self.server.transmit(self.now, client.conn, &mut client.given, SEND - left);
            let came = client.given.len() > left;
            client.asked = client.given.len() >= SEND || (came && client.reads);
            moved = came;
        }
        if client.reads && !client.given.is_empty() {
            client.came.extend(std::mem::take(&mut client.given).to_vec());
            client.asked = true;
            moved = true;
        }
        if client.out.is_empty() || !client.resumed {
            return moved;
        }
        let landing = self.server.landing(client.conn);
        let run = client.out.len().min(self.cut);
        if landing.place.is_some() {
            let next = &client.out.make_contiguous()[..run];
            let (now, conn) = (self.now, client.conn);
            let moved = landing.fill(next, |place, n| self.server.landed(now, conn, place, n));
            client.out.drain(..moved);
        } else if landing.ahead > 0 {
            let bytes: Vec<u8> = client.out.drain(..run.min(landing.ahead)).collect();
            self.server.received(self.now, client.conn, Segment::from(bytes));
        } else {
            // The driver stops reading until it is told to go on.
            client.resumed = false;
            return moved;
        }
        true
    }
}

impl NbdClient {
    /// The next reply that is whole, how many bytes it has, and its cookie.
    fn reply(&self) -> Option<(usize, u64, Reply)> {
        let mut r = Reader::new(&self.came);
        if r.left() < 16 {
            return None;
        }
        match ReplyHeader::decode(&mut r, self.style) {
            Ok(ReplyHeader::Simple(simple)) => {
                let cookie = simple.cookie;
                if simple.error != 0 {
                    return Some((16, cookie, Reply::Error(ErrorCode::of(simple.error))));
                }
                match self.reading.get(&cookie).filter(|_| self.style == HeaderStyle::Simple) {
                    Some(length) => {
                        let data = r.take(*length, "data").ok()?.to_vec();
                        Some((16 + length, cookie, Reply::Data(data)))
                    }
                    None => Some((16, cookie, Reply::Done)),
                }
            }
            Ok(ReplyHeader::Chunk(chunk)) => {
                assert!(chunk.done, "one chunk is one reply");
                let header = self.came.len() - r.left();
                let payload = r.take(chunk.length as usize, "payload").ok()?;
                let reply = match chunk.kind {
                    ChunkType::None => Reply::Done,
                    ChunkType::OffsetData => Reply::Data(payload[8..].to_vec()),
                    ChunkType::BlockStatus | ChunkType::BlockStatusExt => {
                        let extended = self.style == HeaderStyle::Extended;
                        assert_eq!(chunk.kind == ChunkType::BlockStatusExt, extended);
                        Reply::Status(StatusChunk::decode(payload, extended).unwrap().extents)
                    }
                    ChunkType::Error => {
                        let error = ErrorChunk::decode(payload).unwrap();
                        assert!(!error.message.is_empty());
                        Reply::Error(ErrorCode::of(error.error))
                    }
                    other => panic!("a chunk of the kind {other:?}"),
                };
                Some((header + payload.len(), chunk.cookie, reply))
            }
            Err(onego_wire::DecodeError::Truncated { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }
}
