//! The banner: the first bytes in both directions.
//!
//! Source: ceph `doc/dev/msgr2.rst`, "Banner"; `src/include/msgr.h` (`CEPH_BANNER_V2_PREFIX`, `CEPH_MSGR2_FEATURE_*`).

use super::error::Error;
use onego_wire::{Reader, Writer};

const PREFIX: &[u8] = b"ceph v2\n";
/// Bytes of the prefix and of the payload's length.
pub(super) const PREFIX_LEN: usize = PREFIX.len() + 2;
/// What a peer of version 1 of the protocol starts with.
const PREFIX_V1: &[u8] = b"ceph v027";

/// msgr2.1. Peers without it are older than 14.2.10 and 15.2.2 (CVE-2020-1759).
const REVISION_1: u64 = 1;
/// What this side has. Compression (bit 1) is not offered, so its frames never come.
const SUPPORTED: u64 = REVISION_1;
/// What peers must have, as the kernel's client demands it as well.
const REQUIRED: u64 = REVISION_1;

/// What a banner says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Banner {
    supported: u64,
    required: u64,
}

impl Banner {
    /// This side's banner.
    pub(super) fn encode() -> Vec<u8> {
        let mut w = Writer::new();
        w.put(PREFIX);
        w.u16(16);
        w.u64(SUPPORTED);
        w.u64(REQUIRED);
        w.into_vec()
    }

    /// Length of the payload behind this prefix.
    pub(super) fn payload_len(prefix: &[u8]) -> Result<usize, Error> {
        if prefix.starts_with(PREFIX_V1) {
            return Err(Error::Msgr1);
        }
        let len = prefix.strip_prefix(PREFIX).ok_or(Error::NotMsgr2)?;
        Ok(Reader::new(len).u16("banner length")?.into())
    }

    /// Reads a payload; a newer peer may have more in it.
    pub(super) fn decode(payload: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new(payload);
        Ok(Self {
            supported: r.u64("banner supported features")?,
            required: r.u64("banner required features")?,
        })
    }

    /// Checks that the two sides fit.
    pub(super) fn check(self) -> Result<(), Error> {
        let lacked_here = self.required & !SUPPORTED;
        let lacked_there = REQUIRED & !self.supported;
        if lacked_here | lacked_there == 0 {
            Ok(())
        } else {
            Err(Error::MessengerFeatures { lacked_here, lacked_there })
        }
    }
}
