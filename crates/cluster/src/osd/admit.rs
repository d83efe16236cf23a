//! Which requests are carried out, and what is known about them beforehand.
//!
//! Sources: ceph `doc/dev/rados-client-protocol.rst`, `src/osd/PrimaryLogPG.cc` (do_op), `src/osd/osd_op_util.cc`.

use super::class;
use super::errno::Errno;
use super::session::Origin;
use super::store::extent::check_extent;
use super::store::object::{ENTRY_OVERHEAD, State};
use onego_ceph::caps::{Call, OsdAccess};
use onego_ceph::messages::{MAX_NAME_LEN, MAX_NAMESPACE_LEN, OsdOp};
use onego_ceph::ops::{MAX_WRITE, Op, WatchOp, flag};
use onego_ceph::osdmap::{OsdMap, Pool, pool_flag};
use onego_ceph::types::{NOSNAP, PgId, SNAPDIR};
use onego_msgr::addr::{AddrKind, EntityAddr};

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// It lists objects of a placement group.
    Listing,
    /// It changes nothing, and fails where there is no object.
    Read,
    /// It may change the object.
    Write,
}

/// Whether a request is carried out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Admit(Access),
    Refuse(Errno),
    /// The client does not know better yet. It will send the request again.
    Drop,
}

/// Is this client shut out?
pub(super) fn is_blocklisted(map: &OsdMap, addr: &EntityAddr) -> bool {
    // A blocklist names clients by address and nonce, or with a nonce of 0 by address alone; the protocol does not
    // matter (OSDMap.cc, is_blocklisted).
    let any = |nonce| map.blocklist.contains_key(&EntityAddr { kind: AddrKind::Any, nonce, ..*addr });
    map.blocklist.contains_key(addr) || any(addr.nonce) || any(0)
}

/// Decides on a request.
pub(super) fn admit(request: &mut OsdOp, origin: &Origin, map: &OsdMap) -> Verdict {
    let ops = &request.ops[..];
    if !map.blocklist.is_empty() && is_blocklisted(map, &origin.addr) {
        return Verdict::Refuse(Errno::SHUTDOWN);
    }
    let pg = request.pg.pg;
    let Some(pool) = map.pools.get(&pg.pool) else { return Verdict::Refuse(Errno::NOENT) };
    // A client that supports the flag fails the operation once it has the map (PrimaryLogPG.cc, do_op).
    if pool.has_flag(pool_flag::EIO) {
        let is_left_to_client = request.flags & flag::SUPPORTS_POOL_EIO != 0;
        return if is_left_to_client { Verdict::Drop } else { Verdict::Refuse(Errno::IO) };
    }
    // The flag for it is the OSD's own: librados leaves it out.
    if ops.iter().any(|(op, _)| matches!(op, Op::PgNls { .. } | Op::PgNlsFilter { .. })) {
        return Verdict::Admit(Access::Listing);
    }
    if pool.pg(PgId { seed: request.hash, ..pg }) != pg {
        // The number of placement groups has changed, or the client cannot count.
        return if request.epoch < map.epoch { Verdict::Drop } else { Verdict::Refuse(Errno::NXIO) };
    }
    if request.object.len() > MAX_NAME_LEN
        || request.locator.key.len() > MAX_NAME_LEN
        || request.locator.namespace.len() > MAX_NAMESPACE_LEN
    {
        return Verdict::Refuse(Errno::NAMETOOLONG);
    }
    if request.object.is_empty() {
        return Verdict::Refuse(Errno::INVAL);
    }
    // The snapshot directory alone lists clones, and methods never run in parallel (PrimaryLogPG.cc, do_op).
    let lists_clones = ops.iter().any(|(op, _)| matches!(op, Op::ListSnaps));
    if request.flags & flag::PARALLEL_EXEC != 0 || (lists_clones && request.snap != SNAPDIR) {
        return Verdict::Refuse(Errno::INVAL);
    }
    let access = match access(ops) {
        Ok(access) => access,
        Err(error) => return Verdict::Refuse(error),
    };
    match (access, request.snap) {
        (_, NOSNAP) | (Access::Read, SNAPDIR) => {}
        (Access::Read, snap) if is_removed(map, pg.pool, snap) => return Verdict::Refuse(Errno::NOENT),
        (Access::Read, _) => {}
        _ => return Verdict::Refuse(Errno::INVAL),
    }
    // As Ceph's OSDs, before anything else that only concerns changes (PrimaryLogPG.cc, do_op).
    if access == Access::Write && brought(ops) > MAX_WRITE {
        return Verdict::Refuse(Errno::MSGSIZE);
    }
    if access == Access::Write {
        if pool.has_flag(pool_flag::POOL_SNAPS) && request.flags & flag::ENFORCE_SNAPC == 0 {
            request.snap_context = pool.snap_context();
        }
        let snap_context = &mut request.snap_context;
        if !snap_context.is_valid() {
            return Verdict::Refuse(Errno::INVAL);
        }
        if !snap_context.snaps.is_empty()
            && let Some(removed) = map.removed_snaps_queue.get(&pg.pool)
        {
            snap_context.snaps.retain(|snap| !removed.contains(*snap));
        }
    }
    Verdict::Admit(access)
}

