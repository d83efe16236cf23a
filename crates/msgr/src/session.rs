//! Sessions that outlive their connections: every message arrives once, in order, however often connections break.
//!
//! Source: ceph `doc/dev/msgr2.rst`, "Message flow handshake"; `src/msg/async/ProtocolV2.cc` (`_fault`,
//! `handle_reconnect`, `handle_existing_connection`, `discard_requeued_up_to`).
//!
//! Each side numbers its messages and keeps them until the peer has acknowledged them. When a connection breaks, either
//! side may connect again, as its [`Policy`] says, and both tell each other the last number that they have received: the
//! rest is sent again. Two cookies, one of each side, name the session; a side that was restarted does not know them.

use crate::auth::Entropy;
use crate::config::Config;
use crate::connection::Connection;
use crate::message::Message;
use crate::peer::Target;
use crate::state::{SessionState, global_seq};
use crate::verdict::{Doing, Verdict};
use onego_wire::Time;
use std::sync::Arc;
use std::time::Duration;

/// Messages that may wait to be sent or acknowledged. A peer acknowledges with whatever it sends, and at the latest
/// when it has nothing more to do.
const MAX_HELD: usize = 4096;
/// Bytes of them. One message more may be on its way, of whatever size the peer takes.
const MAX_HELD_BYTES: usize = 64 << 20;

/// How long to wait before the second attempt to connect, and at most (`ms_initial_backoff`, `ms_max_backoff`).
const FIRST_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(15);

/// A session without I/O: messages to and from one peer that nothing gets lost of, over one connection after the other,
/// all of the same version.
///
/// Its owner opens a transport when [`wants_connection`](Self::wants_connection) says so and calls
/// [`connect`](Self::connect); it moves the bytes of [`connection`](Self::connection) and polls its events; it calls
/// [`lost`](Self::lost) when the transport is gone or the connection had a fault. A connection that a peer opened is
/// [accepted](Connection::accept) with a configuration that has the same policy, and given to
/// [`accept`](Self::accept) of the session with that peer once [`Connection::claimed_by`] tells who it is.
#[derive(Debug)]
pub struct Session {
    config: Arc<Config>,
    /// Has the state while there is one.
    connection: Option<Connection>,
    kept: SessionState,
    /// When to connect again; None: once there is something to send.
    again: Option<Time>,
    backoff: Duration,
}

/// What became of a connection that a peer opened.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it is looked at where it comes from, and gone")]
pub enum Accepted {
    /// It carries the session. The one that carried it before is over: it is to be polled for the last time, and its
    /// transport to be closed.
    Carries(Option<Connection>),
    /// The peer is told why it does not. It may ask again.
    Refused(Connection),
    /// It is to be closed: a later life of the peer has a session, or somebody else has.
    Stale(Connection),
}

impl Session {
    /// A session with the policy of `config`, which has not begun. `cookies` gives names to sessions.
    ///
    /// # Panics
    /// If the policy is a lossy one: such connections have no session.
    pub fn new(config: Arc<Config>, cookies: Entropy) -> Self {
        assert!(!config.policy.lossy, "a lossy policy keeps no session");
        let kept = SessionState::new(config.policy, Some(cookies));
        // A client connects at once, a peer when it has something to send.
        let again = (!config.policy.standby).then_some(Time::from_nanos(0));
        Self { config, connection: None, kept, again, backoff: Duration::ZERO }
    }

    pub(crate) fn state(&self) -> &SessionState {
        self.connection.as_ref().map_or(&self.kept, Connection::session)
    }

    /// Queues a message. `Err`: it comes back, because as much waits to be sent or acknowledged as may.
    #[allow(clippy::result_large_err, reason = "the message is the caller's, who keeps it")]
    pub fn send(&mut self, message: Message) -> Result<(), Message> {
        if !self.has_room() {
            return Err(message);
        }
        match &mut self.connection {
            Some(connection) => connection.send(message),
            None => self.kept.outbox.push(message),
        }
        Ok(())
    }

    /// Will the next message be taken?
    pub fn has_room(&self) -> bool {
        let (messages, bytes) = self.state().outbox.held();
        messages < MAX_HELD && bytes < MAX_HELD_BYTES
    }

