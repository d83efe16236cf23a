//! What a client says of itself before it proves anything.
//!
//! Source: ceph `src/auth/Auth.h` (`AUTH_MODE_*`), `src/auth/none/AuthNoneProtocol.h`, `src/mon/MonClient.cc`
//! (`MonConnection::get_auth_request`).

use super::name::AuthName;
use crate::types::encoding::{Decode, Encode};
use onego_wire::{DecodeError, Decoded, Reader, Writer};

/// How a client introduces itself to a service that has its own ways to know who it is (`AUTH_MODE_AUTHORIZER`).
pub(super) const TO_SERVICE: u8 = 1;
/// How a client introduces itself to a monitor, which gives it a global id (`AUTH_MODE_MON`).
const TO_MONITOR: u8 = 10;

/// What a client says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// Does the client speak to a monitor, from which it wants a global id?
    pub to_monitor: bool,
    /// Its name.
    pub name: AuthName,
    /// The global id that the client has already, or 0.
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
