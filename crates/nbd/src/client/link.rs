//! One connection to the server, through all its phases.

use super::error::ClientError;
use super::negotiation::{Agreed, Awaits, HandshakeStep, Negotiation};
use super::pending::Pending;
use super::replies::{Replies, Settled};
use super::tls::ClientTls;
use crate::codec::{
    CommandFlags, ExportInfo, GREETING_LEN, HeaderStyle, OPTION_REPLY_LEN, OptionReply, RequestHeader,
    RequestType,
};
use crate::inbound::Inbound;
use crate::tls::{ClearText, TlsFault, TlsLayer};
use onego_buf::{Arena, List, Pool, Segment, SegmentMut};
use onego_wire::{Backoff, ConnId, Landing, Reader, Time};
use slab::Slab;
use std::time::Duration;

/// Requests that are on one connection at a time: as many as the kernel's client has by default.
const REQUESTS_MAX: usize = 128;

/// Most bytes of the data of a reply to an option: a description and a name of the longest.
const OPTION_REPLY_MAX: usize = 10_000;

/// Waits between attempts to connect.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Where a connection stands.
pub(super) enum Phase {
    /// There is none, and none is to be.
    Unused,
    /// There is none until then.
    Down { until: Time },
    /// It is being opened.
    Connecting { until: Time },
    /// The two sides agree on how to go on.
    Handshake {
        negotiation: Negotiation,
        /// The TLS that is to begin.
        tls: Option<ClientTls>,
        until: Time,
    },
    /// Requests are carried out.
    Ready { agreed: Agreed, replies: Replies },
    /// It has to go, and has to give a receive buffer back before.
    Closing,
    /// The server was told that nothing more comes.
    Leaving,
}

/// Requests that wait to be sent.
struct Outbound {
    arena: Arena,
    unsent: List,
}

impl ClearText for Outbound {
    fn unsent(&self) -> usize {
        self.unsent.len() + self.arena.pending()
    }

    fn transmit(&mut self, out: &mut List, limit: usize) {
        self.arena.flush(&mut self.unsent);
        if self.unsent.len() <= limit {
            out.append(std::mem::take(&mut self.unsent));
        } else {
            out.append(self.unsent.split_to(limit.max(1)));
        }
    }
}

/// One connection to the server.
pub(super) struct Link {
    pub(super) conn: Option<ConnId>,
    pub(super) phase: Phase,
    pub(super) backoff: Backoff,
    /// Requests that have no reply.
    pub(super) in_flight: usize,
    /// When bytes last came, or the first request went out.
    pub(super) heard: Time,
    inbound: Inbound,
    outbound: Outbound,
    tls: Option<Box<TlsLayer>>,
    /// Why nothing more is taken from the server.
    failed: Option<ClientError>,
    pool: Pool,
    /// The driver was told that there is something to send.
    pub(super) is_announced: bool,
}

impl Link {
    pub(super) fn new(pool: Pool) -> Self {
        Self {
            conn: None,
            phase: Phase::Unused,
            backoff: Backoff::new(RETRY_FIRST, RETRY_MAX),
            in_flight: 0,
            heard: Time::default(),
            inbound: Inbound::default(),
            outbound: Outbound { arena: Arena::new(pool.clone()), unsent: List::new() },
            tls: None,
            failed: None,
            pool,
            is_announced: false,
        }
    }

    /// Has room for a request.
    pub(super) fn has_room(&self) -> bool {
        matches!(self.phase, Phase::Ready { .. }) && self.in_flight < REQUESTS_MAX
    }

    pub(super) fn agreed(&self) -> Option<Agreed> {
        match &self.phase {
            Phase::Ready { agreed, .. } => Some(*agreed),
            _ => None,
        }
    }

    pub(super) fn landing(&mut self) -> Landing {
        match &self.tls {
            None => self.inbound.landing(),
            Some(tls) => tls.landing(),
        }
    }

    pub(super) fn landed(&mut self, buffer: SegmentMut, filled: usize) {
        self.inbound.landed(buffer, filled);
    }

    pub(super) fn received(&mut self, bytes: Segment) {
        match &mut self.tls {
            None => self.inbound.received(bytes),
            Some(_) if self.failed.is_some() => {}
            Some(tls) => self.failed = tls.received(&bytes, &mut self.inbound).err().map(ClientError::from),
        }
    }

    /// Why nothing more is taken from the server, once all that came before is handled.
    pub(super) fn failure(&mut self) -> Option<ClientError> {
        self.failed.clone()
    }

    /// Is a receive buffer out?
    pub(super) fn is_out(&self) -> bool {
        self.inbound.is_out()
    }

    pub(super) fn has_unsent(&self) -> bool {
        match &self.tls {
            None => self.outbound.unsent() > 0,
            // What is to be sealed waits for the end of the handshake.
            Some(tls) => tls.unsent() > 0 || self.outbound.unsent() > 0 && !tls.is_handshaking(),
        }
    }

