//! The OSD map through its epochs.

use onego_buf::{List, Segment};
use onego_ceph::messages::{MapUpdate, Payload as _};
use onego_ceph::osdmap::{Incremental, OsdMap};
use onego_ceph::types::{Epoch, Utime};
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::{DecodeError, Decoded, Time, Writer};
use std::collections::VecDeque;
use std::sync::Arc;

/// The monitor's maps as bytes: the oldest that is kept, and what has changed since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MapBytes {
    pub(crate) base: Vec<u8>,
    pub(crate) changes: Vec<Vec<u8>>,
}

/// Epochs that are kept (Ceph: `mon_min_osdmap_epochs`): who is further behind gets a whole map.
const KEPT: usize = 500;

/// Changes that go in one message (Ceph: `osd_map_message_max`).
const PER_MESSAGE: u32 = 40;

/// The version in which changes are written: what all releases from Nautilus to Tentacle, and kernels, read.
const INCREMENTAL_VERSION: u8 = Incremental::VERSION_NAUTILUS;

/// The newest map, and what led to it.
#[derive(Debug)]
pub(crate) struct MapHistory {
    newest: Arc<OsdMap>,
    /// `newest`, encoded.
    newest_bytes: Vec<u8>,
    /// The map before the first change that is kept.
    base: OsdMap,
    /// The changes since `base`, encoded.
    changes: VecDeque<Vec<u8>>,
    /// The last update as a message, with the next epoch that it is for and the newest that it leads to. Subscribers share it.
    last: Option<(Epoch, Epoch, Segment)>,
}

impl MapHistory {
    /// A history that begins with `first`.
    pub(crate) fn new(first: OsdMap) -> Self {
        let newest_bytes = first.to_bytes();
        Self {
            newest: Arc::new(first.clone()),
            newest_bytes,
            base: first,
            changes: VecDeque::new(),
            last: None,
        }
    }

    /// A history that was kept.
    pub(crate) fn restore(kept: &MapBytes) -> Decoded<Self> {
        let mut history = Self::new(OsdMap::from_bytes(&kept.base)?);
        history.replay(&kept.changes)?;
        Ok(history)
    }

