//! A client's tickets and their presentation to services.
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

/// Ticket for a service, issued by the monitors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Service, one of [`super::service`].
    pub service: u32,
    pub(super) session_key: Key,
    pub(super) blob: TicketBlob,
    pub(super) validity: Duration,
}

/// Reads the tickets sent by the monitors, sealed with `key`. A ticket that replaces an old one of the same service is
/// sealed with the session key of that one.
pub(super) fn read_tickets(
    key: &Key,
    old: Option<&Ticket>,
    r: &mut Reader<'_>,
) -> Result<Vec<Ticket>, Error> {
    const WHAT: &str = "a ticket";
    r.u8("tickets")?;
    // Minimum size: a service, a version, two lengths and a flag.
    let n = r.count(14, "tickets")?;
    let mut tickets = Vec::with_capacity(n.min(8));
    for _ in 0..n {
        let service = r.u32("ticket's service")?;
        r.u8("ticket")?;
        let mine: ServiceTicket = open_counted(key, Usage::TicketSessionKey, r, WHAT)?;
        let blob = if r.bool("is the ticket sealed")? {
            let old = old.filter(|old| old.service == service).ok_or(Error::Forged { what: WHAT })?;
            // The sealed data is a byte list that contains the ticket.
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

#[derive(Debug, Clone)]
struct StoredTicket {
    ticket: Ticket,
    renew_at: Time,
    expires: Time,
}

/// Tickets of a client.
#[derive(Debug, Clone, Default)]
pub struct Tickets {
    held: BTreeMap<u32, StoredTicket>,
}

impl Tickets {
    /// Stores a ticket just received.
    pub fn take(&mut self, now: Time, ticket: Ticket) {
        // Renewed a quarter of its lifetime before expiry, as in Ceph. A ticket with a lifetime of zero never expires
        // (CephXTicketHandler::need_key).
        let validity = if ticket.validity.is_zero() { Duration::MAX } else { ticket.validity };
        let (expires, renew_at) = (now + validity, now + (validity - validity / 4));
        self.held.insert(ticket.service, StoredTicket { ticket, renew_at, expires });
    }

    /// Returns the ticket for a service if it has not expired.
    pub fn get(&self, now: Time, service: u32) -> Option<&Ticket> {
        self.held.get(&service).filter(|held| now < held.expires).map(|held| &held.ticket)
    }

    /// Returns the latest ticket for a service, expired or not.
    pub fn latest(&self, service: u32) -> Option<&Ticket> {
        self.held.get(&service).map(|held| &held.ticket)
    }

    /// Returns those of `services` whose tickets are missing or due for renewal.
    pub fn wanting(&self, now: Time, services: u32) -> u32 {
        bits(services).filter(|bit| self.held.get(bit).is_none_or(|held| held.renew_at <= now)).sum()
    }

    /// Returns when to renew the first of the tickets for `services`; `None` if one is missing.
    pub fn renew_at(&self, services: u32) -> Option<Time> {
        bits(services).map(|bit| self.held.get(&bit).map(|held| held.renew_at)).min().flatten()
    }

    /// Handles a service's refusal of its ticket: renews it at once.
    pub fn doubt(&mut self, now: Time, service: u32) {
        if let Some(held) = self.held.get_mut(&service) {
            held.renew_at = held.renew_at.min(now);
        }
    }

    /// Creates an authorizer for a service.
    ///
    /// # Errors
    /// [`Error::NoTicket`] if there is no valid ticket for it.
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

/// A client's proof of identity for a service: the ticket, and a proof that it has the ticket's session key.
#[derive(Debug, Clone)]
pub struct Authorizer {
    /// Part that is the same in every round.
    base: Vec<u8>,
    session_key: Key,
    nonce: u64,
}

impl Authorizer {
    /// Creates an authorizer for `ticket`.
    pub fn new(ticket: &Ticket, global_id: u64, entropy: &mut Entropy) -> Self {
        let mut w = Writer::new();
        w.u8(TO_SERVICE);
        w.u64(global_id);
        w.u32(ticket.service);
        ticket.blob.encode(&mut w);
        Self { base: w.into_vec(), session_key: ticket.session_key.clone(), nonce: entropy.u64() }
    }

    /// Returns the payload of the first round.
    pub fn payload(&self, entropy: &mut Entropy) -> Vec<u8> {
        self.with(&Authorize { nonce: self.nonce, challenge_plus_one: None }, entropy)
    }

    /// Returns the payload that answers the service's challenge.
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

    /// Checks that the service has the session key too. Returns the connection's secret; empty if it has none.
    pub fn verify(&self, reply: &[u8]) -> Result<Secret, Error> {
        let mut r = Reader::new(reply);
        let reply: AuthorizeReply =
            open_counted(&self.session_key, Usage::AuthorizeReply, &mut r, "the service's proof")?;
        if reply.nonce_plus_one != self.nonce.wrapping_add(1) {
            return Err(Error::Mismatch("it answers another authorizer"));
        }
        Ok(reply.connection_secret)
    }

    /// Returns the key shared by client and service.
    pub fn session_key(&self) -> &Key {
        &self.session_key
    }
}
