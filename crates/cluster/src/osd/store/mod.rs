//! All objects, found by name and listed in the order of their hashes.

pub(crate) mod checksum;
pub(crate) mod clones;
pub(crate) mod compare;
pub(crate) mod extent;
pub(crate) mod object;
mod same_hash;
pub(crate) mod tmap;

use object::State;
use onego_buf::Segment;
use onego_ceph::messages::ObjectName;
use onego_ceph::messages::OsdOp;
use onego_ceph::osdmap::Pool;
use onego_ceph::types::{HObject, NOSNAP, PgId};
use rustc_hash::FxHashMap;
use same_hash::SameHash;
use slab::Slab;
use std::collections::{BTreeSet, hash_map};

/// Names an object in memory for as long as it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct ObjectId(usize);

/// The name of an object, all parts of it, apart from its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) hash: u32,
    pub(crate) namespace: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) name: ObjectName,
}

impl Name {
    pub(crate) fn of(identity: &Identity<'_>) -> Self {
        Self {
            hash: identity.hash,
            namespace: identity.namespace.to_owned(),
            key: identity.key.to_owned(),
            name: ObjectName::new(identity.name),
        }
    }

    pub(crate) fn in_pool(&self, pool: i64) -> Identity<'_> {
        Identity { pool, hash: self.hash, namespace: &self.namespace, key: &self.key, name: &self.name }
    }
}

/// All that tells an object from another.
#[derive(Clone, Copy)]
pub(crate) struct Identity<'a> {
    pub(crate) pool: i64,
    pub(crate) hash: u32,
    pub(crate) namespace: &'a [u8],
    pub(crate) key: &'a [u8],
    pub(crate) name: &'a [u8],
}

impl Identity<'_> {
    /// Memory of the names outside of [`Name`].
    fn memory(&self) -> u64 {
        /// What an allocation takes besides its bytes: its header, and half of the step between sizes.
        const ALLOCATION: usize = 16;
        let allocated = |len: usize| if len == 0 { 0 } else { len + ALLOCATION };
        let name = if self.name.len() > ObjectName::INLINE { allocated(self.name.len()) } else { 0 };
        (allocated(self.namespace.len()) + allocated(self.key.len()) + name) as u64
    }
}

/// An object and its name.
pub(crate) struct Object {
    pool: i64,
    name: Name,
    pub(crate) state: State,
    /// The record of the journal that has its last change; 0: an older one, or there is no journal.
    pub(crate) record: u64,
    /// What the store counts it as.
    counted: Counted,
    /// Memory of its names, as far as an object's overhead does not contain it.
    names: u64,
}

/// What there is of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Contents {
    /// Number of objects: those that exist or have clones, and their clones.
    pub(crate) objects: u64,
    /// Number of clones.
    pub(crate) clones: u64,
    /// Bytes of their data, and of what clones have alone.
    pub(crate) bytes: u64,
}

impl Contents {
    pub(crate) fn of(state: &State) -> Self {
        Counted::of(state).contents
    }

    /// A part of it has become something else.
    pub(crate) fn replace(&mut self, before: Self, now: Self) {
        self.objects = self.objects + now.objects - before.objects;
        self.clones = self.clones + now.clones - before.clones;
        self.bytes = self.bytes + now.bytes - before.bytes;
    }
}

impl std::iter::Sum for Contents {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |mut sum, part| {
            sum.replace(Self::default(), part);
            sum
        })
    }
}

/// What the store counts an object as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counted {
    pub(crate) contents: Contents,
    /// Memory that it takes.
    footprint: u64,
}

impl Counted {
    fn of(state: &State) -> Self {
        if !state.is_kept() {
            return Self::default();
        }
        let mut counted = Self {
            contents: Contents { objects: 1, clones: 0, bytes: state.size },
            footprint: state.own_footprint(),
        };
        if let Some(sums) = state.clone_sums() {
            counted.contents.objects += sums.count;
            counted.contents.clones = sums.count;
            counted.contents.bytes += sums.bytes;
            counted.footprint += sums.footprint;
        }
        counted
    }
}

