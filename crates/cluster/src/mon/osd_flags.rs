//! The flags of the OSD map by name.
//!
//! Source: ceph `src/include/rados.h` (`CEPH_OSDMAP_*`), `src/osd/OSDMap.cc` (`get_flag_string`).

/// Flags by name, in the order in which they are printed.
const NAMES: [(&str, u32); 18] = [
    ("nearfull", 1 << 0),
    ("full", 1 << 1),
    ("pauserd", 1 << 2),
    ("pausewr", 1 << 3),
    ("noup", 1 << 5),
    ("nodown", 1 << 6),
    ("noout", 1 << 7),
    ("noin", 1 << 8),
    ("nobackfill", 1 << 9),
    ("norebalance", 1 << 14),
    ("norecover", 1 << 10),
    ("noscrub", 1 << 11),
    ("nodeep-scrub", 1 << 12),
    ("notieragent", 1 << 13),
    ("nosnaptrim", 1 << 21),
    ("sortbitwise", 1 << 15),
    ("recovery_deletes", 1 << 19),
    ("purged_snapdirs", 1 << 20),
];

/// The limit on the length of logs, which is printed last.
const PGLOG_HARDLIMIT: (&str, u32) = ("pglog_hardlimit", 1 << 22);

/// The flags that an operator sets for a while, and should be reminded of.
const WARNED: u32 = 0b111 << 1 | 0b11_1111_1111 << 5 | 1 << 21;

/// The names of the flags that are set.
pub(crate) fn names(flags: u32) -> Vec<&'static str> {
    let all = NAMES.iter().chain([&PGLOG_HARDLIMIT]);
    all.filter(|(_, flag)| flags & flag != 0).map(|(name, _)| *name).collect()
}

/// The names of those that an operator should be reminded of.
pub(crate) fn warned(flags: u32) -> String {
    names(flags & WARNED).join(",")
}

/// The flags that an operator calls by this name: two for `pause`.
pub(crate) fn parse(name: &str) -> Option<u32> {
    if name == "pause" {
        return Some(0b11 << 2);
    }
    let all = NAMES.iter().chain([&PGLOG_HARDLIMIT]);
    all.into_iter().find(|(known, _)| *known == name).map(|(_, flag)| *flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_a_new_cluster_are_named_and_not_warned_of() {
        let flags = 5_799_936;
        assert_eq!(names(flags).join(","), "sortbitwise,recovery_deletes,purged_snapdirs,pglog_hardlimit");
        assert_eq!(warned(flags), "");
        let paused = flags | parse("pause").unwrap() | parse("noout").unwrap();
        assert_eq!(warned(paused), "pauserd,pausewr,noout");
    }
}
