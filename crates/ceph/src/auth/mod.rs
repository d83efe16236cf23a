//! Who somebody is, and how it is proved: the methods "none" and "cephx", both sides, without I/O.
//!
//! Source: ceph `doc/dev/cephx.rst`, `doc/dev/cephx_protocol.rst`; `src/auth/Auth.h`, `src/auth/Crypto.cc`,
//! `src/auth/cephx/*`; linux `net/ceph/auth_x.c`.
//!
//! Nothing here knows how messages are framed: what is made here are the payloads of the messenger's authentication
//! frames, or of `MAuth` and of authorizers in version 1 of the messenger.
//!
//! Secrets are wiped when they are dropped, compared in constant time and never shown: [`Secret`] sees to it.
//! Randomness comes from an [`Entropy`] that is seeded from outside, time is an argument.

mod authority;
mod cipher;
mod entropy;
mod error;
mod introduction;
mod key;
mod keyring;
mod login;
mod monitor;
mod name;
mod principal;
mod protocol;
mod reception;
mod sealed;
mod secret;
mod tickets;
mod verify;

pub use authority::{Authority, Lifetimes};
pub use entropy::Entropy;
pub use error::Error;
pub use introduction::Introduction;
pub use key::{Cipher, Key, Usage};
pub use keyring::{Entry, Keyring, KeyringError};
pub use login::{Attempt, Credentials, Login, Proved};
pub use monitor::{Granted, Identity, MonitorLogin};
pub use name::AuthName;
pub use principal::Principal;
pub use protocol::{
    AuthTicket, Authenticate, Authorize, AuthorizeChallenge, AuthorizeReply, Blob, ChallengeBlob,
    RequestHeader, ResponseHeader, ServerChallenge, ServiceTicket, ServiceTicketInfo, ServiceTicketRequest,
    TicketBlob, Validity, request,
};
pub use reception::{Admitted, Answer, Caps, Gate, Reception, Renewals};
pub use sealed::{open, open_counted, seal, seal_counted};
pub use secret::Secret;
pub use tickets::{Authorizer, Ticket, Tickets};

/// Numbers of the methods (`CEPH_AUTH_*`).
#[allow(missing_docs)]
pub mod method {
    pub const NONE: u32 = 1;
    pub const CEPHX: u32 = 2;
}

/// Numbers of the modes of connections (`CEPH_CON_MODE_*`).
#[allow(missing_docs)]
pub mod mode {
    /// Frames carry checksums.
    pub const CRC: u32 = 1;
    /// Frames are encrypted.
    pub const SECURE: u32 = 2;
}

/// Services that tickets are for, as bits (`CEPH_ENTITY_TYPE_*`).
#[allow(missing_docs)]
pub mod service {
    pub const MON: u32 = 0x01;
    pub const MDS: u32 = 0x02;
    pub const OSD: u32 = 0x04;
    pub const MGR: u32 = 0x10;
    pub const AUTH: u32 = 0x20;
}