impl Object {
    fn is(&self, identity: &Identity<'_>) -> bool {
        self.name.name[..] == *identity.name
            && self.pool == identity.pool
            && self.name.namespace == identity.namespace
            && self.name.key == identity.key
    }

    pub(crate) fn is_in(&self, pool: i64) -> bool {
        self.pool == pool
    }

    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    /// The object's place in the order of its pool.
    pub(crate) fn place(&self) -> HObject {
        HObject {
            key: self.name.key.clone(),
            name: self.name.name.to_vec(),
            snap: NOSNAP,
            hash: self.name.hash,
            max: false,
            namespace: self.name.namespace.clone(),
            pool: self.pool,
        }
    }
}

/// What is in a pool, and what was done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolUsage {
    /// Number of objects, clones and those included that are only there for their clones.
    pub objects: u64,
    /// Number of clones: objects as they were at snapshots.
    pub clones: u64,
    /// Sum of the objects' sizes, holes included, and of what clones do not share.
    pub bytes: u64,
    /// Requests that only read.
    pub reads: u64,
    /// Bytes that they were given.
    pub read_bytes: u64,
    /// Requests that wrote.
    pub writes: u64,
    /// Bytes that they brought.
    pub written_bytes: u64,
}

#[derive(Default)]
pub(crate) struct PoolObjects {
    by_hash: FxHashMap<u32, SameHash>,
    /// Hashes read from their low end, which is the order of listings (hobject_t's bitwise order).
    order: BTreeSet<u32>,
    contents: Contents,
    /// Objects that have clones, by their place.
    with_clones: BTreeSet<(u32, ObjectId)>,
    /// What was done with the pool.
    pub(crate) requests: PoolUsage,
}

impl PoolObjects {
    pub(crate) fn usage(&self) -> PoolUsage {
        let Contents { objects, clones, bytes } = self.contents;
        PoolUsage { objects, clones, bytes, ..self.requests }
    }
}

