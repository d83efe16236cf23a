//! Flags and release numbers in maps.

/// Bits of [`OsdMap::flags`](crate::osdmap::OsdMap::flags) (ceph `src/include/rados.h`, CEPH_OSDMAP_*).
pub mod flag {
    /// Reads are paused.
    pub const PAUSERD: u32 = 1 << 2;
    /// Writes are paused.
    pub const PAUSEWR: u32 = 1 << 3;
    /// The cluster is full: only clients that free space may write.
    pub const FULL: u32 = 1 << 1;
    /// OSDs are not marked up.
    pub const NOUP: u32 = 1 << 5;
    /// OSDs do not backfill.
    pub const NOBACKFILL: u32 = 1 << 9;
    /// OSDs do not recover.
    pub const NORECOVER: u32 = 1 << 10;
    /// OSDs do not backfill unless copies are missing.
    pub const NOREBALANCE: u32 = 1 << 14;
    /// OSDs use the sort order of Jewel and later.
    pub const SORTBITWISE: u32 = 1 << 15;
    /// Obsolete, cleared when [`crate::osdmap::OsdMap::require_osd_release`] is newer.
    pub const REQUIRE_JEWEL: u32 = 1 << 16;
    /// Obsolete, cleared when [`crate::osdmap::OsdMap::require_osd_release`] is newer.
    pub const REQUIRE_KRAKEN: u32 = 1 << 17;
    /// Obsolete, cleared when [`crate::osdmap::OsdMap::require_osd_release`] is newer.
    pub const REQUIRE_LUMINOUS: u32 = 1 << 18;
    /// OSDs delete objects during recovery: all since Luminous.
    pub const RECOVERY_DELETES: u32 = 1 << 19;
    /// Legacy snapshot directories are purged: in all clusters since Mimic.
    pub const PURGED_SNAPDIRS: u32 = 1 << 20;
    /// OSDs do not trim removed snapshots.
    pub const NOSNAPTRIM: u32 = 1 << 21;
    /// The logs of placement groups have a hard limit: all since Nautilus.
    pub const PGLOG_HARDLIMIT: u32 = 1 << 22;
}

/// Release numbers in maps (ceph `src/common/ceph_releases.h`).
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
