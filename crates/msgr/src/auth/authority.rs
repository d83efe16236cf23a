//! The ticket-granting authority: all names with their keys, and the service keys.
//!
//! Source: ceph `src/auth/cephx/CephxKeyServer.cc`, `CephxServiceHandler.cc`, `CephxProtocol.cc`.

use super::crypto::key::Cipher;
use super::crypto::sealed::{open, seal, seal_counted};
use super::crypto::{Entropy, Key, Secret, Usage};
use super::keyring::{Entry, Keyring};
use super::monitor::proof;
use super::name::AuthName;
use super::numbers::service;
use super::protocol::{
    AuthTicket, Authenticate, Blob, ChallengeBlob, RequestHeader, ResponseHeader, ServiceTicket,
    ServiceTicketInfo, ServiceTicketRequest, TicketBlob, Validity, request,
};
use super::verify::{self, VerifiedAuthorizer};
use crate::types::Utime;
use crate::types::encoding::{Decode, Encode};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use onego_wire::{DecodeError, Reader, Time, Writer};
use std::collections::BTreeMap;
use std::time::Duration;

/// Valid keys of a service at any time. There is one per ticket lifetime; tickets are sealed with the newest, and
/// tickets sealed with the two before it are still accepted (`KEY_ROTATE_NUM`).
const KEYS: u64 = 3;

/// Services that tickets are issued for, with the service name of their capabilities.
const SERVICES: [(u32, &str); 5] = [
    (service::AUTH, "mon"),
    (service::MON, "mon"),
    (service::OSD, "osd"),
    (service::MDS, "mds"),
    (service::MGR, "mgr"),
];

/// Lifetimes of tickets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// Tickets for the monitors (`auth_mon_ticket_ttl`).
    pub monitor: Duration,
    /// Tickets for all other services (`auth_service_ticket_ttl`).
    pub service: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { monitor: Duration::from_secs(72 * 3600), service: Duration::from_secs(3600) }
    }
}

/// Refusal of a request. All client errors get the same answer, so that clients cannot probe which names exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused;

impl From<DecodeError> for Refused {
    fn from(_: DecodeError) -> Self {
        Self
    }
}

pub(super) struct Requester<'a> {
    pub(super) name: &'a AuthName,
    /// Number that the client claims or is to be assigned.
    pub(super) global_id: u64,
    /// No client had that number before.
    pub(super) fresh: bool,
    pub(super) server_challenge: u64,
    /// Length of the connection's secret in bytes; 0: none.
    pub(super) secret_len: usize,
}

pub(super) struct SessionGrant {
    pub(super) payload: Vec<u8>,
    pub(super) session_key: Key,
    pub(super) connection_secret: Secret,
    pub(super) caps: String,
}

/// Holds all keys and issues tickets.
///
/// The service keys are derived from one secret, the service and the time. An authority that keeps this secret
/// ([`service_secret`](Self::service_secret)) across a restart therefore still accepts the tickets issued before,
/// without storing each key.
#[derive(Debug)]
pub struct Authority {
    keyring: Keyring,
    service_secret: Secret,
    lifetimes: Lifetimes,
    entropy: Entropy,
}

impl Authority {
    /// Creates an authority over the names in `keyring`, with a new secret for the service keys.
    pub fn new(keyring: Keyring, lifetimes: Lifetimes, mut entropy: Entropy) -> Self {
        Self { keyring, service_secret: entropy.secret(32), lifetimes, entropy }
    }

    /// Secret that the service keys are derived from.
    pub fn service_secret(&self) -> &Secret {
        &self.service_secret
    }

    /// Restores the service keys by the secret that they are derived from.
    pub fn set_service_secret(&mut self, secret: Secret) {
        self.service_secret = secret;
    }

    /// Returns all names and their keys.
    pub fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Adds a name with a new key, or replaces the key of an existing one.
    pub fn create(
        &mut self,
        now: Time,
        name: AuthName,
        caps: BTreeMap<String, String>,
        cipher: Cipher,
    ) -> &Entry {
        let key = Key::generate(cipher, now.into(), &mut self.entropy);
        self.insert(name, Entry { key, caps })
    }

