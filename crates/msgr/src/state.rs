//! Session state that survives connections.

use crate::auth::Entropy;
use crate::claim::SessionPeer;
use crate::error::Error;
use crate::message::Header;
use crate::policy::Policy;
use crate::send::outbox::Outbox;
use onego_wire::Time;

#[derive(Debug)]
pub(crate) struct SessionState {
    pub(crate) policy: Policy,
    /// Session cookies of the side that requested it and the side that granted it; 0: none yet.
    pub(crate) client_cookie: u64,
    pub(crate) server_cookie: u64,
    /// Order all connection attempts of this side, and those within the session.
    pub(crate) global_seq: u64,
    pub(crate) connect_seq: u64,
    pub(crate) peer_global_seq: u64,
    pub(crate) in_seq: u64,
    /// A received message has not been acknowledged yet.
    pub(crate) ack_due: bool,
    pub(crate) outbox: Outbox,
    pub(crate) peer: Option<SessionPeer>,
    /// The peer asks to wait for its own connection.
    pub(crate) wait: bool,
    /// The last connection completed its handshake.
    pub(crate) was_open: bool,
    /// How often the peer lost the session and the messages queued for it were dropped.
    pub(crate) resets: u64,
    cookies: Option<Entropy>,
}

impl SessionState {
    /// State of a connection without a session, or not yet with one.
    pub(crate) fn without(policy: Policy, global_seq: u64) -> Self {
        Self { global_seq, ..Self::new(policy, None) }
    }

    pub(crate) fn new(policy: Policy, cookies: Option<Entropy>) -> Self {
        Self {
            policy,
            client_cookie: 0,
            server_cookie: 0,
            global_seq: 0,
            connect_seq: 0,
            peer_global_seq: 0,
            in_seq: 0,
            ack_due: false,
            outbox: Outbox::new(!policy.lossy),
            peer: None,
            wait: false,
            was_open: false,
            resets: 0,
            cookies,
        }
    }

    pub(crate) fn take(&mut self) -> Self {
        let nothing = Self::without(self.policy, 0);
        std::mem::replace(self, nothing)
    }

    /// Replaces the state with that of `session`. Connection attempts stay in order.
    pub(crate) fn replace_with(&mut self, session: Self) {
        let global_seq = self.global_seq.max(session.global_seq + 1);
        *self = Self { global_seq, ..session };
    }

    pub(crate) fn fresh_cookie(&mut self) -> u64 {
        self.cookies.as_mut().map_or(0, |cookies| cookies.u64().max(1))
    }

    /// Handles a peer that does not know the session. `full`: also drops the messages queued for it.
    pub(crate) fn reset(&mut self, full: bool) {
        (self.server_cookie, self.connect_seq, self.in_seq) = (0, 0, 0);
        if full {
            self.resets += 1;
            (self.client_cookie, self.peer_global_seq) = (0, 0);
            self.outbox.reset();
        }
    }

    /// Starts a session in which neither side has received anything.
    pub(crate) fn begin(&mut self) {
        self.in_seq = 0;
        self.ack_due = false;
        self.outbox.begin(!self.policy.lossy);
    }

    /// Records a received message. Returns `false` for a duplicate from an earlier connection.
    ///
    /// Numbers may skip ahead, because senders may revoke messages already numbered. They never go back unless a
    /// session is resumed (ProtocolV2.cc, handle_message; ProtocolV1.cc, handle_message_footer).
    #[inline]
    pub(crate) fn received(&mut self, header: &Header) -> Result<bool, Error> {
        if self.policy.lossy && header.seq > self.in_seq {
            self.in_seq = header.seq;
            return Ok(true);
        }
        self.received_of_session(header)
    }

    #[cold]
    fn received_of_session(&mut self, header: &Header) -> Result<bool, Error> {
        let (seq, last) = (header.seq, self.in_seq);
        if !self.policy.lossy {
            self.outbox.acknowledged(header.ack_seq)?;
            self.ack_due = true;
        }
        if seq > last {
            self.in_seq = seq;
            Ok(true)
        } else if self.policy.lossy {
            Err(Error::OldMessage { seq, last })
        } else {
            Ok(false)
        }
    }
}

/// Orders the connections of a process by time; version 1 uses units of about a millisecond.
pub(crate) fn global_seq(is_legacy: bool, now: Time) -> u64 {
    if is_legacy { u64::from((now.as_nanos() >> 20) as u32) } else { now.as_nanos() }
}
