//! Client side of a connection's authentication.
//!
//! Source: ceph `src/mon/MonClient.cc` (`get_auth_request`, `handle_auth_reply_more`, `handle_auth_done`,
//! `handle_auth_bad_method` and their `MonConnection` counterparts).

use super::crypto::{Entropy, Key, Secret};
use super::error::Error;
use super::introduction::Introduction;
use super::monitor::{Granted, MonitorLogin};
use super::name::AuthName;
use super::numbers::{method, mode};
use super::tickets::{Authorizer, Ticket};
use crate::types::encoding::Encode;
use std::sync::Arc;

/// Error number in AUTH_BAD_METHOD: the method, or all offered connection modes, are not allowed.
const EOPNOTSUPP: i32 = -95;

/// Identity of a client, with the methods and modes that it accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Name of the client.
    pub name: AuthName,
    /// Key, if any.
    pub key: Option<Key>,
    /// Accepted methods, in order of preference (`auth_client_required`).
    pub methods: Vec<u32>,
    /// Accepted modes of connections to monitors, in order of preference (`ms_mon_client_mode`).
    pub monitor_modes: Vec<u32>,
    /// Accepted modes of all other connections, in order of preference (`ms_client_mode`).
    pub modes: Vec<u32>,
}

impl Credentials {
    /// Creates credentials with the defaults of Ceph's programs, with one exception: a client with a key accepts the
    /// method none only if it is added to `methods`. Otherwise the client would take any server that answers for the
    /// cluster.
    pub fn new(name: AuthName, key: Option<Key>) -> Self {
        let methods = if key.is_some() { vec![method::CEPHX] } else { vec![method::CEPHX, method::NONE] };
        Self {
            name,
            key,
            methods,
            monitor_modes: vec![mode::SECURE, mode::CRC],
            modes: vec![mode::CRC, mode::SECURE],
        }
    }
}

/// First frame of an authentication attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Authentication method.
    pub method: u32,
    /// Accepted connection modes, in order of preference.
    pub modes: Vec<u32>,
    /// Payload of the method.
    pub payload: Vec<u8>,
}

/// Outcome of a successful authentication.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proved {
    /// Key shared by both sides; `None` if nothing was proved.
    pub session_key: Option<Key>,
    /// Secret of the connection.
    pub connection_secret: Secret,
    /// Session and tickets granted by a monitor.
    pub granted: Option<Granted>,
}

#[derive(Debug, Clone)]
enum To {
    Monitor {
        old: Option<Ticket>,
        services: u32,
    },
    /// A service: with an authorizer, with the reason for having none, or with nothing to prove.
    Service(Option<Result<Authorizer, Error>>),
}

#[derive(Debug, Clone)]
enum Step {
    Begin,
    Introduced,
    Monitor(MonitorLogin),
    Service(Authorizer),
}

/// Client side of one connection's authentication.
#[derive(Debug, Clone)]
pub struct Login {
    credentials: Arc<Credentials>,
    to: To,
    global_id: u64,
    entropy: Entropy,
    step: Step,
    tried: Vec<u32>,
}

impl Login {
    /// Creates a login to a monitor that requests tickets for `services`, with the ticket from an earlier session.
    pub fn to_monitor(
        credentials: Arc<Credentials>,
        global_id: u64,
        old: Option<Ticket>,
        services: u32,
        entropy: Entropy,
    ) -> Self {
        Self::new(credentials, To::Monitor { old, services }, global_id, entropy)
    }

    /// Creates a login to a service with an authorizer or the reason for having none; `None`: the monitors required no
    /// proof either.
    pub fn to_service(
        credentials: Arc<Credentials>,
        global_id: u64,
        authorizer: Option<Result<Authorizer, Error>>,
        entropy: Entropy,
    ) -> Self {
        Self::new(credentials, To::Service(authorizer), global_id, entropy)
    }

    /// Creates a login as `client.{id}` to a server that requires no proof.
    pub fn unproved(id: &str, to_monitor: bool, global_id: u64) -> Self {
        let credentials = Arc::new(Credentials::new(AuthName::client(id), None));
        let to = if to_monitor { To::Monitor { old: None, services: 0 } } else { To::Service(None) };
        Self::new(credentials, to, global_id, Entropy::new([0; 32]))
    }

    fn new(credentials: Arc<Credentials>, to: To, global_id: u64, entropy: Entropy) -> Self {
        Self { credentials, to, global_id, entropy, step: Step::Begin, tried: Vec::new() }
    }

    fn modes(&self) -> &[u32] {
        match self.to {
            To::Monitor { .. } => &self.credentials.monitor_modes,
            To::Service(_) => &self.credentials.modes,
        }
    }