    /// Adds a name or replaces its key and capabilities. Tickets already issued stay valid, with the earlier
    /// capabilities, until they expire.
    pub fn insert(&mut self, name: AuthName, entry: Entry) -> &Entry {
        self.keyring.entries.entry(name).insert_entry(entry).into_mut()
    }

    /// Removes a name. Tickets already issued stay valid until they expire. Returns whether the name existed.
    pub fn remove(&mut self, name: &AuthName) -> bool {
        self.keyring.entries.remove(name).is_some()
    }

    pub(super) fn entropy(&mut self) -> &mut Entropy {
        &mut self.entropy
    }

    fn lifetime(&self, service: u32) -> Duration {
        if service == service::AUTH { self.lifetimes.monitor } else { self.lifetimes.service }
    }

    /// Number of a service's newest key: a new one begins with each ticket lifetime.
    fn newest_key(&self, now: Time, service: u32) -> u64 {
        let lifetime = u64::try_from(self.lifetime(service).as_nanos()).unwrap_or(u64::MAX);
        now.as_nanos() / lifetime.max(1)
    }

    fn service_key(&self, service: u32, number: u64) -> Key {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, self.service_secret.expose());
        let mut name = [0; 12];
        name[..4].copy_from_slice(&service.to_le_bytes());
        name[4..].copy_from_slice(&number.to_le_bytes());
        let seed = Secret::new(hmac::sign(&secret, &name).as_ref().to_vec());
        // Only services open tickets, so clients need not know the cipher. It must be an authenticated one: tickets
        // sealed with `Cipher::Aes` can be modified without the key. The creation time is never used.
        Key::generate(Cipher::Aes256k, Utime::default(), &mut Entropy::from(seed))
    }

    /// Reads an authorizer for `service`. Returns `None` if the ticket is invalid or the client does not have its
    /// session key.
    pub(super) fn authorizer(
        &self,
        now: Time,
        service: u32,
        r: &mut Reader<'_>,
    ) -> Option<VerifiedAuthorizer> {
        verify::authorizer(service, r, |ticket| self.open_ticket(now, service, ticket))
    }

    /// Opens a valid ticket. Returns `None` if it was not issued here or has expired.
    fn open_ticket(&self, now: Time, service: u32, ticket: &TicketBlob) -> Option<ServiceTicketInfo> {
        let info = self.open_old_ticket(now, service, ticket)?;
        (now < Time::from(info.ticket.expires)).then_some(info)
    }

    fn open_old_ticket(&self, now: Time, service: u32, ticket: &TicketBlob) -> Option<ServiceTicketInfo> {
        // After the clock was set back, tickets may have newer keys.
        let is_known = self.newest_key(now, service).abs_diff(ticket.secret_id) < KEYS;
        let key = is_known.then(|| self.service_key(service, ticket.secret_id))?;
        open(&key, Usage::TicketInfo, &ticket.blob.0, "a ticket").ok()
    }

    /// Writes a ticket with a new session key and returns that key. The client's part is sealed with `grant.key`; the
    /// service's part is sealed with the session key of the ticket that it replaces, if any.
    fn write_ticket(&mut self, now: Time, grant: &Grant<'_>, w: &mut Writer) -> Key {
        let validity = self.lifetime(grant.service);
        let secret_id = self.newest_key(now, grant.service);
        let service_key = self.service_key(grant.service, secret_id);
        let entropy = &mut self.entropy;
        // A client whose key has this cipher supports it. The session key is as strong as that key.
        let session_key = Key::generate(grant.key.cipher(), now.into(), entropy);
        let info = ServiceTicketInfo {
            ticket: AuthTicket {
                name: grant.name.clone(),
                global_id: grant.global_id,
                created: Utime::from(now),
                expires: Utime::from(now + validity),
                caps: grant.caps.clone(),
                flags: 0,
            },
            session_key: session_key.clone(),
        };
        let mine = ServiceTicket { session_key: session_key.clone(), validity: Validity(validity) };
        let sealed = seal(&service_key, Usage::TicketInfo, &info, entropy);
        let blob = TicketBlob { secret_id, blob: Blob(sealed) }.to_bytes();
        w.u32(grant.service);
        w.u8(1);
        seal_counted(grant.key, Usage::TicketSessionKey, &mine, entropy, w);
        w.bool(grant.replaces.is_some());
        match grant.replaces {
            Some(old) => seal_counted(old, Usage::TicketBlob, &Blob(blob), entropy, w),
            None => w.blob(&blob),
        }
        session_key
    }

    /// Writes tickets for `services`, sealed with the session key that the client shares with the monitors.
    fn write_tickets(&mut self, now: Time, whose: &AuthTicket, session_key: &Key, services: u32) -> Vec<u8> {
        let wanted = SERVICES.iter().filter(|(service, _)| services & service != 0);
        // Tickets for the monitors require a proof.
        let wanted: Vec<_> = wanted.filter(|(service, _)| *service != service::AUTH).collect();
        let mut w = Writer::new();
        w.u8(1);
        w.count(wanted.len());
        for (service, caps) in wanted {
            let caps = self.caps(&whose.name, caps).unwrap_or_default();
            let (name, global_id) = (&whose.name, whose.global_id);
            let grant = Grant { service: *service, key: session_key, name, global_id, caps, replaces: None };
            self.write_ticket(now, &grant, &mut w);
        }
        w.into_vec()
    }

    fn caps(&self, name: &AuthName, of: &str) -> Option<String> {
        self.keyring.entries.get(name)?.caps.get(of).filter(|caps| !caps.trim().is_empty()).cloned()
    }

    /// Handles the request of a challenged client for a session, with the proof that it has its key.
    pub(super) fn session(
        &mut self,
        now: Time,
        session: &Requester<'_>,
        payload: &[u8],
    ) -> Result<SessionGrant, Refused> {
        let mut r = Reader::new(payload);
        if RequestHeader::decode(&mut r)?.kind != request::AUTH_SESSION_KEY {
            return Err(Refused);
        }
        self.authenticate(now, session, &Authenticate::decode(&mut r)?)
    }

    fn authenticate(
        &mut self,
        now: Time,
        session: &Requester<'_>,
        request: &Authenticate,
    ) -> Result<SessionGrant, Refused> {
        let Requester { name, global_id, server_challenge, .. } = *session;
        let key = self.keyring.entries.get(name).ok_or(Refused)?.key.clone();
        let blob = ChallengeBlob { server: server_challenge, client: request.client_challenge };
        let expected = proof(&key, blob, &mut self.entropy).to_le_bytes();
        verify_slices_are_equal(&expected, &request.proof.to_le_bytes()).map_err(|_| Refused)?;
        let replaces = self.reclaim(now, session, &request.old_ticket)?;
        let caps = self.caps(name, "mon").ok_or(Refused)?;

        let mut w = Writer::new();
        ResponseHeader { kind: request::AUTH_SESSION_KEY, status: 0 }.encode(&mut w);
        w.u8(1);
        w.count(1);
        let caps_here = caps.clone();
        let grant = Grant {
            service: service::AUTH,
            key: &key,
            name,
            global_id,
            caps: caps_here,
            replaces: replaces.as_ref(),
        };
        let session_key = self.write_ticket(now, &grant, &mut w);
        let connection_secret = self.entropy.secret(session.secret_len);
        if request.other_keys != 0 {
            let secret = Blob(connection_secret.expose().to_vec());
            let mut sealed = Writer::new();
            seal_counted(&session_key, Usage::ConnectionSecret, &secret, &mut self.entropy, &mut sealed);
            w.blob(sealed.as_slice());
            let whose = ticket_of(name, global_id);
            w.blob(&self.write_tickets(now, &whose, &session_key, request.other_keys));
        }
        Ok(SessionGrant { payload: w.into_vec(), session_key, connection_secret, caps })
    }

    /// Returns the session key of the ticket that a client presents for the number that it claims. Without that ticket,
    /// any client could take over the requests of another (CVE-2021-20288). The ticket may have expired, because it
    /// proves nothing else; it is accepted as long as its key is known (CephxServiceHandler::verify_old_ticket).
    fn reclaim(
        &mut self,
        now: Time,
        session: &Requester<'_>,
        old: &TicketBlob,
    ) -> Result<Option<Key>, Refused> {
        if session.fresh {
            // A client without a number has no ticket (CephxServiceHandler::verify_old_ticket).
            return if old.blob.0.is_empty() { Ok(None) } else { Err(Refused) };
        }
        let info = self.open_old_ticket(now, service::AUTH, old).ok_or(Refused)?;
        let same = info.ticket.global_id == session.global_id && info.ticket.name == *session.name;
        if same { Ok(Some(info.session_key)) } else { Err(Refused) }
    }

    /// Answers another request in a client's session: the payload of an `MAuth`.
    pub(super) fn renew(
        &mut self,
        now: Time,
        session: &Requester<'_>,
        payload: &[u8],
    ) -> Result<Vec<u8>, Refused> {
        let mut r = Reader::new(payload);
        match RequestHeader::decode(&mut r)?.kind {
            request::AUTH_SESSION_KEY => {
                Ok(self.authenticate(now, session, &Authenticate::decode(&mut r)?)?.payload)
            }
            request::PRINCIPAL_SESSION_KEY => {
                let VerifiedAuthorizer { info, .. } =
                    self.authorizer(now, service::AUTH, &mut r).ok_or(Refused)?;
                if info.ticket.name != *session.name {
                    return Err(Refused);
                }
                let ServiceTicketRequest { keys } = ServiceTicketRequest::decode(&mut r)?;
                let mut w = Writer::new();
                ResponseHeader { kind: request::PRINCIPAL_SESSION_KEY, status: 0 }.encode(&mut w);
                w.put(&self.write_tickets(now, &info.ticket, &info.session_key, keys));
                Ok(w.into_vec())
            }
            _ => Err(Refused),
        }
    }
}