/// Was a snapshot removed, and are OSDs still to forget it?
fn is_removed(map: &OsdMap, pool: i64, snap: u64) -> bool {
    map.removed_snaps_queue.get(&pool).is_some_and(|removed| removed.contains(snap))
}

/// How a request that makes its object longer, or makes one, is refused because the pool is full, if it is refused
/// (PrimaryLogPG.cc, prepare_transaction).
pub(super) fn full_pool(request: &OsdOp, map: &OsdMap) -> Option<Errno> {
    let pool = request.pg.pg.pool;
    let by_quota = || map.pools.get(&pool).is_some_and(|pool| pool.has_flag(pool_flag::FULL_QUOTA));
    let refused = map.is_pool_full(pool) && request.flags & flag::FULL_FORCE == 0;
    refused.then(|| if by_quota() { Errno::DQUOT } else { Errno::NOSPC })
}

/// Is the hash of a request that of its object? What has another could never be found by who hashes the name.
pub(super) fn has_right_hash(request: &OsdOp, map: &OsdMap) -> bool {
    let (pg, locator) = (request.pg.pg, &request.locator);
    let right = |pool: &Pool| {
        pool.object_pg(pg.pool, &request.object, &locator.key, &locator.namespace, locator.hash).seed
    };
    map.pools.get(&pg.pool).is_some_and(|pool| right(pool) == request.hash)
}

/// Does any of the operations change the object?
fn access(ops: &[(Op, u32)]) -> Result<Access, Errno> {
    if ops.is_empty() {
        return Err(Errno::INVAL);
    }
    let mut access = Access::Read;
    for (op, _) in ops {
        let writes = match op {
            Op::Call { class, method, .. } => class::find(class, method).ok_or(Errno::OPNOTSUPP)?.writes,
            Op::Watch { op: WatchOp::Ping, .. } => false,
            op => op.writes(),
        };
        if writes {
            access = Access::Write;
        }
    }
    Ok(access)
}

/// May operations change their object? What the flags of a request say is up to its sender (ceph
/// `src/osd/osd_op_util.cc`, OpInfo::set_from_op).
pub(crate) fn may_write(ops: &[(Op, u32)]) -> bool {
    ops.iter().any(|(op, _)| match op {
        Op::Call { class, method, .. } => class::find(class, method).is_none_or(|method| method.writes),
        op => op.writes(),
    })
}

/// What operations need of their client's capabilities (ceph `src/osd/osd_op_util.cc`, OpInfo::set_from_op).
pub(super) fn wanted(ops: &[(Op, u32)]) -> OsdAccess {
    let none = OsdAccess::default();
    ops.iter().fold(none, |wanted, (op, _)| {
        let (reads, writes) = match op {
            Op::Call { class, method, .. } => return wanted.and(call_access(class, method)),
            // A watch changes the object, and depends on what is there.
            Op::Watch { .. } => (true, true),
            op => (op.reads(), op.writes()),
        };
        let bit = |set, bit| if set { bit } else { none };
        wanted.and(bit(reads, OsdAccess::READ)).and(bit(writes, OsdAccess::WRITE))
    })
}

/// What a method does: those of Ceph's classes that write also read.
fn call_access(class: &str, method: &str) -> OsdAccess {
    match class::find(class, method) {
        Some(method) if !method.writes => OsdAccess::CLASS_READ,
        _ => OsdAccess::CLASS_READ.and(OsdAccess::CLASS_WRITE),
    }
}

/// The methods that operations call.
pub(super) fn calls(ops: &[(Op, u32)]) -> Vec<Call<'_>> {
    let calls = ops.iter().filter_map(|(op, _)| match op {
        Op::Call { class, method, .. } => Some(Call { class, method, access: call_access(class, method) }),
        _ => None,
    });
    calls.collect()
}

