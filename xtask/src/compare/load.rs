//! What is asked of everybody that is measured.

use super::mode::Mode;

/// A pattern of I/O on one image, and how it is protected on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) mode: Mode,
    pub(super) rw: &'static str,
    pub(super) block_size: u64,
    pub(super) jobs: u32,
    pub(super) io_depth: u32,
}

/// Size of the image: it is written once before anything is measured, so that reads find data.
pub(super) const IMAGE_MIB: u64 = 1024;

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = short_size(self.block_size);
        write!(f, "{size} {}, {}, depth {}", self.rw, self.mode, self.io_depth)?;
        if self.jobs > 1 { write!(f, ", {} jobs", self.jobs) } else { Ok(()) }
    }
}

/// A block size as short as fio's.
pub(super) fn short_size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 => format!("{}m", bytes >> 20),
        bytes => format!("{}k", bytes >> 10),
    }
}
