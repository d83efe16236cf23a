//! One connection: the phases of the protocol, and what its client makes the server hold.

use super::error::ProtocolError;
use super::handshake::Negotiation;
use super::session::Session;
use super::stream::ByteStream;
use crate::nbd::limits::{
    BYTES_MAX, HANDSHAKE, OPTION_MAX, OPTION_SKIP_MAX, PAYLOAD_MAX, REQUESTS_HELD_MAX, REQUESTS_MAX,
    REQUESTS_MAX_ALL,
};
use crate::nbd::refusal::Refusal;
use onego_buf::{List, Pool, SegmentMut};
use onego_nbd::codec::{
    CLIENT_FLAGS_LEN, ClientFlags, Greeting, HandshakeFlags, HeaderStyle, OPTION_HEADER_LEN, OptionHeader,
    RequestHeader, RequestType, client_flags,
};
use onego_nbd::{Inbound, LARGE};
use onego_service::connections::{Allowance, ServerConnection, StreamEnd};
use onego_wire::{Landing, Reader, Time, Unfinished};

/// Where a connection stands.
pub(super) enum Phase {
    /// The client has yet to send its flags.
    Greeting,
    /// It sends options.
    Options(Negotiation),
    /// It uses an export.
    Transmission(Box<Session>),
    /// The client has sent its last request, or ended its direction of the stream: the connection ends with the last reply.
    Leaving(Option<Box<Session>>),
}

/// The message that is coming in, once its header is here.
enum Expected {
    Header,
    Option(OptionHeader),
    /// An option of more data than is kept.
    LongOption(OptionHeader),
    Request(RequestHeader),
    /// A request whose payload is dropped.
    Refused(RequestHeader, Refusal),
}

/// A message that is whole.
pub(super) enum Message {
    Flags(ClientFlags),
    Option(OptionHeader, List),
    LongOption(OptionHeader),
    Request(RequestHeader, List),
    Refused(RequestHeader, Refusal),
}

/// One connection.
pub(super) struct NbdConnection {
    pub(super) stream: ByteStream,
    pub(super) phase: Phase,
    expected: Expected,
    pool: Pool,
    /// Requests in flight, and bytes of their payloads and of their replies.
    pub(super) in_flight: usize,
    pub(super) held: usize,
    /// When the handshake has to be over.
    handshake_ends: Option<Time>,
    is_late: bool,
    stream_end: StreamEnd,
}

impl NbdConnection {
    pub(super) fn new(now: Time, pool: Pool) -> Self {
        let mut stream = ByteStream::new(pool.clone());
        stream.outbound.put(&Greeting(HandshakeFlags::FIXED_NEWSTYLE | HandshakeFlags::NO_ZEROES).encode());
        Self {
            stream,
            phase: Phase::Greeting,
            expected: Expected::Header,
            pool,
            in_flight: 0,
            held: 0,
            handshake_ends: Some(now + HANDSHAKE),
            is_late: false,
            stream_end: StreamEnd::Open,
        }
    }

    /// A connection whose client uses an export from the start.
    pub(super) fn agreed(session: Box<Session>, pool: Pool) -> Self {
        Self {
            stream: ByteStream::new(pool.clone()),
            phase: Phase::Transmission(session),
            expected: Expected::Header,
            pool,
            in_flight: 0,
            held: 0,
            handshake_ends: None,
            is_late: false,
            stream_end: StreamEnd::Open,
        }
    }

    /// Has its client yet to choose an export?
    pub(super) fn is_negotiating(&self) -> bool {
        matches!(self.phase, Phase::Greeting | Phase::Options(_))
    }

    /// The handshake is over.
    pub(super) fn begin(&mut self, session: Box<Session>) {
        self.phase = Phase::Transmission(session);
        self.handshake_ends = None;
    }

