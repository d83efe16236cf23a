//! Structures of cephx.
//!
//! Source: ceph `src/auth/cephx/CephxProtocol.h`; `src/auth/Auth.h` (`AuthTicket`, `AuthCapsInfo`). A version of one
//! byte precedes each unless noted otherwise. A newer peer may append to any, so trailing bytes are left unread.

use super::crypto::{Key, Secret};
use super::name::AuthName;
use crate::types::Utime;
use crate::types::encoding::{Decode, Encode};
use onego_wire::{Decoded, Reader, Writer};
use std::time::Duration;

/// Kinds of requests to a monitor (`CEPHX_GET_*`).
#[allow(missing_docs)]
pub mod request {
    pub const AUTH_SESSION_KEY: u16 = 0x0100;
    pub const PRINCIPAL_SESSION_KEY: u16 = 0x0200;
    pub const ROTATING_KEY: u16 = 0x0400;
}

/// Defines a structure whose fields follow a version.
macro_rules! versioned {
    ($(#[$doc:meta])* $name:ident, version $version:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Decode for $name {
            fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
                r.u8(stringify!($name))?;
                Ok(Self { $($field: <$type>::decode(r)?,)* })
            }
        }

        impl Encode for $name {
            fn encode(&self, w: &mut Writer) {
                w.u8($version);
                $(self.$field.encode(w);)*
            }
        }
    };
}

versioned! {
    /// First challenge of a monitor.
    ServerChallenge, version 1 {
        /// Any number but 0.
        challenge: u64,
    }
}

versioned! {
    /// A service's challenge to an authorizer, which prevents the replay of a recorded one.
    AuthorizeChallenge, version 1 {
        /// Any number.
        challenge: u64,
    }
}

versioned! {
    /// Tickets that a client requests, as service bits.
    ServiceTicketRequest, version 1 {
        /// Services.
        keys: u32,
    }
}

versioned! {
    /// Client's part of a new ticket, sealed with a key that the client has.
    ServiceTicket, version 1 {
        /// Key shared by client and service.
        session_key: Key,
        /// Lifetime of the ticket.
        validity: Validity,
    }
}

versioned! {
    /// Service's part of a ticket, sealed with a key that only the service and the monitors have.
    ServiceTicketInfo, version 1 {
        /// Owner of the ticket.
        ticket: AuthTicket,
        /// Key shared by client and service.
        session_key: Key,
    }
}

versioned! {
    /// Service's part of a ticket in transit; opaque to the client.
    TicketBlob, version 1 {
        /// Number of the service key that seals it.
        secret_id: u64,
        /// Sealed [`ServiceTicketInfo`].
        blob: Blob,
    }
}

impl TicketBlob {
    /// Returns an absent ticket.
    pub fn none() -> Self {
        Self { secret_id: 0, blob: Blob::default() }
    }
}

/// Bytes with a length prefix.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Blob(
    /// The bytes.
    pub Vec<u8>,
);

impl Decode for Blob {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self(r.blob("blob")?.to_vec()))
    }
}

impl Encode for Blob {
    fn encode(&self, w: &mut Writer) {
        w.blob(&self.0);
    }
}

/// Duration on the wire, encoded like a `utime_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity(
    /// The duration.
    pub Duration,
);

impl Decode for Validity {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let Utime { sec, nsec } = Utime::decode(r)?;
        Ok(Self(Duration::from_secs(sec.into()) + Duration::from_nanos(nsec.into())))
    }
}

impl Encode for Validity {
    fn encode(&self, w: &mut Writer) {
        let sec = u32::try_from(self.0.as_secs()).unwrap_or(u32::MAX);
        Utime { sec, nsec: self.0.subsec_nanos() }.encode(w);
    }
}

/// Header of a cephx request. Has no version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader {
    /// See [`request`].
    pub kind: u16,
}

impl Decode for RequestHeader {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { kind: r.u16("cephx request")? })
    }
}

