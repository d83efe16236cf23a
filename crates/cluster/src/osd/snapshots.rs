//! What operations do with an object's snapshots.
//!
//! Source: ceph `src/osd/PrimaryLogPG.cc` (`make_writeable`, `_rollback_to`, do_osd_ops).

use super::errno::Errno;
use super::execute::{Execution, Output, nothing};
use super::store::clones::Shown;
use onego_ceph::outputs::{CloneInfo, CloneInfos};
use onego_ceph::types::{NOSNAP, SnapContext};

impl Execution<'_> {
    /// What the object is before the request stays, for the snapshots that are newer than its last change.
    pub(super) fn keep_for(&mut self, snap_context: &SnapContext) {
        let newer = snap_context.snaps.iter().copied().take_while(|snap| *snap > self.state.snap_seq);
        let snaps = newer.collect();
        self.state.make_clone(snap_context.seq, snaps);
    }

    /// The request, which has changed the object, knew of these snapshots.
    pub(super) fn know_of(&mut self, snap_context: &SnapContext) {
        if snap_context.seq > self.state.snap_seq {
            self.state.set_snap_seq(snap_context.seq);
        }
    }

    /// Makes the object what it was at a snapshot, which may be nothing.
    pub(super) fn rollback(&mut self, snap: u64) -> Output {
        match self.state.at_snapshot(snap) {
            Shown::Head => self.modify(),
            Shown::Clone(clone) => {
                let id = clone.id;
                self.modify();
                self.state.roll_back(id);
            }
            Shown::Nothing if !self.state.exists => {}
            Shown::Nothing if self.watches.is_watched(self.id) => return Err(Errno::BUSY),
            Shown::Nothing => return self.delete(),
        }
        nothing()
    }

    /// The clones, oldest first, and the object itself if it exists.
    pub(super) fn list_snaps(&self) -> CloneInfos {
        let clones = self.state.clones().map(|clone| CloneInfo {
            id: clone.id,
            snaps: clone.snaps.iter().rev().copied().collect(),
            overlap: clone.overlap.iter().collect(),
            size: clone.state.size,
        });
        let head = CloneInfo { id: NOSNAP, size: self.state.size, ..CloneInfo::default() };
        let head = self.state.exists.then_some(head);
        let mut clones: Vec<CloneInfo> = head.into_iter().chain(clones).collect();
        clones.reverse();
        CloneInfos { clones, seq: self.state.snap_seq }
    }
}
