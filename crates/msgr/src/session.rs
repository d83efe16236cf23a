//! Sessions that survive their connections: every message arrives once and in order, however often connections break.
//!
//! Source: ceph `doc/dev/msgr2.rst`, "Message flow handshake"; `src/msg/async/ProtocolV2.cc` (`_fault`,
//! `handle_reconnect`, `handle_existing_connection`, `discard_requeued_up_to`).
//!
//! Each side numbers its messages and keeps them until the peer acknowledges them. When a connection breaks, either
//! side may reconnect as its [`Policy`] allows. Both exchange the last number that they received and resend the rest.
//! Two cookies, one from each side, identify the session; a restarted side does not know them.

use crate::auth::Entropy;
use crate::config::Config;
use crate::connection::Connection;
use crate::decision::{AcceptDecision, LocalState};
use crate::message::Message;
use crate::peer::Target;
use crate::state::{SessionState, global_seq};
use onego_wire::Time;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of messages waiting for transmission or acknowledgement. A peer acknowledges with whatever it sends,
/// and at the latest when it becomes idle.
const MAX_HELD: usize = 4096;
/// Maximum size of these messages. One more message, of any size that the peer accepts, may be queued beyond it.
const MAX_HELD_BYTES: usize = 64 << 20;

/// Delay before the second connection attempt, and its maximum (`ms_initial_backoff`, `ms_max_backoff`).
const FIRST_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(15);

/// Lossless message session with one peer, without I/O. It uses one connection after the other, all of the same
/// version.
///
/// The owner opens a transport when [`wants_connection`](Self::wants_connection) returns true and calls
/// [`connect`](Self::connect). It moves the bytes of [`connection`](Self::connection), polls its events, and calls
/// [`lost`](Self::lost) when the transport is gone or the connection had a fault. It [accepts](Connection::accept) a
/// connection opened by a peer with a configuration of the same policy. Once [`Connection::claimed_by`] identifies the
/// peer, it passes the connection to [`accept`](Self::accept) of that peer's session.
#[derive(Debug)]
pub struct Session {
    config: Arc<Config>,
    /// Holds the state while present.
    connection: Option<Connection>,
    kept: SessionState,
    /// When to reconnect; `None`: once there is something to send.
    again: Option<Time>,
    backoff: Duration,
}

/// Outcome of accepting a peer's connection.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the value is consumed immediately")]
pub enum Accepted {
    /// The connection carries the session. The previous one is over: poll it a last time and close its transport.
    Carries(Option<Connection>),
    /// The connection was refused, and the refusal is queued on it. The peer may ask again.
    Refused(Connection),
    /// The connection must be closed: a later instance of the peer or another peer owns the session.
    Stale(Connection),
}

impl Session {
    /// Creates a session that has not begun, with the policy of `config`. `cookies` generates session cookies.
    ///
    /// # Panics
    /// If the policy is lossy: such connections have no session.
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

    /// Queues a message.
    ///
    /// # Errors
    /// Returns the message if the queue of unsent and unacknowledged messages is full.
    #[allow(clippy::result_large_err, reason = "the caller gets its message back")]
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

    /// Returns whether [`send`](Self::send) accepts another message.
    pub fn has_room(&self) -> bool {
        let (messages, bytes) = self.state().outbox.held();
        messages < MAX_HELD && bytes < MAX_HELD_BYTES
    }

    /// Returns the number of messages not yet sent or not yet acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.state().outbox.held().0
    }

    /// Returns how often queued messages were dropped, as the policy requires, because the peer had lost the session.
    pub fn resets(&self) -> u64 {
        self.state().resets
    }

    /// Returns the connection that carries the session or is meant to.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        self.connection.as_mut()
    }

    /// Returns whether the owner should open a transport to the peer.
    pub fn wants_connection(&self, now: Time) -> bool {
        let due = self.again.map_or(!self.kept.outbox.is_empty(), |again| now >= again);
        self.connection.is_none() && !self.config.policy.server && due
    }

    /// Returns when to check [`wants_connection`](Self::wants_connection) again or to call [`Connection::timeout`].
    pub fn deadline(&self) -> Option<Time> {
        match &self.connection {
            Some(connection) => connection.deadline(),
            None => self.again.filter(|_| !self.config.policy.server),
        }
    }

    /// Starts a connection to `target`, to which the owner is opening a transport. Either [`Connection::opened`] or
    /// [`lost`](Self::lost) follows.
    pub fn connect(&mut self, now: Time, target: Target) {
        let mut state = self.take_kept();
        let was_open = std::mem::take(&mut state.was_open);
        let is_legacy = target.is_legacy();
        state.global_seq = global_seq(is_legacy, now).max(state.global_seq + 1);
        let goes_on = if is_legacy { was_open } else { state.server_cookie != 0 };
        state.connect_seq += u64::from(goes_on);
        self.connection = Some(Connection::resume(now, Arc::clone(&self.config), target, state));
    }

    /// Handles a transport that is gone or could not be opened. Returns the connection, to be polled a last time.
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

    /// Decides about a peer's connection that [claims](Connection::claimed_by) this session.
    ///
    /// # Panics
    /// If the connection claims no session.
    pub fn accept(&mut self, mut connection: Connection) -> Accepted {
        let local = match &self.connection {
            Some(current) if current.session().was_open => LocalState::Idle,
            None if self.again.is_none() || self.config.policy.server => LocalState::Idle,
            _ => LocalState::Connecting,
        };
        let claim = connection.claim().expect("an accepted connection claims a session");
        let known = self.state().peer.as_ref();
        if known.is_some_and(|known| !claim.is_of(known)) {
            return Accepted::Stale(connection);
        }
        match self.state().decide(local, &self.config.addrs, &claim.request) {
            AcceptDecision::Drop => Accepted::Stale(connection),
            AcceptDecision::Refuse(refusal) => {
                connection.refuse(refusal);
                Accepted::Refused(connection)
            }
            AcceptDecision::Take { reset } => {
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

    /// Returns the configuration for accepting connections that may carry the session.
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
