//! State of one OSD in a map (ceph `src/osd/OSDMap.{h,cc}`, osd_info_t and osd_xinfo_t).

use crate::types::{Epoch, Utime};
use onego_msgr::encoding::{Decode, Encode, envelope, write_envelope};
use onego_wire::{DecodeError, Decoded, Reader, Writer};

/// Bits of an OSD's state (ceph `src/include/rados.h`, CEPH_OSD_*).
pub mod state {
    /// The id is in use.
    pub const EXISTS: u32 = 1 << 0;
    /// It is running.
    pub const UP: u32 = 1 << 1;
    /// The monitors marked it out automatically.
    pub const AUTOOUT: u32 = 1 << 2;
    /// It was never marked in.
    pub const NEW: u32 = 1 << 3;
    /// It rejects writes.
    pub const FULL: u32 = 1 << 4;
    /// It will soon be full.
    pub const NEARFULL: u32 = 1 << 5;
    /// It rejects backfill.
    pub const BACKFILLFULL: u32 = 1 << 6;
    /// Its data are gone; the id is reserved for a new disk.
    pub const DESTROYED: u32 = 1 << 7;
    /// It is being stopped.
    pub const STOP: u32 = 1 << 12;
}

/// Weight of an OSD that takes its full share of data.
pub const WEIGHT_IN: u32 = 0x1_0000;
/// Primary affinity of an OSD that is primary whenever it is first: the maximum, and the default.
pub const PRIMARY_AFFINITY_MAX: u32 = 0x1_0000;

/// History of an OSD's ups and downs (`osd_info_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OsdInfo {
    /// First epoch of the last interval that ended in a clean shutdown.
    pub last_clean_begin: Epoch,
    /// Last epoch of that interval.
    pub last_clean_end: Epoch,
    /// Epoch in which it came up.
    pub up_from: Epoch,
    /// Last epoch in which it is known to have been up.
    pub up_thru: Epoch,
    /// Epoch in which it was marked down.
    pub down_at: Epoch,
    /// Epoch in which its data were declared lost.
    pub lost_at: Epoch,
}

impl Decode for OsdInfo {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        const WHAT: &str = "osd_info";
        let version = r.u8(WHAT)?;
        if version != 1 {
            return Err(DecodeError::Invalid { what: "osd_info version", value: version.into() });
        }
        Ok(Self {
            last_clean_begin: r.u32(WHAT)?,
            last_clean_end: r.u32(WHAT)?,
            up_from: r.u32(WHAT)?,
            up_thru: r.u32(WHAT)?,
            down_at: r.u32(WHAT)?,
            lost_at: r.u32(WHAT)?,
        })
    }
}

impl Encode for OsdInfo {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.u32(self.last_clean_begin);
        w.u32(self.last_clean_end);
        w.u32(self.up_from);
        w.u32(self.up_thru);
        w.u32(self.down_at);
        w.u32(self.lost_at);
    }
}

/// More properties of an OSD (`osd_xinfo_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OsdXInfo {
    /// Time at which it was last marked down.
    pub down_stamp: Utime,
    /// Probability that it is slow rather than dead, in units of 1/`u32::MAX`.
    pub laggy_probability: u32,
    /// Seconds for which it is slow then.
    pub laggy_interval: u32,
    /// Feature bits.
    pub features: u64,
    /// Weight before the monitors marked it out.
    pub old_weight: u32,
    /// Time of the last scrub of its purged snapshots.
    pub last_purged_snaps_scrub: Utime,
    /// Last epoch in which it was known to be dead.
    pub dead_epoch: Epoch,
}

impl Decode for OsdXInfo {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        const WHAT: &str = "osd_xinfo";
        envelope(r, 4, WHAT, |version, r| {
            // Version 3 is still written while `require_osd_release` is below Octopus.
            if version < 3 {
                return Err(DecodeError::TooOld { what: WHAT, version, oldest: 3 });
            }
            let mut info = Self {
                down_stamp: Utime::decode(r)?,
                laggy_probability: r.u32(WHAT)?,
                laggy_interval: r.u32(WHAT)?,
                features: r.u64(WHAT)?,
                old_weight: r.u32(WHAT)?,
                ..Self::default()
            };
            if version >= 4 {
                info.last_purged_snaps_scrub = Utime::decode(r)?;
                info.dead_epoch = r.u32(WHAT)?;
            }
            Ok(info)
        })
    }
}

impl Encode for OsdXInfo {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 4, 1, |w| {
            self.down_stamp.encode(w);
            w.u32(self.laggy_probability);
            w.u32(self.laggy_interval);
            w.u64(self.features);
            w.u32(self.old_weight);
            self.last_purged_snaps_scrub.encode(w);
            w.u32(self.dead_epoch);
        });
    }
}
