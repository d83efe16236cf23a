//! A client's login to a monitor, which grants tickets.
//!
//! Source: ceph `src/auth/cephx/CephxClientHandler.cc`, `CephxProtocol.cc`
//! (`cephx_calc_client_server_challenge`); linux `net/ceph/auth_x.c`.

use super::crypto::key::{Cipher, fold};
use super::crypto::sealed::{open_counted, seal_counted};
use super::crypto::{Entropy, Key, Secret, Usage};
use super::error::Error;
use super::name::AuthName;
use super::numbers::service;
use super::protocol::{
    Authenticate, Blob, ChallengeBlob, RequestHeader, ResponseHeader, ServerChallenge, ServiceTicketRequest,
    TicketBlob, request,
};
use super::tickets::{Authorizer, Ticket, read_tickets};
use crate::types::encoding::{Decode, Encode};
use onego_wire::{Reader, Writer};

/// Name of a client with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedKey {
    /// Name.
    pub name: AuthName,
    /// Key.
    pub key: Key,
}

/// Encrypts both challenges and folds the result to a number.
pub(super) fn proof(key: &Key, blob: ChallengeBlob, entropy: &mut Entropy) -> u64 {
    let bytes = match key.cipher() {
        Cipher::Aes => {
            let mut w = Writer::new();
            // The length prefix is folded in as well. The cipher "aes" ignores the usage.
            seal_counted(key, Usage::Authorize, &blob, entropy, &mut w);
            w.into_vec()
        }
        // This cipher's output differs each time, so a hash that both sides can compute replaces it.
        Cipher::Aes256k => key.sign(&[&blob.to_bytes()]).to_vec(),
    };
    fold(&bytes)
}

fn session_request(
    identity: &NamedKey,
    server_challenge: u64,
    old: Option<&Ticket>,
    services: u32,
    entropy: &mut Entropy,
) -> Vec<u8> {
    let client_challenge = entropy.u64();
    let blob = ChallengeBlob { server: server_challenge, client: client_challenge };
    let mut w = Writer::new();
    RequestHeader { kind: request::AUTH_SESSION_KEY }.encode(&mut w);
    let authenticate = Authenticate {
        client_challenge,
        proof: proof(&identity.key, blob, entropy),
        old_ticket: old.map_or_else(TicketBlob::none, |old| old.blob.clone()),
        other_keys: services,
        sends_old_ticket: true,
    };
    authenticate.encode(&mut w);
    w.into_vec()
}

/// Session granted by a monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// The tickets, including the one for the monitors themselves.
    pub tickets: Vec<Ticket>,
    /// Secret of the connection; empty if it has none.
    pub connection_secret: Secret,
    /// Challenge of this session's monitor, which the client encrypts when it renews the session key.
    pub server_challenge: u64,
}

impl Granted {
    /// Returns the key shared by client and monitors.
    pub fn session_key(&self) -> Option<&Key> {
        self.tickets.iter().find(|ticket| ticket.service == service::AUTH).map(|ticket| &ticket.session_key)
    }
}

/// A client's login to a monitor.
#[derive(Debug, Clone)]
pub struct MonitorLogin {
    identity: NamedKey,
    /// Ticket from an earlier session, by which the client keeps its global id.
    old: Option<Ticket>,
    services: u32,
    server_challenge: u64,
}

impl MonitorLogin {
    /// Creates a login that requests tickets for `services`.
    pub fn new(identity: NamedKey, old: Option<Ticket>, services: u32) -> Self {
        Self { identity, old, services, server_challenge: 0 }
    }

    /// Answers the monitor's challenge.
    pub fn answer(&mut self, challenge: &[u8], entropy: &mut Entropy) -> Result<Vec<u8>, Error> {
        self.server_challenge = ServerChallenge::decode(&mut Reader::new(challenge))?.challenge;
        let (identity, old) = (&self.identity, self.old.as_ref());
        Ok(session_request(identity, self.server_challenge, old, self.services, entropy))
    }

    /// Reads the session that the monitor granted.
    pub fn finish(&self, reply: &[u8]) -> Result<Granted, Error> {
        let mut granted = read_session(&self.identity, self.old.as_ref(), reply)?;
        granted.server_challenge = self.server_challenge;
        Ok(granted)
    }
}

fn read_session(identity: &NamedKey, old: Option<&Ticket>, reply: &[u8]) -> Result<Granted, Error> {
    let mut r = Reader::new(reply);
    header(&mut r, request::AUTH_SESSION_KEY, &identity.name)?;
    let tickets = read_tickets(&identity.key, old, &mut r)?;
    let mut granted = Granted { tickets, connection_secret: Secret::default(), server_challenge: 0 };
    let session_key = granted.session_key().cloned();
    let session_key = session_key.ok_or(Error::Mismatch("it has no ticket for the monitors"))?;
    // Monitors before Nautilus (14) end here; none of them speaks msgr2. The secret is not needed in a renewal.
    if !r.is_empty() {
        let secret = r.blob("connection secret")?;
        if !secret.is_empty() {
            let what = "the connection's secret";
            let r = &mut Reader::new(secret);
            let secret: Blob = open_counted(&session_key, Usage::ConnectionSecret, r, what)?;
            granted.connection_secret = Secret::new(secret.0);
        }
        let extra = r.blob("more tickets")?;
        if !extra.is_empty() {
            granted.tickets.extend(read_tickets(&session_key, None, &mut Reader::new(extra))?);
        }
    }
    Ok(granted)
}

fn header(r: &mut Reader<'_>, expected: u16, name: &AuthName) -> Result<(), Error> {
    let ResponseHeader { kind, status } = ResponseHeader::decode(r)?;
    if kind != expected {
        return Err(Error::Mismatch("it answers another request"));
    }
    if status < 0 {
        return Err(Error::Refused { name: name.clone(), errno: status });
    }
    Ok(())
}

/// Request for new tickets to the session's monitor, with the state for reading the answer.
#[derive(Debug, Clone)]
pub(super) enum Renewal {
    /// New session key and tickets.
    Session { old: Option<Ticket> },
    /// Tickets for services, authorized by the session.
    Services { session_key: Key },
}

impl Renewal {
    pub(super) fn session(
        identity: &NamedKey,
        server_challenge: u64,
        old: Option<&Ticket>,
        services: u32,
        entropy: &mut Entropy,
    ) -> (Self, Vec<u8>) {
        let request = session_request(identity, server_challenge, old, services, entropy);
        (Self::Session { old: old.cloned() }, request)
    }

    pub(super) fn services(
        ticket: &Ticket,
        global_id: u64,
        services: u32,
        entropy: &mut Entropy,
    ) -> (Self, Vec<u8>) {
        let mut w = Writer::new();
        RequestHeader { kind: request::PRINCIPAL_SESSION_KEY }.encode(&mut w);
        let authorizer = Authorizer::new(ticket, global_id, entropy);
        w.put(&authorizer.payload(entropy));
        ServiceTicketRequest { keys: services }.encode(&mut w);
        (Self::Services { session_key: ticket.session_key.clone() }, w.into_vec())
    }

    pub(super) fn read(&self, identity: &NamedKey, reply: &[u8]) -> Result<Vec<Ticket>, Error> {
        match self {
            Self::Session { old } => Ok(read_session(identity, old.as_ref(), reply)?.tickets),
            Self::Services { session_key } => {
                let mut r = Reader::new(reply);
                header(&mut r, request::PRINCIPAL_SESSION_KEY, &identity.name)?;
                read_tickets(session_key, None, &mut r)
            }
        }
    }
}
