//! Sessions that outlive their connections: every message arrives once, in order, however often connections break.
//!
//! Source: ceph `doc/dev/msgr2.rst`, "Message flow handshake"; `src/msg/async/ProtocolV2.cc` (`_fault`,
//! `handle_reconnect`, `handle_existing_connection`, `discard_requeued_up_to`).
//!
//! Each side numbers its messages and keeps them until the peer has acknowledged them. When a connection breaks, either
//! side may connect again, as its [`Policy`] says, and both tell each other the last number that they have received: the
//! rest is sent again. Two cookies, one of each side, name the session; whoever was started anew does not know them.

use super::config::Config;
use super::control::{Ident, Reconnect};
use super::either::Connection;
use super::error::Error;
use super::message::{Header, Message};
use super::outbox::Outbox;
use super::peer::Target;
use super::policy::Policy;
use super::v1;
use crate::addr::{AddrKind, AddrVec, EntityAddr};
use crate::auth::{AuthName, Entropy};
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

/// What one side keeps of a session while connections come and go.
#[derive(Debug)]
pub(super) struct State {
    pub(super) policy: Policy,
    /// Names of the session: of the side that asked for it, and of the side that granted it. 0: none yet.
    pub(super) client_cookie: u64,
    pub(super) server_cookie: u64,
    /// Orders all attempts of this side to connect, and those within the session.
    pub(super) global_seq: u64,
    pub(super) connect_seq: u64,
    /// The number that the peer gave its last attempt.
    pub(super) peer_global_seq: u64,
    /// Number of the last message that was received.
    pub(super) in_seq: u64,
    /// Was a message received whose number the peer has not been told?
    pub(super) ack_due: bool,
    pub(super) outbox: Outbox,
    /// Who the peer is.
    pub(super) peer: Option<Known>,
    /// The peer asks to wait for its own connection.
    pub(super) wait: bool,
    /// Have messages flowed on the last connection?
    pub(super) was_open: bool,
    /// How often the peer had forgotten the session, and what was meant for it was forgotten, too.
    resets: u64,
    cookies: Option<Entropy>,
}

/// Who the peer of a session is.
#[derive(Debug)]
pub(super) struct Known {
    /// What it said of itself in version 2.
    pub(super) ident: Option<Ident>,
    pub(super) kind: u8,
    /// The name that it has proved, if it did.
    pub(super) auth_name: Option<AuthName>,
}

/// What a peer that has connected wants.
#[derive(Debug, Clone)]
pub(super) enum Wish {
    /// A new session.
    New(Ident),
    /// To go on with one.
    Resume(Reconnect),
    /// One or the other, in version 1: a new session if `connect_seq` is 0.
    Legacy { addrs: AddrVec, global_seq: u64, connect_seq: u64 },
}

impl Wish {
    pub(super) fn addrs(&self) -> &AddrVec {
        match self {
            Self::New(ident) => &ident.addrs,
            Self::Resume(reconnect) => &reconnect.addrs,
            Self::Legacy { addrs, .. } => addrs,
        }
    }
}

/// Why a peer that has connected does not get what it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The session is not known. `full`: what was meant for it is to be forgotten.
    Reset { full: bool },
    /// The session has seen this attempt to connect already. The number is as each version has it on the wire: the
    /// session's, or the next one (version 1).
    Retry { connect_seq: u64 },
    /// This side has seen a later connection of the peer.
    RetryGlobal { global_seq: u64 },
    /// This side is connecting itself, and that connection is to be used.
    Wait,
}

/// What is decided about a peer that has connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its connection carries the session from now on. `reset`: what was meant for the peer is forgotten first.
    Take {
        reset: bool,
    },
    Refuse(Refusal),
    /// It is an earlier life of the peer, or another one.
    Drop,
}

/// What this side is doing when the peer connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// It is connected, or waits for something to send.
    Nothing,
    /// It is connecting, or about to.
    Connecting,
}

impl State {
    /// What a connection has that carries no session, or none yet.
    pub(super) fn without(policy: Policy, global_seq: u64) -> Self {
        Self { global_seq, ..Self::new(policy, None) }
    }

