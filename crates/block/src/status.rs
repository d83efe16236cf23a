/// What is known of a run of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockStatus {
    /// No space is allocated for the bytes.
    pub hole: bool,
    /// The bytes read as zeros.
    pub zero: bool,
}

impl BlockStatus {
    /// Bytes for which space is allocated and which may be anything.
    pub const DATA: Self = Self { hole: false, zero: false };
    /// Bytes that take no space and read as zeros.
    pub const HOLE: Self = Self { hole: true, zero: true };
}

/// A run of bytes of one status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusExtent {
    /// Bytes.
    pub length: u64,
    /// What is known of them.
    pub status: BlockStatus,
}

impl StatusExtent {
    /// Most runs that a device tells in one answer: what comes behind is left to the next request.
    pub const MOST: usize = 4096;

    /// Appends a run to an answer, joined with the one before it if that has the same status. Runs without bytes are left
    /// out.
    pub fn append(runs: &mut Vec<Self>, length: u64, status: BlockStatus) {
        match runs.last_mut() {
            Some(last) if last.status == status => last.length += length,
            _ if length > 0 => runs.push(Self { length, status }),
            _ => {}
        }
    }
}
