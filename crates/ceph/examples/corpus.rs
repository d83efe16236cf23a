//! Decodes real encoded objects and encodes them again: `cargo run --example corpus -- DIR`.
//!
//! DIR holds `VERSION/TYPE/FILE`, like the archives of the ceph-object-corpus. Every object must be decoded completely. If
//! its version is the one that is encoded here, the bytes must be identical. A few objects have a key of type none, which
//! would protect nothing: they must be rejected.

use onego_ceph::cls::{lock, rbd};
use onego_ceph::crush::CrushMap;
use onego_ceph::mgrmap::MgrMap;
use onego_ceph::monmap::MonMap;
use onego_ceph::osdmap::{Incremental, OsdInfo, OsdMap, OsdXInfo, Pool};
use onego_ceph::types::{
    EVersion, EntityName, HObject, ObjectLocator, PgId, ReqId, SnapContext, SpgId, Utime, Uuid,
};
use onego_msgr::addr::{AddrVec, EntityAddr};
use onego_msgr::auth;
use onego_msgr::encoding::{Decode, Encode};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

type Recode = fn(&[u8]) -> Result<Vec<u8>, String>;

fn recode<T: Decode + Encode>(bytes: &[u8]) -> Result<Vec<u8>, String> {
    T::from_bytes(bytes).map(|value| value.to_bytes()).map_err(|error| error.to_string())
}

/// Ceph's name of each type, whether its bytes start with a version, and its recoding.
const TYPES: &[(&str, bool, Recode)] = &[
    ("AuthTicket", true, recode::<auth::AuthTicket>),
    ("CephXAuthenticate", true, recode::<auth::Authenticate>),
    ("CephXAuthorize", true, recode::<auth::Authorize>),
    ("CephXAuthorizeChallenge", true, recode::<auth::AuthorizeChallenge>),
    ("CephXAuthorizeReply", true, recode::<auth::AuthorizeReply>),
    ("CephXChallengeBlob", false, recode::<auth::ChallengeBlob>),
    ("CephXRequestHeader", false, recode::<auth::RequestHeader>),
    ("CephXResponseHeader", false, recode::<auth::ResponseHeader>),
    ("CephXServerChallenge", true, recode::<auth::ServerChallenge>),
    ("CephXServiceTicket", true, recode::<auth::ServiceTicket>),
    ("CephXServiceTicketInfo", true, recode::<auth::ServiceTicketInfo>),
    ("CephXServiceTicketRequest", true, recode::<auth::ServiceTicketRequest>),
    ("CephXTicketBlob", true, recode::<auth::TicketBlob>),
    ("CryptoKey", false, recode::<auth::Key>),
    ("CrushWrapper", false, recode::<CrushMap>),
    ("MgrMap", true, recode::<MgrMap>),
    ("MonMap", true, recode::<MonMap>),
    ("OSDMap", true, recode::<OsdMap>),
    ("OSDMap::Incremental", true, recode::<Incremental>),
    ("SnapContext", false, recode::<SnapContext>),
    ("cls::rbd::ChildImageSpec", true, recode::<rbd::ChildImageSpec>),
    ("cls::rbd::GroupSpec", true, recode::<rbd::GroupSpec>),
    ("cls::rbd::ParentImageSpec", true, recode::<rbd::ParentImageSpec>),
    ("cls::rbd::SnapshotInfo", true, recode::<rbd::SnapshotInfo>),
    ("cls::rbd::SnapshotNamespace", true, recode::<rbd::SnapshotNamespace>),
    ("cls_lock_assert_op", true, recode::<lock::AssertLocked>),
    ("cls_lock_break_op", true, recode::<lock::BreakLock>),
    ("cls_lock_get_info_op", true, recode::<lock::GetInfo>),
    ("cls_lock_get_info_reply", true, recode::<lock::LockInfo>),
    ("cls_lock_list_locks_reply", true, recode::<lock::LockNames>),
    ("cls_lock_lock_op", true, recode::<lock::Lock>),
    ("cls_lock_set_cookie_op", true, recode::<lock::SetCookie>),
    ("cls_lock_unlock_op", true, recode::<lock::Unlock>),
    ("cls_rbd_parent", true, recode::<rbd::Parent>),
    ("cls_rbd_snap", true, recode::<rbd::Snapshot>),
    ("entity_addr_t", false, recode::<EntityAddr>),
    ("entity_addrvec_t", false, recode::<AddrVec>),
    ("entity_name_t", false, recode::<EntityName>),
    ("eversion_t", false, recode::<EVersion>),
    ("hobject_t", true, recode::<HObject>),
    ("object_locator_t", true, recode::<ObjectLocator>),
    ("osd_info_t", true, recode::<OsdInfo>),
    ("osd_reqid_t", true, recode::<ReqId>),
    ("osd_xinfo_t", true, recode::<OsdXInfo>),
    ("pg_pool_t", true, recode::<Pool>),
    ("pg_t", true, recode::<PgId>),
    ("spg_t", true, recode::<SpgId>),
    ("utime_t", false, recode::<Utime>),
    ("uuid_d", false, recode::<Uuid>),
];