    /// Goes on by changes of this history that were kept.
    pub(crate) fn replay(&mut self, changes: &[Vec<u8>]) -> Decoded<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut map = OsdMap::clone(&self.newest);
        for change in changes {
            let fits = map.apply(&Incremental::from_bytes(change)?);
            fits.map_err(|_| DecodeError::Invalid { what: "change of a map", value: map.epoch.into() })?;
            self.keep(change.clone());
        }
        self.newest_bytes = map.to_bytes();
        self.newest = Arc::new(map);
        Ok(())
    }

    /// All that has to be kept of the history.
    pub(crate) fn kept(&self) -> MapBytes {
        MapBytes { base: self.base.to_bytes(), changes: self.changes.iter().cloned().collect() }
    }

    /// The changes since an epoch.
    pub(crate) fn changes_since(&self, epoch: Epoch) -> Vec<Vec<u8>> {
        assert!(epoch >= self.base.epoch, "changes are asked for soon after they were made");
        self.changes.iter().skip((epoch - self.base.epoch) as usize).cloned().collect()
    }

    /// Bytes of the newest map.
    pub(crate) fn newest_len(&self) -> u64 {
        self.newest_bytes.len() as u64
    }

    pub(crate) fn newest(&self) -> &Arc<OsdMap> {
        &self.newest
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.newest.epoch
    }

    pub(crate) fn oldest_epoch(&self) -> Epoch {
        self.base.epoch
    }

    /// A change to the newest map, still empty.
    pub(crate) fn change(&self, now: Time) -> Incremental {
        Incremental {
            version: INCREMENTAL_VERSION,
            fsid: self.newest.fsid,
            epoch: self.newest.epoch + 1,
            modified: Utime::from(now),
            ..Incremental::default()
        }
    }

    /// Makes the change the next epoch.
    ///
    /// # Panics
    /// If the change does not fit the map: it was made by [`change`](Self::change) on this very map.
    pub(crate) fn commit(&mut self, mut change: Incremental) -> Epoch {
        let mut map = OsdMap::clone(&self.newest);
        map.apply(&change).expect("a change made for the newest map applies to it");
        change.full_crc = map.crc();
        self.keep(change.to_bytes());
        self.newest_bytes = map.to_bytes();
        self.newest = Arc::new(map);
        self.newest.epoch
    }

    fn keep(&mut self, change: Vec<u8>) {
        self.changes.push_back(change);
        if self.changes.len() > KEPT
            && let Some(oldest) = self.changes.pop_front()
        {
            apply(&mut self.base, &oldest);
        }
    }

    /// The map of an epoch, unless it is in the future or forgotten.
    pub(crate) fn at(&self, epoch: Epoch) -> Option<OsdMap> {
        if epoch > self.epoch() {
            return None;
        }
        let steps = epoch.checked_sub(self.base.epoch)? as usize;
        let mut map = self.base.clone();
        for change in self.changes.iter().take(steps) {
            apply(&mut map, change);
        }
        Some(map)
    }

    /// Returns the update for a client whose next epoch is `next`: the changes if they are kept and fit one message, else the
    /// newest map whole. `None` if there is nothing new.
    ///
    /// A whole map names itself as the oldest: a client asks for an epoch between the oldest and the newest that the
    /// update does not hold, again and again (Objecter::handle_osd_map).
    pub(crate) fn update_from(&self, next: Epoch) -> Option<MapUpdate> {
        let newest = self.epoch();
        if next > newest {
            return None;
        }
        let mut update =
            MapUpdate { fsid: self.newest.fsid, oldest: self.base.epoch, newest, ..MapUpdate::default() };
        match self.skipped(next) {
            Some(skip) => {
                let changes = self.changes.iter().skip(skip);
                update.incrementals = (next..).zip(changes.cloned()).collect();
            }
            None => {
                update.full = [(newest, self.newest_bytes.clone())].into();
                update.oldest = newest;
            }
        }
        Some(update)
    }

    /// Number of kept changes that a client with the next epoch `next` has; `None`: it gets a whole map.
    fn skipped(&self, next: Epoch) -> Option<usize> {
        // The change that leads to `next` stands at the distance from the first that is kept.
        let first_kept = self.base.epoch + 1;
        let skip = next.checked_sub(first_kept).filter(|_| next > 0 && self.epoch() - next < PER_MESSAGE)?;
        Some(skip as usize)
    }

    /// Most bytes of the update for a client with the next epoch `next`; `None` if there is nothing new.
    pub(crate) fn update_len(&self, next: Epoch) -> Option<usize> {
        /// Bytes of the rest of the message, and of what stands before each map.
        const REST: usize = 64;
        const EACH: usize = 8;
        if next > self.epoch() {
            return None;
        }
        Some(match self.skipped(next) {
            Some(skip) => {
                REST + self.changes.iter().skip(skip).map(|change| EACH + change.len()).sum::<usize>()
            }
            None => REST + EACH + self.newest_bytes.len(),
        })
    }

    /// The same update, encoded. Clients with the same next epoch share the bytes; one that is too far behind for changes
    /// has the same as any other.
    pub(crate) fn encoded_from(&mut self, next: Epoch) -> Option<Segment> {
        let newest = self.epoch();
        let key = if next <= newest && self.skipped(next).is_none() { 0 } else { next };
        if let Some((last, epoch, bytes)) = &self.last
            && (*last, *epoch) == (key, newest)
        {
            return Some(bytes.clone());
        }
        let update = self.update_from(next)?;
        let mut w = Writer::new();
        update.encode(&mut w, &mut List::new());
        let bytes = Segment::from(w.into_vec());
        self.last = Some((key, newest, bytes.clone()));
        Some(bytes)
    }
}

