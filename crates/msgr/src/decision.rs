//! Decision about a connecting peer that claims a session.
//!
//! Source: ceph `src/msg/async/ProtocolV2.cc` (`handle_existing_connection`, `handle_reconnect`).

use crate::claim::{ConnectRequest, Refusal};
use crate::state::SessionState;
use crate::types::addr::{AddrVec, EntityAddr};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AcceptDecision {
    /// Its connection takes over the session. `reset`: messages queued for the peer are dropped first.
    Take {
        reset: bool,
    },
    Refuse(Refusal),
    /// The claim comes from an earlier instance of the peer.
    Drop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocalState {
    /// Connected, or waiting for something to send.
    Idle,
    Connecting,
}

impl SessionState {
    /// Decides about a peer that connected to `own` and requests `request`.
    pub(crate) fn decide(
        &self,
        local: LocalState,
        own: &AddrVec,
        request: &ConnectRequest,
    ) -> AcceptDecision {
        // Of two simultaneous connections, that of the lower address is used.
        let peer_wins = self.policy.server || addr_of(request.addrs()) < addr_of(own);
        match request {
            ConnectRequest::New(ident) => {
                let same_instance = self.client_cookie == ident.cookie;
                if self.peer_global_seq > ident.global_seq {
                    AcceptDecision::Drop
                } else if self.server_cookie != 0 && self.client_cookie != 0 && !same_instance {
                    AcceptDecision::Take { reset: self.policy.reset_check }
                } else if same_instance || local == LocalState::Idle || peer_wins {
                    AcceptDecision::Take { reset: false }
                } else {
                    AcceptDecision::Refuse(Refusal::Wait)
                }
            }
            ConnectRequest::Resume(ask) => {
                if self.client_cookie != ask.client_cookie {
                    let full = self.peer.is_none() || self.policy.reset_check;
                    AcceptDecision::Refuse(Refusal::Reset { full })
                } else if self.server_cookie == 0 {
                    // This side never learned that its session was granted.
                    AcceptDecision::Refuse(Refusal::Reset { full: false })
                } else if self.peer_global_seq > ask.global_seq {
                    AcceptDecision::Refuse(Refusal::RetryGlobal { global_seq: self.peer_global_seq })
                } else if self.connect_seq > ask.connect_seq {
                    AcceptDecision::Refuse(Refusal::Retry { connect_seq: self.connect_seq })
                } else if self.connect_seq == ask.connect_seq && !peer_wins {
                    AcceptDecision::Refuse(Refusal::Wait)
                } else {
                    AcceptDecision::Take { reset: false }
                }
            }
            ConnectRequest::Legacy { global_seq, connect_seq, .. } => {
                self.decide_legacy(local, peer_wins, *global_seq, *connect_seq)
            }
        }
    }

    /// [`decide`](Self::decide) for version 1, whose sessions have no cookies (ProtocolV1.cc,
    /// `handle_connect_message_2`).
    fn decide_legacy(
        &self,
        local: LocalState,
        peer_wins: bool,
        global_seq: u64,
        connect_seq: u64,
    ) -> AcceptDecision {
        let own = self.connect_seq;
        // Messages have flowed only if the peer is known: it may have missed the answer to its first attempt.
        let none = self.peer.is_none() && own == 0 && local == LocalState::Idle;
        let retry = AcceptDecision::Refuse(Refusal::Retry { connect_seq: own + 1 });
        if global_seq < self.peer_global_seq {
            AcceptDecision::Refuse(Refusal::RetryGlobal { global_seq: self.peer_global_seq })
        } else if connect_seq == 0 && own > 0 {
            // The peer was restarted.
            AcceptDecision::Take { reset: self.policy.reset_check && self.peer.is_some() }
        } else if connect_seq > 0 && (none || (self.policy.reset_check && own == 0)) {
            AcceptDecision::Refuse(Refusal::Reset { full: true })
        } else if none || connect_seq > own {
            AcceptDecision::Take { reset: false }
        } else if connect_seq < own {
            retry
        } else if local == LocalState::Idle {
            if self.policy.reset_check && own == 0 { AcceptDecision::Take { reset: false } } else { retry }
        } else if peer_wins {
            AcceptDecision::Take { reset: false }
        } else {
            AcceptDecision::Refuse(Refusal::Wait)
        }
    }
}

/// Address that orders two sides.
fn addr_of(addrs: &AddrVec) -> Option<&EntityAddr> {
    addrs.msgr2().or(addrs.legacy()).or(addrs.0.first())
}