    fn new(policy: Policy, cookies: Option<Entropy>) -> Self {
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

    /// Gives away what outlives the connection; nothing is left of it here.
    pub(super) fn take(&mut self) -> Self {
        let nothing = Self::without(self.policy, 0);
        std::mem::replace(self, nothing)
    }

    /// The connection that had this state carries `session` from now on. Attempts to connect stay in order.
    pub(super) fn go_on_as(&mut self, session: Self) {
        let global_seq = self.global_seq.max(session.global_seq + 1);
        *self = Self { global_seq, ..session };
    }

    /// Another name for a session.
    pub(super) fn fresh_cookie(&mut self) -> u64 {
        self.cookies.as_mut().map_or(0, |cookies| cookies.u64().max(1))
    }

    /// The peer does not know the session. `full`: what was meant for it is forgotten.
    pub(super) fn reset(&mut self, full: bool) {
        (self.server_cookie, self.connect_seq, self.in_seq) = (0, 0, 0);
        if full {
            self.resets += 1;
            (self.client_cookie, self.peer_global_seq) = (0, 0);
            self.outbox.reset();
        }
    }

    /// A session begins: the peer has received nothing of it, and this side nothing.
    pub(super) fn begin(&mut self) {
        self.in_seq = 0;
        self.ack_due = false;
        self.outbox.begin(!self.policy.lossy);
    }

    /// A message with that header was received. `false`: it was received before, on an earlier connection.
    ///
    /// Numbers may skip ahead, because senders may take back messages that they have numbered, but they never go back
    /// unless a session goes on (ProtocolV2.cc, handle_message; ProtocolV1.cc, handle_message_footer).
    #[inline]
    pub(super) fn received(&mut self, header: &Header) -> Result<bool, Error> {
        if self.policy.lossy && header.seq > self.in_seq {
            self.in_seq = header.seq;
            return Ok(true);
        }
        self.received_of_session(header)
    }

    /// The same beside the hot path.
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

    /// What to do about a peer that has connected to `own` and wants that.
    pub(super) fn judge(&self, doing: Doing, own: &AddrVec, wish: &Wish) -> Verdict {
        // Of two connections that are opened at the same time, that of the lower address is used.
        let peer_wins = self.policy.server || addr_of(wish.addrs()) < addr_of(own);
        match wish {
            Wish::New(ident) => {
                let same_life = self.client_cookie == ident.cookie;
                if self.peer_global_seq > ident.global_seq {
                    Verdict::Drop
                } else if self.server_cookie != 0 && self.client_cookie != 0 && !same_life {
                    Verdict::Take { reset: self.policy.reset_check }
                } else if same_life || doing == Doing::Nothing || peer_wins {
                    Verdict::Take { reset: false }
                } else {
                    Verdict::Refuse(Refusal::Wait)
                }
            }
            Wish::Resume(ask) => {
                if self.client_cookie != ask.client_cookie {
                    let full = self.peer.is_none() || self.policy.reset_check;
                    Verdict::Refuse(Refusal::Reset { full })
                } else if self.server_cookie == 0 {
                    // This side never learned that its session was granted.
                    Verdict::Refuse(Refusal::Reset { full: false })
                } else if self.peer_global_seq > ask.global_seq {
                    Verdict::Refuse(Refusal::RetryGlobal { global_seq: self.peer_global_seq })
                } else if self.connect_seq > ask.connect_seq {
                    Verdict::Refuse(Refusal::Retry { connect_seq: self.connect_seq })
                } else if self.connect_seq == ask.connect_seq && !peer_wins {
                    Verdict::Refuse(Refusal::Wait)
                } else {
                    Verdict::Take { reset: false }
                }
            }
            Wish::Legacy { global_seq, connect_seq, .. } => {
                self.judge_legacy(doing, peer_wins, *global_seq, *connect_seq)
            }
        }
    }

    /// The same in version 1, whose sessions have no names (ProtocolV1.cc, `handle_connect_message_2`).
    fn judge_legacy(&self, doing: Doing, peer_wins: bool, global_seq: u64, connect_seq: u64) -> Verdict {
        let own = self.connect_seq;
        // Messages have flowed only if the peer is known: it may have missed the answer to its first attempt.
        let none = self.peer.is_none() && own == 0 && doing == Doing::Nothing;
        let retry = Verdict::Refuse(Refusal::Retry { connect_seq: own + 1 });
        if global_seq < self.peer_global_seq {
            Verdict::Refuse(Refusal::RetryGlobal { global_seq: self.peer_global_seq })
        } else if connect_seq == 0 && own > 0 {
            // Another life of the peer.
            Verdict::Take { reset: self.policy.reset_check && self.peer.is_some() }
        } else if connect_seq > 0 && (none || (self.policy.reset_check && own == 0)) {
            Verdict::Refuse(Refusal::Reset { full: true })
        } else if none || connect_seq > own {
            Verdict::Take { reset: false }
        } else if connect_seq < own {
            retry
        } else if doing == Doing::Nothing {
            if self.policy.reset_check && own == 0 { Verdict::Take { reset: false } } else { retry }
        } else if peer_wins {
            Verdict::Take { reset: false }
        } else {
            Verdict::Refuse(Refusal::Wait)
        }
    }
}

/// The address that orders two sides.
fn addr_of(addrs: &AddrVec) -> Option<&EntityAddr> {
    addrs.msgr2().or(addrs.legacy()).or(addrs.0.first())
}

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
    kept: State,
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
        let kept = State::new(config.policy, Some(cookies));
        // A client connects at once, a peer when it has something to send.
        let again = (!config.policy.standby).then_some(Time::from_nanos(0));
        Self { config, connection: None, kept, again, backoff: Duration::ZERO }
    }

    pub(super) fn state(&self) -> &State {
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
        if target.addr.kind == AddrKind::Legacy {
            state.global_seq = u64::from(v1::global_seq(now)).max(state.global_seq + 1);
            state.connect_seq += u64::from(was_open);
        } else {
            state.global_seq = now.as_nanos().max(state.global_seq + 1);
            state.connect_seq += u64::from(state.server_cookie != 0);
        }
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
    pub(super) fn kept_mut(&mut self) -> &mut State {
        &mut self.kept
    }

    fn take_kept(&mut self) -> State {
        std::mem::replace(&mut self.kept, State::new(self.config.policy, None))
    }
}

/// Who has connected, and wants what.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) wish: Wish,
    pub(super) kind: u8,
    pub(super) auth_name: Option<AuthName>,
}

impl Claim {
    /// Is it the peer that the session is with? Nobody takes over what belongs to somebody else.
    fn is_of(&self, known: &Known) -> bool {
        // A server proves no name to its client.
        let same_name = known.auth_name.is_none() || known.auth_name == self.auth_name;
        self.kind == known.kind && same_name
    }
}
