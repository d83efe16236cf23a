//! The user who makes a call.

/// The user or group id that system calls take for "leave unchanged". POSIX gives it to nobody.
pub(crate) const NO_ID: u32 = u32::MAX;

/// The user who may do everything.
const ROOT: u32 = 0;

/// The user and group id of callers without a credential, by convention.
pub const NOBODY: u32 = 65_534;

/// The user who makes a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// The ids of the user's further groups.
    pub groups: Vec<u32>,
}

impl Caller {
    /// A caller without a credential.
    pub fn nobody() -> Self {
        Self { uid: NOBODY, gid: NOBODY, groups: Vec::new() }
    }

    /// May the caller do everything?
    pub(crate) fn is_root(&self) -> bool {
        self.uid == ROOT
    }

    /// Is the caller a member of that group?
    pub(crate) fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}
