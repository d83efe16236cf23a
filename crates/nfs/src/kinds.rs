//! Kinds of calls, for statistics.

use crate::{mount, v3};

/// NFS procedures by their numbers (RFC 1813, section 3.3), then one kind for MOUNT and one for other programs.
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

/// Returns the index of a call's kind in [`KINDS`].
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
    fn kinds_have_the_names_of_procedures() {
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
