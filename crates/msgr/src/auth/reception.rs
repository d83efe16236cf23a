//! Server side of a connection's authentication.
//!
//! Source: ceph `src/mon/Monitor.cc` (`handle_auth_request`), `src/auth/AuthServer.cc`, `AuthRegistry.cc` (`pick_mode`).

use super::authority::{Authority, Requester};
use super::crypto::{Key, Secret};
use super::introduction::Introduction;
use super::name::AuthName;
use super::numbers::{method, mode, service};
use super::protocol::ServerChallenge;
use super::verify::VerifiedAuthorizer;
use crate::types::encoding::{Decode, Encode};
use onego_wire::{Reader, Time};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Error numbers in AUTH_BAD_METHOD.
const EACCES: i32 = -13;
const EOPNOTSUPP: i32 = -95;

/// Length of a connection's secret in bytes (Auth.cc, `AuthConnectionMeta::get_connection_secret_length`: 16 times 4).
const SECRET_LEN: usize = 64;

/// Authentication that a server requires of clients.
#[derive(Debug, Clone)]
pub enum Gate {
    /// Clients need no proof; connections carry checksums.
    Open,
    /// Clients without a ticket or key are refused.
    Cephx {
        /// Holds the keys. The daemons of one process share it.
        authority: Arc<Mutex<Authority>>,
        /// The server's service, one of [`service`]; the monitors are [`service::AUTH`].
        service: u32,
        /// Allowed connection modes.
        modes: Vec<u32>,
    },
}

/// Capabilities of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caps {
    /// Everything: no proof was required.
    Everything,
    /// These capabilities, in the syntax of the service.
    Written(String),
}

/// A server's answer to a client.
#[derive(Debug)]
pub enum Answer {
    /// The attempt is refused; the client may try another.
    Refuse {
        /// Negative error number.
        result: i32,
        /// Allowed methods.
        methods: Vec<u32>,
        /// Allowed modes.
        modes: Vec<u32>,
    },
    /// More data is required.
    More(Vec<u8>),
    /// The client is admitted.
    Done(Box<Admitted>),
}

/// Admitted client.
#[derive(Debug)]
pub struct Admitted {
    /// Name of the client.
    pub name: AuthName,
    /// Global id of the client.
    pub global_id: u64,
    /// Mode of the connection.
    pub mode: u32,
    /// Payload of the method.
    pub payload: Vec<u8>,
    /// Key shared by both sides; `None` if nothing was proved.
    pub session_key: Option<Key>,
    /// Secret of the connection.
    pub connection_secret: Secret,
    /// Capabilities.
    pub caps: Caps,
    /// Ticket renewals in a monitor's session.
    pub renewals: Option<Renewals>,
}

/// A client's session with a monitor, for renewing tickets.
#[derive(Debug, Clone)]
pub struct Renewals {
    authority: Arc<Mutex<Authority>>,
    name: AuthName,
    global_id: u64,
    server_challenge: u64,
}

impl Renewals {
    /// Answers the payload of an `MAuth` with that of the `MAuthReply`.
    ///
    /// # Errors
    /// Returns a negative error number if the request is refused.
    pub fn renew(&self, now: Time, payload: &[u8]) -> Result<Vec<u8>, i32> {
        let session = Requester {
            name: &self.name,
            global_id: self.global_id,
            fresh: false,
            server_challenge: self.server_challenge,
            secret_len: 0,
        };
        lock(&self.authority).renew(now, &session, payload).map_err(|_| EACCES)
    }
}

/// Locks the authority even if poisoned: a panic under the lock leaves consistent keys.
fn lock(authority: &Mutex<Authority>) -> MutexGuard<'_, Authority> {
    authority.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
enum Step {
    Start,
    /// A monitor's client must prove that it has its key.
    Key(Challenged),
    /// A service's client must answer a challenge, which prevents replays.
    Challenge {
        mode: u32,
        challenge: u64,
    },
}

#[derive(Debug)]
struct Challenged {
    name: AuthName,
    /// Number that the client claims.
    said: u64,
    mode: u32,
    challenge: u64,
}

/// Server side of one connection's authentication.
#[derive(Debug)]
pub struct Reception {
    gate: Gate,
    to_monitor: bool,
    /// Number for a client that has none.
    fresh_global_id: u64,
    step: Step,
}

impl Reception {
    /// Creates the server side. `to_monitor`: this side is a monitor, which assigns numbers.
    pub fn new(gate: Gate, to_monitor: bool, fresh_global_id: u64) -> Self {
        Self { gate, to_monitor, fresh_global_id, step: Step::Start }
    }

    /// Returns the number of a monitor's client that claims the number `said`, 0 if none.
    pub fn global_id_for(&self, said: u64) -> u64 {
        if said == 0 { self.fresh_global_id } else { said }
    }

