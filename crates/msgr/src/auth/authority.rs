//! The authority that gives tickets: all names with their keys, and the keys of the services.
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
use super::verify::{self, Shown};
use crate::types::Utime;
use crate::types::encoding::{Decode, Encode};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use onego_wire::{DecodeError, Reader, Time, Writer};
use std::collections::BTreeMap;
use std::time::Duration;

/// Keys of a service that are known at a time: there is one for each lifetime of tickets, tickets are sealed with the
/// newest, and those that were sealed with the two before are still known (`KEY_ROTATE_NUM`).
const KEYS: u64 = 3;

/// Services that tickets are given for, by the names that capabilities are kept under.
const SERVICES: [(u32, &str); 5] = [
    (service::AUTH, "mon"),
    (service::MON, "mon"),
    (service::OSD, "osd"),
    (service::MDS, "mds"),
    (service::MGR, "mgr"),
];

/// How long tickets are good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// Those for the monitors (`auth_mon_ticket_ttl`).
    pub monitor: Duration,
    /// Those for all others (`auth_service_ticket_ttl`).
    pub service: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { monitor: Duration::from_secs(72 * 3600), service: Duration::from_secs(3600) }
    }
}

/// Why a request is refused. All else that a client may do wrong gets the same answer, so that nobody learns which
/// names there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused;

impl From<DecodeError> for Refused {
    fn from(_: DecodeError) -> Self {
        Self
    }
}

/// What a client that asks for a session is to be given.
pub(super) struct Asker<'a> {
    pub(super) name: &'a AuthName,
    /// The number that it says it has, or is to get.
    pub(super) global_id: u64,
    /// Has no client had that number before?
    pub(super) fresh: bool,
    pub(super) server_challenge: u64,
    /// Bytes of secret that the connection needs; 0: none.
    pub(super) secret_len: usize,
}

/// What it is given.
pub(super) struct Given {
    pub(super) payload: Vec<u8>,
    pub(super) session_key: Key,
    pub(super) connection_secret: Secret,
    pub(super) caps: String,
}

/// Knows everybody's key, and gives tickets.
///
/// The keys of the services follow from one secret, the service, and the time. So an authority that keeps that
/// secret ([`service_secret`](Self::service_secret)) over a restart still knows the tickets that were given before, and need not
/// keep each key when it is made.
#[derive(Debug)]
pub struct Authority {
    keyring: Keyring,
    service_secret: Secret,
    lifetimes: Lifetimes,
    entropy: Entropy,
}

impl Authority {
    /// The authority over those in `keyring`, with a new secret for the keys of the services.
    pub fn new(keyring: Keyring, lifetimes: Lifetimes, mut entropy: Entropy) -> Self {
        Self { keyring, service_secret: entropy.secret(32), lifetimes, entropy }
    }

    /// What the keys of the services follow from.
    pub fn service_secret(&self) -> &Secret {
        &self.service_secret
    }

    /// Goes on with the keys that services had before: with what they follow from.
    pub fn set_service_secret(&mut self, secret: Secret) {
        self.service_secret = secret;
    }

    /// Everybody.
    pub fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Adds somebody with a new key, or gives somebody another one.
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

    /// Adds somebody, or gives somebody another key or other capabilities. Tickets that were given stay good for
    /// their time, and say what was so then.
    pub fn insert(&mut self, name: AuthName, entry: Entry) -> &Entry {
        self.keyring.entries.entry(name).insert_entry(entry).into_mut()
    }

    /// Removes somebody. Tickets that were given stay good for their time.
    pub fn remove(&mut self, name: &AuthName) -> bool {
        self.keyring.entries.remove(name).is_some()
    }

    /// Numbers nobody can guess.
    pub(super) fn entropy(&mut self) -> &mut Entropy {
        &mut self.entropy
    }

    fn lifetime(&self, service: u32) -> Duration {
        if service == service::AUTH { self.lifetimes.monitor } else { self.lifetimes.service }
    }

    /// The number of the newest key of a service: there is a new one in each lifetime of its tickets.
    fn newest_key(&self, now: Time, service: u32) -> u64 {
        let lifetime = u64::try_from(self.lifetime(service).as_nanos()).unwrap_or(u64::MAX);
        now.as_nanos() / lifetime.max(1)
    }

