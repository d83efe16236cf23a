//! Names of pools' flags and modes.

use onego_ceph::osdmap::pool_flag;

/// Flags of pools by name, in the order in which they are printed.
const FLAGS: [(&str, u64); 14] = [
    ("hashpspool", pool_flag::HASHPSPOOL),
    ("full", pool_flag::FULL),
    ("nodelete", pool_flag::NODELETE),
    ("nopgchange", pool_flag::NOPGCHANGE),
    ("nosizechange", pool_flag::NOSIZECHANGE),
    ("write_fadvise_dontneed", 1 << 7),
    ("noscrub", 1 << 8),
    ("nodeep-scrub", 1 << 9),
    ("full_quota", pool_flag::FULL_QUOTA),
    ("nearfull", pool_flag::NEARFULL),
    ("backfillfull", pool_flag::BACKFILLFULL),
    ("selfmanaged_snaps", pool_flag::SELFMANAGED_SNAPS),
    ("eio", pool_flag::EIO),
    ("bulk", pool_flag::BULK),
];

/// The flag of that name, if it is one that an operator sets.
pub(crate) fn flag(name: &str) -> Option<u64> {
    let settable = |name: &str| {
        !matches!(name, "full" | "full_quota" | "nearfull" | "backfillfull" | "selfmanaged_snaps")
    };
    FLAGS.iter().find(|(known, _)| *known == name && settable(name)).map(|(_, flag)| *flag)
}

pub(crate) fn flag_names(flags: u64) -> String {
    let set: Vec<&str> = FLAGS.iter().filter(|(_, flag)| flags & flag != 0).map(|(name, _)| *name).collect();
    set.join(",")
}

pub(crate) fn autoscale_name(mode: u8) -> &'static str {
    match mode {
        0 => "off",
        1 => "warn",
        2 => "on",
        _ => "unknown",
    }
}
