/// Status of a run of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockStatus {
    /// The bytes have no allocated space.
    pub hole: bool,
    /// The bytes read as zeros.
    pub zero: bool,
}

impl BlockStatus {
    /// Bytes with allocated space and any content.
    pub const DATA: Self = Self { hole: false, zero: false };
    /// Bytes without allocated space that read as zeros.
    pub const HOLE: Self = Self { hole: true, zero: true };
}

/// A run of bytes of one status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusExtent {
    /// Length in bytes.
    pub length: u64,
    /// Status.
    pub status: BlockStatus,
}

impl StatusExtent {
    /// Maximum number of runs in one answer: the next request covers the rest.
    pub const MOST: usize = 4096;

    /// Appends a run, merging it with the last one if that has the same status. Ignores empty runs.
    pub fn append(runs: &mut Vec<Self>, length: u64, status: BlockStatus) {
        match runs.last_mut() {
            Some(last) if last.status == status => last.length += length,
            _ if length > 0 => runs.push(Self { length, status }),
            _ => {}
        }
    }
}
