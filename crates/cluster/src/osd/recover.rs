//! What OSDs do for each other: apply the primary's transactions, and bring one up to date that was away.

use super::daemon::Osd;
use super::group::{END, Group, Place};
use super::store::object::State;
use super::store::{Contents, Name, ObjectId, hash_range};
use super::transaction::Transaction;
use onego_ceph::osdmap::{OsdMap, Pool};
use onego_ceph::types::PgId;
use onego_wire::Time;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

impl AsRef<Osd> for Osd {
    fn as_ref(&self) -> &Osd {
        self
    }
}

impl AsMut<Osd> for Osd {
    fn as_mut(&mut self) -> &mut Osd {
        self
    }
}

impl Osd {
    /// The object has changed: counts again what there is. It is gone for good if it does not exist.
    pub(super) fn settle(&mut self, pg: PgId, id: ObjectId) -> &mut Group {
        let (before, now) = self.store.changed(id);
        let group = self.groups.entry(pg).or_default();
        group.contents.replace(before, now);
        group
    }

    /// Does again what a request did here before a restart. What changes an object that is missing is left out: the object
    /// comes as a whole later.
    pub(crate) fn apply(&mut self, transaction: &Transaction, record: u64) {
        let Transaction { pg, object, version, mutations, outcome } = transaction;
        let share = self.outcomes_share();
        let group = self.groups.entry(*pg).or_default();
        if let Some((reqid, done)) = outcome {
            group.outcomes.record(reqid, done.clone());
            group.outcomes.shrink_to(share);
        }
        let Some(version) = *version else { return };
        let place = object.hash.reverse_bits();
        group.advance(version, place, true);
        if mutations.is_empty() || !group.has(place) {
            return;
        }
        let identity = object.in_pool(pg.pool);
        let found = self.store.find(&identity);
        let id = found.unwrap_or_else(|| self.store.prepare(&identity));
        let (state, _) = self.store.state_mut(id);
        mutations.iter().for_each(|mutation| state.apply(mutation));
        if !state.exists {
            self.watches.object_gone(id);
        }
        self.store.set_record(id, record);
        self.settle(*pg, id);
    }

    /// All objects that are here, as copies that keep what is now.
    pub(crate) fn objects(&self) -> impl Iterator<Item = (i64, Name, State)> {
        self.store.objects().map(|(pool, object)| (pool, object.name().clone(), object.state.clone()))
    }

    /// An object was here before this OSD was started; its group counts it.
    pub(crate) fn restore_object(&mut self, pool: i64, name: &Name, state: State) {
        let id = self.store.prepare(&name.in_pool(pool));
        *self.store.state_mut(id).0 = state;
        self.store.changed(id);
    }

    /// Has an object that belongs elsewhere share the memory of the one of that name here, if they are the same. Returns
    /// whether they are.
    pub(crate) fn share_if_same(&self, pool: i64, name: &Name, state: &mut State) -> bool {
        let ours = self.store.find(&name.in_pool(pool));
        ours.is_some_and(|id| state.share_if_same(&self.store.object(id).state))
    }

    /// A group was here before this OSD was started.
    pub(crate) fn restore_group(&mut self, pg: PgId, group: Group) {
        self.groups.insert(pg, group);
    }

    /// What is here of a group, if there is anything.
    pub(crate) fn group(&self, pg: PgId) -> Option<&Group> {
        self.groups.get(&pg)
    }

    /// All groups, as copies that keep what is now.
    pub(crate) fn groups_as_they_are(&self) -> impl Iterator<Item = (PgId, Group)> {
        self.groups.iter().map(|(pg, group)| (*pg, group.clone()))
    }

    /// The groups that there is something of.
    pub(crate) fn groups(&self) -> impl Iterator<Item = PgId> {
        self.groups.keys().copied()
    }

    pub(crate) fn group_contents(&self, pg: PgId) -> Contents {
        self.groups.get(&pg).map(|group| group.contents).unwrap_or_default()
    }

