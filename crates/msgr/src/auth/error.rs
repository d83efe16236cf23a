//! Why somebody could not be authenticated.

use super::name::AuthName;
use onego_wire::DecodeError;
use thiserror::Error;

/// Why somebody could not be authenticated. None of these shows a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// Bytes that cannot be decoded.
    #[error("what the peer sent for the authentication cannot be decoded: {0}")]
    Decode(#[from] DecodeError),
    /// Something was sealed with another key than the one that it was opened with, or damaged.
    #[error(
        "{what} was not sealed with the key that this side has: the keys differ, or somebody else sent it"
    )]
    Forged {
        /// What was to be opened.
        what: &'static str,
    },
    /// An answer that does not fit the question.
    #[error("the peer's proof of who it is does not fit: {0}")]
    Mismatch(&'static str),
    /// There is no key, and the peer wants one.
    #[error(
        "the cluster wants to see the key of {name}, and there is none: name it by `keyring`, `keyfile` or `key`"
    )]
    NoKey {
        /// The client without a key.
        name: AuthName,
    },
    /// The monitors gave no ticket for a service, or it has run out.
    #[error("there is no valid ticket for the service {service:#x} yet: the monitors have to give a new one")]
    NoTicket {
        /// The service.
        service: u32,
    },
    /// A monitor did not believe a client. Monitors do not say why: an unknown client must not learn which names are known.
    #[error(
        "the monitors refused {name} (error {errno}): nobody is known by that name, its key is another one, or it has \
         no capabilities for the monitors (see `ceph auth get {name}`)"
    )]
    Refused {
        /// The client that was refused.
        name: AuthName,
        /// A negative error number.
        errno: i32,
    },
    /// A service did not take a ticket: it may have run out, or the service has newer keys.
    #[error("the ticket of {name} was refused (error {errno}): a new one is needed")]
    TicketRefused {
        /// The client that was refused.
        name: AuthName,
        /// A negative error number.
        errno: i32,
    },
    /// No method that both sides take.
    #[error(
        "the peer allows authentication methods {theirs:?}, this side {ours:?}: see `auth_client_required`"
    )]
    Methods {
        /// What the peer allows.
        theirs: Vec<u32>,
        /// What this side allows.
        ours: Vec<u32>,
    },
    /// No mode of the connection that both sides take.
    #[error(
        "the peer allows connection modes {theirs:?}, this side {ours:?} (1: crc, 2: secure): see `ms_client_mode`"
    )]
    Modes {
        /// What the peer allows.
        theirs: Vec<u32>,
        /// What this side allows.
        ours: Vec<u32>,
    },
}
