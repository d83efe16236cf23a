//! Which OSDs serve a placement group, and which of them have all of it.
//!
//! Ceph's OSDs find that out by talking to each other (`doc/dev/peering.rst`, `src/osd/PeeringState.cc`). Here all of
//! them live in one process, so that it is found out at once with each new map; what must hold is the same:
//!
//! - The OSDs that served a group last have its newest data ([`Group::holders`]). As long as none of them is up, the group
//!   serves nobody: data that are old must not be read, nor written on.
//! - Only OSDs that have everything serve a group. Until those where it belongs have caught up, others that have
//!   everything stand in for them (`pg_temp`).
//! - Those that catch up get every write too, so that they have an end of it.

use crate::mon::{GroupReport, GroupState, OSD_BITS, POOL_FLAGS};
use crate::osd::Osd;
use onego_ceph::crush::Workspace;
use onego_ceph::osdmap::{OsdMap, Pool};
use onego_ceph::types::{Epoch, PgId};
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::{Decoded, Reader, Writer};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// OSDs by their numbers.
pub(crate) type Osds = SmallVec<[i32; 4]>;

/// A placement group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Group {
    /// The OSDs that CRUSH chooses for it, if that is known.
    by_crush: Option<Osds>,
    /// The OSDs where it belongs, as far as they are up.
    up: Osds,
    /// The OSDs that serve it.
    pub(crate) acting: Osds,
    /// The one that requests go to, or -1.
    pub(crate) primary: i32,
    /// The epoch since which that is so: who chose the primary by an older map sends again.
    pub(crate) since: Epoch,
    /// Does it serve requests?
    pub(crate) active: bool,
    /// OSDs that have all of it, up or not: those that served it last, then those that have caught up since. Empty:
    /// nobody has.
    holders: Osds,
    /// Was it ever served? If not, the first OSD that serves it has all of it.
    served: bool,
    /// The primary under which it served last, or -1.
    served_by: i32,
    /// OSDs that catch up.
    pub(crate) targets: Osds,
    /// The OSDs that have caught up are to take part.
    stale: bool,
    size: usize,
    last: GroupState,
}

/// All placement groups.
#[derive(Default)]
pub(crate) struct Groups {
    pools: FxHashMap<i64, Vec<Group>>,
    /// The pools that are or were full, and the epoch in which they became so last.
    full_since: FxHashMap<i64, Epoch>,
    /// The map by which they were placed.
    map: Option<Arc<OsdMap>>,
    workspace: Workspace,
}

/// What follows from a new map.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// What `pg_temp` should say; nobody: nothing.
    pub(crate) temporary: Vec<(PgId, Vec<i32>)>,
    /// OSDs that have to catch up with a group's primary.
    pub(crate) recoveries: Vec<(PgId, i32)>,
    /// Groups with the primary under which they served, and the one under which they do now.
    pub(crate) handovers: Vec<(PgId, i32, i32)>,
    /// Groups that are served by others than before, or again.
    pub(crate) moved: Vec<PgId>,
}

/// Do both maps place all groups of a pool that is the same in both at the same OSDs?
fn same_places(a: &OsdMap, b: &OsdMap) -> bool {
    let states = |map: &'_ OsdMap| map.osd_state.iter().map(|state| state & !OSD_BITS).collect::<Vec<_>>();
    states(a) == states(b)
        && same_choices(a, b)
        && a.osd_primary_affinity == b.osd_primary_affinity
        && a.pg_temp == b.pg_temp
        && a.primary_temp == b.primary_temp
        && (a.pg_upmap == b.pg_upmap && a.pg_upmap_items == b.pg_upmap_items)
        && a.pg_upmap_primaries == b.pg_upmap_primaries
}

/// Does CRUSH choose the same OSDs by both maps, for all groups of a pool that is the same in both?
fn same_choices(a: &OsdMap, b: &OsdMap) -> bool {
    a.osd_weight == b.osd_weight && (Arc::ptr_eq(&a.crush, &b.crush) || a.crush == b.crush)
}

