//! A client proves to a monitor who it is, and gets tickets.
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

/// What a client knows that lets it prove who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedKey {
    /// The name.
    pub name: AuthName,
    /// The key.
    pub key: Key,
}

/// Both challenges, encrypted and folded to a number.
pub(super) fn proof(key: &Key, blob: ChallengeBlob, entropy: &mut Entropy) -> u64 {
    let bytes = match key.cipher() {
        Cipher::Aes => {
            let mut w = Writer::new();
            // With the length before it, which is folded in as well; "aes" does not look at the use.
            seal_counted(key, Usage::Authorize, &blob, entropy, &mut w);
            w.into_vec()
        }
        // What this cipher makes is never the same twice, so it is a hash that both sides can make.
        Cipher::Aes256k => key.sign(&[&blob.to_bytes()]).to_vec(),
    };
    fold(&bytes)
}

/// The request by which a client answers a monitor's challenge.
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

/// What a monitor gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// The tickets; the first is the one for the monitors themselves.
    pub tickets: Vec<Ticket>,
    /// The secret of the connection, if there is one.
    pub connection_secret: Secret,
    /// What the monitor of this session wants to see encrypted when the session key is renewed.
    pub server_challenge: u64,
}

impl Granted {
    /// The key that client and monitors share.
    pub fn session_key(&self) -> Option<&Key> {
        self.tickets.iter().find(|ticket| ticket.service == service::AUTH).map(|ticket| &ticket.session_key)
    }
}

/// A client on its way into a session with a monitor.
#[derive(Debug, Clone)]
pub struct MonitorLogin {
    identity: NamedKey,
    /// The ticket from an earlier session: by it the client keeps its global id.
    old: Option<Ticket>,
    services: u32,
    server_challenge: u64,
}

impl MonitorLogin {
    /// A client that wants tickets for `services`.
    pub fn new(identity: NamedKey, old: Option<Ticket>, services: u32) -> Self {
        Self { identity, old, services, server_challenge: 0 }
    }

    /// Answers the monitor's challenge.
    pub fn answer(&mut self, challenge: &[u8], entropy: &mut Entropy) -> Result<Vec<u8>, Error> {
        self.server_challenge = ServerChallenge::decode(&mut Reader::new(challenge))?.challenge;
        let (identity, old) = (&self.identity, self.old.as_ref());
        Ok(session_request(identity, self.server_challenge, old, self.services, entropy))
    }

    /// Reads what the monitor gave.
    pub fn finish(&self, reply: &[u8]) -> Result<Granted, Error> {
        let mut granted = read_session(&self.identity, self.old.as_ref(), reply)?;
        granted.server_challenge = self.server_challenge;
        Ok(granted)
    }
}

/// Reads the answer to [`session_request`].
fn read_session(identity: &NamedKey, old: Option<&Ticket>, reply: &[u8]) -> Result<Granted, Error> {
    let mut r = Reader::new(reply);
    header(&mut r, request::AUTH_SESSION_KEY, &identity.name)?;
    let tickets = read_tickets(&identity.key, old, &mut r)?;
    let mut granted = Granted { tickets, connection_secret: Secret::default(), server_challenge: 0 };
    let session_key = granted.session_key().cloned();
    let session_key = session_key.ok_or(Error::Mismatch("it has no ticket for the monitors"))?;
    // Monitors before Nautilus (14) have no more to say, and none that speaks msgr2 is among them; but in a renewal
    // nobody needs it.
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
        return Err(Error::Mismatch("it answers another question"));
    }
    if status < 0 {
        return Err(Error::Refused { name: name.clone(), errno: status });
    }
    Ok(())
}

/// A question to the monitor of a session for new tickets, and how to read the answer.
#[derive(Debug, Clone)]
pub(super) enum Renewal {
    /// Everything anew.
    Session { old: Option<Ticket> },
    /// Tickets for services, on the strength of the session.
    Services { session_key: Key },
}

impl Renewal {
    /// Asks for a new session key and for tickets.
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

    /// Asks for tickets alone.
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

    /// Reads the tickets that came.
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
