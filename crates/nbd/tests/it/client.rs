//! The client against servers that the test simulates: old, unusual and malicious ones.

use onego_block::{BlockStatus, Completions, Device, Error, Flags, Op, Outcome, Request, StatusExtent};
use onego_buf::{List, SegmentMut};
use onego_nbd::client::{ClientError, Config, Endpoint, NbdClient, OldHandshake};
use onego_nbd::codec::{
    BlockSizes, CLIENT_FLAGS_LEN, COMPACT_REQUEST_LEN, ChunkHeader, ChunkType, CommandFlags,
    EXTENDED_CHUNK_LEN, EXTENDED_REQUEST_LEN, ErrorChunk, ExportInfo, Greeting, HandshakeFlags, HeaderStyle,
    InfoItem, InfoQuery, MetaContext, OPTION_HEADER_LEN, OptionCode, OptionError, OptionHeader, OptionReply,
    OptionReplyType, RequestHeader, RequestType, SIMPLE_REPLY_LEN, STRUCTURED_CHUNK_LEN, SimpleReply,
    StatusChunk, TransmissionFlags,
};
use onego_testkit::{Delivery, Pipe};
use onego_wire::{Action, ConnId, Disconnect, Machine as _, Reader, Time};
use std::future::Future as _;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

const SIZE: u64 = 1 << 30;

fn all() -> TransmissionFlags {
    type Can = TransmissionFlags;
    Can::HAS_FLAGS
        | Can::SEND_FLUSH
        | Can::SEND_FUA
        | Can::SEND_TRIM
        | Can::SEND_WRITE_ZEROES
        | Can::SEND_FAST_ZERO
}

/// A client, and the server side of its connection, which the test controls.
struct Played {
    client: NbdClient,
    conn: Option<ConnId>,
    pipe: Pipe,
    sent: Vec<u8>,
    /// Number of bytes to deliver at a time.
    cut: usize,
    style: HeaderStyle,
    device: Rc<dyn Device>,
    completions: Completions,
}

const NOW: Time = Time::from_nanos(1_000_000_000);

impl Played {
    fn new(cut: usize) -> Self {
        let endpoint = Endpoint::Tcp(vec!["10.0.0.1:10809".parse().unwrap()]);
        let client = NbdClient::new(Config::new("disk"), endpoint).unwrap();
        let device = client.device();
        let mut this = Self {
            client,
            conn: None,
            pipe: Pipe::default(),
            sent: Vec::new(),
            cut,
            style: HeaderStyle::Simple,
            device,
            completions: Completions::default(),
        };
        this.turn();
        assert!(this.conn.is_some(), "the client connects");
        this
    }