    /// Takes over the watches on a group's objects from the OSD that served it before. To watch is a property of the
    /// object, which all OSDs of the group have.
    pub(crate) fn adopt_watches(&mut self, now: Time, before: &mut Self, pg: PgId, pool: &Pool) {
        if before.watches.is_empty() {
            return;
        }
        for theirs in before.watches.objects() {
            let name = before.store.object(theirs).name();
            if pool.pg(PgId { pool: pg.pool, seed: name.hash }) != pg
                || !before.store.object(theirs).is_in(pg.pool)
            {
                continue;
            }
            let ours = self.store.find(&name.in_pool(pg.pool));
            let moving = before.watches.take(theirs);
            for (watch, object) in moving.into_iter().zip(ours.into_iter().cycle()) {
                self.watches.adopt(now, object, watch);
            }
        }
    }

    /// Knows from now on what `source`, which has all of a group, knows of it, and so what is missing here.
    pub(crate) fn begin_recovery(&mut self, source: &Self, pg: PgId, pool: &Pool) {
        let Some(whole) = source.groups.get(&pg) else { return };
        let (first, last) = hash_range(pg, pool.pg_num);
        let behind = self.groups.remove(&pg);
        let mut group = whole.catch_up(behind, first);
        if group.missing.from == u64::from(first) {
            // There may be objects that nobody counts: of a group that was given away and not cleared yet.
            group.contents = self.store.contents(pg.pool, first, last);
        }
        self.groups.insert(pg, group);
    }

    /// Takes objects that are missing from `source`, which has all of the group: those of `budget` places, or fewer if
    /// then nothing is missing any more. Returns how many places that were.
    pub(crate) fn recover(&mut self, source: &Self, pg: PgId, pool: &Pool, budget: usize) -> usize {
        let (_, last) = hash_range(pg, pool.pg_num);
        let Some(group) = self.groups.get_mut(&pg) else { return 0 };
        let mut places = Vec::with_capacity(budget);
        places.extend(std::iter::from_fn(|| group.missing.places.pop_first()).take(budget));
        if let Ok(from) = Place::try_from(group.missing.from)
            && places.len() < budget
        {
            let left = budget - places.len();
            let end = self.backfill_end(source, pg.pool, (from, last), left);
            // All places up to the end, those where there is nothing any more included.
            let theirs = source.store.places(pg.pool, from, end);
            let more: BTreeSet<Place> = theirs.chain(self.store.places(pg.pool, from, end)).collect();
            places.extend(more);
            if let Some(group) = self.groups.get_mut(&pg) {
                group.missing.from = if end == last { END } else { u64::from(end) + 1 };
            }
        }
        for &place in &places {
            self.copy_place(source, pg, place);
        }
        places.len()
    }

    /// The last place of the next step of a backfill: there are `budget` places with objects before it at most, here
    /// and at the source.
    fn backfill_end(&self, source: &Self, pool: i64, (from, last): (Place, Place), budget: usize) -> Place {
        let end = |osd: &Self| osd.store.places(pool, from, last).nth(budget - 1).unwrap_or(last);
        end(self).min(end(source))
    }

    /// Makes the objects at a place what they are at the source. Their memory is shared.
    fn copy_place(&mut self, source: &Self, pg: PgId, place: Place) {
        let ours: SmallVec<[ObjectId; 2]> = self.store.at(pg.pool, place).collect();
        for id in ours {
            self.remove_object(pg, id);
        }
        for id in source.store.at(pg.pool, place) {
            let object = source.store.object(id);
            let copy = self.store.prepare(&object.name().in_pool(pg.pool));
            self.store.state_mut(copy).0.clone_from(&object.state);
            self.store.set_record(copy, object.record);
            self.settle(pg, copy);
        }
    }

    fn remove_object(&mut self, pg: PgId, id: ObjectId) {
        *self.store.state_mut(id).0 = State::default();
        self.watches.object_gone(id);
        self.settle(pg, id);
    }