fn same_pool(a: &Pool, b: &Pool) -> bool {
    let fields = |pool: &Pool| (pool.size, pool.min_size, pool.pg_num, pool.pgp_num, pool.crush_rule);
    fields(a) == fields(b) && a.flags & !POOL_FLAGS == b.flags & !POOL_FLAGS
}

impl Groups {
    pub(crate) fn get(&self, pg: PgId) -> Option<&Group> {
        self.pools.get(&pg.pool)?.get(pg.seed as usize)
    }

    fn get_mut(&mut self, pg: PgId) -> Option<&mut Group> {
        self.pools.get_mut(&pg.pool)?.get_mut(pg.seed as usize)
    }

    fn iter(&self) -> impl Iterator<Item = (PgId, &Group)> {
        self.pools.iter().flat_map(|(&pool, groups)| {
            (0..).zip(groups).map(move |(seed, group)| (PgId { pool, seed }, group))
        })
    }

    /// The epoch in which a pool became full last. A client that writes to it by an older map does not know that yet.
    pub(crate) fn full_since(&self, pool: i64) -> Epoch {
        self.full_since.get(&pool).copied().unwrap_or(0)
    }

    /// Goes by a new map.
    pub(crate) fn follow(&mut self, map: &Arc<OsdMap>) -> Changes {
        let mut changes = Changes::default();
        let before = self.map.replace(Arc::clone(map));
        let everywhere = before.as_ref().is_none_or(|before| !same_places(before, map));
        let choose_all = before.as_ref().is_none_or(|before| !same_choices(before, map));
        self.pools.retain(|pool, _| map.pools.contains_key(pool));
        self.full_since.retain(|pool, _| map.pools.contains_key(pool));
        for (&id, pool) in &map.pools {
            let known = before.as_ref().and_then(|before| before.pools.get(&id));
            let was_full = before.as_ref().is_some_and(|before| before.is_pool_full(id));
            if map.is_pool_full(id) && !was_full {
                self.full_since.insert(id, map.epoch);
            }
            let changed = known.is_none_or(|known| !same_pool(known, pool));
            let groups = self.pools.entry(id).or_default();
            resize(groups, id, known, pool);
            for (seed, group) in (0..).zip(groups) {
                if changed || choose_all {
                    group.by_crush = None;
                }
                if changed || everywhere || group.stale {
                    let pg = PgId { pool: id, seed };
                    group.place(map, &mut self.workspace, pg, pool, &mut changes);
                }
            }
        }
        changes
    }

    /// An OSD has caught up with a group. It will take part when the map is looked at again.
    pub(crate) fn caught_up(&mut self, pg: PgId, osd: i32) {
        let Some(group) = self.get_mut(pg) else { return };
        group.targets.retain(|other| *other != osd);
        if !group.holders.contains(&osd) {
            group.holders.push(osd);
        }
        group.stale = true;
    }

    /// An OSD has lost all that it had.
    pub(crate) fn lost(&mut self, osd: i32) {
        for group in self.pools.values_mut().flatten() {
            group.holders.retain(|other| *other != osd);
        }
    }

    /// Is the group where it belongs, all of it? Then what others have of it is of no use.
    pub(crate) fn is_clean(&self, pg: PgId) -> bool {
        self.get(pg).is_some_and(Group::is_clean)
    }

    /// Is that so of all groups?
    pub(crate) fn all_clean(&self) -> bool {
        self.pools.values().flatten().all(Group::is_clean)
    }