/// All objects.
pub(crate) struct Store {
    pools: FxHashMap<i64, PoolObjects>,
    objects: Slab<Object>,
    /// Memory that all objects take.
    used: u64,
    /// What holes are read from.
    zeros: Segment,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self {
            pools: FxHashMap::default(),
            objects: Slab::new(),
            used: 0,
            zeros: Segment::from_static(onego_buf::zeros()),
        }
    }

    /// Memory that all objects take.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    pub(crate) fn pool(&self, pool: i64) -> Option<&PoolObjects> {
        self.pools.get(&pool)
    }

    pub(crate) fn pool_mut(&mut self, pool: i64) -> &mut PoolObjects {
        self.pools.entry(pool).or_default()
    }

    pub(crate) fn pools(&self) -> impl Iterator<Item = (i64, &PoolObjects)> {
        self.pools.iter().map(|(pool, objects)| (*pool, objects))
    }

    /// The object of that name.
    #[inline]
    pub(crate) fn find(&self, identity: &Identity<'_>) -> Option<ObjectId> {
        match self.pools.get(&identity.pool)?.by_hash.get(&identity.hash)? {
            SameHash::One(id) if self.objects[id.0].is(identity) => Some(*id),
            SameHash::One(_) => None,
            SameHash::Many(objects) => objects.find(identity),
        }
    }

    pub(crate) fn object(&self, id: ObjectId) -> &Object {
        &self.objects[id.0]
    }

    /// The object, if it is still there.
    pub(crate) fn get(&self, id: ObjectId) -> Option<&Object> {
        self.objects.get(id.0)
    }

    /// The object, to be changed: [`Store::changed`] must be told.
    pub(crate) fn state_mut(&mut self, id: ObjectId) -> (&mut State, &Segment) {
        (&mut self.objects[id.0].state, &self.zeros)
    }

    /// All objects there are.
    pub(crate) fn objects(&self) -> impl Iterator<Item = (i64, &Object)> {
        self.objects.iter().map(|(_, object)| (object.pool, object))
    }

    /// The object's last change is in this record of the journal.
    pub(crate) fn set_record(&mut self, id: ObjectId, record: u64) {
        self.objects[id.0].record = record;
    }

    /// Makes room for an object that does not exist yet.
    pub(crate) fn prepare(&mut self, identity: &Identity<'_>) -> ObjectId {
        let id = self.objects.insert(Object {
            pool: identity.pool,
            name: Name::of(identity),
            state: State::default(),
            record: 0,
            counted: Counted::default(),
            names: identity.memory(),
        });
        let id = ObjectId(id);
        let pool = self.pools.entry(identity.pool).or_default();
        match pool.by_hash.entry(identity.hash) {
            hash_map::Entry::Occupied(entry) => {
                // The name stands there again.
                self.objects[id.0].names += same_hash::ENTRY + identity.memory();
                entry.into_mut().add(id, &Name::of(identity), |other| &self.objects[other.0].name);
            }
            hash_map::Entry::Vacant(entry) => {
                entry.insert(SameHash::One(id));
                pool.order.insert(identity.hash.reverse_bits());
            }
        }
        id
    }

    /// The object may be something else now, or nothing: counts it again. Returns what it was counted as before, and what
    /// it is counted as now.
    pub(crate) fn changed(&mut self, id: ObjectId) -> (Contents, Contents) {
        let object = &mut self.objects[id.0];
        let mut now = Counted::of(&object.state);
        if now.contents.objects > 0 {
            now.footprint += object.names;
        }
        if now == object.counted && now.contents.objects > 0 {
            // It was written over: nearly all writes to a disk that is full.
            return (now.contents, now.contents);
        }
        let before = std::mem::replace(&mut object.counted, now);
        self.used = self.used - before.footprint + now.footprint;
        let pool = self.pools.entry(object.pool).or_default();
        pool.contents.replace(before.contents, now.contents);
        let place = object.name.hash.reverse_bits();
        match (before.contents.clones, now.contents.clones) {
            (0, 1..) => _ = pool.with_clones.insert((place, id)),
            (1.., 0) => _ = pool.with_clones.remove(&(place, id)),
            _ => {}
        }
        if now.contents.objects == 0 {
            if let hash_map::Entry::Occupied(mut entry) = pool.by_hash.entry(object.name.hash)
                && entry.get_mut().remove(id, &object.name)
            {
                entry.remove();
                pool.order.remove(&place);
            }
            self.objects.remove(id.0);
        }
        (before.contents, now.contents)
    }

    /// The objects with clones that a pool has from `first` on, up to the place `last`, with their places.
    pub(crate) fn objects_with_clones(
        &self,
        pool: i64,
        first: (u32, ObjectId),
        last: u32,
    ) -> impl Iterator<Item = (u32, ObjectId)> {
        let with_clones = self.pools.get(&pool).map(|pool| &pool.with_clones);
        let to_end = with_clones.into_iter().flat_map(move |with_clones| with_clones.range(first..)).copied();
        to_end.take_while(move |(place, _)| *place <= last)
    }

    /// The places from `first` to `last` at which a pool has objects.
    pub(crate) fn places(&self, pool: i64, first: u32, last: u32) -> impl Iterator<Item = u32> {
        let order = self.pools.get(&pool).map(|pool| &pool.order);
        order.into_iter().flat_map(move |order| order.range(first..=last)).copied()
    }

    /// What a pool has at the places from `first` to `last`.
    pub(crate) fn contents(&self, pool: i64, first: u32, last: u32) -> Contents {
        let ids = self.places(pool, first, last).flat_map(|place| self.at(pool, place));
        ids.map(|id| Contents::of(&self.object(id).state)).sum()
    }

    /// The objects at a place, in order.
    pub(crate) fn at(&self, pool: i64, place: u32) -> impl Iterator<Item = ObjectId> {
        let same_hash = self.pools.get(&pool).and_then(|pool| pool.by_hash.get(&place.reverse_bits()));
        same_hash.into_iter().flat_map(SameHash::iter)
    }

    /// Forgets a pool and says which objects are gone.
    pub(crate) fn remove_pool(&mut self, pool: i64) -> Vec<ObjectId> {
        let Some(pool) = self.pools.remove(&pool) else { return Vec::new() };
        let ids: Vec<ObjectId> = pool.by_hash.values().flat_map(SameHash::iter).collect();
        for id in &ids {
            self.used -= self.objects.remove(id.0).counted.footprint;
        }
        ids
    }

    /// Returns the objects of a placement group, also those that have only clones, from `start` on and in order.
    pub(crate) fn list<'a>(
        &'a self,
        pg: PgId,
        pool: &Pool,
        start: &'a HObject,
    ) -> impl Iterator<Item = &'a Object> {
        let (first, last) = hash_range(pg, pool.pg_num);
        let at = start.hash.reverse_bits();
        let first = if start.is_min() { first } else { at.clamp(first, last) };
        let by_hash = self.pools.get(&pg.pool).map(|pool| &pool.by_hash);
        let places = self.places(pg.pool, first, last);
        let ids = places.flat_map(move |place| {
            let same_hash = by_hash.and_then(|by_hash| by_hash.get(&place.reverse_bits()));
            let start = Some(start).filter(|start| !start.is_min() && place == at);
            same_hash.into_iter().flat_map(move |same_hash| same_hash.iter_from(start))
        });
        ids.map(|id| &self.objects[id.0])
            .skip_while(move |object| object.name.hash.reverse_bits() == at && object.place() < *start)
    }
}

