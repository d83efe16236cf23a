//! Decision about a connecting peer that claims a session.
//!
//! Source: ceph `src/msg/async/ProtocolV2.cc` (`handle_existing_connection`, `handle_reconnect`).

use crate::claim::{Refusal, Wish};
use crate::state::SessionState;
use crate::types::addr::{AddrVec, EntityAddr};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its connection takes over the session. `reset`: messages queued for the peer are dropped first.
    Take {
        reset: bool,
    },
    Refuse(Refusal),
    /// The claim comes from an earlier instance of the peer.
    Drop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Connected, or waiting for something to send.
    Nothing,
    Connecting,
}

impl SessionState {
    /// Decides about a peer that connected to `own` and requests `wish`.
    pub(crate) fn judge(&self, doing: Doing, own: &AddrVec, wish: &Wish) -> Verdict {
        // Of two simultaneous connections, that of the lower address is used.
        let peer_wins = self.policy.server || addr_of(wish.addrs()) < addr_of(own);
        match wish {
            Wish::New(ident) => {
                let same_life = self.client_cookie == ident.cookie;
                if self.peer_global_seq > ident.global_seq {
                    Verdict::Drop
                } else if self.server_cookie != 0 && self.client_cookie != 0 && !same_life {
                    Verdict::Take { reset: self.policy.reset_check }
                } else if same_life || doing == Doing::Nothing || peer_wins {
                    Verdict::Take { reset: false }
                } else {
                    Verdict::Refuse(Refusal::Wait)
                }
            }
            Wish::Resume(ask) => {
                if self.client_cookie != ask.client_cookie {
                    let full = self.peer.is_none() || self.policy.reset_check;
                    Verdict::Refuse(Refusal::Reset { full })
                } else if self.server_cookie == 0 {
                    // This side never learned that its session was granted.
                    Verdict::Refuse(Refusal::Reset { full: false })
                } else if self.peer_global_seq > ask.global_seq {
                    Verdict::Refuse(Refusal::RetryGlobal { global_seq: self.peer_global_seq })
                } else if self.connect_seq > ask.connect_seq {
                    Verdict::Refuse(Refusal::Retry { connect_seq: self.connect_seq })
                } else if self.connect_seq == ask.connect_seq && !peer_wins {
                    Verdict::Refuse(Refusal::Wait)
                } else {
                    Verdict::Take { reset: false }
                }
            }
            Wish::Legacy { global_seq, connect_seq, .. } => {
                self.judge_legacy(doing, peer_wins, *global_seq, *connect_seq)
            }
        }
    }

    /// [`judge`](Self::judge) for version 1, whose sessions have no cookies (ProtocolV1.cc,
    /// `handle_connect_message_2`).
    fn judge_legacy(&self, doing: Doing, peer_wins: bool, global_seq: u64, connect_seq: u64) -> Verdict {
        let own = self.connect_seq;
        // Messages have flowed only if the peer is known: it may have missed the answer to its first attempt.
        let none = self.peer.is_none() && own == 0 && doing == Doing::Nothing;
        let retry = Verdict::Refuse(Refusal::Retry { connect_seq: own + 1 });
        if global_seq < self.peer_global_seq {
            Verdict::Refuse(Refusal::RetryGlobal { global_seq: self.peer_global_seq })
        } else if connect_seq == 0 && own > 0 {
            // The peer was restarted.
            Verdict::Take { reset: self.policy.reset_check && self.peer.is_some() }
        } else if connect_seq > 0 && (none || (self.policy.reset_check && own == 0)) {
            Verdict::Refuse(Refusal::Reset { full: true })
        } else if none || connect_seq > own {
            Verdict::Take { reset: false }
        } else if connect_seq < own {
            retry
        } else if doing == Doing::Nothing {
            if self.policy.reset_check && own == 0 { Verdict::Take { reset: false } } else { retry }
        } else if peer_wins {
            Verdict::Take { reset: false }
        } else {
            Verdict::Refuse(Refusal::Wait)
        }
    }
}

/// Address that orders two sides.
fn addr_of(addrs: &AddrVec) -> Option<&EntityAddr> {
    addrs.msgr2().or(addrs.legacy()).or(addrs.0.first())
}