    /// Forgets a group that belongs elsewhere, and removes the objects of up to `budget` places. Returns whether all are
    /// gone.
    pub(crate) fn purge(&mut self, pg: PgId, pool: &Pool, budget: usize) -> bool {
        let (first, last) = hash_range(pg, pool.pg_num);
        let places: Vec<Place> = self.store.places(pg.pool, first, last).take(budget).collect();
        for id in places.iter().flat_map(|place| self.store.at(pg.pool, *place)).collect::<Vec<_>>() {
            self.remove_object(pg, id);
        }
        let all = places.len() < budget;
        match self.groups.get_mut(&pg) {
            // What is left is no copy that an OSD may recover from.
            Some(group) if !all => group.disown(first),
            _ => drop(self.groups.remove(&pg)),
        }
        all
    }

    /// Follows the number of groups that pools have.
    pub(super) fn split_and_merge(&mut self, map: &OsdMap) {
        self.pg_nums.retain(|pool, _| map.pools.contains_key(pool));
        for (&pool, one) in &map.pools {
            let before = self.pg_nums.insert(pool, one.pg_num).unwrap_or(one.pg_num);
            if before < one.pg_num {
                self.split(pool, before, one);
            } else if before > one.pg_num {
                self.merge(pool, before, one);
            }
        }
    }

    fn split(&mut self, pool: i64, before: u32, after: &Pool) {
        let old = Pool { pg_num: before, ..after.clone() };
        let parents: Vec<PgId> = self.groups.keys().filter(|pg| pg.pool == pool).copied().collect();
        for parent in parents {
            let Some(whole) = self.groups.remove(&parent) else { continue };
            let children = (before..after.pg_num).map(|seed| PgId { pool, seed });
            let children = children.filter(|child| old.pg(*child) == parent);
            for pg in std::iter::once(parent).chain(children) {
                let (first, last) = hash_range(pg, after.pg_num);
                let mut part = whole.part(first, last);
                part.contents = self.store.contents(pool, first, last);
                self.groups.insert(pg, part);
            }
        }
    }