    /// The client has sent its last request.
    pub(super) fn leave(&mut self) {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Greeting) {
            Phase::Transmission(session) => Phase::Leaving(Some(session)),
            Phase::Greeting | Phase::Options(_) => Phase::Leaving(None),
            leaving @ Phase::Leaving(_) => leaving,
        };
    }

    /// The client has ended its direction of the stream.
    pub(super) fn half_close(&mut self, now: Time) {
        self.stream_end.half_close(now);
    }

    /// Returns whether the handshake, or the requests of a client that sends no more, have taken too long.
    pub(super) fn is_late(&self) -> bool {
        self.is_late || self.stream_end.is_late()
    }

    /// All whole messages are handled. Leaves if no more can arrive, and drops the part of a last one.
    pub(super) fn all_handled(&mut self) {
        if self.stream_end.all_handled() {
            self.stream.inbound = Inbound::default();
            self.expected = Expected::Header;
            self.leave();
        }
    }

    /// Is there nothing to come any more?
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Leaving(_)) && self.in_flight == 0
    }

    /// The use of an export, also when the client is about to leave.
    pub(super) fn session(&mut self) -> Option<&mut Session> {
        match &mut self.phase {
            Phase::Transmission(session) | Phase::Leaving(Some(session)) => Some(session),
            Phase::Greeting | Phase::Options(_) | Phase::Leaving(None) => None,
        }
    }

    /// May another message be handled, `in_flight` being the requests of all connections that are in flight?
    #[inline]
    pub(super) fn has_room(&self, in_flight: usize) -> bool {
        let full = self.in_flight >= REQUESTS_MAX || self.stream.unsent() + self.held >= BYTES_MAX;
        let busy = in_flight >= REQUESTS_HELD_MAX || (self.in_flight > 0 && in_flight >= REQUESTS_MAX_ALL);
        !full && !busy
    }

    /// Is half of what may be held gone?
    pub(super) fn has_half(&self, in_flight: usize) -> bool {
        let full = self.in_flight > REQUESTS_MAX / 2 || self.stream.unsent() + self.held > BYTES_MAX / 2;
        let busy =
            in_flight > REQUESTS_HELD_MAX / 2 || (self.in_flight > 0 && in_flight > REQUESTS_MAX_ALL / 2);
        !full && !busy
    }

    /// The next message that is whole. What is behind the last request of a client is not looked at.
    #[inline]
    pub(super) fn next(&mut self, allowance: Allowance<'_>) -> Result<Option<Message>, ProtocolError> {
        if matches!(self.phase, Phase::Leaving(_)) {
            return Ok(None);
        }
        if matches!(self.expected, Expected::Header) {
            match self.header(allowance)? {
                Begun::Nothing => return Ok(None),
                Begun::Whole(message) => return Ok(Some(message)),
                Begun::Body => {}
            }
        }
        let Some(body) = self.stream.inbound.body() else { return Ok(None) };
        Ok(match std::mem::replace(&mut self.expected, Expected::Header) {
            Expected::Header => None,
            Expected::Option(header) => Some(Message::Option(header, body)),
            Expected::LongOption(header) => Some(Message::LongOption(header)),
            Expected::Request(header) => Some(Message::Request(header, body)),
            Expected::Refused(header, refusal) => Some(Message::Refused(header, refusal)),
        })
    }

    /// Looks at the next header, and makes room for what is behind it.
    #[inline]
    fn header(&mut self, allowance: Allowance<'_>) -> Result<Begun, ProtocolError> {
        match &self.phase {
            Phase::Greeting => {
                let Some(bytes) = self.stream.inbound.header(CLIENT_FLAGS_LEN) else {
                    return Ok(Begun::Nothing);
                };
                Ok(Begun::Whole(Message::Flags(client_flags(&mut Reader::new(&bytes))?)))
            }
            Phase::Options(_) => self.option_header(),
            Phase::Transmission(session) => {
                let style = session.style;
                let Some(bytes) = self.stream.inbound.header(style.request_len()) else {
                    return Ok(Begun::Nothing);
                };
                let header = RequestHeader::decode(&mut Reader::new(&bytes), style)?;
                if header.command == RequestType::Disconnect {
                    // Nobody waits for a reply, and what is behind it is not looked at.
                    return Ok(Begun::Whole(Message::Request(header, List::new())));
                }
                let payload = header.payload(style);
                match session.check(&header) {
                    Ok(()) => self.request_header(header, payload, allowance),
                    Err(refusal) => self.refused_header(style, header, payload, refusal),
                }
            }
            Phase::Leaving(_) => Ok(Begun::Nothing),
        }
    }

    fn option_header(&mut self) -> Result<Begun, ProtocolError> {
        let Some(bytes) = self.stream.inbound.header(OPTION_HEADER_LEN) else { return Ok(Begun::Nothing) };
        let header = OptionHeader::decode(&mut Reader::new(&bytes))?;
        let length = header.length as usize;
        if length > OPTION_SKIP_MAX {
            return Err(ProtocolError::OptionTooLong(header.length));
        }
        if length > OPTION_MAX {
            self.stream.inbound.expect_to_skip(length as u64);
            self.expected = Expected::LongOption(header);
        } else {
            self.stream.inbound.expect(length);
            self.expected = Expected::Option(header);
        }
        Ok(Begun::Body)
    }

    /// A request that is carried out.
    #[inline]
    fn request_header(
        &mut self,
        header: RequestHeader,
        payload: u64,
        allowance: Allowance<'_>,
    ) -> Result<Begun, ProtocolError> {
        let inbound = &mut self.stream.inbound;
        if payload == 0 {
            inbound.expect_nothing();
            return Ok(Begun::Whole(Message::Request(header, List::new())));
        }
        // It was checked to be at most `PAYLOAD_MAX`.
        let length = payload as usize;
        if length < LARGE {
            inbound.expect(length);
        } else {
            // A payload that has to wait gets memory that is there page by page.
            let has_slot = allowance.has_slot_for(length);
            let buffer = if has_slot { self.pool.get(length) } else { SegmentMut::sparse(length) };
            inbound.expect_in(buffer);
        }
        self.expected = Expected::Request(header);
        Ok(Begun::Body)
    }

    /// A request that is not carried out.
    fn refused_header(
        &mut self,
        style: HeaderStyle,
        header: RequestHeader,
        payload: u64,
        refusal: Refusal,
    ) -> Result<Begun, ProtocolError> {
        // With lengths of 32 bits a write is received to its end. One of 64 bits may be longer than anybody can send (nbd
        // proto.md, 'Request message').
        if payload > PAYLOAD_MAX as u64 && style == HeaderStyle::Extended {
            return Err(ProtocolError::PayloadTooLong(payload));
        }
        if payload == 0 {
            self.stream.inbound.expect_nothing();
            return Ok(Begun::Whole(Message::Refused(header, refusal)));
        }
        self.stream.inbound.expect_to_skip(payload);
        self.expected = Expected::Refused(header, refusal);
        Ok(Begun::Body)
    }
}

