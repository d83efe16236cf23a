//! The bytes of one connection.

use super::error::ProtocolError;
use super::outbound::Outbound;
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_nbd::Inbound;
use onego_nbd::tls::{ClearText as _, TlsLayer};
use onego_wire::{Landing, Unfinished};
use rustls::{ServerConfig, ServerConnection};
use std::sync::Arc;

/// The bytes of one connection, on their way in and out.
///
/// Everything that a client sends or gets passes through the methods of this type. With TLS, what is received is opened before
/// it goes to `inbound`, and what `outbound` has is sealed.
pub(super) struct ByteStream {
    pub(super) inbound: Inbound,
    pub(super) outbound: Outbound,
    tls: Option<Box<TlsLayer>>,
    pool: Pool,
    /// Why nothing more is taken from the client.
    failed: Option<ProtocolError>,
}

impl ByteStream {
    pub(super) fn new(pool: Pool) -> Self {
        let outbound = Outbound::new(pool.clone());
        Self { inbound: Inbound::default(), outbound, tls: None, pool, failed: None }
    }

    /// From here on all bytes are those of TLS, but for what is still to be sent. Bytes that are here already would be
    /// taken for what the client has sealed, and anybody on the way may have added them.
    pub(super) fn start_tls(&mut self, config: &Arc<ServerConfig>) -> Result<(), ProtocolError> {
        if !self.inbound.is_empty() {
            return Err(ProtocolError::ClearBehindStartTls);
        }
        let mut said = List::new();
        self.outbound.transmit(&mut said, usize::MAX);
        let tls = ServerConnection::new(Arc::clone(config)).map_err(ProtocolError::Tls)?;
        self.tls = Some(Box::new(TlsLayer::new(tls, self.pool.clone(), said)));
        Ok(())
    }

    /// Where the next bytes go.
    #[inline]
    pub(super) fn landing(&mut self) -> Landing {
        match &self.tls {
            None => self.inbound.landing(),
            Some(_) if self.failed.is_some() => Landing::default(),
            Some(tls) => tls.landing(),
        }
    }

    /// A receive buffer is back.
    pub(super) fn landed(&mut self, buffer: SegmentMut, filled: usize) {
        self.inbound.landed(buffer, filled);
    }

    /// Bytes have come.
    #[inline]
    pub(super) fn received(&mut self, bytes: Segment) {
        match &mut self.tls {
            None => self.inbound.received(bytes),
            Some(_) if self.failed.is_some() => {}
            Some(tls) => {
                self.failed = tls.received(&bytes, &mut self.inbound).err().map(ProtocolError::from);
            }
        }
    }

    /// Why nothing more can be taken from the client: what came last is not what it has sealed.
    #[inline]
    pub(super) fn failure(&self) -> Option<&ProtocolError> {
        self.failed.as_ref()
    }

    /// The message of which a part has come and a part has not.
    #[inline]
    pub(super) fn unfinished(&self) -> Option<Unfinished> {
        let message = self.inbound.unfinished();
        let record = self.tls.as_ref().and_then(|tls| tls.unfinished());
        match (message, record) {
            (Some(message), Some(record)) => {
                Some(Unfinished { announced: message.announced, held: message.held + record.held })
            }
            (message, record) => message.or(record),
        }
    }

    /// Bytes that wait to be sent.
    #[inline]
    pub(super) fn unsent(&self) -> usize {
        self.outbound.unsent() + self.tls.as_ref().map_or(0, |tls| tls.unsent())
    }

    /// Appends at most about `limit` bytes of what is to be sent to `out`.
    pub(super) fn transmit(&mut self, out: &mut List, limit: usize) {
        match &mut self.tls {
            None => self.outbound.transmit(out, limit),
            Some(tls) => tls.transmit(&mut self.outbound, out, limit),
        }
    }

    /// All that is to be sent, and nothing will be sent after it.
    pub(super) fn last_words(&mut self) -> List {
        let mut words = List::new();
        self.transmit(&mut words, usize::MAX);
        if let Some(tls) = &mut self.tls {
            tls.end();
            self.transmit(&mut words, usize::MAX);
        }
        words
    }
}
