//! An image that is being moved here from another one: what has not come yet shows through from that one.
//!
//! The layer that drives the machine copies objects, with what they are at the snapshots that came with the image
//! ([`Host::copy_object`]): before their first change, and one after the other while the move is carried out.
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
    /// The image is being moved here. Its ancestor is the image that it comes from.
    pub fn moves_here(&mut self, migration: Migration) {
        self.migration = Some(migration);
    }

    /// Do snapshots come with the image, so that an object that exists may not be whole?
    pub(in crate::image) fn is_deep(&self) -> bool {
        self.migration.as_ref().is_some_and(|migration| migration.newest_snap > 0)
    }

    /// A request to an object that fails where the object is not here as a whole.
    pub(in crate::image) fn guarded_request(&self, object: u64) -> Request {
        match &self.migration {
            Some(Migration { newest_snap: seq @ 1.., .. }) => {
                let guard = AssertSnapcSeq { seq: *seq, state: snapc_seq::NOT_NEWER };
                self.change_request(object, guard.call()).with_flags(flag::WRITE)
            }
            _ => self.change_request(object, Op::Stat),
        }
    }

    /// Did a guarded change find that the object is not here as a whole?
    pub(in crate::image) fn is_refused(&self, reply: &Result<Option<OpReply>, ClientError>) -> bool {
        match reply {
            Ok(None) => !self.is_deep(),
            Err(error) => self.is_deep() && error.errno() == errno::ERANGE,
            Ok(Some(_)) => false,
        }
    }

    /// Has an object copied for the changes that wait for it.
    pub(in crate::image) fn copy_migrating(&mut self, host: &mut impl Host<T>, object: u64) {
        let Some(copy) = self.copyups.get_mut(&object) else { return };
        copy.is_whole = copy.waiting.iter().any(|(_, piece)| !piece.is_copy());
        host.copy_object(object, copy.is_whole, &self.facts.state.snap_context.snaps);
    }

    /// An object is here, with what it is at the snapshots, or cannot be copied.
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
                return self.settle(now, host);
            }
        };
        let Some(copy) = self.copyups.get(&object) else { return };
        // A change that came meanwhile would hide what a parent has for an object that the source has not.
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
        self.settle(now, host);
    }

    /// An object is here that nobody has written: the map says so. Does the piece wait for that?
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
        // A change that is under way makes it differ from the snapshot.
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

    /// The move is over: the image stands for itself, and what shows through is its own parent's.
    pub(in crate::image) fn learn_migration(&mut self, features: Features) {
        if let Some(migration) = self.migration.take_if(|_| !features.contains(Features::MIGRATING)) {
            self.facts.parent = migration.parent;
        }
    }
}