    /// How the groups are. `osd` is the OSD of a number.
    pub(crate) fn reports<'a>(&self, osd: impl Fn(i32) -> &'a Osd) -> Vec<(PgId, GroupReport)> {
        let report = |(pg, group): (PgId, &Group)| {
            let of = |id: i32| osd(id).group_contents(pg);
            // If nobody serves it, those that would know best tell.
            let contents = match group.primary {
                -1 => group.holders.first().map(|id| of(*id)).unwrap_or_default(),
                primary => of(primary),
            };
            let copies = group.size.saturating_sub(group.acting.len()) as u64;
            let degraded = if group.last.stale { 0 } else { contents.objects * copies };
            let backfilling = group
                .targets
                .iter()
                .any(|id| osd(*id).group(pg).is_some_and(crate::osd::Group::is_backfilled));
            let state = GroupState {
                degraded: degraded > 0,
                backfilling,
                recovering: !group.targets.is_empty() && !backfilling,
                ..group.last
            };
            (pg, GroupReport { state, contents, degraded })
        };
        self.iter().map(report).collect()
    }
}

/// The OSDs go on by a new map. What one lacks that has to catch up is found out at once; from then on it gets every
/// write.
pub(crate) fn follow<T>(map: &Arc<OsdMap>, groups: &mut Groups, osds: &mut [T]) -> Changes
where
    T: AsRef<Osd> + AsMut<Osd>,
{
    osds.iter_mut().for_each(|osd| osd.as_mut().map_changed(map));
    let changes = groups.follow(map);
    for &(pg, target) in &changes.recoveries {
        let source = groups.get(pg).map_or(-1, |group| group.primary);
        if let (Some(pool), Some((source, target))) = (map.pools.get(&pg.pool), pair(osds, source, target)) {
            target.as_mut().begin_recovery(source.as_ref(), pg, pool);
        }
    }
    changes
}

/// The groups of a pool whose number has changed: those that come out of others are where those are, with what they have.
fn resize(groups: &mut Vec<Group>, id: i64, known: Option<&Pool>, pool: &Pool) {
    let before = groups.len() as u32;
    if let Some(known) = known
        && before < pool.pg_num
    {
        for seed in before..pool.pg_num {
            let parent = known.pg(PgId { pool: id, seed });
            groups.push(Group { by_crush: None, stale: true, ..groups[parent.seed as usize].clone() });
        }
    }
    groups.resize_with(pool.pg_num as usize, || Group {
        primary: -1,
        served_by: -1,
        stale: true,
        ..Group::default()
    });
}

impl Encode for Groups {
    fn encode(&self, w: &mut Writer) {
        w.count(self.pools.len());
        for (pool, groups) in &self.pools {
            w.i64(*pool);
            groups.encode(w);
        }
    }
}

impl Groups {
    /// The groups that were kept, as they were by this map.
    pub(crate) fn restore(bytes: &[u8], map: &Arc<OsdMap>) -> Decoded<Self> {
        let mut r = Reader::new(bytes);
        let mut all = Self { map: Some(Arc::clone(map)), ..Self::default() };
        for _ in 0..r.count(1, "pools")? {
            let pool = r.i64("pool")?;
            let mut groups = Vec::<Group>::decode(&mut r)?;
            groups.iter_mut().for_each(Group::judge);
            all.pools.insert(pool, groups);
        }
        r.finish("placement groups")?;
        Ok(all)
    }

    /// All groups are to be placed anew when the map is looked at again, whether it is another or not.
    pub(crate) fn look_again(&mut self) {
        self.pools.values_mut().flatten().for_each(|group| group.stale = true);
    }
}

impl Encode for Group {
    fn encode(&self, w: &mut Writer) {
        [&self.up, &self.acting, &self.holders, &self.targets]
            .into_iter()
            .for_each(|osds| osds[..].encode(w));
        w.i32(self.primary);
        w.u32(self.since);
        w.bool(self.active);
        w.bool(self.served);
        w.i32(self.served_by);
        w.bool(self.stale);
        w.u64(self.size as u64);
    }
}

