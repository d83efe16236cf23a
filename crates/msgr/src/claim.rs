//! What a peer that has connected to a server of sessions says of itself and wants.

use crate::auth::AuthName;
use crate::types::addr::{AddrVec, EntityAddr};

/// The identity of a connecting client, and what it asks for.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) wish: Wish,
    pub(crate) kind: u8,
    pub(crate) auth_name: Option<AuthName>,
}

impl Claim {
    /// Is it the peer that the session is with? Nobody takes over what belongs to somebody else.
    pub(crate) fn is_of(&self, known: &Known) -> bool {
        // A server proves no name to its client.
        let same_name = known.auth_name.is_none() || known.auth_name == self.auth_name;
        self.kind == known.kind && same_name
    }
}

/// The identity of a session's peer.
#[derive(Debug)]
pub(crate) struct Known {
    /// What it said of itself in version 2.
    pub(crate) ident: Option<Ident>,
    pub(crate) kind: u8,
    /// The name that it has proved, if it did.
    pub(crate) auth_name: Option<AuthName>,
}

/// What a peer that has connected wants.
#[derive(Debug, Clone)]
pub(crate) enum Wish {
    /// A new session.
    New(Ident),
    /// To go on with one.
    Resume(Reconnect),
    /// One or the other, in version 1: a new session if `connect_seq` is 0.
    Legacy { addrs: AddrVec, global_seq: u64, connect_seq: u64 },
}

impl Wish {
    pub(crate) fn addrs(&self) -> &AddrVec {
        match self {
            Self::New(ident) => &ident.addrs,
            Self::Resume(reconnect) => &reconnect.addrs,
            Self::Legacy { addrs, .. } => addrs,
        }
    }
}

/// Why a peer that has connected does not get what it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The session is not known. `full`: what was meant for it is to be forgotten.
    Reset { full: bool },
    /// The session has seen this attempt to connect already. The number is as each version has it on the wire: the
    /// session's, or the next one (version 1).
    Retry { connect_seq: u64 },
    /// This side has seen a later connection of the peer.
    RetryGlobal { global_seq: u64 },
    /// This side is connecting itself, and that connection is to be used.
    Wait,
}

/// CLIENT_IDENT and SERVER_IDENT: the server's has no target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ident {
    pub(crate) addrs: AddrVec,
    /// Whom the client means to reach.
    pub(crate) target: Option<EntityAddr>,
    /// The number in the sender's name.
    pub(crate) num: i64,
    pub(crate) global_seq: u64,
    pub(crate) supported: u64,
    pub(crate) required: u64,
    pub(crate) flags: u64,
    /// Names the session, or 0 on a lossy connection.
    pub(crate) cookie: u64,
}

/// SESSION_RECONNECT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reconnect {
    pub(crate) addrs: AddrVec,
    pub(crate) client_cookie: u64,
    pub(crate) server_cookie: u64,
    pub(crate) global_seq: u64,
    pub(crate) connect_seq: u64,
    /// The last message that the sender received.
    pub(crate) msg_seq: u64,
}
