//! Identity and request of a peer that connected to a session server.

use crate::auth::AuthName;
use crate::types::addr::{AddrVec, EntityAddr};

#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) request: ConnectRequest,
    pub(crate) kind: u8,
    pub(crate) auth_name: Option<AuthName>,
}

impl Claim {
    /// Returns whether the claim comes from the session's peer: a session cannot be taken over under another identity.
    pub(crate) fn is_of(&self, known: &SessionPeer) -> bool {
        // A server proves no name to its client.
        let same_name = known.auth_name.is_none() || known.auth_name == self.auth_name;
        self.kind == known.kind && same_name
    }
}

#[derive(Debug)]
pub(crate) struct SessionPeer {
    /// IDENT frame of the peer; version 2 only.
    pub(crate) ident: Option<Ident>,
    pub(crate) kind: u8,
    pub(crate) auth_name: Option<AuthName>,
}

#[derive(Debug, Clone)]
pub(crate) enum ConnectRequest {
    New(Ident),
    Resume(Reconnect),
    /// Version 1: a new session if `connect_seq` is 0, otherwise a resumption.
    Legacy {
        addrs: AddrVec,
        global_seq: u64,
        connect_seq: u64,
    },
}

impl ConnectRequest {
    pub(crate) fn addrs(&self) -> &AddrVec {
        match self {
            Self::New(ident) => &ident.addrs,
            Self::Resume(reconnect) => &reconnect.addrs,
            Self::Legacy { addrs, .. } => addrs,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The session is unknown. `full`: the peer must also drop the messages queued for it.
    Reset { full: bool },
    /// The session has already seen this attempt. `connect_seq` is as sent on the wire: the session's own number
    /// (version 2) or the next one (version 1).
    Retry { connect_seq: u64 },
    /// This side has seen a later connection of the peer.
    RetryGlobal { global_seq: u64 },
    /// This side is connecting itself, and that connection wins.
    Wait,
}

/// CLIENT_IDENT or SERVER_IDENT. The server's frame has no target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ident {
    pub(crate) addrs: AddrVec,
    pub(crate) target: Option<EntityAddr>,
    /// Number in the sender's entity name.
    pub(crate) num: i64,
    pub(crate) global_seq: u64,
    pub(crate) supported: u64,
    pub(crate) required: u64,
    pub(crate) flags: u64,
    /// Identifies the session; 0 on a lossy connection.
    pub(crate) cookie: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reconnect {
    pub(crate) addrs: AddrVec,
    pub(crate) client_cookie: u64,
    pub(crate) server_cookie: u64,
    pub(crate) global_seq: u64,
    pub(crate) connect_seq: u64,
    /// Last message that the sender received.
    pub(crate) msg_seq: u64,
}
