//! Feature bits that peers exchange in their identification (CLIENT_IDENT, SERVER_IDENT).
//!
//! Source: ceph `src/include/ceph_features.h`. Bits are reclaimed when no supported release needs them any more. A bit
//! in its second or third incarnation counts only together with the bit of the release that ended the previous one, so
//! test features with [`has`] and a mask, never bit by bit.

/// Required with features in the second incarnation of their bit: SERVER_JEWEL.
const SECOND: u64 = 1 << 57;
/// Required with features in the third incarnation of their bit: SERVER_MIMIC as well.
const THIRD: u64 = SECOND | 1 << 28;

/// Peers decode requests in the encoding of Luminous (12).
pub const SERVER_LUMINOUS: u64 = 1 << 21 | SECOND;
/// Peers are of Mimic (13) or later.
pub const SERVER_MIMIC: u64 = THIRD;
/// Peers are of Nautilus (14) or later.
pub const SERVER_NAUTILUS: u64 = 1 << 2 | THIRD;
/// Peers are of Octopus (15) or later.
pub const SERVER_OCTOPUS: u64 = 1 << 16 | THIRD;
/// Peers are of Pacific (16) or later.
pub const SERVER_PACIFIC: u64 = 1 << 20 | THIRD;
/// Peers are of Quincy (17) or later.
pub const SERVER_QUINCY: u64 = 1 << 33 | THIRD;
/// Peers are of Reef (18) or later.
pub const SERVER_REEF: u64 = 1 << 31 | THIRD;
/// Peers are of Squid (19) or later.
pub const SERVER_SQUID: u64 = 1 << 49 | SECOND;
/// Peers are of Tentacle (20) or later.
pub const SERVER_TENTACLE: u64 = 1 << 50 | SECOND;
/// Peers know CRUSH rules with multi-step retry, and their tunables.
pub const CRUSH_MSR: u64 = 1 << 38 | SECOND;
/// One connection carries the replies of many placement groups; librados requires it of an OSD.
pub const OSDREPLYMUX: u64 = 1 << 12;
/// A lost connection is resumed by sequence numbers (version 1 of the protocol).
pub const RECONNECT_SEQ: u64 = 1 << 6;
/// Message footers have room for a signature (version 1 of the protocol).
pub const MSG_AUTH: u64 = 1 << 23;
/// cephx with challenges by services, and signatures over message lengths and numbers.
pub const CEPHX_V2: u64 = 1 << 61;
/// Peers know KEEPALIVE2.
pub const MSGR_KEEPALIVE2: u64 = 1 << 42;
/// MOSDOp and `pg_pool_t` in the encoding of Jewel and later.
pub const NEW_OSDOP_ENCODING: u64 = 1 << 56;
/// Address vectors and addresses with a kind; required by msgr2 (frames_v2.h, `msgr2_required`).
pub const MSG_ADDR2: u64 = 1 << 59;

/// All features that Tentacle (20) advertises. This crate decodes its messages in every form that these bits allow a
/// peer to write.
pub const ALL: u64 = bits(&[
    0,  // UID
    1,  // NOSRCADDR
    2,  // SERVER_NAUTILUS
    3,  // FLOCK
    4,  // SUBSCRIBE2
    5,  // MONNAMES
    6,  // RECONNECT_SEQ
    7,  // DIRLAYOUTHASH
    8,  // OBJECTLOCATOR
    9,  // PGID64
    10, // INCSUBOSDMAP
    11, // PGPOOL3
    12, // OSDREPLYMUX
    13, // OSDENC
    14, // SERVER_KRAKEN
    15, // MONENC
    16, // SERVER_OCTOPUS, OSD_REPOP_MLCOD
    18, // CRUSH_TUNABLES
    19, // OSD_PGLOG_HARDLIMIT
    20, // SERVER_PACIFIC
    21, // SERVER_LUMINOUS, RESEND_ON_SPLIT, RADOS_BACKOFF, OSDMAP_PG_UPMAP, CRUSH_CHOOSE_ARGS
    22, // OSD_FIXED_COLLECTION_LIST
    23, // MSG_AUTH
    24, // RECOVERY_RESERVATION_2
    25, // CRUSH_TUNABLES2
    26, // CREATEPOOLID
    27, // REPLY_CREATE_INODE
    28, // SERVER_MIMIC
    29, // MDSENC
    30, // OSDHASHPSPOOL
    31, // SERVER_REEF
    32, // STRETCH_MODE
    33, // SERVER_QUINCY
    34, // RANGE_BLOCKLIST
    35, // OSD_CACHEPOOL
    36, // CRUSH_V2
    37, // EXPORT_PEER
    38, // CRUSH_MSR
    39, // OSDMAP_ENC
    40, // MDS_INLINE_DATA
    41, // CRUSH_TUNABLES3, OSD_PRIMARY_AFFINITY
    42, // MSGR_KEEPALIVE2
    43, // OSD_POOLRESEND
    46, // OSD_FADVISE_FLAGS
    47, // MDS_QUOTA
    48, // CRUSH_V4
    49, // SERVER_SQUID
    50, // SERVER_TENTACLE
    56, // NEW_OSDOP_ENCODING
    57, // MON_STATEFUL_SUB, SERVER_JEWEL
    58, // CRUSH_TUNABLES5, NEW_OSDOPREPLY_ENCODING, FS_FILE_LAYOUT_V2
    59, // FS_BTIME, FS_CHANGE_ATTR, MSG_ADDR2
    60, // OSD_RECOVERY_DELETES
    61, // CEPHX_V2
]);

const fn bits(list: &[u32]) -> u64 {
    let (mut mask, mut i) = (0, 0);
    while i < list.len() {
        mask |= 1 << list[i];
        i += 1;
    }
    mask
}

/// Returns whether `features` includes the feature `mask`, in the right incarnation.
#[inline]
pub const fn has(features: u64, mask: u64) -> bool {
    features & mask == mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_has_every_feature_of_a_real_monitor() {
        // Advertised by ceph-mon 16.2.15 in its SERVER_IDENT.
        assert!(has(ALL, 0x3f01_cfbd_fffd_ffff));
        for release in [SERVER_LUMINOUS, SERVER_NAUTILUS, SERVER_PACIFIC, SERVER_REEF, SERVER_TENTACLE] {
            assert!(has(ALL, release));
        }
    }

    #[test]
    fn a_reclaimed_bit_without_its_incarnation_is_not_the_feature() {
        assert!(!has(1 << 16, SERVER_OCTOPUS));
        assert!(!has(ALL & !(1 << 28), SERVER_OCTOPUS));
    }
}
