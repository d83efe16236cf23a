//! The banner: first bytes in both directions.
//!
//! Source: ceph `doc/dev/msgr2.rst`, "Banner"; `src/include/msgr.h` (`CEPH_BANNER_V2_PREFIX`, `CEPH_MSGR2_FEATURE_*`).

use crate::error::Error;
use onego_wire::{Reader, Writer};

const PREFIX: &[u8] = b"ceph v2\n";
/// Size of the prefix and the payload's length, in bytes.
pub(super) const PREFIX_LEN: usize = PREFIX.len() + 2;
const PREFIX_V1: &[u8] = b"ceph v027";

/// msgr2.1. Peers without it are older than 14.2.10 and 15.2.2 (CVE-2020-1759).
const REVISION_1: u64 = 1;
/// Compression. A side that does not compress omits it, which spares both a round of the handshake.
const COMPRESSION: u64 = 2;
/// Features that peers must have; the kernel client requires the same.
const REQUIRED: u64 = REVISION_1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Banner {
    supported: u64,
    required: u64,
}

impl Banner {
    /// Creates this side's banner. `compression`: this side can compress.
    pub(super) fn of_this_side(compression: bool) -> Self {
        let supported = if compression { REVISION_1 | COMPRESSION } else { REVISION_1 };
        Self { supported, required: REQUIRED }
    }

    pub(super) fn to_wire(self) -> Vec<u8> {
        let mut w = Writer::new();
        w.put(PREFIX);
        w.u16(16);
        w.u64(self.supported);
        w.u64(self.required);
        w.into_vec()
    }

    pub(super) fn payload_len(prefix: &[u8]) -> Result<usize, Error> {
        if prefix.starts_with(PREFIX_V1) {
            return Err(Error::Msgr1);
        }
        let len = prefix.strip_prefix(PREFIX).ok_or(Error::NotMsgr2)?;
        Ok(Reader::new(len).u16("banner length")?.into())
    }

    /// Decodes a payload; trailing bytes of a newer peer are ignored.
    pub(super) fn decode(payload: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new(payload);
        Ok(Self {
            supported: r.u64("banner supported features")?,
            required: r.u64("banner required features")?,
        })
    }

    /// Checks that both sides are compatible. Returns whether both can compress.
    pub(super) fn check(self, peer: Self) -> Result<bool, Error> {
        let lacked_here = peer.required & !self.supported;
        let lacked_there = self.required & !peer.supported;
        if lacked_here | lacked_there == 0 {
            Ok(self.supported & peer.supported & COMPRESSION != 0)
        } else {
            Err(Error::MessengerFeatures { lacked_here, lacked_there })
        }
    }
}
