//! A connection to the server, in all its phases.

use super::error::ClientError;
use super::negotiation::{Agreed, Awaits, HandshakeStep, Negotiation};
use super::pending::Pending;
use super::replies::{Replied, Replies};
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

/// Maximum requests in flight per connection: the kernel client's default.
const REQUESTS_MAX: usize = 128;

/// Maximum size of an option reply's data in bytes: fits the longest description and name.
const OPTION_REPLY_MAX: usize = 10_000;

const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(5);

pub(super) enum Phase {
    Unused,
    Down {
        until: Time,
    },
    Connecting {
        until: Time,
    },
    Handshake {
        negotiation: Negotiation,
        /// TLS to start during the handshake.
        tls: Option<ClientTls>,
        until: Time,
    },
    Ready {
        agreed: Agreed,
        replies: Replies,
    },
    /// Must close, but a receive buffer is still lent out.
    Closing,
    /// A disconnect request is queued.
    Leaving,
}

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

pub(super) struct Link {
    pub(super) conn: Option<ConnId>,
    pub(super) phase: Phase,
    pub(super) backoff: Backoff,
    pub(super) in_flight: usize,
    /// Time of the last received bytes, or of the first request sent while idle.
    pub(super) heard: Time,
    inbound: Inbound,
    outbound: Outbound,
    tls: Option<Box<TlsLayer>>,
    /// Error after which input is ignored.
    failed: Option<ClientError>,
    pool: Pool,
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

    /// Returns the error after which input is ignored. To be called after earlier input has been processed.
    pub(super) fn failure(&mut self) -> Option<ClientError> {
        self.failed.clone()
    }

    pub(super) fn is_out(&self) -> bool {
        self.inbound.is_out()
    }

    pub(super) fn has_unsent(&self) -> bool {
        match &self.tls {
            None => self.outbound.unsent() > 0,
            // Output to encrypt waits for the end of the handshake.
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

    /// Starts TLS for everything that follows the queued output. Fails if input is already buffered: it would be taken
    /// for encrypted data from the server, but anyone on the path could have injected it.
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

    pub(super) fn send(&mut self, header: &RequestHeader, style: HeaderStyle, mut payload: List) {
        let Outbound { arena, unsent } = &mut self.outbound;
        arena.bytes(&header.encode(style), unsent);
        arena.pieces(&mut payload, unsent, |_| {});
    }

    /// Queues a disconnect request (nbd proto.md, 'Terminating the transmission phase').
    pub(super) fn leave(&mut self) {
        let Some(agreed) = self.agreed() else { return };
        let (flags, command) = (CommandFlags::default(), RequestType::Disconnect);
        let header = RequestHeader { flags, command, cookie: 0, offset: 0, length: 0 };
        self.send(&header, agreed.style, List::new());
        self.phase = Phase::Leaving;
    }

    /// Continues the handshake as far as the input allows. Returns whether it has finished.
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
                        return Err(ClientError::Protocol("its reply to an option is too long"));
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

    pub(super) fn reply(
        &mut self,
        pending: &mut Slab<Pending>,
        pool: &Pool,
    ) -> Result<Option<Replied>, ClientError> {
        match &mut self.phase {
            Phase::Ready { agreed, replies } => replies.next(&mut self.inbound, agreed, pending, pool),
            _ => Ok(None),
        }
    }

    /// Resets the state after the connection has ended; returns a buffer to its read.
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