    pub(super) fn transmit(&mut self, out: &mut List, limit: usize) {
        let Some(tls) = &mut self.tls else { return self.outbound.transmit(out, limit) };
        tls.transmit(&mut self.outbound, out, limit);
        if matches!(self.phase, Phase::Leaving) && self.outbound.unsent() == 0 && tls.unsent() == 0 {
            tls.end();
            tls.transmit(&mut self.outbound, out, usize::MAX);
        }
    }

    /// All that follows is sealed, but for what is still to be sent. Bytes that are here already would be taken for what the server
    /// has sealed, and anybody on the way may have added them.
    fn start_tls(&mut self) -> Result<(), ClientError> {
        let Phase::Handshake { negotiation, tls: Some(tls), .. } = &mut self.phase else { return Ok(()) };
        if !self.inbound.is_empty() {
            return Err(ClientError::ClearBehindStartTls);
        }
        let connection = tls.connection().map_err(TlsFault::Tls)?;
        let mut said = List::new();
        self.outbound.transmit(&mut said, usize::MAX);
        self.tls = Some(Box::new(TlsLayer::new(connection, self.pool.clone(), said)));
        let asked = negotiation.sealed();
        self.outbound.arena.bytes(&asked, &mut self.outbound.unsent);
        Ok(())
    }

    /// Appends a request.
    pub(super) fn send(&mut self, header: &RequestHeader, style: HeaderStyle, mut payload: List) {
        let Outbound { arena, unsent } = &mut self.outbound;
        arena.bytes(&header.encode(style), unsent);
        arena.pieces(&mut payload, unsent, |_| {});
    }

    /// Says that nothing more comes (nbd proto.md, 'Terminating the transmission phase').
    pub(super) fn leave(&mut self) {
        let Some(agreed) = self.agreed() else { return };
        let (flags, command) = (CommandFlags::default(), RequestType::Disconnect);
        let header = RequestHeader { flags, command, cookie: 0, offset: 0, length: 0 };
        self.send(&header, agreed.style, List::new());
        self.phase = Phase::Leaving;
    }

    /// Goes on with a handshake as far as the bytes go. `true`: it is over.
    pub(super) fn shake_hands(&mut self) -> Result<bool, ClientError> {
        loop {
            let Phase::Handshake { negotiation, .. } = &mut self.phase else { return Ok(false) };
            let step = match negotiation.awaits() {
                Awaits::Greeting => {
                    let Some(bytes) = self.inbound.header(GREETING_LEN) else { return Ok(false) };
                    negotiation.greeting(&bytes[..GREETING_LEN])?
                }
                Awaits::Export { zeroes } => {
                    let Some(bytes) = self.inbound.header(ExportInfo::LEN) else { return Ok(false) };
                    self.inbound.expect_to_skip(zeroes as u64);
                    negotiation.exported(&bytes[..ExportInfo::LEN])?;
                    continue;
                }
                Awaits::Zeroes => {
                    if self.inbound.body().is_none() {
                        return Ok(false);
                    }
                    negotiation.agreed()?
                }
                Awaits::Reply => {
                    let Some(bytes) = self.inbound.header(OPTION_REPLY_LEN) else { return Ok(false) };
                    let reply = OptionReply::decode(&mut Reader::new(&bytes[..OPTION_REPLY_LEN]))?;
                    if reply.length as usize > OPTION_REPLY_MAX {
                        return Err(ClientError::Protocol("it answers an option with too many bytes"));
                    }
                    self.inbound.expect(reply.length as usize);
                    negotiation.expect(reply);
                    continue;
                }
                Awaits::Data(reply) => {
                    let Some(data) = self.inbound.body() else { return Ok(false) };
                    negotiation.reply(reply, &data.to_segment())?
                }
            };
            match step {
                HandshakeStep::Send(bytes) => self.outbound.arena.bytes(&bytes, &mut self.outbound.unsent),
                HandshakeStep::StartTls => self.start_tls()?,
                HandshakeStep::Agreed(agreed) => {
                    self.phase = Phase::Ready { agreed, replies: Replies::default() };
                    return Ok(true);
                }
            }
        }
    }

    /// Takes the next reply that is whole.
    pub(super) fn reply(
        &mut self,
        pending: &mut Slab<Pending>,
        pool: &Pool,
    ) -> Result<Option<Settled>, ClientError> {
        match &mut self.phase {
            Phase::Ready { agreed, replies } => replies.next(&mut self.inbound, agreed, pending, pool),
            _ => Ok(None),
        }
    }

    /// Forgets the bytes of a connection that is gone; gives a read its buffer back.
    pub(super) fn reset(&mut self, pending: &mut Slab<Pending>) {
        if let Phase::Ready { replies, .. } = &self.phase {
            replies.give_back(&mut self.inbound, pending);
        }
        self.inbound = Inbound::default();
        self.outbound.transmit(&mut List::new(), usize::MAX);
        (self.tls, self.failed) = (None, None);
        (self.is_announced, self.in_flight, self.conn) = (false, 0, None);
    }
}
