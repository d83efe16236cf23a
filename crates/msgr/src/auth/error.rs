//! Authentication errors.

use super::name::AuthName;
use onego_wire::DecodeError;
use thiserror::Error;

/// Authentication error. No variant reveals a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// Bytes that cannot be decoded.
    #[error("the peer's authentication data cannot be decoded: {0}")]
    Decode(#[from] DecodeError),
    /// Data that was sealed with another key or corrupted.
    #[error(
        "{what} was not sealed with the key that this side has: the keys differ, or it comes from another sender"
    )]
    Forged {
        /// Data to be opened.
        what: &'static str,
    },
    /// Response that does not match the request.
    #[error("the peer's proof of identity is invalid: {0}")]
    Mismatch(&'static str),
    /// The peer requires a key, and the client has none.
    #[error(
        "the cluster requires the key of {name}, and there is none: name it by `keyring`, `keyfile` or `key`"
    )]
    NoKey {
        /// Client without a key.
        name: AuthName,
    },
    /// The monitors issued no ticket for a service, or it has expired.
    #[error("no valid ticket for the service {service:#x} yet: the monitors must issue a new one")]
    NoTicket {
        /// Service.
        service: u32,
    },
    /// A monitor refused a client. Monitors give no reason, so that clients cannot probe which names exist.
    #[error(
        "the monitors refused {name} (error {errno}): the name is unknown, its key differs, or it has no capabilities \
         for the monitors (see `ceph auth get {name}`)"
    )]
    Refused {
        /// Refused client.
        name: AuthName,
        /// Negative error number.
        errno: i32,
    },
    /// A service refused a ticket: it may have expired, or the service has newer keys.
    #[error("the ticket of {name} was refused (error {errno}): it must be renewed")]
    TicketRefused {
        /// Refused client.
        name: AuthName,
        /// Negative error number.
        errno: i32,
    },
    /// No common authentication method.
    #[error(
        "the peer allows authentication methods {theirs:?}, this side {ours:?}: see `auth_client_required`"
    )]
    Methods {
        /// Methods that the peer allows.
        theirs: Vec<u32>,
        /// Methods that this side allows.
        ours: Vec<u32>,
    },
    /// No common connection mode.
    #[error(
        "the peer allows connection modes {theirs:?}, this side {ours:?} (1: crc, 2: secure): see `ms_client_mode`"
    )]
    Modes {
        /// Modes that the peer allows.
        theirs: Vec<u32>,
        /// Modes that this side allows.
        ours: Vec<u32>,
    },
}
