//! Copies of whole objects: `copy_from`.
//!
//! Ceph's OSDs read the source from its primary in chunks, which must keep their version until the last one. Here all OSDs
//! live in one process: the source is taken at once before the request runs, as a state that shares its memory.
//!
//! Source: ceph `src/osd/PrimaryLogPG.cc` (do_osd_ops, `_copy_some`, `do_copy_get`, `finish_copyfrom`).

use super::daemon::Osd;
use super::errno::{Errno, Outcome};
use super::execute::{Execution, Output, nothing};
use super::store::object::State;
use super::store::{Identity, identity};
use onego_ceph::messages::OsdOp;
use onego_ceph::ops::{CopyFrom, Op, copy_flag};
use onego_ceph::osdmap::OsdMap;
use onego_ceph::types::{NOSNAP, PgId};

/// The sources of a request's `copy_from` operations, in their order.
#[derive(Default)]
pub struct CopySources(Vec<Outcome<State>>);

impl std::fmt::Debug for CopySources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopySources").field("count", &self.0.len()).finish()
    }
}

impl CopySources {
    /// No sources.
    pub const NONE: Self = Self(Vec::new());

    /// Collects the sources of a request. `osd` returns the primary of a group; it fails while the group is not active.
    pub(crate) fn collect<'a, E>(
        request: &OsdOp,
        map: &OsdMap,
        osd: impl Fn(PgId) -> Result<&'a Osd, E>,
    ) -> Result<Self, E> {
        // Nearly no request has one.
        if !request.ops.iter().any(|(op, _)| matches!(op, Op::CopyFrom(_))) {
            return Ok(Self::NONE);
        }
        let copies = request.ops.iter().filter_map(|(op, _)| match op {
            Op::CopyFrom(copy) => Some(copy),
            _ => None,
        });
        let find = |copy: &CopyFrom| {
            let id = copy.locator.pool;
            let Some(pool) = map.pools.get(&id) else { return Ok(Err(Errno::NOENT)) };
            let CopyFrom { name, locator, .. } = copy;
            let raw = pool.object_pg(id, name, &locator.key, &locator.namespace, locator.hash);
            let (key, namespace) = (&locator.key[..], &locator.namespace[..]);
            let source = Identity { pool: id, hash: raw.seed, namespace, key, name };
            let of = |identity: &Identity<'_>| {
                let Identity { pool, hash, namespace, key, name } = *identity;
                (pool, hash, namespace.to_owned(), key.to_owned(), name.to_owned())
            };
            if copy.snap == NOSNAP && of(&source) == of(&identity(request)) {
                return Ok(Err(Errno::INVAL));
            }
            let removed = map.removed_snaps_queue.get(&id);
            if removed.is_some_and(|removed| removed.contains(copy.snap)) {
                return Ok(Err(Errno::NOENT));
            }
            Ok(osd(pool.pg(raw))?.copy_source(&source, copy))
        };
        copies.map(|copy| find(copy)).collect::<Result<_, E>>().map(Self)
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Outcome<State>> {
        self.0.iter()
    }

    /// Memory that the copies take, as if they shared nothing with their sources.
    pub(super) fn growth(&self) -> u64 {
        self.0.iter().flatten().map(State::footprint).sum()
    }
}

impl Osd {
    /// The object that an operation copies. ERANGE, EOVERFLOW: its version is newer, or older, than the one that it must have.
    fn copy_source(&self, source: &Identity<'_>, copy: &CopyFrom) -> Outcome<State> {
        let state = if copy.flags & copy_flag::MAP_SNAP_CLONE != 0 && copy.snap != NOSNAP {
            let id = self.store.find(source).ok_or(Errno::NOENT)?;
            let clone = self.store.object(id).state.clone_with_id(copy.snap);
            clone.ok_or(Errno::NOENT)?.state.clone()
        } else {
            let (id, at_snapshot) = self.find_readable(source, copy.snap).ok_or(Errno::NOENT)?;
            at_snapshot.unwrap_or_else(|| self.store.object(id).state.alone())
        };
        match copy.version {
            _ if !state.exists => Err(Errno::NOENT),
            0 => Ok(state),
            version if version < state.version => Err(Errno::RANGE),
            version if version > state.version => Err(Errno::OVERFLOW),
            _ => Ok(state),
        }
    }
}

impl Execution<'_> {
    /// Replaces the object by the source of the next copy, whose version it takes over.
    pub(super) fn copy_from(&mut self) -> Output {
        let source = self.copies.next().ok_or(Errno::INVAL)?;
        let source = source.as_ref().map_err(|error| *error)?;
        self.state.copy(source, self.zeros);
        self.state.stamp(source.version);
        self.changed = true;
        nothing()
    }
}
