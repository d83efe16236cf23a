//! Snapshots that were removed: objects forget them, and the clones that no other snapshot shows.
//!
//! Source of the idea: ceph `src/osd/PrimaryLogPG.cc` (`trim_object`), `doc/dev/osd_internals/snaps.rst`.

use super::daemon::Osd;
use super::group::Place;
use super::store::{Name, ObjectId, hash_range};
use super::transaction::{Editor, Transaction};
use onego_ceph::osdmap::{IntervalSet, Pool};
use onego_ceph::types::{EVersion, Epoch, PgId};

/// Objects that have something for snapshots which were removed.
#[derive(Debug, Default)]
pub(crate) struct ToTrim {
    pub(crate) names: Vec<Name>,
    /// Objects with clones that were looked at; one with many clones counts as several.
    pub(crate) looked_at: usize,
    /// The object to continue with; `None`: nothing is left.
    pub(crate) next: Option<Next>,
}

/// An object of an OSD, and its place.
pub(crate) type Next = (Place, ObjectId);

/// Clones that take as long as an object: all that are newer than one that goes are linked again.
const CLONES: u64 = 64;

impl Osd {
    /// The objects of a group that have something for these snapshots, of `budget` objects with clones from `from` on.
    pub(crate) fn find_to_trim(
        &self,
        pg: PgId,
        pool: &Pool,
        removed: &IntervalSet,
        from: Next,
        budget: usize,
    ) -> ToTrim {
        let (first, last) = hash_range(pg, pool.pg_num);
        let mut found = ToTrim::default();
        let from = from.max((first, ObjectId::default()));
        for (place, id) in self.store.objects_with_clones(pg.pool, from, last) {
            if found.looked_at >= budget {
                found.next = Some((place, id));
                break;
            }
            let object = self.store.object(id);
            found.looked_at += 1 + (object.state.clone_count() / CLONES) as usize;
            if !object.state.shown_for(removed).is_empty() {
                found.names.push(object.name().clone());
            }
        }
        found
    }

    /// Has an object forget snapshots, and says what the other OSDs of its group have to do.
    pub(crate) fn trim(
        &mut self,
        pg: PgId,
        object: &Name,
        removed: &IntervalSet,
        epoch: Epoch,
    ) -> Option<Box<Transaction>> {
        let id = self.store.find(&object.in_pool(pg.pool))?;
        let mut mutations = Vec::new();
        let (state, _) = self.store.state_mut(id);
        let snaps = state.shown_for(removed);
        Editor::new(state, Some(&mut mutations)).trim(snaps);
        let noted = self.config.transactions;
        let group = self.settle(pg, id);
        let version = EVersion { version: group.version.version + 1, epoch };
        group.advance(version, object.hash.reverse_bits(), noted);
        let object = object.clone();
        Some(Box::new(Transaction { pg, object, version: Some(version), mutations, outcome: None }))
    }
}
