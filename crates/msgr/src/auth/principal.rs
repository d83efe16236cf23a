//! A client's authentication state: its tickets and their renewal.

use super::crypto::Entropy;
use super::error::Error;
use super::login::{Credentials, Login};
use super::monitor::{Granted, NamedKey, Renewal};
use super::name::AuthName;
use super::numbers::service;
use super::tickets::Authorizer;
use super::tickets::Tickets;
use onego_wire::Time;
use std::sync::Arc;
use std::time::Duration;

/// Timeout of a ticket renewal request before it is repeated.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Delay after an answer with unusable tickets.
const RENEWAL_DELAY: Duration = Duration::from_secs(1);

/// A cluster client's authentication state.
#[derive(Debug)]
pub struct Principal {
    credentials: Arc<Credentials>,
    /// Services that tickets are needed for.
    services: u32,
    entropy: Entropy,
    /// Number assigned by the monitors, or 0.
    global_id: u64,
    tickets: Tickets,
    /// Challenge of this session's monitor.
    server_challenge: u64,
    /// The monitors granted tickets in this session. They grant none to clients that prove nothing.
    proved: bool,
    /// Pending renewal and its timeout.
    asked: Option<(Renewal, Time)>,
    /// No renewal is requested before this time.
    rest_until: Option<Time>,
}

impl Principal {
    /// Creates a client that needs tickets for `services`.
    pub fn new(credentials: Arc<Credentials>, services: u32, entropy: Entropy) -> Self {
        Self {
            credentials,
            services,
            entropy,
            global_id: 0,
            tickets: Tickets::default(),
            server_challenge: 0,
            proved: false,
            asked: None,
            rest_until: None,
        }
    }

    /// Returns the client's name.
    pub fn name(&self) -> &AuthName {
        &self.credentials.name
    }

    /// Returns the number assigned by the monitors, or 0.
    pub fn global_id(&self) -> u64 {
        self.global_id
    }

    /// Starts a login to a monitor.
    pub fn login_to_monitor(&mut self) -> Login {
        let old = self.tickets.latest(service::AUTH).cloned();
        let (credentials, entropy) = (Arc::clone(&self.credentials), self.entropy.fork());
        Login::to_monitor(credentials, self.global_id, old, self.services, entropy)
    }

    /// Starts a login to a service.
    pub fn login_to_service(&mut self, now: Time, service: u32) -> Login {
        let authorizer = if self.proved { Some(self.authorizer(now, service)) } else { None };
        let (credentials, entropy) = (Arc::clone(&self.credentials), self.entropy.fork());
        Login::to_service(credentials, self.global_id, authorizer, entropy)
    }

    fn authorizer(&mut self, now: Time, service: u32) -> Result<Authorizer, Error> {
        self.tickets.authorizer(now, service, self.global_id, &mut self.entropy)
    }

    /// Records the start of a session with a monitor. The first number that a monitor assigns is kept for good.
    pub fn session_began(&mut self, now: Time, global_id: u64, granted: Option<Granted>) {
        if self.global_id == 0 {
            self.global_id = global_id;
        }
        (self.asked, self.rest_until) = (None, None);
        self.proved = granted.is_some();
        if let Some(granted) = granted {
            self.server_challenge = granted.server_challenge;
            granted.tickets.into_iter().for_each(|ticket| self.tickets.take(now, ticket));
        }
    }

    /// Handles a monitor's refusal. The old ticket may be too old to be known, because its key is gone after three of
    /// its lifetimes: the next login uses only the key, like that of a new client.
    pub fn refused(&mut self) {
        self.global_id = 0;
        self.tickets = Tickets::default();
        self.proved = false;
    }

    /// Records the end of the session or a refused renewal: the pending request will not be answered.
    pub fn session_ended(&mut self) {
        self.asked = None;
    }

    /// Handles a service's refusal of its ticket.
    pub fn doubt(&mut self, now: Time, service: u32) {
        self.tickets.doubt(now, service);
    }

    /// Returns the request to the session's monitor if a ticket must be renewed: the payload of an `MAuth`.
    pub fn renew(&mut self, now: Time) -> Option<Vec<u8>> {
        let resting = self.rest_until.is_some_and(|until| now < until);
        let waiting = self.asked.as_ref().is_some_and(|(_, until)| now < *until);
        if !self.proved || resting || waiting {
            return None;
        }
        let identity = self.credentials.identity()?;
        let auth = self.tickets.get(now, service::AUTH);
        let wanting = self.tickets.wanting(now, self.services);
        let (renewal, request) = match auth {
            Some(ticket) if self.tickets.wanting(now, service::AUTH) == 0 => {
                if wanting == 0 {
                    return None;
                }
                Renewal::services(ticket, self.global_id, wanting, &mut self.entropy)
            }
            // An expired ticket proves nothing, but it identifies the client.
            _ => {
                let old = self.tickets.latest(service::AUTH);
                Renewal::session(&identity, self.server_challenge, old, self.services, &mut self.entropy)
            }
        };
        self.asked = Some((renewal, now + RENEWAL_TIMEOUT));
        Some(request)
    }

    /// Handles the monitor's answer to the pending renewal.
    pub fn renewed(&mut self, now: Time, reply: &[u8]) -> Result<(), Error> {
        let Some((renewal, _)) = self.asked.take() else { return Ok(()) };
        self.rest_until = Some(now + RENEWAL_DELAY);
        let identity = self.credentials.identity().ok_or(Error::Mismatch("nothing was requested"))?;
        let tickets = renewal.read(&identity, reply)?;
        tickets.into_iter().for_each(|ticket| self.tickets.take(now, ticket));
        self.rest_until = None;
        Ok(())
    }

    /// Returns when to call [`renew`](Self::renew).
    pub fn deadline(&self) -> Option<Time> {
        if !self.proved {
            return None;
        }
        if let Some((_, until)) = &self.asked {
            return Some(*until);
        }
        let due = self.tickets.renew_at(self.services | service::AUTH).unwrap_or_default();
        Some(self.rest_until.map_or(due, |until| until.max(due)))
    }
}

impl Credentials {
    pub(super) fn identity(&self) -> Option<NamedKey> {
        let key = self.key.clone()?;
        Some(NamedKey { name: self.name.clone(), key })
    }
}
