//! A client's identity before it proves anything.
//!
//! Source: ceph `src/auth/Auth.h` (`AUTH_MODE_*`), `src/auth/none/AuthNoneProtocol.h`, `src/mon/MonClient.cc`
//! (`MonConnection::get_auth_request`).

use super::name::AuthName;
use crate::types::encoding::{Decode, Encode};
use onego_wire::{DecodeError, Decoded, Reader, Writer};

/// Mode of a client of a service that authenticates it itself (`AUTH_MODE_AUTHORIZER`).
pub(super) const TO_SERVICE: u8 = 1;
/// Mode of a client of a monitor, which assigns it a global id (`AUTH_MODE_MON`).
const TO_MONITOR: u8 = 10;

/// Unproved identity of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// Whether the server is a monitor, which assigns a global id.
    pub to_monitor: bool,
    /// Name of the client.
    pub name: AuthName,
    /// Global id that the client already has, or 0.
    pub global_id: u64,
}

impl Decode for Introduction {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let to_monitor = match r.u8("auth mode")? {
            TO_SERVICE => false,
            TO_MONITOR => true,
            mode => return Err(DecodeError::Invalid { what: "auth mode", value: mode.into() }),
        };
        Ok(Self { to_monitor, name: AuthName::decode(r)?, global_id: r.u64("auth global id")? })
    }
}

impl Encode for Introduction {
    fn encode(&self, w: &mut Writer) {
        w.u8(if self.to_monitor { TO_MONITOR } else { TO_SERVICE });
        self.name.encode(w);
        w.u64(self.global_id);
    }
}
