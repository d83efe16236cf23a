//! Bits and numbers that maps carry.

/// Bits of [`OsdMap::flags`](crate::osdmap::OsdMap::flags) (ceph `src/include/rados.h`, CEPH_OSDMAP_*).
pub mod flag {
    /// Clients must not read.
    pub const PAUSERD: u32 = 1 << 2;
    /// Clients must not write.
    pub const PAUSEWR: u32 = 1 << 3;
    /// The cluster is full: clients must not write, unless they make room.
    pub const FULL: u32 = 1 << 1;
    /// OSDs are not taken for up.
    pub const NOUP: u32 = 1 << 5;
    /// OSDs do not catch up object by object.
    pub const NOBACKFILL: u32 = 1 << 9;
    /// OSDs do not catch up.
    pub const NORECOVER: u32 = 1 << 10;
    /// OSDs do not catch up object by object where no copy is missing.
    pub const NOREBALANCE: u32 = 1 << 14;
    /// OSDs sort objects as all do since Jewel.
    pub const SORTBITWISE: u32 = 1 << 15;
    /// A bit of the past, dropped when [`crate::osdmap::OsdMap::require_osd_release`] says more.
    pub const REQUIRE_JEWEL: u32 = 1 << 16;
    /// A bit of the past, dropped when [`crate::osdmap::OsdMap::require_osd_release`] says more.
    pub const REQUIRE_KRAKEN: u32 = 1 << 17;
    /// A bit of the past, dropped when [`crate::osdmap::OsdMap::require_osd_release`] says more.
    pub const REQUIRE_LUMINOUS: u32 = 1 << 18;
    /// OSDs delete objects while they recover: all do since Luminous.
    pub const RECOVERY_DELETES: u32 = 1 << 19;
    /// Snapshots are purged in one way: all do since Mimic.
    pub const PURGED_SNAPDIRS: u32 = 1 << 20;
    /// OSDs keep what they have for snapshots that were removed.
    pub const NOSNAPTRIM: u32 = 1 << 21;
    /// The log of a placement group has a hard limit: in all since Nautilus.
    pub const PGLOG_HARDLIMIT: u32 = 1 << 22;
}

/// Numbers of Ceph's releases, as maps carry them (ceph `src/common/ceph_releases.h`).
pub mod release {
    /// 0.80
    pub const FIREFLY: u8 = 6;
    /// 0.94
    pub const HAMMER: u8 = 8;
    /// 10.2
    pub const JEWEL: u8 = 10;
    /// 11.2
    pub const KRAKEN: u8 = 11;
    /// 12.2
    pub const LUMINOUS: u8 = 12;
    /// 14.2
    pub const NAUTILUS: u8 = 14;
    /// 15.2
    pub const OCTOPUS: u8 = 15;
    /// 16.2
    pub const PACIFIC: u8 = 16;
    /// 18.2
    pub const REEF: u8 = 18;
    /// 19.2
    pub const SQUID: u8 = 19;
    /// 20.2
    pub const TENTACLE: u8 = 20;
}