/// What a header leads to.
enum Begun {
    /// It is not here yet.
    Nothing,
    /// It is all of its message.
    Whole(Message),
    /// More is behind it.
    Body,
}

impl ServerConnection for NbdConnection {
    fn landing(&mut self) -> Landing {
        match self.phase {
            Phase::Leaving(_) => Landing::default(),
            _ => self.stream.landing(),
        }
    }

    fn landed(&mut self, _: Time, buffer: SegmentMut, filled: usize) {
        self.stream.landed(buffer, filled);
    }

    #[inline]
    fn unfinished(&self) -> Option<Unfinished> {
        match self.phase {
            Phase::Leaving(_) => None,
            _ => self.stream.unfinished(),
        }
    }

    #[inline]
    fn defers(&self) -> bool {
        false
    }

    #[inline]
    fn has_output(&self) -> bool {
        self.stream.unsent() > 0
    }

    fn transmit(&mut self, out: &mut List, limit: usize) {
        self.stream.transmit(out, limit);
    }

    #[inline]
    fn unsent(&self) -> usize {
        self.stream.unsent()
    }

    #[inline]
    fn to_come(&self) -> usize {
        self.held
    }

    fn settle(&mut self) {
        self.stream.inbound.settle();
    }

    fn last_words(&mut self) -> List {
        self.stream.last_words()
    }

    fn deadline(&self) -> Option<Time> {
        self.handshake_ends.into_iter().chain(self.stream_end.deadline()).min()
    }

    fn timeout(&mut self, now: Time) {
        self.stream_end.timeout(now);
        if self.handshake_ends.take_if(|ends| *ends <= now).is_some() {
            self.is_late = true;
        }
    }
}