/// Objects with a key of type none (`CEPH_CRYPTO_NONE`), like an empty `CryptoKey`.
const KEYLESS: [&str; 3] = [
    "CephXServiceTicket/c0e89904c00be7d46a884f7889c1d133",
    "CephXServiceTicketInfo/367d994a87d47b5d56c65c8bdb2d07f3",
    "CryptoKey/8dd6bb7329a71449b0a1b292b5999164",
];

#[derive(Default)]
struct Count {
    identical: usize,
    /// Decoded completely, but of another version than the encoded one.
    other_version: usize,
    refused: usize,
    failed: usize,
}

impl Count {
    fn add(&mut self, bytes: &[u8], versioned: bool, recode: Recode) -> Result<(), String> {
        let written = recode(bytes).inspect_err(|_| self.failed += 1)?;
        if written == bytes {
            self.identical += 1;
            Ok(())
        } else if versioned && written.first() != bytes.first() {
            self.other_version += 1;
            Ok(())
        } else {
            self.failed += 1;
            let at = written.iter().zip(bytes).take_while(|(a, b)| a == b).count();
            Err(format!("different from byte {at} on ({} bytes instead of {})", written.len(), bytes.len()))
        }
    }
}

fn sorted(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn count(dir: &Path, versioned: bool, recode: Recode) -> io::Result<Count> {
    let mut count = Count::default();
    if dir.is_dir() {
        for file in sorted(dir)? {
            if KEYLESS.iter().any(|keyless| file.ends_with(keyless)) {
                match recode(&fs::read(&file)?) {
                    Err(_) => count.refused += 1,
                    Ok(_) => {
                        count.failed += 1;
                        eprintln!("{}: accepted a key of type none", file.display());
                    }
                }
            } else if let Err(error) = count.add(&fs::read(&file)?, versioned, recode) {
                eprintln!("{}: {error}", file.display());
            }
        }
    }
    Ok(count)
}

fn run(dir: &Path) -> io::Result<bool> {
    println!(
        "{:<26}{:<10}{:>10}{:>15}{:>9}{:>8}",
        "type", "version", "identical", "other version", "refused", "failed"
    );
    let mut good = true;
    let mut total = 0;
    for &(name, versioned, recode) in TYPES {
        for version in sorted(dir)? {
            let count = count(&version.join(name), versioned, recode)?;
            let seen = count.identical + count.other_version + count.refused + count.failed;
            if seen == 0 {
                continue;
            }
            let version = version.file_name().unwrap_or_default().to_string_lossy();
            let Count { identical, other_version, refused, failed } = count;
            println!("{name:<26}{version:<10}{identical:>10}{other_version:>15}{refused:>9}{failed:>8}");
            total += seen;
            good &= failed == 0;
        }
    }
    println!("{total} objects");
    Ok(good && total > 0)
}

fn main() -> ExitCode {
    let Some(dir) = env::args_os().nth(1) else {
        eprintln!("usage: corpus DIR, where DIR holds VERSION/TYPE/FILE");
        return ExitCode::from(2);
    };
    match run(Path::new(&dir)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{}: {error}", Path::new(&dir).display());
            ExitCode::FAILURE
        }
    }
}
