//! The payloads of the authentication frames for the method "none".
//!
//! Source: ceph `src/auth/Auth.h` (`AUTH_MODE_*`), `src/auth/none/AuthNoneProtocol.h`, `src/mon/MonClient.cc`
//! (`MonConnection::get_auth_request`), `src/include/ceph_fs.h` (`CEPH_AUTH_*`, `CEPH_CON_MODE_*`).

pub use crate::auth::AuthName;
use crate::encoding::{Decode, Encode};
use onego_wire::{DecodeError, Decoded, Reader, Writer};

/// The authentication method by which everybody is believed (`CEPH_AUTH_NONE`).
pub(super) const METHOD_NONE: u32 = 1;
/// The connection mode in which frames carry checksums (`CEPH_CON_MODE_CRC`).
pub(super) const MODE_CRC: u32 = 1;

/// How a client introduces itself to a service that has its own ways to know who it is (`AUTH_MODE_AUTHORIZER`).
const TO_SERVICE: u8 = 1;
/// How a client introduces itself to a monitor, which gives it a global id (`AUTH_MODE_MON`).
const TO_MONITOR: u8 = 10;

/// What a client says of itself with the method "none".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Introduction {
    /// Does the client speak to a monitor, from which it wants a global id?
    pub(super) to_monitor: bool,
    pub(super) name: AuthName,
    /// The global id that the client has already, or 0.
    pub(super) global_id: u64,
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