    fn merge(&mut self, pool: i64, before: u32, after: &Pool) {
        let mut children = BTreeMap::<PgId, Vec<Group>>::new();
        for child in (after.pg_num..before).map(|seed| PgId { pool, seed }) {
            if let Some(group) = self.groups.remove(&child) {
                children.entry(after.pg(child)).or_default().push(group);
            }
        }
        for (parent, groups) in children {
            self.groups.entry(parent).or_default().merge(groups);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::{Bench, write};
    use super::super::{Config, Osd};
    use super::*;
    use onego_ceph::ops::Op;

    const PG_NUM: u32 = 8;

    pub(crate) fn pool() -> Pool {
        Pool { pg_num: PG_NUM, pgp_num: PG_NUM, ..Pool::default() }
    }

    /// A primary and another OSD of all groups.
    fn pair() -> (Bench, Osd) {
        let config = Config { transactions: true, ..Config::default() };
        (Bench::with(config.clone()), Osd::new(config))
    }

    fn change(bench: &mut Bench, name: &str, op: Op) -> Box<Transaction> {
        assert_eq!(bench.ask(name, vec![op]).result, 0);
        bench.transaction.take().expect("a write makes a transaction")
    }

    /// All that is in an OSD's groups.
    fn content(osd: &Osd) -> Vec<(Vec<u8>, Vec<u8>, u64)> {
        let places = osd.store.places(Bench::POOL, 0, u32::MAX);
        let objects = places.flat_map(|place| osd.store.at(Bench::POOL, place));
        let content = objects.map(|id| {
            let object = osd.store.object(id);
            let data = object.state.read(0, u64::MAX, &onego_buf::Segment::from_static(&[0; 4096]));
            (object.name().name.to_vec(), data.to_vec(), object.state.version)
        });
        content.collect()
    }

    pub(crate) fn recover_all(target: &mut Osd, source: &Osd, budget: usize) -> usize {
        let groups: Vec<PgId> = source.groups().collect();
        let mut steps = 0;
        for pg in groups {
            target.begin_recovery(source, pg, &pool());
            while !target.group(pg).unwrap().is_whole() {
                assert!(target.recover(source, pg, &pool(), budget) <= 2 * budget);
                steps += 1;
            }
            assert_eq!(target.group_contents(pg), source.group_contents(pg), "{pg}");
        }
        steps
    }

    #[test]
    fn a_replica_that_applies_all_transactions_has_what_the_primary_has() {
        let (mut bench, mut replica) = pair();
        for n in 0..50u8 {
            for op in [write(n.into(), &[n; 100]), Op::SetXattr { name: "x".into(), value: vec![n].into() }] {
                replica.apply(&change(&mut bench, &format!("o{}", n % 20), op), 0);
            }
        }
        replica.apply(&change(&mut bench, "o7", Op::Delete), 0);
        assert_eq!(content(&replica), content(&bench.osd));
        assert_eq!(replica.usage(), bench.osd.usage());
    }

    #[test]
    fn who_missed_a_few_changes_gets_what_they_changed() {
        let (mut bench, mut replica) = pair();
        for n in 0..60u8 {
            let transaction = change(&mut bench, &format!("o{}", n % 40), write(0, &[n; 10]));
            if n < 45 {
                replica.apply(&transaction, 0);
            }
        }
        change(&mut bench, "o3", Op::Delete);
        change(&mut bench, "new", write(0, b"new"));
        recover_all(&mut replica, &bench.osd, 3);
        assert_eq!(content(&replica), content(&bench.osd));
    }

    #[test]
    fn who_has_nothing_or_what_nobody_remembers_is_given_everything() {
        let (mut bench, mut replica) = pair();
        for n in 0..60u8 {
            change(&mut bench, &format!("o{n}"), write(0, &[n; 10]));
        }
        assert!(recover_all(&mut replica, &bench.osd, 4) > 8);
        assert_eq!(content(&replica), content(&bench.osd));
        // The groups were given away, and are not cleared yet, when they come back.
        let groups: Vec<PgId> = replica.groups().collect();
        assert!(groups.iter().map(|pg| replica.purge(*pg, &pool(), 1)).any(|all| !all));
        change(&mut bench, "o5", Op::Delete);
        recover_all(&mut replica, &bench.osd, 4);
        assert_eq!(content(&replica), content(&bench.osd));
    }

    #[test]
    fn what_is_written_meanwhile_is_not_lost_and_not_undone() {
        let (mut bench, mut replica) = pair();
        for n in 0..80u8 {
            change(&mut bench, &format!("o{n}"), write(0, &[n; 10]));
        }
        let groups: Vec<PgId> = bench.osd.groups().collect();
        groups.iter().for_each(|pg| replica.begin_recovery(&bench.osd, *pg, &pool()));
        for n in 0..80u8 {
            replica.apply(&change(&mut bench, &format!("o{n}"), write(5, &[255 - n; 10])), 0);
            for pg in &groups {
                replica.recover(&bench.osd, *pg, &pool(), 1);
            }
        }
        assert!(groups.iter().all(|pg| replica.group(*pg).unwrap().is_whole()));
        assert_eq!(content(&replica), content(&bench.osd));
    }

    #[test]
    fn groups_that_split_and_merge_keep_their_objects_and_outcomes() {
        let (mut bench, _) = pair();
        for n in 0..100u8 {
            change(&mut bench, &format!("o{n}"), write(0, &[n; 10]));
        }
        let mut map = OsdMap::default();
        for pg_num in [PG_NUM, 21, 64, 3] {
            map.pools.insert(Bench::POOL, Pool { pg_num, pgp_num: pg_num, ..Pool::default() });
            bench.osd.map_changed(&map);
            let groups: Vec<PgId> = bench.osd.groups().collect();
            assert!(groups.iter().all(|pg| pg.seed < pg_num));
            assert_eq!(groups.iter().map(|pg| bench.osd.group_contents(*pg).objects).sum::<u64>(), 100);
        }
        assert_eq!(bench.osd.groups().count(), 3);
    }
}
