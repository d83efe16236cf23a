//! Features of the driver, and states of devices.

use crate::kernel::{DEPTH_MAX, REQUEST_MAX};
use std::fmt;

/// Size of `struct ublksrv_ctrl_dev_info` in bytes.
pub(crate) const INFO: usize = 64;

/// Features of the driver or a device (`UBLK_F_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features(pub(crate) u64);

impl Features {
    /// The device survives its server process and waits for the next one (Linux 6.1).
    pub const USER_RECOVERY: Self = Self(1 << 3);
    /// Requests in flight at that time are reissued to the next server (Linux 6.1).
    pub const RECOVERY_REISSUE: Self = Self(1 << 4);
    /// Unprivileged users may create devices (Linux 6.3).
    pub const UNPRIVILEGED: Self = Self(1 << 5);
    /// Commands use the encoding of `ioctl` numbers (Linux 6.4).
    pub const IOCTL_ENCODING: Self = Self(1 << 6);
    /// The device can be resized while it is in use (Linux 6.16).
    pub const UPDATE_SIZE: Self = Self(1 << 10);

    /// Returns whether all of `others` are set.
    pub fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns the union of both sets.
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns the intersection of both sets.
    pub fn shared_with(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }
}

/// The state of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceState {
    /// Not started, or stopped.
    Dead,
    /// Served by a process.
    Live,
    /// The server process has ended, and the device waits for another one.
    Quiesced,
    /// The server process has ended, and requests fail.
    Failing,
    /// A state unknown to this crate.
    Other(u16),
}

impl fmt::Display for DeviceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dead => f.write_str("stopped"),
            Self::Live => f.write_str("served"),
            Self::Quiesced => f.write_str("waiting"),
            Self::Failing => f.write_str("failing"),
            Self::Other(number) => write!(f, "state {number}"),
        }
    }
}

/// Settings and state of a device, as returned by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceInfo {
    pub(crate) queues: u16,
    pub(crate) depth: u16,
    pub(crate) state: u16,
    pub(crate) max_io: u32,
    pub(crate) id: u32,
    pub(crate) pid: i32,
    pub(crate) features: Features,
}

impl DeviceInfo {
    /// Returns the number in the device's file names, `/dev/ublkbN` and `/dev/ublkcN`.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns the number of queues.
    pub fn queues(&self) -> u16 {
        self.queues
    }

    /// Returns the maximum number of requests in flight per queue.
    pub fn depth(&self) -> u16 {
        self.depth
    }

    /// Returns the maximum size of a request in bytes, which each buffer must hold.
    pub fn max_io(&self) -> u32 {
        self.max_io
    }

    /// Returns the ID of the current or last server process.
    pub fn server(&self) -> Option<u32> {
        u32::try_from(self.pid).ok().filter(|pid| *pid > 0)
    }

    /// Returns the state of the device.
    pub fn state(&self) -> DeviceState {
        match self.state {
            0 => DeviceState::Dead,
            1 => DeviceState::Live,
            2 => DeviceState::Quiesced,
            3 => DeviceState::Failing,
            other => DeviceState::Other(other),
        }
    }

    /// Returns the features of the device.
    pub fn features(&self) -> Features {
        self.features
    }

    /// Encodes the fields that a program sets.
    pub(crate) fn encode(self) -> [u8; INFO] {
        let mut bytes = [0; INFO];
        bytes[..2].copy_from_slice(&self.queues.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.depth.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.max_io.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.id.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.features.0.to_ne_bytes());
        bytes
    }

    /// Decodes the kernel's data. Returns `None` if a size exceeds the kernel's documented limits.
    pub(crate) fn decode(bytes: &[u8; INFO]) -> Option<Self> {
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let info = Self {
            queues: half(0),
            depth: half(2),
            state: half(4),
            max_io: word(8),
            id: word(12),
            pid: word(16) as i32,
            features: Features(long(24)),
        };
        let fits = info.depth <= DEPTH_MAX && info.max_io <= REQUEST_MAX && info.queues <= DEPTH_MAX;
        fits.then_some(info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_info_survives_a_round_trip() {
        let features = Features::USER_RECOVERY.with(Features::RECOVERY_REISSUE);
        let info = DeviceInfo { queues: 2, depth: 128, state: 0, max_io: 1 << 20, id: 3, pid: 0, features };
        let mut bytes = info.encode();
        assert_eq!(DeviceInfo::decode(&bytes), Some(info));
        bytes[4] = 2;
        bytes[16..20].copy_from_slice(&77i32.to_ne_bytes());
        let said = DeviceInfo::decode(&bytes).unwrap();
        assert_eq!((said.state(), said.server()), (DeviceState::Quiesced, Some(77)));
        assert!(said.features().contains(Features::RECOVERY_REISSUE));
        assert!(!said.features().contains(Features::UPDATE_SIZE));
    }

    #[test]
    fn sizes_beyond_the_kernels_limits_are_rejected() {
        let features = Features::default();
        let info = DeviceInfo { queues: 1, depth: 4097, state: 0, max_io: 4096, id: 0, pid: 0, features };
        assert_eq!(DeviceInfo::decode(&info.encode()), None);
    }
}