impl Decode for Group {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let mut osds = || Ok(Vec::<i32>::decode(r)?.into());
        let (up, acting, holders, targets) = (osds()?, osds()?, osds()?, osds()?);
        Ok(Self {
            by_crush: None,
            up,
            acting,
            holders,
            targets,
            primary: r.i32("primary")?,
            since: r.u32("epoch")?,
            active: r.bool("is active")?,
            served: r.bool("was served")?,
            served_by: r.i32("last primary")?,
            stale: r.bool("is stale")?,
            size: r.u64("copies")? as usize,
            last: GroupState::default(),
        })
    }
}

impl Group {
    /// The OSDs that do what this one does for the group: they serve it, too, or catch up.
    pub(crate) fn others(&self, osd: i32) -> Osds {
        self.acting.iter().chain(&self.targets).copied().filter(|other| *other != osd).collect()
    }

    fn is_clean(&self) -> bool {
        self.active && self.targets.is_empty() && self.has_all_copies() && self.acting == self.up
    }

    /// Do as many OSDs serve it as there are to be copies?
    pub(crate) fn has_all_copies(&self) -> bool {
        self.acting.len() >= self.size
    }

    /// Finds out who serves the group by a map, and who must catch up.
    fn place(
        &mut self,
        map: &OsdMap,
        workspace: &mut Workspace,
        pg: PgId,
        pool: &Pool,
        changes: &mut Changes,
    ) {
        let by_crush = self.by_crush.get_or_insert_with(|| map.crush_osds(workspace, pg).into());
        let place = map.place_chosen(pg, by_crush);
        let before = std::mem::replace(&mut self.acting, place.acting.into());
        let was_active = std::mem::take(&mut self.active);
        self.up = place.up.into();
        self.size = pool.size.into();
        self.stale = false;
        if place.acting_primary != self.primary {
            (self.primary, self.since) = (place.acting_primary, map.epoch);
        }
        if !self.served && self.holders.is_empty() {
            self.holders.clone_from(&self.acting);
        }
        let chosen = self.choose(map);
        let wanted = if chosen == self.up || chosen.is_empty() { Osds::new() } else { chosen.clone() };
        if wanted[..] != map.pg_temp.get(&pg).map_or(&[][..], Vec::as_slice)[..] {
            changes.temporary.push((pg, wanted.to_vec()));
        }
        self.targets.clear();
        if !chosen.is_empty() && chosen == self.acting {
            self.active = chosen.len() >= usize::from(pool.min_size.max(1));
            let behind = self.up.iter().filter(|osd| !self.holders.contains(osd));
            self.targets = behind.copied().collect();
            changes.recoveries.extend(self.targets.iter().map(|osd| (pg, *osd)));
            if self.active {
                // What is written from now on, these have; others that had everything no longer do.
                self.holders.clone_from(&self.acting);
                self.served = true;
                let before = std::mem::replace(&mut self.served_by, self.primary);
                if before != self.primary && before >= 0 {
                    changes.handovers.push((pg, before, self.primary));
                }
            }
        }
        if self.active != was_active || self.acting != before {
            changes.moved.push(pg);
        }
        self.judge();
    }

    /// The OSDs that shall serve the group: those where it belongs, once all of them have everything; till then others
    /// that have, those first that serve it now.
    fn choose(&self, map: &OsdMap) -> Osds {
        let has_all = |osd: &i32| self.holders.contains(osd) && map.is_up(*osd);
        if self.up.iter().all(has_all) && !self.up.is_empty() {
            return self.up.clone();
        }
        // Those that served it last come first, in the order in which they did.
        self.holders.iter().copied().filter(has_all).take(self.size).collect()
    }

