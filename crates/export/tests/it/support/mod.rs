//! A server and its clients in memory: bytes are carried by hand, time passes when a test says so.

pub(crate) mod devices;
pub(crate) mod front;
pub(crate) mod kernel;
pub(crate) mod tls;

use onego_block::{Device, StatusExtent};
use onego_export::nbd::{Config, Export, Server};
use onego_nbd::codec::{
    ChunkType, ClientFlags, CommandFlags, ErrorChunk, ErrorCode, ExportInfo, GREETING_LEN, Greeting,
    HeaderStyle, InfoItem, InfoQuery, InfoType, MetaQuery, OPTION_REPLY_LEN, OptionCode, OptionHeader,
    OptionReply, OptionReplyType, ReplyHeader, RequestHeader, RequestType, StatusChunk,
};
use onego_testkit::DrivenServer;
pub(crate) use onego_testkit::Who;
use onego_wire::{ListenerId, Reader};
use rustls::ClientConnection;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::time::Duration;
use tls::TlsClient;

const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10809);

/// A server, and the clients that came to it.
pub(crate) struct Net {
    driven: DrivenServer<Server>,
    clients: HashMap<Who, NbdClient>,
}

/// What a client knows of its connection.
struct NbdClient {
    style: HeaderStyle,
    /// Lengths of reads whose simple replies have data.
    reading: HashMap<u64, usize>,
    /// What came, opened if there is TLS.
    came: Vec<u8>,
    tls: Option<TlsClient>,
}

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

/// Bytes are carried as to and from any server.
impl Deref for Net {
    type Target = DrivenServer<Server>;

    fn deref(&self) -> &DrivenServer<Server> {
        &self.driven
    }
}

impl DerefMut for Net {
    fn deref_mut(&mut self) -> &mut DrivenServer<Server> {
        &mut self.driven
    }
}

impl Net {
    /// A server of one export, called "disk".
    pub(crate) fn new(device: Rc<dyn Device>) -> Self {
        let mut this = Self::with(Config::default());
        this.machine.add_export(export("disk", device)).unwrap();
        this
    }

    pub(crate) fn with(config: Config) -> Self {
        let mut server = Server::new(config);
        server.listen(ADDRESS);
        let driven = DrivenServer::new(server);
        assert_eq!(driven.machine.addresses(), Some(vec![ADDRESS]));
        Self { driven, clients: HashMap::new() }
    }

    pub(crate) fn try_connect(&mut self, from: &str) -> Option<Who> {
        let who = self.driven.accept(ListenerId(0), from.parse().unwrap(), ADDRESS)?;
        self.clients.insert(who, NbdClient::new());
        Some(who)
    }

    pub(crate) fn connect(&mut self) -> Who {
        self.try_connect("10.0.0.2:1000").expect("the client is let in")
    }

    /// All that came since this was asked last.
    pub(crate) fn came(&mut self, who: Who) -> Vec<u8> {
        self.turn();
        std::mem::take(&mut self.client(who).came)
    }

    /// Sends bytes to the server, by TLS if it was started. They are carried in the next [`turn`](Self::turn).
    pub(crate) fn send_bytes(&mut self, who: Who, bytes: &[u8]) {
        match &mut self.client(who).tls {
            Some(tls) => tls.seal(bytes),
            None => self.driven.send_bytes(who, bytes),
        }
    }

    /// Sends bytes to the server that TLS does not see.
    pub(crate) fn send_raw(&mut self, who: Who, bytes: &[u8]) {
        self.driven.send_bytes(who, bytes);
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.driven.pass(time);
        self.turn();
    }

    /// Carries bytes until none moves any more, with what clients answer by themselves.
    pub(crate) fn turn(&mut self) {
        loop {
            self.driven.turn();
            let Self { driven, clients } = self;
            let answer =
                |sent: bool, (who, client): (&Who, &mut NbdClient)| sent | client.move_bytes(*who, driven);
            if !clients.iter_mut().fold(false, answer) {
                return;
            }
        }
    }

    /// Asks for TLS, and starts it.
    pub(crate) fn start_tls(&mut self, who: Who, tls: ClientConnection) {
        assert_eq!(self.outcome(who, OptionCode::StartTls, &[]), OptionReplyType::Ack);
        let client = self.client(who);
        client.tls = Some(TlsClient::new(tls));
        client.style = HeaderStyle::Simple;
        self.turn();
    }

    /// The TLS of a client that has started it.
    pub(crate) fn tls(&mut self, who: Who) -> &mut TlsClient {
        self.client(who).tls.as_mut().expect("it has TLS")
    }

    // The handshake.

    /// Says that the client is there, with these flags.
    pub(crate) fn greet(&mut self, who: Who, flags: ClientFlags) {
        let came = self.came(who);
        assert_eq!(came.len(), GREETING_LEN);
        Greeting::decode(&mut Reader::new(&came)).unwrap();
        self.send_bytes(who, &flags.0.to_be_bytes());
    }

    pub(crate) fn send_option(&mut self, who: Who, code: OptionCode, data: &[u8]) {
        self.send_bytes(who, &OptionHeader { code, length: data.len() as u32 }.encode());
        self.send_bytes(who, data);
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
        self.client(who).style = style;
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
        let client = self.client(who);
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
        self.send_bytes(who, &bytes);
    }

    /// Replies that came since this was asked last, with their cookies.
    pub(crate) fn replies(&mut self, who: Who) -> Vec<(u64, Reply)> {
        self.turn();
        self.replies_here(who)
    }

    /// Replies that are here already.
    pub(crate) fn replies_here(&mut self, who: Who) -> Vec<(u64, Reply)> {
        let client = self.clients.get_mut(&who).expect("a client of this server");
        client.move_bytes(who, &mut self.driven);
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

    fn client(&mut self, who: Who) -> &mut NbdClient {
        self.clients.get_mut(&who).expect("a client of this server")
    }
}

impl NbdClient {
    fn new() -> Self {
        Self { style: HeaderStyle::Simple, reading: HashMap::new(), came: Vec::new(), tls: None }
    }

    /// Takes what came, and sends what TLS has to say. `false`: nothing was sent.
    fn move_bytes(&mut self, who: Who, driven: &mut DrivenServer<Server>) -> bool {
        let came = std::mem::take(driven.came(who));
        match &mut self.tls {
            None => {
                self.came.extend(came);
                false
            }
            Some(tls) => {
                tls.open(&came, &mut self.came);
                tls.send(who, driven)
            }
        }
    }

    /// The next reply that is whole, how many bytes it has, and its cookie.
    fn reply(&self) -> Option<(usize, u64, Reply)> {
        let came = &self.came[..];
        let mut r = Reader::new(came);
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
                let header = came.len() - r.left();
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