impl Encode for RequestHeader {
    fn encode(&self, w: &mut Writer) {
        w.u16(self.kind);
    }
}

/// Header of a cephx response. Has no version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHeader {
    /// Kind of the request.
    pub kind: u16,
    /// 0 or a negative errno.
    pub status: i32,
}

impl Decode for ResponseHeader {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { kind: r.u16("cephx response")?, status: r.i32("cephx status")? })
    }
}

impl Encode for ResponseHeader {
    fn encode(&self, w: &mut Writer) {
        w.u16(self.kind);
        w.i32(self.status);
    }
}

/// Both challenges, to be encrypted together. Has no version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChallengeBlob {
    /// Challenge of the monitor.
    pub server: u64,
    /// Challenge of the client.
    pub client: u64,
}

impl Decode for ChallengeBlob {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { server: r.u64("server challenge")?, client: r.u64("client challenge")? })
    }
}

impl Encode for ChallengeBlob {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.server);
        w.u64(self.client);
    }
}

/// Answer to a monitor's challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticate {
    /// The client's own challenge.
    pub client_challenge: u64,
    /// Both challenges, encrypted and folded: only a holder of the key can compute it.
    pub proof: u64,
    /// Ticket from an earlier session, by which the client keeps its global id.
    pub old_ticket: TicketBlob,
    /// Services whose tickets are requested in the same answer.
    pub other_keys: u32,
    /// Whether the client always sends an old ticket that it has: since version 3.
    pub sends_old_ticket: bool,
}

impl Decode for Authenticate {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let version = r.u8("authenticate")?;
        Ok(Self {
            client_challenge: r.u64("client challenge")?,
            proof: r.u64("proof")?,
            old_ticket: TicketBlob::decode(r)?,
            other_keys: if version >= 2 { r.u32("other keys")? } else { 0 },
            sends_old_ticket: version >= 3,
        })
    }
}

impl Encode for Authenticate {
    fn encode(&self, w: &mut Writer) {
        w.u8(if self.sends_old_ticket { 3 } else { 2 });
        w.u64(self.client_challenge);
        w.u64(self.proof);
        self.old_ticket.encode(w);
        w.u32(self.other_keys);
    }
}

/// Part of an authorizer that is sealed with the session key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorize {
    /// Any number: the service proves by it that it has the session key too.
    pub nonce: u64,
    /// The service's challenge plus one, once it has sent one.
    pub challenge_plus_one: Option<u64>,
}

impl Decode for Authorize {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let version = r.u8("authorize")?;
        let nonce = r.u64("authorize nonce")?;
        if version < 2 {
            return Ok(Self { nonce, challenge_plus_one: None });
        }
        let challenged = r.bool("has a challenge")?;
        let challenge = r.u64("challenge plus one")?;
        Ok(Self { nonce, challenge_plus_one: challenged.then_some(challenge) })
    }
}

impl Encode for Authorize {
    fn encode(&self, w: &mut Writer) {
        w.u8(2);
        w.u64(self.nonce);
        w.bool(self.challenge_plus_one.is_some());
        w.u64(self.challenge_plus_one.unwrap_or_default());
    }
}

/// A service's answer to an authorizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizeReply {
    /// The client's nonce plus one.
    pub nonce_plus_one: u64,
    /// Secret of the connection; empty if it has none.
    pub connection_secret: Secret,
}

impl Decode for AuthorizeReply {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let version = r.u8("authorize reply")?;
        let nonce_plus_one = r.u64("nonce plus one")?;
        let secret = if version >= 2 { r.blob("connection secret")?.to_vec() } else { Vec::new() };
        Ok(Self { nonce_plus_one, connection_secret: Secret::new(secret) })
    }
}

impl Encode for AuthorizeReply {
    fn encode(&self, w: &mut Writer) {
        w.u8(if self.connection_secret.is_empty() { 1 } else { 2 });
        w.u64(self.nonce_plus_one);
        if !self.connection_secret.is_empty() {
            w.blob(self.connection_secret.expose());
        }
    }
}

