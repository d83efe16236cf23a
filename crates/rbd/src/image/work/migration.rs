//! Migration to this image: objects that were not copied yet show through from the source.
//!
//! The layer that drives the machine copies objects, including their versions at the snapshots that came with the image
//! ([`Host::copy_object`]): before their first change, and one by one as the migration proceeds.
//!
//! Source: ceph `src/librbd/io/ObjectRequest.cc`, `src/librbd/deep_copy/ObjectCopyRequest.cc`.

use crate::error::Error;
use crate::facts::{Copied, Migration};
use crate::host::{Host, Purpose, Ticket};
use crate::image::machine::OpenImage;
use crate::image::running::SpecialPiece;
use onego_ceph::client::{Error as ClientError, OpReply, Request, errno};
use onego_ceph::cls::Method as _;
use onego_ceph::cls::rbd::{AssertSnapcSeq, snapc_seq, state};
use onego_ceph::ops::{Op, flag};
use onego_ceph::rbd::Features;
use onego_wire::Time;

impl<T> OpenImage<T> {
    /// Marks the image as the destination of a migration. Its ancestor is the source.
    pub fn moves_here(&mut self, migration: Migration) {
        self.migration = Some(migration);
    }

    /// Returns whether snapshots came with the image, so that an object that exists may be incomplete.
    pub(in crate::image) fn is_deep(&self) -> bool {
        self.migration.as_ref().is_some_and(|migration| migration.newest_snap > 0)
    }

    /// Builds a request to an object that fails unless the object is complete.
    pub(in crate::image) fn guarded_request(&self, object: u64) -> Request {
        match &self.migration {
            Some(Migration { newest_snap: seq @ 1.., .. }) => {
                let guard = AssertSnapcSeq { seq: *seq, state: snapc_seq::NOT_NEWER };
                self.change_request(object, guard.call()).with_flags(flag::WRITE)
            }
            _ => self.change_request(object, Op::Stat),
        }
    }

    /// Returns whether a guarded change failed because the object is incomplete.
    pub(in crate::image) fn is_refused(&self, reply: &Result<Option<OpReply>, ClientError>) -> bool {
        match reply {
            Ok(None) => !self.is_deep(),
            Err(error) => self.is_deep() && error.errno() == errno::ERANGE,
            Ok(Some(_)) => false,
        }
    }

    pub(in crate::image) fn copy_migrating(&mut self, host: &mut impl Host<T>, object: u64) {
        let Some(copy) = self.copyups.get_mut(&object) else { return };
        copy.is_whole = copy.waiting.iter().any(|(_, piece)| !piece.is_copy());
        host.copy_object(object, copy.is_whole, &self.facts.state.snap_context.snaps);
    }

    /// Handles the end of an object's copy, including its versions at the snapshots.
    pub fn object_copied(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        object: u64,
        result: Result<Copied, Error>,
    ) {
        let Copied { is_clean } = match result {
            Ok(copied) => copied,
            Err(error) => {
                self.copy_failed(now, host, object, &error);
                return self.process(now, host);
            }
        };
        let Some(copy) = self.copyups.get(&object) else { return };
        // A change that arrived meanwhile would hide a parent's bytes of an object that the source lacks.
        if !copy.is_whole && copy.waiting.iter().any(|(_, piece)| !piece.is_copy()) {
            return self.copy_migrating(host, object);
        }
        for (io, piece) in self.copyups.remove(&object).unwrap_or_default().waiting {
            let piece = SpecialPiece { is_guarded: false, is_clean, ..piece };
            let ticket = Ticket(Purpose::Piece { io, index: piece.index });
            let request = self.special_request(&piece);
            if let Some(running) = self.ios.get_mut(io as usize) {
                running.keep(piece);
            }
            host.request(request, ticket);
        }
        self.process(now, host);
    }

    /// Records a copied object that no change has written in the map. Returns whether the piece waits for that.
    pub(in crate::image) fn note_copied(
        &mut self,
        host: &mut impl Host<T>,
        io: u32,
        piece: &SpecialPiece,
    ) -> bool {
        let object = piece.object;
        let Some(map) = &self.map else { return false };
        if object >= map.len() || matches!(map.state(object), state::EXISTS | state::EXISTS_CLEAN) {
            return false;
        }
        // A change in flight makes it differ from the snapshot.
        let is_clean = piece.is_clean && !map.updates.contains_key(&object);
        let has_diff = self.facts.state.features.contains(Features::FAST_DIFF);
        let need = if is_clean && has_diff { state::EXISTS_CLEAN } else { state::EXISTS };
        let request = self.change_request(object, Op::Stat);
        let ticket = Ticket(Purpose::Piece { io, index: piece.index });
        if let Some(running) = self.ios.get_mut(io as usize) {
            running.keep(SpecialPiece { is_guarded: false, ..piece.clone() });
        }
        self.park(host, object, need, request, ticket);
        true
    }

    /// Ends the migration once the header says so: the image's own parent shows through from now on.
    pub(in crate::image) fn learn_migration(&mut self, features: Features) {
        if let Some(migration) = self.migration.take_if(|_| !features.contains(Features::MIGRATING)) {
            self.facts.parent = migration.parent;
        }
    }
}
