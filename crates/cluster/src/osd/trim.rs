//! Snapshots that were removed: objects forget them, and the clones that no other snapshot shows.
//!
//! Source of the idea: ceph `src/osd/PrimaryLogPG.cc` (`trim_object`), `doc/dev/osd_internals/snaps.rst`.

use super::daemon::Osd;
use super::group::{END, Place};
use super::store::{Name, hash_range};
use super::transaction::{Editor, Transaction};
use onego_ceph::osdmap::{IntervalSet, Pool};
use onego_ceph::types::{EVersion, Epoch, PgId};

/// Objects that have something for snapshots which were removed.
#[derive(Debug, Default)]
pub(crate) struct ToTrim {
    pub(crate) names: Vec<Name>,
    /// How many places with clones were looked at.
    pub(crate) looked_at: usize,
    /// Where to look on; [`END`]: there is nothing left.
    pub(crate) next: u64,
}

impl ToTrim {
    pub(crate) fn is_all(&self) -> bool {
        self.next == END
    }
}

impl Osd {
    /// The objects of a group that have something for these snapshots, of `budget` places with clones from `from` on.
    pub(crate) fn find_to_trim(
        &self,
        pg: PgId,
        pool: &Pool,
        removed: &IntervalSet,
        from: u64,
        budget: usize,
    ) -> ToTrim {
        let (first, last) = hash_range(pg, pool.pg_num);
        let mut found = ToTrim { next: END, ..ToTrim::default() };
        let Ok(from) = Place::try_from(from) else { return found };
        if from > last {
            return found;
        }
        for place in self.store.places_with_clones(pg.pool, from.max(first), last) {
            if found.looked_at == budget {
                found.next = place.into();
                return found;
            }
            found.looked_at += 1;
            for id in self.store.at(pg.pool, place) {
                let object = self.store.object(id);
                if !object.state.shown_for(removed).is_empty() {
                    found.names.push(object.name().clone());
                }
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
