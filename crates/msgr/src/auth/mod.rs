//! Identities and their proofs: the methods "none" and "cephx", both sides, without I/O.
//!
//! Source: ceph `doc/dev/cephx.rst`, `doc/dev/cephx_protocol.rst`; `src/auth/Auth.h`, `src/auth/Crypto.cc`,
//! `src/auth/cephx/*`; linux `net/ceph/auth_x.c`.
//!
//! This module is independent of message framing. It produces the payloads of the messenger's authentication frames, or
//! of `MAuth` and authorizers in version 1 of the messenger.
//!
//! Secrets are wiped when dropped, compared in constant time and never printed: [`Secret`] ensures it. Randomness comes
//! from an [`Entropy`] that is seeded by the caller; time is an argument.

mod authority;
mod crypto;
mod error;
mod introduction;
mod keyring;
mod login;
pub mod messages;
mod monitor;
mod name;
mod numbers;
mod principal;
mod protocol;
mod reception;
mod tickets;
mod verify;

pub use authority::{Authority, Lifetimes};
pub use crypto::{Cipher, Entropy, Key, Secret, Usage, open, open_counted, seal, seal_counted};
pub use error::Error;
pub use introduction::Introduction;
pub use keyring::{Entry, Keyring, KeyringError};
pub use login::{Attempt, Credentials, Login, Proved};
pub use monitor::{Granted, MonitorLogin, NamedKey};
pub use name::AuthName;
pub use numbers::{method, mode, service};
pub use principal::Principal;
pub use protocol::{
    AuthTicket, Authenticate, Authorize, AuthorizeChallenge, AuthorizeReply, Blob, ChallengeBlob,
    RequestHeader, ResponseHeader, ServerChallenge, ServiceTicket, ServiceTicketInfo, ServiceTicketRequest,
    TicketBlob, Validity, request,
};
pub use reception::{Admitted, Answer, Caps, Gate, Reception, Renewals};
pub use tickets::{Authorizer, Ticket, Tickets};