/// The range of reversed hashes that a placement group covers (pg_t::get_hobj_start, get_hobj_end, get_split_bits).
pub(crate) fn hash_range(pg: PgId, pg_num: u32) -> (u32, u32) {
    let start = pg.seed.reverse_bits();
    if pg_num <= 1 {
        return (0, u32::MAX);
    }
    // Groups that were split already have one bit more than those that come still.
    let bits = u32::BITS - pg_num.leading_zeros();
    let half = 1u32 << (bits - 1);
    let bits = if pg.seed % half < pg_num % half { bits } else { bits - 1 };
    (start, start | u32::MAX.checked_shr(bits).unwrap_or(0))
}

/// The first object that a placement group could have, and the first behind it (pg_t::get_hobj_start, get_hobj_end).
pub(crate) fn bounds(pg: PgId, pg_num: u32) -> (HObject, HObject) {
    let (_, last) = hash_range(pg, pg_num);
    let start = HObject { pool: pg.pool, hash: pg.seed, snap: 0, ..HObject::min() };
    let end = match last.checked_add(1) {
        None => HObject::max(),
        Some(next) => HObject { pool: pg.pool, hash: next.reverse_bits(), snap: NOSNAP, ..HObject::min() },
    };
    (start, end)
}

/// All that tells the object of a request from others.
pub(crate) fn identity(request: &OsdOp) -> Identity<'_> {
    Identity {
        pool: request.pg.pg.pool,
        hash: request.hash,
        namespace: &request.locator.namespace,
        key: &request.locator.key,
        name: &request.object,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onego_ceph::hash::rjenkins;

    #[test]
    fn placement_groups_part_the_objects_of_a_pool() {
        for pg_num in [1, 2, 3, 7, 8, 12, 31, 32] {
            let pool = Pool { pg_num, ..Pool::default() };
            let mut store = Store::new();
            for i in 0..500u32 {
                let name = i.to_string();
                let hash = rjenkins(name.as_bytes());
                let identity = Identity { pool: 1, hash, namespace: b"", key: b"", name: name.as_bytes() };
                let id = store.prepare(&identity);
                store.state_mut(id).0.create();
                store.changed(id);
                assert_eq!(store.find(&identity), Some(id));
            }
            let mut count = 0;
            for seed in 0..pg_num {
                let pg = PgId { pool: 1, seed };
                let listed: Vec<_> = store.list(pg, &pool, &HObject::min()).map(Object::place).collect();
                assert!(listed.is_sorted());
                assert!(listed.iter().all(|o| pool.pg(PgId { pool: 1, seed: o.hash }) == pg));
                for (i, object) in listed.iter().enumerate() {
                    assert_eq!(store.list(pg, &pool, object).count(), listed.len() - i);
                }
                count += listed.len();
            }
            assert_eq!(count, 500);
        }
    }
}
