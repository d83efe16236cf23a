//! The server's side of the authentication of one connection.
//!
//! Source: ceph `src/mon/Monitor.cc` (`handle_auth_request`), `src/auth/AuthServer.cc`, `AuthRegistry.cc` (`pick_mode`).

use super::authority::{Asker, Authority};
use super::crypto::{Key, Secret};
use super::introduction::Introduction;
use super::name::AuthName;
use super::numbers::{method, mode, service};
use super::protocol::ServerChallenge;
use super::verify::Shown;
use crate::types::encoding::{Decode, Encode};
use onego_wire::{Reader, Time};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Error numbers in AUTH_BAD_METHOD.
const EACCES: i32 = -13;
const EOPNOTSUPP: i32 = -95;

/// Bytes of a connection's secret (Auth.cc, `AuthConnectionMeta::get_connection_secret_length`: 16 times 4).
const SECRET_LEN: usize = 64;

/// How a server lets clients in.
#[derive(Debug, Clone)]
pub enum Gate {
    /// Everybody is believed; connections carry checksums.
    Open,
    /// A client without a ticket or a key is refused.
    Cephx {
        /// Knows the keys. Daemons of one process share it.
        authority: Arc<Mutex<Authority>>,
        /// What the server is, one of [`service`]; the monitors are [`service::AUTH`].
        service: u32,
        /// Modes of connections that are allowed.
        modes: Vec<u32>,
    },
}

/// What somebody may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caps {
    /// Everything: nobody was asked who he is.
    Everything,
    /// What is written here, in the words of the service.
    Written(String),
}

/// A server's answer to a client.
#[derive(Debug)]
pub enum Answer {
    /// The client may try another way.
    Refuse {
        /// A negative error number.
        result: i32,
        /// The methods that are allowed.
        methods: Vec<u32>,
        /// The modes that are allowed.
        modes: Vec<u32>,
    },
    /// More is wanted.
    More(Vec<u8>),
    /// The client is let in.
    Done(Box<Admitted>),
}

/// A client that is let in.
#[derive(Debug)]
pub struct Admitted {
    /// Its name.
    pub name: AuthName,
    /// Its number.
    pub global_id: u64,
    /// The mode of the connection.
    pub mode: u32,
    /// The method's own.
    pub payload: Vec<u8>,
    /// The key that both sides share; none if nobody proved anything.
    pub session_key: Option<Key>,
    /// The secret of the connection.
    pub connection_secret: Secret,
    /// What it may do.
    pub caps: Caps,
    /// The monitor's session, in which tickets are renewed.
    pub renewals: Option<Renewals>,
}

/// A client's session with a monitor, as far as it gets new tickets in it.
#[derive(Debug, Clone)]
pub struct Renewals {
    authority: Arc<Mutex<Authority>>,
    name: AuthName,
    global_id: u64,
    server_challenge: u64,
}

impl Renewals {
    /// Answers the payload of an `MAuth`: with that of the `MAuthReply`, or an error number.
    pub fn renew(&self, now: Time, payload: &[u8]) -> Result<Vec<u8>, i32> {
        let session = Asker {
            name: &self.name,
            global_id: self.global_id,
            fresh: false,
            server_challenge: self.server_challenge,
            secret_len: 0,
        };
        lock(&self.authority).renew(now, &session, payload).map_err(|_| EACCES)
    }
}

/// What panics while it holds the lock leaves keys behind that are whole.
fn lock(authority: &Mutex<Authority>) -> MutexGuard<'_, Authority> {
    authority.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is waited for.
#[derive(Debug)]
enum Step {
    Start,
    /// A monitor's client is to show that it has its key.
    Key(Challenged),
    /// A service's client is to show that it is there now.
    Challenge {
        mode: u32,
        challenge: u64,
    },
}

/// A monitor's client that was challenged.
#[derive(Debug)]
struct Challenged {
    name: AuthName,
    /// The number that it says it has.
    said: u64,
    mode: u32,
    challenge: u64,
}

/// The server's side of one connection's authentication.
#[derive(Debug)]
pub struct Reception {
    gate: Gate,
    to_monitor: bool,
    /// The number for a client that has none.
    fresh_global_id: u64,
    step: Step,
}

impl Reception {
    /// Receives a client. `to_monitor`: this side is a monitor, and gives numbers.
    pub fn new(gate: Gate, to_monitor: bool, fresh_global_id: u64) -> Self {
        Self { gate, to_monitor, fresh_global_id, step: Step::Start }
    }

    /// The number of a monitor's client that says it has the number `said`, 0 if none.
    pub fn global_id_for(&self, said: u64) -> u64 {
        if said == 0 { self.fresh_global_id } else { said }
    }

    /// The client introduces itself.
    pub fn request(&mut self, now: Time, method: u32, modes: &[u32], payload: &[u8]) -> Answer {
        self.step = Step::Start;
        let allowed = match &self.gate {
            Gate::Open => method == method::NONE,
            Gate::Cephx { .. } => method == method::CEPHX,
        };
        let Some(mode) = self.pick(modes).filter(|_| allowed) else { return self.refuse(EOPNOTSUPP) };
        match self.gate.clone() {
            Gate::Open => self.believe(mode, payload),
            Gate::Cephx { authority, service: service::AUTH, .. } => {
                self.challenge(&authority, mode, payload)
            }
            Gate::Cephx { authority, service, .. } => {
                let authority = &mut *lock(&authority);
                let Some(shown) = authority.authorizer(now, service, &mut Reader::new(payload)) else {
                    return self.refuse(EACCES);
                };
                // Always, though the client may say that it answers one: it cannot know what it will be.
                let challenge = authority.entropy().u64();
                self.step = Step::Challenge { mode, challenge };
                Answer::More(shown.challenge(challenge, authority.entropy()))
            }
        }
    }

    /// The client answers.
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

    /// The first mode that the client wishes and that is allowed.
    fn pick(&self, wished: &[u32]) -> Option<u32> {
        match &self.gate {
            // A client that insists on secure connections sends no mode at all with the method "none", and gets crc
            // mode from Ceph's servers too (AuthRegistry.cc, get_supported_modes).
            Gate::Open => (wished.is_empty() || wished.contains(&mode::CRC)).then_some(mode::CRC),
            Gate::Cephx { modes, .. } => wished.iter().copied().find(|mode| modes.contains(mode)),
        }
    }

    /// What a client says of itself; none if it is not for this side.
    fn introduction(&self, payload: &[u8]) -> Option<Introduction> {
        let said = Introduction::decode(&mut Reader::new(payload)).ok()?;
        (self.to_monitor || !said.to_monitor).then_some(said)
    }

    /// Believes a client.
    fn believe(&self, mode: u32, payload: &[u8]) -> Answer {
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

    /// Challenges a monitor's client.
    fn challenge(&mut self, authority: &Mutex<Authority>, mode: u32, payload: &[u8]) -> Answer {
        let said = self.introduction(payload).filter(|said| said.to_monitor);
        let Some(Introduction { name, global_id: said, .. }) = said else { return self.refuse(EACCES) };
        // Never 0, which clients take for none.
        let challenge = lock(authority).entropy().u64().max(1);
        self.step = Step::Key(Challenged { name, said, mode, challenge });
        Answer::More(ServerChallenge { challenge }.to_bytes())
    }

    /// Gives a monitor's client a session, if it shows that it has its key.
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
        let session = Asker { name: &name, global_id, fresh, server_challenge, secret_len };
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

fn admit_by_ticket(authority: &mut Authority, shown: &Shown, mode: u32) -> Answer {
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