    /// Processes the client's first frame.
    pub fn request(&mut self, now: Time, method: u32, modes: &[u32], payload: &[u8]) -> Answer {
        self.step = Step::Start;
        let allowed = match &self.gate {
            Gate::Open => method == method::NONE,
            Gate::Cephx { .. } => method == method::CEPHX,
        };
        let Some(mode) = self.pick(modes).filter(|_| allowed) else { return self.refuse(EOPNOTSUPP) };
        match self.gate.clone() {
            Gate::Open => self.admit_unproved(mode, payload),
            Gate::Cephx { authority, service: service::AUTH, .. } => {
                self.challenge(&authority, mode, payload)
            }
            Gate::Cephx { authority, service, .. } => {
                let authority = &mut *lock(&authority);
                let Some(shown) = authority.authorizer(now, service, &mut Reader::new(payload)) else {
                    return self.refuse(EACCES);
                };
                // Always: even a client whose authorizer already answers a challenge cannot know this one.
                let challenge = authority.entropy().u64();
                self.step = Step::Challenge { mode, challenge };
                Answer::More(shown.challenge(challenge, authority.entropy()))
            }
        }
    }

    /// Processes the client's next frame.
    pub fn more(&mut self, now: Time, payload: &[u8]) -> Answer {
        let Gate::Cephx { authority, service, .. } = self.gate.clone() else { return self.refuse(EACCES) };
        match std::mem::replace(&mut self.step, Step::Start) {
            Step::Start => self.refuse(EACCES),
            Step::Key(challenged) => self.give_session(now, authority, challenged, payload),
            Step::Challenge { mode, challenge } => {
                let authority = &mut *lock(&authority);
                let mut r = Reader::new(payload);
                let shown = authority.authorizer(now, service, &mut r);
                match shown.filter(|shown| shown.answers(challenge)) {
                    Some(shown) => admit_by_ticket(authority, &shown, mode),
                    None => self.refuse(EACCES),
                }
            }
        }
    }

    fn refuse(&self, result: i32) -> Answer {
        let (method, modes) = match &self.gate {
            Gate::Open => (method::NONE, vec![mode::CRC]),
            Gate::Cephx { modes, .. } => (method::CEPHX, modes.clone()),
        };
        Answer::Refuse { result, methods: vec![method], modes }
    }

    /// Returns the first mode that the client offers and that is allowed.
    fn pick(&self, offered: &[u32]) -> Option<u32> {
        match &self.gate {
            // A client that insists on secure connections sends no mode with the method "none", and gets crc mode from
            // Ceph's servers too (AuthRegistry.cc, get_supported_modes).
            Gate::Open => (offered.is_empty() || offered.contains(&mode::CRC)).then_some(mode::CRC),
            Gate::Cephx { modes, .. } => offered.iter().copied().find(|mode| modes.contains(mode)),
        }
    }

    /// Decodes a client's identity; `None` if it is invalid or meant for a monitor and this side is none.
    fn introduction(&self, payload: &[u8]) -> Option<Introduction> {
        let said = Introduction::decode(&mut Reader::new(payload)).ok()?;
        (self.to_monitor || !said.to_monitor).then_some(said)
    }

    /// Admits a client without a proof.
    fn admit_unproved(&self, mode: u32, payload: &[u8]) -> Answer {
        let Some(said) = self.introduction(payload) else { return self.refuse(EACCES) };
        let Introduction { to_monitor, name, global_id } = said;
        let global_id = if to_monitor { self.global_id_for(global_id) } else { global_id };
        Answer::Done(Box::new(Admitted {
            name,
            global_id,
            mode,
            payload: Vec::new(),
            session_key: None,
            connection_secret: Secret::default(),
            caps: Caps::Everything,
            renewals: None,
        }))
    }

    fn challenge(&mut self, authority: &Mutex<Authority>, mode: u32, payload: &[u8]) -> Answer {
        let said = self.introduction(payload).filter(|said| said.to_monitor);
        let Some(Introduction { name, global_id: said, .. }) = said else { return self.refuse(EACCES) };
        // Never 0, which clients interpret as none.
        let challenge = lock(authority).entropy().u64().max(1);
        self.step = Step::Key(Challenged { name, said, mode, challenge });
        Answer::More(ServerChallenge { challenge }.to_bytes())
    }

    fn give_session(
        &self,
        now: Time,
        authority: Arc<Mutex<Authority>>,
        challenged: Challenged,
        payload: &[u8],
    ) -> Answer {
        let Challenged { name, said, mode, challenge: server_challenge } = challenged;
        let (fresh, global_id) = (said == 0, self.global_id_for(said));
        let secret_len = if mode == mode::SECURE { SECRET_LEN } else { 0 };
        let session = Requester { name: &name, global_id, fresh, server_challenge, secret_len };
        let Ok(given) = lock(&authority).session(now, &session, payload) else { return self.refuse(EACCES) };
        Answer::Done(Box::new(Admitted {
            global_id,
            mode,
            payload: given.payload,
            session_key: Some(given.session_key),
            connection_secret: given.connection_secret,
            caps: Caps::Written(given.caps),
            renewals: Some(Renewals { authority, name: name.clone(), global_id, server_challenge }),
            name,
        }))
    }
}

fn admit_by_ticket(authority: &mut Authority, shown: &VerifiedAuthorizer, mode: u32) -> Answer {
    let secret_len = if mode == mode::SECURE { SECRET_LEN } else { 0 };
    let connection_secret = authority.entropy().secret(secret_len);
    let payload = shown.reply(&connection_secret, authority.entropy());
    let ticket = &shown.info.ticket;
    let caps = Caps::Written(ticket.caps.clone());
    Answer::Done(Box::new(Admitted {
        name: ticket.name.clone(),
        global_id: ticket.global_id,
        mode,
        payload,
        session_key: Some(shown.info.session_key.clone()),
        connection_secret,
        caps,
        renewals: None,
    }))
}
