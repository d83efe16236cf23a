//! The client's side of the authentication of one connection.
//!
//! Source: ceph `src/mon/MonClient.cc` (`get_auth_request`, `handle_auth_reply_more`, `handle_auth_done`,
//! `handle_auth_bad_method` and their kin of `MonConnection`).

use super::crypto::{Entropy, Key, Secret};
use super::error::Error;
use super::introduction::Introduction;
use super::monitor::{Granted, MonitorLogin};
use super::name::AuthName;
use super::numbers::{method, mode};
use super::tickets::{Authorizer, Ticket};
use crate::types::encoding::Encode;
use std::sync::Arc;

/// Error number in AUTH_BAD_METHOD: the method, or all modes of the connection, are not allowed.
const EOPNOTSUPP: i32 = -95;

/// The identity of a client, and the methods and modes that it accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Its name.
    pub name: AuthName,
    /// Its key, if it has one.
    pub key: Option<Key>,
    /// The methods that it agrees to, the best first (`auth_client_required`).
    pub methods: Vec<u32>,
    /// The modes of connections to monitors that it agrees to, the best first (`ms_mon_client_mode`).
    pub monitor_modes: Vec<u32>,
    /// The modes of all other connections (`ms_client_mode`).
    pub modes: Vec<u32>,
}

impl Credentials {
    /// The defaults of Ceph's programs, with one exception: a client with a key accepts the method none only if `methods` says
    /// so. Otherwise any server that answers would be taken for the cluster.
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

/// Something to send: the first frame of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The method.
    pub method: u32,
    /// Modes of the connection that are agreed to, the best first.
    pub modes: Vec<u32>,
    /// The method's own.
    pub payload: Vec<u8>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proved {
    /// The key that both sides share; none if nobody proved anything.
    pub session_key: Option<Key>,
    /// The secret of the connection.
    pub connection_secret: Secret,
    /// What a monitor gave.
    pub granted: Option<Granted>,
}

/// Whom the client speaks to.
#[derive(Debug, Clone)]
enum To {
    Monitor {
        old: Option<Ticket>,
        services: u32,
    },
    /// A service: with an authorizer, with a reason why there is none, or with nothing to prove.
    Service(Option<Result<Authorizer, Error>>),
}

/// How far it is with the method that is being tried.
#[derive(Debug, Clone)]
enum Step {
    Begin,
    Introduced,
    Monitor(MonitorLogin),
    Service(Authorizer),
}

/// The client's side of one connection's authentication.
#[derive(Debug, Clone)]
pub struct Login {
    credentials: Arc<Credentials>,
    to: To,
    global_id: u64,
    entropy: Entropy,
    step: Step,
    /// The attempts so far.
    tried: Vec<u32>,
}

impl Login {
    /// To a monitor, with the ticket from an earlier session, for tickets for `services`.
    pub fn to_monitor(
        credentials: Arc<Credentials>,
        global_id: u64,
        old: Option<Ticket>,
        services: u32,
        entropy: Entropy,
    ) -> Self {
        Self::new(credentials, To::Monitor { old, services }, global_id, entropy)
    }

    /// To a service, with an authorizer, or the reason why there is none; `None`: the monitors wanted no proof either.
    pub fn to_service(
        credentials: Arc<Credentials>,
        global_id: u64,
        authorizer: Option<Result<Authorizer, Error>>,
        entropy: Entropy,
    ) -> Self {
        Self::new(credentials, To::Service(authorizer), global_id, entropy)
    }

    /// To somebody who believes everybody, as `client.{id}`.
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

    /// Can this method be tried? Without a proof there is no secret, and so no secure connection: one that insists on
    /// it does not go without.
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

    /// What to send first.
    pub fn begin(&mut self) -> Result<Attempt, Error> {
        let first = self.credentials.methods.iter().copied().find(|method| self.can(*method));
        // Neither a key nor leave to go without.
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

    /// What the client says of itself, without a proof.
    pub fn introduction(&self) -> Introduction {
        Introduction {
            to_monitor: matches!(self.to, To::Monitor { .. }),
            name: self.credentials.name.clone(),
            global_id: self.global_id,
        }
    }

    /// The methods that the client can try, the best first: where it says so at once, and the peer chooses.
    pub fn methods(&self) -> Vec<u32> {
        self.credentials.methods.iter().copied().filter(|method| self.can(*method)).collect()
    }

    /// The peer has chosen a method.
    pub fn choose(&mut self, method: u32) -> Result<Attempt, Error> {
        if self.can(method) {
            return self.attempt(method);
        }
        Err(Error::Methods { theirs: vec![method], ours: self.methods() })
    }

    /// The peer did not take the attempt. The next one, if there is one that it allows.
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

    /// The peer wants to know more.
    pub fn more(&mut self, payload: &[u8]) -> Result<Vec<u8>, Error> {
        match &mut self.step {
            Step::Monitor(login) => login.answer(payload, &mut self.entropy),
            Step::Service(authorizer) => authorizer.answer(payload, &mut self.entropy),
            Step::Begin | Step::Introduced => Err(Error::Mismatch("there is nothing to ask")),
        }
    }

    /// The peer is content, and has chosen a mode of the connection. Now it is its turn to prove who it is.
    pub fn done(&mut self, mode: u32, payload: &[u8]) -> Result<Proved, Error> {
        let proved = match &self.step {
            Step::Begin => return Err(Error::Mismatch("nothing was said")),
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