struct Grant<'a> {
    service: u32,
    /// Seals the client's part.
    key: &'a Key,
    name: &'a AuthName,
    global_id: u64,
    caps: String,
    /// Session key of the replaced ticket.
    replaces: Option<&'a Key>,
}

/// Returns a ticket with just enough fields to issue others from it.
fn ticket_of(name: &AuthName, global_id: u64) -> AuthTicket {
    AuthTicket {
        name: name.clone(),
        global_id,
        created: Utime::default(),
        expires: Utime::default(),
        caps: String::new(),
        flags: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With an unauthenticated cipher, one flipped bit would set the flag that allows everything.
    #[test]
    fn a_modified_ticket_is_not_opened() {
        let now = Time::from_nanos(1_000_000_000_000_000);
        let mut authority = Authority::new(Keyring::default(), Lifetimes::default(), Entropy::new([1; 32]));
        for cipher in [Cipher::Aes, Cipher::Aes256k] {
            let key = Key::generate(cipher, Utime::default(), &mut Entropy::new([2; 32]));
            let name = AuthName::client("tenant");
            let caps = "allow r pool=a".to_owned();
            let grant =
                Grant { service: service::OSD, key: &key, name: &name, global_id: 7, caps, replaces: None };
            let mut w = Writer::new();
            authority.write_ticket(now, &grant, &mut w);
            let mut r = Reader::new(w.as_slice());
            r.take(5, "service and version").unwrap();
            r.blob("the client's part").unwrap();
            assert!(!r.bool("sealed").unwrap());
            let ticket = TicketBlob::from_bytes(r.blob("ticket").unwrap()).unwrap();

            let opened = authority.open_ticket(now, service::OSD, &ticket).expect("a good ticket");
            assert_eq!((opened.ticket.name, opened.ticket.caps.as_str()), (name, "allow r pool=a"));
            assert!(authority.open_ticket(now, service::MGR, &ticket).is_none());
            for bit in 0..8 * ticket.blob.0.len() {
                let mut changed = ticket.clone();
                changed.blob.0[bit / 8] ^= 1 << (bit % 8);
                assert!(authority.open_ticket(now, service::OSD, &changed).is_none(), "bit {bit}");
            }
        }
    }
}
