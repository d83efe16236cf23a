//! Kinds of calls, for those who count them.

use crate::{mount, v3};

/// The procedures of NFS by their numbers (RFC 1813, section 3.3); then all of MOUNT together, and all of other programs.
pub const KINDS: &[&str] = &[
    "null",
    "getattr",
    "setattr",
    "lookup",
    "access",
    "readlink",
    "read",
    "write",
    "create",
    "mkdir",
    "symlink",
    "mknod",
    "remove",
    "rmdir",
    "rename",
    "link",
    "readdir",
    "readdirplus",
    "fsstat",
    "fsinfo",
    "pathconf",
    "commit",
    "mount",
    "other",
];

/// The place of a call's kind in [`KINDS`].
pub fn kind(program: u32, procedure: u32) -> usize {
    let other = KINDS.len() - 1;
    match program {
        v3::PROGRAM if (procedure as usize) < other - 1 => procedure as usize,
        mount::PROGRAM => other - 1,
        _ => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::Procedure;

    #[test]
    fn calls_are_named_by_their_procedures() {
        fn of<P: Procedure>() -> (&'static str, String) {
            (KINDS[kind(P::PROGRAM, P::NUMBER)], P::NAME.to_lowercase())
        }
        for (found, name) in
            [of::<v3::Null>(), of::<v3::Write>(), of::<v3::Readdirplus>(), of::<v3::Commit>()]
        {
            assert_eq!(found, name);
        }
        assert_eq!(of::<mount::Mnt>().0, "mount");
        assert_eq!(of::<crate::portmap::Getport>().0, "other");
        assert_eq!(KINDS[kind(v3::PROGRAM, 22)], "other");
    }
}
