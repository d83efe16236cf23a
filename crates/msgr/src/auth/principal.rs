//! A client through its life: its tickets, and when they are to be renewed.

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

/// How long an answer to a question for new tickets may take before it is asked again.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait after an answer with tickets that are of no use.
const RELUCTANCE: Duration = Duration::from_secs(1);

/// A client of a cluster, as the authentication sees it.
#[derive(Debug)]
pub struct Principal {
    credentials: Arc<Credentials>,
    /// Services that tickets are wanted for.
    services: u32,
    entropy: Entropy,
    /// The number that the monitors gave, or 0.
    global_id: u64,
    tickets: Tickets,
    /// Of the monitor of this session.
    server_challenge: u64,
    /// Did the monitors give tickets in this session? They give none to those who prove nothing.
    proved: bool,
    /// The question that is not answered yet, and until when to wait for the answer.
    asked: Option<(Renewal, Time)>,
    /// Not to ask before.
    rest_until: Option<Time>,
}

impl Principal {
    /// A client that needs tickets for `services`.
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

    /// Its name.
    pub fn name(&self) -> &AuthName {
        &self.credentials.name
    }

    /// The number that the monitors gave it, or 0.
    pub fn global_id(&self) -> u64 {
        self.global_id
    }

    /// Begins to speak to a monitor.
    pub fn login_to_monitor(&mut self) -> Login {
        let old = self.tickets.latest(service::AUTH).cloned();
        let (credentials, entropy) = (Arc::clone(&self.credentials), self.entropy.fork());
        Login::to_monitor(credentials, self.global_id, old, self.services, entropy)
    }

    /// Begins to speak to a service.
    pub fn login_to_service(&mut self, now: Time, service: u32) -> Login {
        let authorizer = if self.proved { Some(self.authorizer(now, service)) } else { None };
        let (credentials, entropy) = (Arc::clone(&self.credentials), self.entropy.fork());
        Login::to_service(credentials, self.global_id, authorizer, entropy)
    }

    fn authorizer(&mut self, now: Time, service: u32) -> Result<Authorizer, Error> {
        self.tickets.authorizer(now, service, self.global_id, &mut self.entropy)
    }

    /// A session with a monitor has begun. The first number that a monitor gives is kept for good.
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

    /// A monitor did not believe the client. If that showed an old ticket, the ticket may be too old to be known (its
    /// key is gone after three of its lifetimes): the next login is made with the key alone, as by somebody new.
    pub fn refused(&mut self) {
        self.global_id = 0;
        self.tickets = Tickets::default();
        self.proved = false;
    }

    /// The session is over, or the monitor has refused: what was asked will not be answered.
    pub fn session_ended(&mut self) {
        self.asked = None;
    }

    /// A service did not take its ticket.
    pub fn doubt(&mut self, now: Time, service: u32) {
        self.tickets.doubt(now, service);
    }

    /// What to ask the monitor of this session for, if a ticket is to be renewed: the payload of an `MAuth`.
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
            // One that has run out is of no use as proof, but it names the client.
            _ => {
                let old = self.tickets.latest(service::AUTH);
                Renewal::session(&identity, self.server_challenge, old, self.services, &mut self.entropy)
            }
        };
        self.asked = Some((renewal, now + PATIENCE));
        Some(request)
    }

    /// The monitor has answered.
    pub fn renewed(&mut self, now: Time, reply: &[u8]) -> Result<(), Error> {
        let Some((renewal, _)) = self.asked.take() else { return Ok(()) };
        self.rest_until = Some(now + RELUCTANCE);
        let identity = self.credentials.identity().ok_or(Error::Mismatch("nothing was asked"))?;
        let tickets = renewal.read(&identity, reply)?;
        tickets.into_iter().for_each(|ticket| self.tickets.take(now, ticket));
        self.rest_until = None;
        Ok(())
    }

    /// When [`renew`](Self::renew) has something to ask.
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