    /// Messages that the peer has not acknowledged, or that were not sent yet.
    pub fn unacknowledged(&self) -> usize {
        self.state().outbox.held().0
    }

    /// How often what was meant for the peer was lost, as the policy says, because the peer had forgotten the session.
    pub fn resets(&self) -> u64 {
        self.state().resets
    }

    /// The connection that carries the session, or is to.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut()
    }

    /// Should the owner open a transport to the peer?
    pub fn wants_connection(&self, now: Time) -> bool {
        let due = self.again.map_or(!self.kept.outbox.is_empty(), |again| now >= again);
        self.connection.is_none() && !self.config.policy.server && due
    }

    /// When [`wants_connection`](Self::wants_connection) is to be asked again, or
    /// [`Connection::timeout`] wants to be called.
    pub fn deadline(&self) -> Option<Time> {
        match &self.connection {
            Some(connection) => connection.deadline(),
            None => self.again.filter(|_| !self.config.policy.server),
        }
    }

    /// The owner opens a transport to `target`: [`Connection::opened`] follows, or [`lost`](Self::lost).
    pub fn connect(&mut self, now: Time, target: Target) {
        let mut state = self.take_kept();
        let was_open = std::mem::take(&mut state.was_open);
        let is_legacy = target.is_legacy();
        state.global_seq = global_seq(is_legacy, now).max(state.global_seq + 1);
        let goes_on = if is_legacy { was_open } else { state.server_cookie != 0 };
        state.connect_seq += u64::from(goes_on);
        self.connection = Some(Connection::resume(now, Arc::clone(&self.config), target, state));
    }

    /// The transport is gone, or could not be opened. Returns the connection: it is to be polled for the last time.
    pub fn lost(&mut self, now: Time) -> Option<Connection> {
        let mut connection = self.connection.take()?;
        connection.closed();
        self.kept = connection.take_session();
        let wait = std::mem::take(&mut self.kept.wait);
        if self.kept.was_open {
            self.backoff = Duration::ZERO;
            let idle = self.config.policy.standby && self.kept.outbox.is_empty();
            self.again = (!idle).then_some(now);
        } else {
            self.backoff = match self.backoff {
                _ if wait => MAX_BACKOFF,
                Duration::ZERO => FIRST_BACKOFF,
                backoff => (2 * backoff).min(MAX_BACKOFF),
            };
            self.again = Some(now + self.backoff);
        }
        Some(connection)
    }

    /// A peer has opened that connection and [says](Connection::claimed_by) that it is the one of this session.
    ///
    /// # Panics
    /// If it did not say so.
    pub fn accept(&mut self, mut connection: Connection) -> Accepted {
        let doing = match &self.connection {
            Some(current) if current.session().was_open => Doing::Nothing,
            None if self.again.is_none() || self.config.policy.server => Doing::Nothing,
            _ => Doing::Connecting,
        };
        let claim = connection.claim().expect("a connection that is accepted was claimed");
        let known = self.state().peer.as_ref();
        if known.is_some_and(|known| !claim.is_of(known)) {
            return Accepted::Stale(connection);
        }
        match self.state().judge(doing, &self.config.addrs, &claim.wish) {
            Verdict::Drop => Accepted::Stale(connection),
            Verdict::Refuse(refusal) => {
                connection.refuse(refusal);
                Accepted::Refused(connection)
            }
            Verdict::Take { reset } => {
                let before = self.connection.take().map(|mut before| {
                    before.closed();
                    self.kept = before.take_session();
                    before
                });
                let mut state = self.take_kept();
                state.was_open = false;
                if reset {
                    state.reset(true);
                }
                connection.admit(state);
                self.connection = Some(connection);
                Accepted::Carries(before)
            }
        }
    }

    /// With which configuration connections are accepted that may carry the session.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config)
    }

    #[cfg(test)]
    pub(crate) fn kept_mut(&mut self) -> &mut SessionState {
        &mut self.kept
    }

    fn take_kept(&mut self) -> SessionState {
        std::mem::replace(&mut self.kept, SessionState::new(self.config.policy, None))
    }
}