    /// Returns whether `method` can be tried. Without a proof there is no secret and therefore no secure connection, so
    /// a client that insists on one never tries the method none.
    fn can(&self, method: u32) -> bool {
        let able = match method {
            method::NONE => self.modes().contains(&mode::CRC) && !matches!(self.to, To::Service(Some(_))),
            method::CEPHX => match &self.to {
                To::Monitor { .. } => self.credentials.key.is_some(),
                To::Service(authorizer) => authorizer.is_some(),
            },
            _ => false,
        };
        able && self.credentials.methods.contains(&method) && !self.tried.contains(&method)
    }

    /// Returns the first attempt.
    pub fn begin(&mut self) -> Result<Attempt, Error> {
        let first = self.credentials.methods.iter().copied().find(|method| self.can(*method));
        // `None`: neither a key nor permission to go without.
        match first {
            Some(method) => self.attempt(method),
            None => Err(self.no_key()),
        }
    }

    fn no_key(&self) -> Error {
        Error::NoKey { name: self.credentials.name.clone() }
    }

    fn attempt(&mut self, method: u32) -> Result<Attempt, Error> {
        self.tried.push(method);
        let (modes, payload) = match (method, &self.to) {
            (method::CEPHX, To::Service(authorizer)) => {
                let authorizer = authorizer.clone().ok_or_else(|| self.no_key())??;
                let payload = authorizer.payload(&mut self.entropy);
                self.step = Step::Service(authorizer);
                (self.modes().to_vec(), payload)
            }
            (method::CEPHX, To::Monitor { old, services }) => {
                let identity = self.credentials.identity().ok_or_else(|| self.no_key())?;
                self.step = Step::Monitor(MonitorLogin::new(identity, old.clone(), *services));
                (self.modes().to_vec(), self.introduction().to_bytes())
            }
            _ => {
                self.step = Step::Introduced;
                (vec![mode::CRC], self.introduction().to_bytes())
            }
        };
        Ok(Attempt { method, modes, payload })
    }

    /// Returns the client's identity, without a proof.
    pub fn introduction(&self) -> Introduction {
        Introduction {
            to_monitor: matches!(self.to, To::Monitor { .. }),
            name: self.credentials.name.clone(),
            global_id: self.global_id,
        }
    }

    /// Returns the methods that the client can try, in order of preference, for handshakes in which the peer chooses.
    pub fn methods(&self) -> Vec<u32> {
        self.credentials.methods.iter().copied().filter(|method| self.can(*method)).collect()
    }

    /// Starts the method chosen by the peer.
    pub fn choose(&mut self, method: u32) -> Result<Attempt, Error> {
        if self.can(method) {
            return self.attempt(method);
        }
        Err(Error::Methods { theirs: vec![method], ours: self.methods() })
    }

    /// Handles a refused attempt: returns the next one that the peer allows.
    pub fn refused(&mut self, result: i32, methods: &[u32], modes: &[u32]) -> Result<Attempt, Error> {
        let tried = self.tried.last().copied().unwrap_or_default();
        if result != EOPNOTSUPP && methods.contains(&tried) {
            let name = self.credentials.name.clone();
            return Err(match self.to {
                To::Monitor { .. } => Error::Refused { name, errno: result },
                To::Service(_) => Error::TicketRefused { name, errno: result },
            });
        }
        if let Some(next) = methods.iter().copied().find(|method| self.can(*method)) {
            return self.attempt(next);
        }
        if methods.contains(&tried) {
            return Err(Error::Modes { theirs: modes.to_vec(), ours: self.modes().to_vec() });
        }
        if methods.contains(&method::CEPHX) && self.credentials.key.is_none() {
            return Err(self.no_key());
        }
        Err(Error::Methods { theirs: methods.to_vec(), ours: self.credentials.methods.clone() })
    }

    /// Answers the peer's request for more data.
    pub fn more(&mut self, payload: &[u8]) -> Result<Vec<u8>, Error> {
        match &mut self.step {
            Step::Monitor(login) => login.answer(payload, &mut self.entropy),
            Step::Service(authorizer) => authorizer.answer(payload, &mut self.entropy),
            Step::Begin | Step::Introduced => Err(Error::Mismatch("an unexpected challenge")),
        }
    }

    /// Completes the authentication: checks the peer's proof and the connection mode that it chose.
    pub fn done(&mut self, mode: u32, payload: &[u8]) -> Result<Proved, Error> {
        let proved = match &self.step {
            Step::Begin => return Err(Error::Mismatch("no method was tried")),
            Step::Introduced => Proved::default(),
            Step::Monitor(login) => {
                let granted = login.finish(payload)?;
                Proved {
                    session_key: granted.session_key().cloned(),
                    connection_secret: granted.connection_secret.clone(),
                    granted: Some(granted),
                }
            }
            Step::Service(authorizer) => Proved {
                connection_secret: authorizer.verify(payload)?,
                session_key: Some(authorizer.session_key().clone()),
                granted: None,
            },
        };
        let allowed = match self.step {
            Step::Introduced => mode == mode::CRC,
            _ => self.modes().contains(&mode),
        };
        if !allowed {
            return Err(Error::Modes { theirs: vec![mode], ours: self.modes().to_vec() });
        }
        Ok(proved)
    }
}