    /// Says how the group is, apart from what changes without a new map.
    fn judge(&mut self) {
        if self.up.is_empty() && self.acting.is_empty() && self.served {
            // Nobody is there to tell that anything is different.
            self.last.stale = true;
            return;
        }
        let down = !self.acting.is_empty() && !self.acting.iter().any(|osd| self.holders.contains(osd));
        self.last = GroupState {
            active: self.active,
            clean: self.is_clean(),
            down: down && !self.holders.is_empty(),
            incomplete: down && self.holders.is_empty(),
            undersized: self.acting.len() < self.size,
            remapped: self.acting != self.up,
            ..GroupState::default()
        };
    }
}

/// An OSD takes the objects of some places from another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) pg: PgId,
    pub(crate) source: i32,
    pub(crate) target: i32,
    /// Places, at most.
    pub(crate) budget: usize,
}

impl Step {
    /// Takes the step. Returns how many places it was, and whether the OSD has caught up; none: there are no such OSDs.
    pub(crate) fn take<T: AsRef<Osd> + AsMut<Osd>>(
        &self,
        pool: &Pool,
        groups: &mut Groups,
        osds: &mut [T],
    ) -> Option<(usize, bool)> {
        let Self { pg, source, target: id, budget } = *self;
        let (source, target) = pair(osds, source, id)?;
        let target = target.as_mut();
        let done = target.recover(source.as_ref(), pg, pool, budget);
        let is_whole = done < budget || target.group(pg).is_some_and(crate::osd::Group::is_whole);
        if is_whole {
            groups.caught_up(pg, id);
        }
        Some((done, is_whole))
    }
}