/// Applies a change of the history's own.
fn apply(map: &mut OsdMap, change: &[u8]) {
    let applied = Incremental::from_bytes(change).map(|change| map.apply(&change));
    assert!(
        matches!(applied, Ok(Ok(()))),
        "a change of the history applies to the map before it: {applied:?}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use onego_ceph::osdmap::Pool;

    fn history(epochs: u32) -> MapHistory {
        let mut first = OsdMap::default();
        first.set_max_osd(1);
        first.epoch = 1;
        first.version = OsdMap::VERSION_NAUTILUS;
        let mut history = MapHistory::new(first);
        for n in 0..epochs {
            let mut change = history.change(Time::from_nanos(u64::from(n) * 1_000_000_000));
            change.new_pools.insert(i64::from(n), Pool::default());
            change.new_pool_names.insert(i64::from(n), format!("pool{n}"));
            if n >= 5 {
                change.old_pools.insert(i64::from(n) - 5);
            }
            history.commit(change);
        }
        history
    }

    #[test]
    fn incrementals_lead_to_the_whole_map() {
        let history = history(10);
        let update = history.update_from(2).unwrap();
        assert_eq!(update.incrementals.keys().copied().collect::<Vec<_>>(), (2..=11).collect::<Vec<_>>());
        let mut map = history.at(1).unwrap();
        for change in update.incrementals.values() {
            map.apply(&Incremental::from_bytes(change).unwrap()).unwrap();
        }
        assert_eq!(map.to_bytes(), history.newest_bytes);
        assert_eq!(history.at(11).unwrap().to_bytes(), history.newest_bytes);
        assert_eq!(history.at(7).unwrap().pool_names.len(), 5);
    }

    #[test]
    fn subscribers_share_an_update() {
        let mut history = history(100);
        let newest = history.epoch();
        for (one, other) in [(newest, newest), (1, 7)] {
            let [one, other] = [one, other].map(|next| history.encoded_from(next).unwrap());
            assert_eq!(one.as_ptr(), other.as_ptr());
            let update = MapUpdate::decode(MapUpdate::VERSION, &one, List::new()).unwrap();
            assert_eq!(update.newest, newest);
        }
        for next in [1, newest - 60, newest - 39, newest - 5, newest] {
            let (bytes, most) = (history.encoded_from(next).unwrap(), history.update_len(next).unwrap());
            assert!(bytes.len() <= most, "from {next}: {} of {most} bytes", bytes.len());
            let update = MapUpdate::decode(MapUpdate::VERSION, &bytes, List::new()).unwrap();
            assert_eq!(Some(update), history.update_from(next));
        }
        assert!(history.encoded_from(newest + 1).is_none() && history.update_len(newest + 1).is_none());
    }

    #[test]
    fn a_history_that_was_kept_is_the_same_and_goes_on() {
        let mut history = history(KEPT as u32 + 10);
        let mut restored = MapHistory::restore(&history.kept()).unwrap();
        let epoch = history.epoch();
        for n in 0..3 {
            assert_eq!(restored.newest_bytes, history.newest_bytes);
            assert_eq!(restored.kept(), history.kept());
            let change = history.change(Time::from_nanos(n));
            history.commit(change);
            restored.replay(&history.changes_since(epoch + n as u32)).unwrap();
        }
        assert!(restored.replay(&[b"no change".to_vec()]).is_err());
    }

    #[test]
    fn who_is_too_far_behind_gets_a_whole_map() {
        let history = history(KEPT as u32 + 10);
        assert_eq!((history.oldest_epoch(), history.epoch()), (11, KEPT as u32 + 11));
        for far in [0, 1, 12, history.epoch() - PER_MESSAGE] {
            let update = history.update_from(far).unwrap();
            assert!(update.incrementals.is_empty(), "from {far}");
            assert_eq!(update.full[&history.epoch()], history.newest_bytes);
        }
        assert_eq!(history.update_from(history.epoch() - PER_MESSAGE + 1).unwrap().incrementals.len(), 40);
        assert!(history.update_from(history.epoch() + 1).is_none());
        assert!(history.at(10).is_none() && history.at(11).is_some());
        assert!(history.at(history.epoch() + 1).is_none());
    }

    /// Ceph's client takes the epochs one by one; it skips those older than the oldest, and asks for any other that the
    /// update lacks (Objecter::handle_osd_map).
    #[test]
    fn one_update_takes_ceph_clients_to_the_newest_map_from_any_epoch() {
        let history = history(KEPT as u32 + 10);
        for have in 1..history.epoch() {
            let update = history.update_from(have + 1).unwrap();
            let missing = (have + 1..=update.newest).find(|epoch| {
                let held = update.incrementals.contains_key(epoch) || update.full.contains_key(epoch);
                !held && *epoch >= update.oldest
            });
            assert_eq!(missing, None, "a client at epoch {have} waits for a map that never comes");
        }
    }
}