    fn turn(&mut self) {
        while let Some(action) = self.client.next_action(NOW) {
            match action {
                Action::Connect { conn, .. } => {
                    self.conn = Some(conn);
                    self.client.connected(NOW, conn, "10.0.0.2:1".parse().unwrap());
                }
                Action::Transmit { conn } => {
                    let mut out = List::new();
                    self.client.transmit(NOW, conn, &mut out, usize::MAX);
                    self.sent.extend(out.to_vec());
                }
                Action::Close { conn } => {
                    assert_eq!(Some(conn), self.conn.take());
                    self.pipe = Pipe::default();
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn deliver(&mut self) {
        while let Some(conn) = self.conn.filter(|_| !self.pipe.is_empty()) {
            let landing = self.client.landing(conn);
            let client = &mut self.client;
            self.pipe.deliver(landing, self.cut, |delivery| match delivery {
                Delivery::Landed(place, filled) => client.landed(NOW, conn, place, filled),
                Delivery::Received(bytes) => client.received(NOW, conn, bytes),
            });
            self.turn();
        }
    }

    fn say(&mut self, bytes: &[u8]) {
        self.pipe.extend(bytes);
        self.deliver();
    }

    fn heard(&mut self, len: usize) -> Vec<u8> {
        assert!(self.sent.len() >= len, "the client has sent only {} of {len} bytes", self.sent.len());
        self.sent.drain(..len).collect()
    }

    fn option(&mut self) -> (OptionCode, Vec<u8>) {
        let header = self.heard(OPTION_HEADER_LEN);
        let header = OptionHeader::decode(&mut Reader::new(&header)).unwrap();
        (header.code, self.heard(header.length as usize))
    }

    fn reply(&mut self, code: OptionCode, kind: OptionReplyType, data: &[u8]) {
        let header = OptionReply { code, kind, length: data.len() as u32 }.encode();
        self.say(&[&header, data].concat());
    }

    fn refuse(&mut self, code: OptionCode) {
        self.reply(code, OptionReplyType::Error(OptionError::Unsupported), b"");
    }

    fn greet(&mut self) {
        let flags = HandshakeFlags::FIXED_NEWSTYLE | HandshakeFlags::NO_ZEROES;
        self.say(&Greeting(flags).encode());
        self.heard(CLIENT_FLAGS_LEN);
    }

    /// Performs a handshake with the given style and flags.
    fn open(style: HeaderStyle, flags: TransmissionFlags, cut: usize) -> Self {
        let mut this = Self::new(cut);
        this.greet();
        this.style = style;
        this.shake_hands(flags);
        assert_eq!(this.device.geometry().size, SIZE);
        this
    }

    fn shake_hands(&mut self, flags: TransmissionFlags) {
        let style = self.style;
        loop {
            let (code, data) = self.option();
            let ack = |this: &mut Self| this.reply(code, OptionReplyType::Ack, b"");
            match code {
                OptionCode::ExtendedHeaders if style == HeaderStyle::Extended => ack(self),
                OptionCode::StructuredReply if style == HeaderStyle::Structured => ack(self),
                OptionCode::SetMetaContext => {
                    let context = MetaContext { id: 9, name: b"base:allocation" }.encode();
                    self.reply(code, OptionReplyType::MetaContext, &context);
                    ack(self);
                }
                OptionCode::Go => {
                    assert_eq!(InfoQuery::decode(&data).unwrap().name, b"disk");
                    let info = InfoItem::Export(ExportInfo { size: SIZE, flags });
                    self.reply(code, OptionReplyType::Info, &info.encode());
                    let sizes = BlockSizes { minimum: 1, preferred: 4096, payload_max: 1 << 20 };
                    self.reply(code, OptionReplyType::Info, &InfoItem::BlockSize(sizes).encode());
                    return ack(self);
                }
                code => self.refuse(code),
            }
        }
    }

    fn opened(&self) -> Option<Result<(), ClientError>> {
        match Pin::new(&mut self.client.opened()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    fn submit(&mut self, tag: u64, offset: u64, op: Op, flags: Flags) {
        self.device.submit(NOW, Request::new(self.completions.caller(tag), offset, op).with_flags(flags));
        self.turn();
    }

    fn request(&mut self) -> RequestHeader {
        let len = match self.style {
            HeaderStyle::Extended => EXTENDED_REQUEST_LEN,
            _ => COMPACT_REQUEST_LEN,
        };
        let bytes = self.heard(len);
        let header = RequestHeader::decode(&mut Reader::new(&bytes), self.style).unwrap();
        self.heard(header.payload(self.style) as usize);
        header
    }

    fn chunk(&mut self, request: &RequestHeader, done: bool, kind: ChunkType, payload: &[u8]) {
        let RequestHeader { cookie, offset, .. } = *request;
        let header = ChunkHeader { done, kind, cookie, offset, length: payload.len() as u64 };
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

    fn simple(&mut self, request: &RequestHeader, error: u32, data: &[u8]) {
        let mut bytes = [0; SIMPLE_REPLY_LEN];
        SimpleReply { error, cookie: request.cookie }.encode(&mut bytes);
        self.say(&[&bytes, data].concat());
    }

    /// Replies with success, in the style's form.
    fn done(&mut self, request: &RequestHeader) {
        match self.style {
            HeaderStyle::Extended => self.chunk(request, true, ChunkType::None, b""),
            _ => self.simple(request, 0, b""),
        }
    }

    fn next(&mut self) -> Option<Result<Outcome, Error>> {
        self.completions.take().map(|completion| completion.result)
    }

    fn read(&mut self, offset: u64, length: u64) -> RequestHeader {
        self.submit(0, offset, Op::Read { length }, Flags::default());
        let request = self.request();
        assert_eq!((request.command, request.offset, request.length), (RequestType::Read, offset, length));
        request
    }

    fn got(&mut self) -> Vec<u8> {
        match self.next() {
            Some(Ok(Outcome::Data(data))) => data.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// Returns whether the client has closed the connection because of an error, with its request still pending.
    fn is_left(&mut self) -> bool {
        self.turn();
        self.conn.is_none() && self.completions.is_empty()
    }
}

fn at(offset: u64, data: &[u8]) -> Vec<u8> {
    [&offset.to_be_bytes(), data].concat()
}

fn hole(offset: u64, length: u32) -> Vec<u8> {
    [&offset.to_be_bytes()[..], &length.to_be_bytes()].concat()
}

const STYLES: [HeaderStyle; 3] = [HeaderStyle::Simple, HeaderStyle::Structured, HeaderStyle::Extended];

#[test]
fn each_style_works_whatever_the_segmentation() {
    for style in STYLES {
        for cut in [1, 7, 1000, usize::MAX] {
            let mut played = Played::open(style, all(), cut);
            let data: Vec<u8> = (0..40_000).map(|n| n as u8).collect();
            for length in [10, 40_000] {
                let request = played.read(5, length as u64);
                let data = &data[..length];
                match style {
                    HeaderStyle::Simple => played.simple(&request, 0, data),
                    _ => played.chunk(&request, true, ChunkType::OffsetData, &at(5, data)),
                }
                assert!(played.got() == data, "{style:?} {cut} {length}");
            }
            played.submit(0, 0, Op::Write { data: vec![1; 5].into() }, Flags::default());
            let request = played.request();
            let flags =
                if style == HeaderStyle::Extended { CommandFlags::PAYLOAD_LEN } else { CommandFlags(0) };
            assert_eq!((request.command, request.length, request.flags), (RequestType::Write, 5, flags));
            played.done(&request);
            assert!(matches!(played.next(), Some(Ok(Outcome::Done))));
        }
    }
}

#[test]
fn a_read_may_arrive_in_parts_and_holes_in_any_order() {
    for style in [HeaderStyle::Structured, HeaderStyle::Extended] {
        for cut in [3, usize::MAX] {
            let mut played = Played::open(style, all(), cut);
            let mut buffer = SegmentMut::zeroed(30_000);
            buffer.fill(7);
            let place = buffer.as_ptr();
            played.submit(0, 100, Op::ReadInto { buffer }, Flags::default());
            let request = played.request();
            played.chunk(&request, false, ChunkType::OffsetData, &at(20_100, &[3; 10_000]));
            played.chunk(&request, false, ChunkType::OffsetHole, &hole(10_100, 10_000));
            played.chunk(&request, false, ChunkType::OffsetData, &at(100, &[1; 10_000]));
            assert!(played.next().is_none());
            played.chunk(&request, true, ChunkType::None, b"");
            match played.next() {
                Some(Ok(Outcome::Filled(buffer))) => {
                    assert_eq!(buffer.as_ptr(), place);
                    assert!(buffer[..] == [vec![1; 10_000], vec![0; 10_000], vec![3; 10_000]].concat());
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn missing_server_features_are_emulated() {
    let mut played = Played::open(HeaderStyle::Simple, TransmissionFlags::HAS_FLAGS, usize::MAX);
    played.submit(0, 0, Op::Trim { length: 4096 }, Flags::default());
    assert!(matches!(played.next(), Some(Ok(Outcome::Done))), "a trim is only a hint");
    played.submit(0, 0, Op::Flush, Flags::default());
    assert!(matches!(played.next(), Some(Ok(Outcome::Done))), "the server has no volatile cache");
    played.submit(0, 0, Op::Status { length: 4096 }, Flags::default());
    let data = StatusExtent { length: 4096, status: BlockStatus::DATA };
    assert!(matches!(played.next(), Some(Ok(Outcome::Status(runs))) if runs == [data]));
    // Zeros are written, in steps.
    played.submit(0, 4096, Op::Zero { length: 2_500_000 }, Flags::default());
    let mut zeros = 0;
    while played.completions.is_empty() {
        let request = played.request();
        assert_eq!((request.command, request.offset), (RequestType::Write, 4096 + zeros));
        zeros += request.length;
        played.done(&request);
    }
    assert_eq!(zeros, 2_500_000);
    assert!(matches!(played.next(), Some(Ok(Outcome::Done))));
    played.submit(0, 0, Op::Zero { length: 1 }, Flags { fast: true, ..Flags::default() });
    assert!(matches!(played.next(), Some(Err(Error::Unsupported(_)))));
}

#[test]
fn fua_becomes_a_flush_without_server_support() {
    let flags = TransmissionFlags::HAS_FLAGS | TransmissionFlags::SEND_FLUSH;
    let mut played = Played::open(HeaderStyle::Simple, flags, usize::MAX);
    let fua = Flags { fua: true, ..Flags::default() };
    played.submit(0, 4096, Op::Write { data: vec![1; 5].into() }, fua);
    let request = played.request();
    assert_eq!((request.command, request.flags), (RequestType::Write, CommandFlags(0)));
    played.done(&request);
    assert!(played.completions.is_empty(), "it is not durable yet");
    let request = played.request();
    assert_eq!((request.command, request.offset, request.length), (RequestType::Flush, 0, 0));
    played.done(&request);
    assert!(matches!(played.next(), Some(Ok(Outcome::Done))));
}

#[test]
fn long_trims_are_split_to_32_bit_lengths() {
    for (style, steps) in [(HeaderStyle::Structured, 3), (HeaderStyle::Extended, 1)] {
        let mut played = Played::new(usize::MAX);
        played.greet();
        played.style = style;
        played.shake_hands_of(5 << 30);
        played.submit(0, 0, Op::Trim { length: 5 << 30 }, Flags::default());
        let mut next = 0;
        for _ in 0..steps {
            assert!(played.completions.is_empty());
            let request = played.request();
            assert_eq!((request.command, request.offset), (RequestType::Trim, next));
            next += request.length;
            played.done(&request);
        }
        assert_eq!(next, 5 << 30);
        assert!(matches!(played.next(), Some(Ok(Outcome::Done))));
    }
}

impl Played {
    fn shake_hands_of(&mut self, size: u64) {
        loop {
            let (code, _) = self.option();
            match code {
                OptionCode::Go => {
                    let info = InfoItem::Export(ExportInfo { size, flags: all() });
                    self.reply(code, OptionReplyType::Info, &info.encode());
                    return self.reply(code, OptionReplyType::Ack, b"");
                }
                OptionCode::ExtendedHeaders if self.style != HeaderStyle::Extended => self.refuse(code),
                _ => self.reply(code, OptionReplyType::Ack, b""),
            }
        }
    }
}

#[test]
fn the_block_status_is_clipped_to_the_request() {
    for style in [HeaderStyle::Structured, HeaderStyle::Extended] {
        let mut played = Played::open(style, all(), usize::MAX);
        played.submit(0, 4096, Op::Status { length: 10_000 }, Flags::default());
        let request = played.request();
        let run = |length, status| StatusExtent { length, status };
        let extents = vec![run(6000, BlockStatus::HOLE), run(100_000, BlockStatus::DATA)];
        let extended = style == HeaderStyle::Extended;
        let payload = StatusChunk { context: 9, extents }.encode(extended);
        let kind = if extended { ChunkType::BlockStatusExt } else { ChunkType::BlockStatus };
        played.chunk(&request, true, kind, &payload);
        let expected = [run(6000, BlockStatus::HOLE), run(4000, BlockStatus::DATA)];
        assert!(matches!(played.next(), Some(Ok(Outcome::Status(runs))) if runs == expected));
    }
}

#[test]
fn errors_of_the_server_are_returned_to_the_caller() {
    let mut played = Played::open(HeaderStyle::Structured, all(), usize::MAX);
    let request = played.read(0, 4096);
    let error = ErrorChunk { error: 5, message: "the disk\nis old" }.encode();
    played.chunk(&request, false, ChunkType::Error, &error);
    played.chunk(&request, true, ChunkType::None, b"");
    match played.next() {
        Some(Err(Error::Failed(said))) => assert!(said.ends_with("the diskis old"), "{said}"),
        other => panic!("{other:?}"),
    }
    played.submit(0, 0, Op::Write { data: vec![1].into() }, Flags::default());
    let request = played.request();
    played.simple(&request, 28, b"");
    assert!(matches!(played.next(), Some(Err(Error::NoSpace(_)))));
    // A simple reply with an error has no data.
    let mut played = Played::open(HeaderStyle::Simple, all(), usize::MAX);
    let request = played.read(0, 4096);
    played.simple(&request, 1, b"");
    assert!(matches!(played.next(), Some(Err(Error::NotPermitted(_)))));
    let request = played.read(0, 4);
    played.simple(&request, 0, b"good");
    assert_eq!(played.got(), b"good");
}

#[test]
fn an_old_server_without_go_is_used_and_its_zeros_are_skipped() {
    let mut played = Played::new(50);
    played.say(&Greeting(HandshakeFlags::FIXED_NEWSTYLE).encode());
    assert_eq!(played.heard(CLIENT_FLAGS_LEN), [0, 0, 0, 1]);
    for expected in [OptionCode::ExtendedHeaders, OptionCode::StructuredReply, OptionCode::Go] {
        let (code, _) = played.option();
        assert_eq!(code, expected);
        played.refuse(code);
    }
    let (code, name) = played.option();
    assert_eq!((code, &name[..]), (OptionCode::ExportName, &b"disk"[..]));
    let info = ExportInfo { size: SIZE, flags: all() }.encode();
    played.say(&[&info[..], &[0; ExportInfo::ZEROES]].concat());
    assert!(matches!(played.opened(), Some(Ok(()))));
    let request = played.read(0, 4);
    played.simple(&request, 0, b"good");
    assert_eq!(played.got(), b"good");
}

#[test]
fn older_handshakes_are_rejected() {
    for cut in [1, usize::MAX] {
        let mut played = Played::new(cut);
        let magic = [b"NBDMAGIC".to_vec(), 0x0000_4202_8186_1253_u64.to_be_bytes().to_vec()].concat();
        let export = [&SIZE.to_be_bytes()[..], &[0; 4 + 124]].concat();
        played.say(&[magic, export].concat());
        let Some(Err(error)) = played.opened() else { panic!("it is not used") };
        assert!(matches!(error, ClientError::TooOld(OldHandshake::Oldstyle)), "{error:?}");
        assert!(error.to_string().contains("oldstyle handshake, which is too old: upgrade it"), "{error}");
        let mut played = Played::new(cut);
        played.say(&Greeting(HandshakeFlags::default()).encode());
        let Some(Err(error)) = played.opened() else { panic!("it is not used") };
        assert!(matches!(error, ClientError::TooOld(OldHandshake::UnfixedNewstyle)), "{error:?}");
    }
}

#[test]
fn refusals_of_the_export_are_distinguished() {
    type E = OptionError;
    for (error, expected) in [
        (E::Unknown, "has no export \"disk\": try another"),
        (E::TlsRequired, "wants TLS"),
        (E::Policy, "refuses the export (Policy): try another"),
    ] {
        let mut played = Played::new(usize::MAX);
        played.greet();
        loop {
            let (code, _) = played.option();
            if code == OptionCode::Go {
                played.reply(code, OptionReplyType::Error(error), b"try another");
                break;
            }
            played.refuse(code);
        }
        let said = played.opened().unwrap().unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
    }
}

/// Fails a handshake: calls `spoil` instead of replying to an option.
fn spoiled(option: OptionCode, spoil: impl Fn(&mut Played)) -> ClientError {
    let mut played = Played::new(usize::MAX);
    played.greet();
    loop {
        let (code, _) = played.option();
        if code == option {
            spoil(&mut played);
            return played.opened().expect("the handshake is over").unwrap_err();
        }
        match code {
            OptionCode::StructuredReply => played.reply(code, OptionReplyType::Ack, b""),
            OptionCode::SetMetaContext => played.reply(code, OptionReplyType::Ack, b""),
            code => played.refuse(code),
        }
    }
}

#[test]
fn an_export_with_a_partial_last_block_is_rejected() {
    let error = spoiled(OptionCode::Go, |played| {
        let info = ExportInfo { size: 1_000_003, flags: all() };
        let sizes = BlockSizes { minimum: 4096, preferred: 4096, payload_max: 1 << 20 };
        for item in [InfoItem::Export(info), InfoItem::BlockSize(sizes)] {
            played.reply(OptionCode::Go, OptionReplyType::Info, &item.encode());
        }
        played.reply(OptionCode::Go, OptionReplyType::Ack, b"");
    });
    assert!(matches!(error, ClientError::PartialBlock { size: 1_000_003, minimum: 4096 }), "{error}");
}

#[test]
fn a_handshake_that_breaks_the_protocol_fails_the_client() {
    type Code = OptionCode;
    let info = |size, flags| InfoItem::Export(ExportInfo { size, flags }).encode();
    let sizes = |minimum, preferred, payload_max| {
        InfoItem::BlockSize(BlockSizes { minimum, preferred, payload_max }).encode()
    };
    let context = |name| MetaContext { id: 1, name }.encode();
    spoiled(Code::ExtendedHeaders, |played| played.say(&[0; 64]));
    spoiled(Code::ExtendedHeaders, |played| played.reply(Code::Go, OptionReplyType::Ack, b""));
    spoiled(Code::StructuredReply, |played| played.reply(Code::StructuredReply, OptionReplyType::Info, b""));
    spoiled(Code::SetMetaContext, |played| {
        played.reply(Code::SetMetaContext, OptionReplyType::MetaContext, &context(b"qemu:dirty"));
    });
    // An announced length without the data.
    spoiled(Code::Go, |played| {
        let kind = OptionReplyType::Info;
        played.say(&OptionReply { code: Code::Go, kind, length: u32::MAX }.encode());
    });
    // The size of the export is missing.
    spoiled(Code::Go, |played| played.reply(Code::Go, OptionReplyType::Ack, b""));
    spoiled(Code::Go, |played| played.reply(Code::Go, OptionReplyType::Info, b"\0"));
    for (minimum, preferred, payload) in [(0, 4096, 1 << 20), (3, 4096, 1 << 20), (1 << 17, 1 << 17, 1 << 20)]
    {
        let sizes = sizes(minimum, preferred, payload);
        spoiled(Code::Go, |played| played.reply(Code::Go, OptionReplyType::Info, &sizes));
    }
    // Endless replies.
    spoiled(Code::Go, |played| {
        for _ in 0..100 {
            let info = info(SIZE, all());
            played.pipe.extend(
                [
                    &OptionReply { code: Code::Go, kind: OptionReplyType::Info, length: 12 }.encode()[..],
                    &info,
                ]
                .concat(),
            );
        }
        played.deliver();
    });
    let mut played = Played::new(usize::MAX);
    played.say(b"HTTP/1.1 400 Bad Request\r\n");
    assert!(matches!(played.opened(), Some(Err(ClientError::Decode(_)))));
    let mut played = Played::new(usize::MAX);
    let conn = played.conn.unwrap();
    played.client.disconnected(NOW, conn, Disconnect::Closed);
    assert!(matches!(played.opened(), Some(Err(ClientError::Closed))));
}

#[test]
fn invalid_replies_end_the_connection_without_allocating() {
    type Lie = fn(&mut Played, &RequestHeader);
    let lies: [(&str, Lie); 15] = [
        ("another request", |played, request| {
            let other = RequestHeader { cookie: request.cookie ^ 1 << 40, ..*request };
            played.chunk(&other, true, ChunkType::None, b"");
        }),
        ("a simple reply to a read", |played, request| played.simple(request, 0, &[0; 16])),
        ("a wrong magic", |played, _| played.say(&[7; 64])),
        ("bytes past the end", |played, request| {
            played.chunk(request, true, ChunkType::OffsetData, &at(request.offset + 50_000, &[1; 1]));
        }),
        ("bytes before the start", |played, request| {
            played.chunk(request, true, ChunkType::OffsetData, &at(request.offset - 1, &[1; 5]));
        }),
        ("an offset that wraps", |played, request| {
            played.chunk(request, true, ChunkType::OffsetData, &at(u64::MAX, &[1; 5]));
        }),
        ("bytes twice", |played, request| {
            played.chunk(request, false, ChunkType::OffsetData, &at(request.offset, &[1; 500]));
            played.chunk(request, true, ChunkType::OffsetData, &at(request.offset + 499, &[1; 500]));
        }),
        ("a hole twice", |played, request| {
            played.chunk(request, false, ChunkType::OffsetHole, &hole(request.offset, 500));
            played.chunk(request, false, ChunkType::OffsetHole, &hole(request.offset, 500));
        }),
        ("an empty hole", |played, request| {
            played.chunk(request, false, ChunkType::OffsetHole, &hole(request.offset, 0));
        }),
        ("empty data", |played, request| {
            played.chunk(request, false, ChunkType::OffsetData, &request.offset.to_be_bytes());
        }),
        ("a gap", |played, request| {
            played.chunk(request, true, ChunkType::OffsetHole, &hole(request.offset, 500));
        }),
        ("a status", |played, request| {
            let payload = StatusChunk { context: 9, extents: Vec::new() }.encode(true);
            played.chunk(request, true, ChunkType::BlockStatusExt, &payload);
        }),
        ("an announced length without the data", |played, request| {
            let (kind, cookie, offset) = (ChunkType::OffsetData, request.cookie, request.offset);
            let header = ChunkHeader { done: true, kind, cookie, offset, length: u64::MAX };
            let mut bytes = [0; EXTENDED_CHUNK_LEN];
            header.encode_extended(&mut bytes);
            played.say(&bytes);
        }),
        ("an error with number 0", |played, request| {
            let error = ErrorChunk { error: 0, message: "" }.encode();
            played.chunk(request, true, ChunkType::Error, &error);
        }),
        ("an overlong error", |played, request| {
            played.chunk(request, true, ChunkType::Error, &[0; 10_000]);
        }),
    ];
    for (what, lie) in lies {
        let mut played = Played::open(HeaderStyle::Extended, all(), usize::MAX);
        let request = played.read(4096, 50_000);
        lie(&mut played, &request);
        if what == "a gap" {
            // The read fails with the connection.
            assert!(matches!(played.next(), Some(Err(Error::Failed(_)))), "{what}");
        }
        assert!(played.is_left(), "{what}");
    }
}

#[test]
fn an_invalid_block_status_ends_the_connection() {
    let run = |length| StatusExtent { length, status: BlockStatus::DATA };
    for (context, extents) in [(8, vec![run(5)]), (9, vec![]), (9, vec![run(0)]), (9, vec![run(5), run(0)])] {
        let mut played = Played::open(HeaderStyle::Extended, all(), usize::MAX);
        played.submit(0, 0, Op::Status { length: 4096 }, Flags::default());
        let request = played.request();
        let payload = StatusChunk { context, extents }.encode(true);
        played.chunk(&request, true, ChunkType::BlockStatusExt, &payload);
        assert!(played.is_left());
    }
    let mut played = Played::open(HeaderStyle::Extended, all(), usize::MAX);
    played.submit(0, 0, Op::Status { length: 4096 }, Flags::default());
    let request = played.request();
    played.chunk(&request, true, ChunkType::None, b"");
    assert!(played.is_left());
}

#[test]
fn an_endless_reply_ends_the_connection() {
    let status = StatusExtent { length: 4096, status: BlockStatus::DATA };
    let status = StatusChunk { context: 9, extents: vec![status] }.encode(true);
    let error = ErrorChunk { error: 5, message: "" }.encode();
    for (kind, payload, most) in [(ChunkType::BlockStatusExt, status, 1), (ChunkType::Error, error, 64)] {
        let mut played = Played::open(HeaderStyle::Extended, all(), usize::MAX);
        played.submit(0, 0, Op::Status { length: 4096 }, Flags::default());
        let request = played.request();
        for _ in 0..most {
            played.chunk(&request, false, kind, &payload);
            assert!(!played.is_left());
        }
        played.chunk(&request, false, kind, &payload);
        assert!(played.is_left(), "{kind:?} after {most}");
    }
}

#[test]
fn an_impossible_export_size_is_rejected() {
    for size in [1 << 63, u64::MAX] {
        let error = spoiled(OptionCode::Go, |played| {
            let info = InfoItem::Export(ExportInfo { size, flags: all() });
            played.reply(OptionCode::Go, OptionReplyType::Info, &info.encode());
            played.reply(OptionCode::Go, OptionReplyType::Ack, b"");
        });
        assert!(error.to_string().contains("2^63 - 1"), "{error}");
    }
    let mut played = Played::new(usize::MAX);
    played.greet();
    played.shake_hands_of(i64::MAX as u64);
    assert!(matches!(played.opened(), Some(Ok(()))));
}

#[test]
fn a_request_that_repeatedly_crashes_the_server_fails() {
    let mut played = Played::open(HeaderStyle::Extended, all(), usize::MAX);
    played.submit(0, 0, Op::Read { length: 4096 }, Flags::default());
    let mut times = 0;
    let mut now = NOW;
    while played.completions.is_empty() {
        played.request();
        times += 1;
        let conn = played.conn.take().unwrap();
        played.client.disconnected(now, conn, Disconnect::Closed);
        now = played.client.deadline().unwrap();
        played.client.timeout(now);
        played.turn();
        played.greet();
        played.shake_hands(all());
    }
    assert_eq!(times, 8);
    assert!(matches!(played.next(), Some(Err(Error::Failed(why))) if why.contains("whenever this request")));
    let request = played.read(0, 4);
    played.chunk(&request, true, ChunkType::OffsetData, &at(0, b"good"));
    assert_eq!(played.got(), b"good");
}