/// Two OSDs at once.
pub(crate) fn pair<T>(osds: &mut [T], source: i32, target: i32) -> Option<(&mut T, &mut T)> {
    let indices = [usize::try_from(source).ok()?, usize::try_from(target).ok()?];
    let [source, target] = osds.get_disjoint_mut(indices).ok()?;
    Some((source, target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onego_ceph::crush::{CrushMap, Layout};
    use onego_ceph::osdmap::{WEIGHT_IN, state};

    const PG: PgId = PgId { pool: 1, seed: 0 };

    /// Groups that follow a map which a test changes.
    struct Story {
        groups: Groups,
        map: OsdMap,
        last: Changes,
    }

    impl Story {
        /// Three OSDs, and a pool of one group with two copies, on osd.0 and osd.1.
        fn new() -> Self {
            let crush = Arc::new(CrushMap::flat(&[0, 1, 2], Layout::OneHost));
            let mut map = OsdMap { crush, ..OsdMap::default() };
            map.set_max_osd(3);
            map.osd_state.fill(state::EXISTS | state::UP);
            map.osd_weight.fill(WEIGHT_IN);
            map.pools.insert(1, Pool { size: 2, min_size: 1, ..Pool::default() });
            map.pg_upmap.insert(PG, vec![0, 1]);
            let mut story = Self { groups: Groups::default(), map, last: Changes::default() };
            story.go_on();
            story
        }

        /// The next epoch, and those that follow from it.
        fn go_on(&mut self) {
            let mut recoveries = Vec::new();
            for _ in 0..5 {
                self.map.epoch += 1;
                self.last = self.groups.follow(&Arc::new(self.map.clone()));
                recoveries.append(&mut self.last.recoveries);
                for (pg, osds) in self.last.temporary.drain(..) {
                    self.map.pg_temp.insert(pg, osds);
                    self.map.pg_temp.retain(|_, osds| !osds.is_empty());
                }
            }
            self.last.recoveries = recoveries;
        }

        fn set_up(&mut self, osd: usize, up: bool) {
            self.map.osd_state[osd] = state::EXISTS | if up { state::UP } else { 0 };
            self.go_on();
        }

        fn group(&self) -> &Group {
            self.groups.get(PG).unwrap()
        }

        fn name(&self) -> String {
            self.group().last.name()
        }
    }

    #[test]
    fn a_new_group_is_served_at_once_where_it_belongs() {
        let story = Story::new();
        assert_eq!((story.group().acting.as_slice(), story.group().primary), (&[0, 1][..], 0));
        assert_eq!((story.group().active, story.name().as_str()), (true, "active+clean"));
    }

    #[test]
    fn who_was_away_does_not_serve_before_it_has_caught_up() {
        let mut story = Story::new();
        story.set_up(0, false);
        assert_eq!((story.group().acting.as_slice(), story.group().active), (&[1][..], true));
        story.set_up(0, true);
        assert_eq!(story.group().acting.as_slice(), [1], "osd.0 has missed what was written");
        assert_eq!((story.group().targets.as_slice(), story.group().primary), (&[0][..], 1));
        assert_eq!(story.last.recoveries, [(PG, 0)]);
        story.groups.caught_up(PG, 0);
        story.go_on();
        assert_eq!((story.group().acting.as_slice(), story.group().primary), (&[0, 1][..], 0));
        assert!(story.map.pg_temp.is_empty() && story.groups.is_clean(PG));
    }

    #[test]
    fn what_was_to_follow_from_a_map_follows_again_after_a_crash() {
        let mut story = Story::new();
        story.set_up(0, false);
        story.set_up(1, true);
        // The map in which osd.0 is back was durable, and that which has osd.1 stand in for it was not.
        story.map.osd_state[0] = state::EXISTS | state::UP;
        story.groups.follow(&Arc::new(story.map.clone()));
        assert!(!story.group().active);
        story.go_on();
        assert!(!story.group().active, "nothing has changed since");
        story.groups.look_again();
        story.go_on();
        assert_eq!((story.group().acting.as_slice(), story.group().active), (&[1][..], true));
    }

    #[test]
    fn nothing_is_served_while_the_newest_data_are_away() {
        let mut story = Story::new();
        story.set_up(0, false);
        story.set_up(1, false);
        story.set_up(0, true);
        assert!(!story.group().active, "osd.1 may have been written to alone");
        assert_eq!(story.name(), "down+undersized");
        story.set_up(1, true);
        assert!(story.group().active);
        assert_eq!(story.group().acting.as_slice(), [1]);
    }

    #[test]
    fn with_too_few_copies_nothing_is_written_so_that_any_of_them_will_do() {
        let mut story = Story::new();
        story.map.pools.get_mut(&1).unwrap().min_size = 2;
        story.go_on();
        story.set_up(0, false);
        assert_eq!((story.group().active, story.name().as_str()), (false, "undersized+peered"));
        story.set_up(1, false);
        story.set_up(0, true);
        story.set_up(1, true);
        assert!(story.group().active && story.group().targets.is_empty());
    }

    #[test]
    fn others_stand_in_while_data_move() {
        let mut story = Story::new();
        story.map.pg_upmap.insert(PG, vec![2, 1]);
        story.go_on();
        assert_eq!(story.group().acting.as_slice(), [0, 1]);
        assert_eq!((story.group().targets.as_slice(), story.group().active), (&[2][..], true));
        story.groups.caught_up(PG, 2);
        story.go_on();
        assert_eq!(story.group().acting.as_slice(), [2, 1]);
        assert!(story.groups.is_clean(PG));
    }

    #[test]
    fn what_is_lost_is_lost_and_said_to_be() {
        let mut story = Story::new();
        story.set_up(0, false);
        story.set_up(1, false);
        story.groups.lost(1);
        story.set_up(1, true);
        assert!(!story.group().active);
        assert!(story.name().contains("incomplete"), "{}", story.name());
    }

    #[test]
    fn groups_that_come_out_of_another_are_where_it_is() {
        let mut story = Story::new();
        let pool = story.map.pools.get_mut(&1).unwrap();
        (pool.pg_num, pool.pgp_num) = (4, 4);
        story.go_on();
        for seed in 1..4 {
            let group = story.groups.get(PgId { pool: 1, seed }).unwrap();
            assert!(group.active && group.acting.iter().all(|osd| [0, 1].contains(osd)), "{group:?}");
        }
    }
}