/// Identity and rights in a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthTicket {
    /// Name of the client.
    pub name: AuthName,
    /// Number assigned by the monitors.
    pub global_id: u64,
    /// Creation time.
    pub created: Utime,
    /// Expiry time.
    pub expires: Utime,
    /// Capabilities, in the syntax of the service.
    pub caps: String,
    /// Unused.
    pub flags: u32,
}

/// Former user id, which peers still check (`CEPH_AUTH_UID_DEFAULT`).
const NO_USER: u64 = u64::MAX;

impl Decode for AuthTicket {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let version = r.u8("ticket")?;
        let name = AuthName::decode(r)?;
        let global_id = r.u64("global id")?;
        if version >= 2 {
            r.u64("user")?;
        }
        let (created, expires) = (Utime::decode(r)?, Utime::decode(r)?);
        r.u8("capabilities")?;
        // Allows everything, regardless of the capabilities. No authority sets it, and it has no effect here.
        r.bool("allow all")?;
        // A string within a string; absent in tickets that allow nothing.
        let mut caps = Reader::new(r.blob("capabilities")?);
        let caps = if caps.is_empty() { String::new() } else { caps.string("capabilities")? };
        Ok(Self { name, global_id, created, expires, caps, flags: r.u32("ticket flags")? })
    }
}

impl Encode for AuthTicket {
    fn encode(&self, w: &mut Writer) {
        w.u8(2);
        self.name.encode(w);
        w.u64(self.global_id);
        w.u64(NO_USER);
        self.created.encode(w);
        self.expires.encode(w);
        w.u8(1);
        w.bool(false);
        w.sized(|w| {
            if !self.caps.is_empty() {
                w.string(&self.caps);
            }
        });
        w.u32(self.flags);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::crypto::{Cipher, Entropy};
    use crate::types::encoding::survives;

    #[test]
    fn structures_survive_the_wire_and_truncation_is_detected() {
        let session_key = Key::generate(Cipher::Aes, Utime { sec: 1, nsec: 2 }, &mut Entropy::new([1; 32]));
        let ticket = AuthTicket {
            name: AuthName::client("admin"),
            global_id: 4123,
            created: Utime { sec: 10, nsec: 1 },
            expires: Utime { sec: 20, nsec: 1 },
            caps: "allow *".to_owned(),
            flags: 0,
        };
        let blob = TicketBlob { secret_id: 3, blob: Blob(b"sealed".to_vec()) };
        survives(&ServerChallenge { challenge: 1 });
        survives(&AuthorizeChallenge { challenge: 2 });
        survives(&ServiceTicketRequest { keys: 0x25 });
        let validity = Validity(Duration::from_millis(3500));
        survives(&ServiceTicket { session_key: session_key.clone(), validity });
        survives(&AuthTicket { caps: String::new(), ..ticket.clone() });
        survives(&ServiceTicketInfo { ticket, session_key });
        survives(&blob);
        survives(&RequestHeader { kind: request::AUTH_SESSION_KEY });
        survives(&ResponseHeader { kind: request::ROTATING_KEY, status: -1 });
        survives(&ChallengeBlob { server: 1, client: 2 });
        for sends_old_ticket in [false, true] {
            let old_ticket = blob.clone();
            survives(&Authenticate {
                client_challenge: 1,
                proof: 2,
                old_ticket,
                other_keys: 4,
                sends_old_ticket,
            });
        }
        survives(&Authorize { nonce: 7, challenge_plus_one: None });
        survives(&Authorize { nonce: 7, challenge_plus_one: Some(8) });
        survives(&AuthorizeReply { nonce_plus_one: 8, connection_secret: Secret::default() });
        survives(&AuthorizeReply { nonce_plus_one: 8, connection_secret: Secret::new(vec![5; 64]) });
    }
}
