//! Numbers of methods, modes and services.

/// Authentication methods (`CEPH_AUTH_*`).
#[allow(missing_docs)]
pub mod method {
    pub const NONE: u32 = 1;
    pub const CEPHX: u32 = 2;
}

/// Connection modes (`CEPH_CON_MODE_*`).
#[allow(missing_docs)]
pub mod mode {
    /// Frames carry checksums.
    pub const CRC: u32 = 1;
    /// Frames are encrypted.
    pub const SECURE: u32 = 2;
}

/// Services that tickets are for, as bits (`CEPH_ENTITY_TYPE_*`).
#[allow(missing_docs)]
pub mod service {
    pub const MON: u32 = 0x01;
    pub const MDS: u32 = 0x02;
    pub const OSD: u32 = 0x04;
    pub const MGR: u32 = 0x10;
    pub const AUTH: u32 = 0x20;
}