/// Bytes that operations bring, but for a few of metadata.
fn brought(ops: &[(Op, u32)]) -> u64 {
    ops.iter().map(|(op, _)| payload_len(op) as u64 + meta_growth(op)).sum()
}

/// Bytes that an operation brings.
pub(super) fn payload_len(op: &Op) -> usize {
    match op {
        Op::Write { data, .. }
        | Op::WriteFull { data }
        | Op::Append { data }
        | Op::WriteSame { data, .. } => data.len(),
        _ => 0,
    }
}

/// Can an operation fail for what it finds, after others have changed something? Then what was must be kept. Those that
/// make up nearly all writes cannot, so that nothing need be kept for them.
pub(super) fn may_fail_half_way(ops: &[(Op, u32)]) -> bool {
    let mut changed = false;
    for (op, _) in ops {
        let (fails, changes) = match op {
            Op::SetAllocHint { .. } | Op::Create { exclusive: false } => (false, true),
            Op::Write { offset, data } => (check_extent(*offset, data.len() as u64).is_err(), true),
            Op::WriteFull { data } => (check_extent(0, data.len() as u64).is_err(), true),
            Op::Zero { offset, length } => (check_extent(*offset, *length).is_err(), true),
            Op::Truncate { size } => (check_extent(*size, 0).is_err(), true),
            // A method may change something and then fail.
            Op::Call { class, method, .. } => {
                let writes = class::find(class, method).is_some_and(|method| method.writes);
                changed |= writes;
                (true, writes)
            }
            op => (true, op.writes()),
        };
        if changed && fails {
            return true;
        }
        changed |= changes;
    }
    false
}

/// Memory that small changes take at most: a method's own keys, an object that comes to be.
const SMALL_GROWTH: u64 = 4096;

/// Memory that an operation takes at most, whatever it finds.
pub(super) fn most_growth(op: &Op) -> u64 {
    match op {
        Op::WriteSame { length, .. } => length.saturating_add(SMALL_GROWTH),
        op => payload_len(op) as u64 * 2 + meta_growth(op) + SMALL_GROWTH,
    }
}

/// Memory that an operation takes at most on this object.
pub(super) fn growth(op: &Op, state: Option<&State>, null_writes: bool) -> u64 {
    let empty = State::default();
    let state = state.unwrap_or(&empty);
    // What is too far out is refused later, and takes nothing.
    let data = |offset, len| match check_extent(offset, len) {
        Ok(()) if !null_writes => state.growth(offset, len),
        _ => 0,
    };
    match op {
        Op::Write { offset, data: bytes } => data(*offset, bytes.len() as u64),
        Op::WriteFull { data: bytes } => data(0, bytes.len() as u64),
        Op::Append { data: bytes } => data(state.size, bytes.len() as u64),
        Op::WriteSame { offset, length, .. } => data(*offset, *length),
        op => meta_growth(op),
    }
}

/// Memory that an operation takes for attributes, maps and new objects.
pub(super) fn meta_growth(op: &Op) -> u64 {
    let entry = |key: usize, value: usize| key as u64 + value as u64 + ENTRY_OVERHEAD;
    match op {
        Op::SetXattr { name, value } => entry(name.len(), value.len()) + SMALL_GROWTH,
        Op::OmapSetHeader { header: input } | Op::TmapPut { input } | Op::TmapUpdate { input } => {
            input.len() as u64 + SMALL_GROWTH
        }
        Op::OmapSetVals { entries } => {
            entries.iter().map(|(key, value)| entry(key.len(), value.len())).sum::<u64>() + SMALL_GROWTH
        }
        Op::Call { class, method, input } => match class::find(class, method) {
            Some(method) if method.writes => input.len() as u64 + SMALL_GROWTH,
            _ => 0,
        },
        Op::Create { .. } | Op::SetAllocHint { .. } => SMALL_GROWTH,
        _ => 0,
    }
}

/// Are these changes that a full OSD takes too: of little metadata?
pub(super) fn is_small_change(ops: &[(Op, u32)]) -> bool {
    let is_small = |op: &Op| payload_len(op) == 0 && meta_growth(op) <= 4 * SMALL_GROWTH;
    ops.iter().all(|(op, _)| is_small(op) && !matches!(op, Op::CopyFrom(_)))
}
