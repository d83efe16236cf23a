//! Tickets that a client has, and how it shows them to services.
//!
//! Source: ceph `src/auth/cephx/CephxProtocol.cc` (`CephXTicketHandler`, `CephXAuthorizer`); linux
//! `net/ceph/auth_x.c`.

use super::crypto::sealed::{open, open_counted, seal_counted};
use super::crypto::{Entropy, Key, Secret, Usage};
use super::error::Error;
use super::introduction::TO_SERVICE;
use super::protocol::{Authorize, AuthorizeChallenge, AuthorizeReply, ServiceTicket, TicketBlob, Validity};
use crate::types::encoding::{Decode, Encode};
use onego_wire::{Reader, Time, Writer};
use std::collections::BTreeMap;
use std::time::Duration;

/// A ticket for a service, as the monitors give it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The service, one of [`super::service`].
    pub service: u32,
    /// The key that client and service share.
    pub(super) session_key: Key,
    /// The service's part.
    pub(super) blob: TicketBlob,
    /// How long it is good.
    pub(super) validity: Duration,
}

/// Reads the tickets that the monitors sent, sealed with `key`. A ticket that replaces an old one of the same service
/// is sealed with the session key of that one.
pub(super) fn read_tickets(
    key: &Key,
    old: Option<&Ticket>,
    r: &mut Reader<'_>,
) -> Result<Vec<Ticket>, Error> {
    const WHAT: &str = "a ticket";
    r.u8("tickets")?;
    // A service, a version, two lengths and a flag.
    let n = r.count(14, "tickets")?;
    let mut tickets = Vec::with_capacity(n.min(8));
    for _ in 0..n {
        let service = r.u32("ticket's service")?;
        r.u8("ticket")?;
        let mine: ServiceTicket = open_counted(key, Usage::TicketSessionKey, r, WHAT)?;
        let blob = if r.bool("is the ticket sealed")? {
            let old = old.filter(|old| old.service == service).ok_or(Error::Forged { what: WHAT })?;
            // A list of bytes in what is sealed, and the ticket in that.
            let inner: super::protocol::Blob =
                open_counted(&old.session_key, Usage::TicketBlob, r, "a ticket that replaces another")?;
            TicketBlob::from_bytes(&inner.0)?
        } else {
            TicketBlob::from_bytes(r.blob("ticket")?)?
        };
        let Validity(validity) = mine.validity;
        tickets.push(Ticket { service, session_key: mine.session_key, blob, validity });
    }
    Ok(tickets)
}

/// A ticket and how long it is good.
#[derive(Debug, Clone)]
struct Held {
    ticket: Ticket,
    renew_at: Time,
    expires: Time,
}

/// The tickets of a client.
#[derive(Debug, Clone, Default)]
pub struct Tickets {
    held: BTreeMap<u32, Held>,
}

impl Tickets {
    /// Takes a ticket that has just come.
    pub fn take(&mut self, now: Time, ticket: Ticket) {
        // A quarter of its time before the end, as Ceph has it. A ticket that is good for no time at all is good for
        // ever (CephXTicketHandler::need_key).
        let validity = if ticket.validity.is_zero() { Duration::MAX } else { ticket.validity };
        let (expires, renew_at) = (now + validity, now + (validity - validity / 4));
        self.held.insert(ticket.service, Held { ticket, renew_at, expires });
    }

    /// The ticket for a service, if it is still good.
    pub fn get(&self, now: Time, service: u32) -> Option<&Ticket> {
        self.held.get(&service).filter(|held| now < held.expires).map(|held| &held.ticket)
    }

    /// The ticket for a service, good or not.
    pub fn latest(&self, service: u32) -> Option<&Ticket> {
        self.held.get(&service).map(|held| &held.ticket)
    }

    /// Those of `services` for which there is no ticket that will do for long.
    pub fn wanting(&self, now: Time, services: u32) -> u32 {
        bits(services).filter(|bit| self.held.get(bit).is_none_or(|held| held.renew_at <= now)).sum()
    }

    /// When the first of the tickets for `services` is to be renewed; `None` if one is not even there.
    pub fn renew_at(&self, services: u32) -> Option<Time> {
        bits(services).map(|bit| self.held.get(&bit).map(|held| held.renew_at)).min().flatten()
    }

    /// A service did not take its ticket: a new one is wanted at once.
    pub fn doubt(&mut self, now: Time, service: u32) {
        if let Some(held) = self.held.get_mut(&service) {
            held.renew_at = held.renew_at.min(now);
        }
    }

    /// Shows the ticket of a service.
    pub fn authorizer(
        &self,
        now: Time,
        service: u32,
        global_id: u64,
        entropy: &mut Entropy,
    ) -> Result<Authorizer, Error> {
        let ticket = self.get(now, service).ok_or(Error::NoTicket { service })?;
        Ok(Authorizer::new(ticket, global_id, entropy))
    }
}

fn bits(services: u32) -> impl Iterator<Item = u32> {
    (0..u32::BITS).map(|bit| 1 << bit).filter(move |bit| services & bit != 0)
}

/// How a client shows a service who it is: the ticket, and a proof that it has the ticket's session key.
#[derive(Debug, Clone)]
pub struct Authorizer {
    /// The part that says the same in every round.
    base: Vec<u8>,
    session_key: Key,
    nonce: u64,
}

impl Authorizer {
    /// The authorizer for a ticket.
    pub fn new(ticket: &Ticket, global_id: u64, entropy: &mut Entropy) -> Self {
        let mut w = Writer::new();
        w.u8(TO_SERVICE);
        w.u64(global_id);
        w.u32(ticket.service);
        ticket.blob.encode(&mut w);
        Self { base: w.into_vec(), session_key: ticket.session_key.clone(), nonce: entropy.u64() }
    }

    /// What to send first.
    pub fn payload(&self, entropy: &mut Entropy) -> Vec<u8> {
        self.with(&Authorize { nonce: self.nonce, challenge_plus_one: None }, entropy)
    }

    /// What to send when the service has sent a challenge.
    pub fn answer(&self, challenge: &[u8], entropy: &mut Entropy) -> Result<Vec<u8>, Error> {
        let AuthorizeChallenge { challenge } =
            open(&self.session_key, Usage::AuthorizeChallenge, challenge, "the service's challenge")?;
        let challenge_plus_one = Some(challenge.wrapping_add(1));
        Ok(self.with(&Authorize { nonce: self.nonce, challenge_plus_one }, entropy))
    }

    fn with(&self, authorize: &Authorize, entropy: &mut Entropy) -> Vec<u8> {
        let mut w = Writer::with_capacity(self.base.len() + 64);
        w.put(&self.base);
        seal_counted(&self.session_key, Usage::Authorize, authorize, entropy, &mut w);
        w.into_vec()
    }

    /// Checks that the service has the session key too, and returns the secret of the connection, if there is one.
    pub fn verify(&self, reply: &[u8]) -> Result<Secret, Error> {
        let mut r = Reader::new(reply);
        let reply: AuthorizeReply =
            open_counted(&self.session_key, Usage::AuthorizeReply, &mut r, "the service's proof")?;
        if reply.nonce_plus_one != self.nonce.wrapping_add(1) {
            return Err(Error::Mismatch("it answers another authorizer"));
        }
        Ok(reply.connection_secret)
    }

    /// The key that client and service share.
    pub fn session_key(&self) -> &Key {
        &self.session_key
    }
}