    /// The key of a service with this number.
    fn service_key(&self, service: u32, number: u64) -> Key {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, self.service_secret.expose());
        let mut name = [0; 12];
        name[..4].copy_from_slice(&service.to_le_bytes());
        name[4..].copy_from_slice(&number.to_le_bytes());
        let seed = Secret::new(hmac::sign(&secret, &name).as_ref().to_vec());
        // No client opens a ticket, so clients need not know the cipher. It must be an authenticated one: what `Cipher::Aes`
        // seals can be changed without the key. The time of creation is never used.
        Key::generate(Cipher::Aes256k, Utime::default(), &mut Entropy::from(seed))
    }

    /// Reads an authorizer for `service`. `None`: the ticket is not good, or the client that shows it does not have its key.
    pub(super) fn authorizer(&self, now: Time, service: u32, r: &mut Reader<'_>) -> Option<Shown> {
        verify::authorizer(service, r, |ticket| self.open_ticket(now, service, ticket))
    }

    /// Opens a ticket that is still good. `None`: it is not from here, or has run out.
    fn open_ticket(&self, now: Time, service: u32, ticket: &TicketBlob) -> Option<ServiceTicketInfo> {
        let info = self.open_old_ticket(now, service, ticket)?;
        (now < Time::from(info.ticket.expires)).then_some(info)
    }

    /// Opens a ticket that may have run out.
    fn open_old_ticket(&self, now: Time, service: u32, ticket: &TicketBlob) -> Option<ServiceTicketInfo> {
        // After the clock was set back there are tickets with newer keys.
        let is_known = self.newest_key(now, service).abs_diff(ticket.secret_id) < KEYS;
        let key = is_known.then(|| self.service_key(service, ticket.secret_id))?;
        open(&key, Usage::TicketInfo, &ticket.blob.0, "a ticket").ok()
    }

    /// Makes a ticket, with a new session key: the client's part is sealed with `key`, the service's part, if it is in
    /// place of an older one, with that one's session key. Says how it is written.
    fn write_ticket(&mut self, now: Time, grant: &Grant<'_>, w: &mut Writer) -> Key {
        let validity = self.lifetime(grant.service);
        let secret_id = self.newest_key(now, grant.service);
        let service_key = self.service_key(grant.service, secret_id);
        let entropy = &mut self.entropy;
        // A client with a key of this cipher knows the cipher. The session key is as safe as that key.
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

    /// Tickets for `services`, sealed with the session key that the client has from the monitors.
    fn write_tickets(&mut self, now: Time, whose: &AuthTicket, session_key: &Key, services: u32) -> Vec<u8> {
        let wanted = SERVICES.iter().filter(|(service, _)| services & service != 0);
        // A ticket for the monitors is only given for a proof.
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

    /// A client that was challenged shows that it has its key, and wants a session.
    pub(super) fn session(
        &mut self,
        now: Time,
        session: &Asker<'_>,
        payload: &[u8],
    ) -> Result<Given, Refused> {
        let mut r = Reader::new(payload);
        if RequestHeader::decode(&mut r)?.kind != request::AUTH_SESSION_KEY {
            return Err(Refused);
        }
        self.authenticate(now, session, &Authenticate::decode(&mut r)?)
    }

    fn authenticate(
        &mut self,
        now: Time,
        session: &Asker<'_>,
        request: &Authenticate,
    ) -> Result<Given, Refused> {
        let Asker { name, global_id, server_challenge, .. } = *session;
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
        Ok(Given { payload: w.into_vec(), session_key, connection_secret, caps })
    }

    /// A client that says that it has a number already must show the ticket that it got with it. Otherwise any client could
    /// take over the requests of another (CVE-2021-20288). The ticket may have expired, because it proves nothing else, and
    /// is good as long as its key is known (CephxServiceHandler::verify_old_ticket). Returns that ticket's session key.
    fn reclaim(&mut self, now: Time, session: &Asker<'_>, old: &TicketBlob) -> Result<Option<Key>, Refused> {
        if session.fresh {
            // A client without a number has no ticket (CephxServiceHandler::verify_old_ticket).
            return if old.blob.0.is_empty() { Ok(None) } else { Err(Refused) };
        }
        let info = self.open_old_ticket(now, service::AUTH, old).ok_or(Refused)?;
        let same = info.ticket.global_id == session.global_id && info.ticket.name == *session.name;
        if same { Ok(Some(info.session_key)) } else { Err(Refused) }
    }

    /// A client in a session wants something more: the payload of an `MAuth`, and what to answer.
    pub(super) fn renew(
        &mut self,
        now: Time,
        session: &Asker<'_>,
        payload: &[u8],
    ) -> Result<Vec<u8>, Refused> {
        let mut r = Reader::new(payload);
        match RequestHeader::decode(&mut r)?.kind {
            request::AUTH_SESSION_KEY => {
                Ok(self.authenticate(now, session, &Authenticate::decode(&mut r)?)?.payload)
            }
            request::PRINCIPAL_SESSION_KEY => {
                let Shown { info, .. } = self.authorizer(now, service::AUTH, &mut r).ok_or(Refused)?;
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

/// A ticket to be made.
struct Grant<'a> {
    service: u32,
    /// Seals the client's part.
    key: &'a Key,
    name: &'a AuthName,
    global_id: u64,
    caps: String,
    /// The session key of the ticket that it replaces.
    replaces: Option<&'a Key>,
}

/// Enough of a ticket to make others from.
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

    /// With a cipher that does not authenticate, one flipped bit sets the flag that allows everything.
    #[test]
    fn a_ticket_that_was_changed_is_not_opened() {
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
