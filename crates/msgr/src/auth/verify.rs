//! Verification of tickets by a service.
//!
//! Source: ceph `src/auth/cephx/CephxProtocol.cc` (`cephx_verify_authorizer`).

use super::crypto::Usage;
use super::crypto::sealed::{open_counted, seal, seal_counted};
use super::crypto::{Entropy, Secret};
use super::introduction::TO_SERVICE;
use super::protocol::{Authorize, AuthorizeChallenge, AuthorizeReply, ServiceTicketInfo, TicketBlob};
use crate::types::encoding::Decode;
use onego_wire::{Reader, Writer};

pub(super) struct VerifiedAuthorizer {
    pub(super) info: ServiceTicketInfo,
    pub(super) authorize: Authorize,
}

impl VerifiedAuthorizer {
    pub(super) fn answers(&self, challenge: u64) -> bool {
        self.authorize.challenge_plus_one == Some(challenge.wrapping_add(1))
    }

    /// Seals a challenge for the client, which prevents the replay of a recorded authorizer.
    pub(super) fn challenge(&self, challenge: u64, entropy: &mut Entropy) -> Vec<u8> {
        seal(&self.info.session_key, Usage::AuthorizeChallenge, &AuthorizeChallenge { challenge }, entropy)
    }

    /// Seals the reply that proves to the client that the service could open the ticket.
    pub(super) fn reply(&self, connection_secret: &Secret, entropy: &mut Entropy) -> Vec<u8> {
        let reply = AuthorizeReply {
            nonce_plus_one: self.authorize.nonce.wrapping_add(1),
            connection_secret: connection_secret.clone(),
        };
        let mut w = Writer::new();
        seal_counted(&self.info.session_key, Usage::AuthorizeReply, &reply, entropy, &mut w);
        w.into_vec()
    }
}

/// Reads an authorizer for `service`, whose ticket `open_ticket` opens. Returns `None` if the ticket is invalid or the
/// client does not have its session key.
pub(super) fn authorizer(
    service: u32,
    r: &mut Reader<'_>,
    open_ticket: impl FnOnce(&TicketBlob) -> Option<ServiceTicketInfo>,
) -> Option<VerifiedAuthorizer> {
    const WHAT: &str = "authorizer";
    if r.u8(WHAT).ok()? != TO_SERVICE {
        return None;
    }
    let global_id = r.u64(WHAT).ok()?;
    let wanted = r.u32(WHAT).ok()?;
    let ticket = TicketBlob::decode(r).ok()?;
    if wanted != service {
        return None;
    }
    let info = open_ticket(&ticket)?;
    if info.ticket.global_id != global_id {
        return None;
    }
    let authorize = open_counted(&info.session_key, Usage::Authorize, r, WHAT).ok()?;
    Some(VerifiedAuthorizer { info, authorize })
}
