//! Writes, zeroing and trims.

use super::machine::OpenImage;
use super::running::{Gather, InflightIo, SpecialPiece, collect};
use crate::flush::WriteEpoch;
use crate::host::{Host, Purpose, Ticket};
use crate::request::Io;
use onego_buf::List;
use onego_ceph::client::{Error as ClientError, OpReply, Request};
use onego_ceph::cls::rbd::state;
use onego_ceph::ops::Op;
use onego_ceph::rbd::Extent;
use onego_wire::Time;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clearing {
    Zero,
    /// Cut them off without showing the parent's.
    Trim,
}

struct Changes {
    io: u32,
    outstanding: u32,
    special: Vec<SpecialPiece>,
}

impl<T> OpenImage<T> {
    #[inline]
    pub(super) fn change(&mut self, now: Time, host: &mut impl Host<T>, io: Io, token: T, epoch: WriteEpoch) {
        if self.facts.data.encryption.is_some() {
            return self.change_sealed(now, host, io, token, epoch);
        }
        let key = self.ios.vacant_key() as u32;
        let mut changes = Changes { io: key, outstanding: 0, special: Vec::new() };
        let layout = self.facts.data.layout;
        match io {
            Io::Write { offset, data } => {
                for extent in layout.map(offset, data.len() as u64) {
                    let data = collect(&data, &extent.buffer);
                    self.change_object(
                        now,
                        host,
                        &mut changes,
                        &extent,
                        Op::Write { offset: extent.offset, data },
                    );
                }
            }
            Io::CompareAndWrite { offset, expected, data } => {
                for extent in layout.map(offset, data.len() as u64) {
                    self.compare_object(host, &mut changes, &extent, [&expected, &data]);
                }
            }
            Io::Zero { offset, length } => {
                for extent in layout.map(offset, length) {
                    self.clear_object(host, &mut changes, &extent, Clearing::Zero);
                }
            }
            Io::Trim { offset, length } => {
                for extent in layout.map(offset, length) {
                    self.clear_object(host, &mut changes, &extent, Clearing::Trim);
                }
            }
            Io::CopyUp { object } => self.copy_object(host, &mut changes, object),
            Io::Read { .. } | Io::ReadInto { .. } | Io::Allocated { .. } | Io::Flush => {}
        }
        let Changes { outstanding, special, .. } = changes;
        let gather = Gather::Changes { epoch, special };
        self.ios.insert(InflightIo { token, offset: 0, length: 0, outstanding, error: None, gather });
        self.changing += 1;
        if outstanding == 0 {
            self.finish(now, host, key);
        }
    }

    #[inline]
    fn change_object(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        changes: &mut Changes,
        extent: &Extent,
        op: Op,
    ) {
        let ticket = Ticket(Purpose::Piece { io: changes.io, index: changes.outstanding });
        changes.outstanding += 1;
        if self.facts.parent.is_some() {
            let is_guarded = self.shows_parent(extent.offset, extent.length, extent.object);
            if is_guarded && self.migration.is_none() && self.is_known_missing(extent.object) {
                // A guarded write would only fail.
                let piece = SpecialPiece::guarded(changes.outstanding - 1, extent.object, op);
                return self.copy_up(now, host, changes.io, piece);
            }
            return self.change_special(host, changes, extent.object, op, is_guarded);
        }
        let request = self.change_request(extent.object, op);
        match &self.map {
            Some(map) if map.state(extent.object) != state::EXISTS => {
                self.park(host, extent.object, state::EXISTS, request, ticket);
            }
            _ => host.request(request, ticket),
        }
    }

    #[cold]
    fn change_special(
        &mut self,
        host: &mut impl Host<T>,
        changes: &mut Changes,
        object: u64,
        op: Op,
        is_guarded: bool,
    ) {
        let index = changes.outstanding - 1;
        changes.special.extend(self.send_special(host, changes.io, index, object, op, is_guarded));
    }

    /// Sends a change that may take more than one request. If so, returns it for the caller to keep.
    pub(super) fn send_special(
        &mut self,
        host: &mut impl Host<T>,
        io: u32,
        index: u32,
        object: u64,
        op: Op,
        is_guarded: bool,
    ) -> Option<SpecialPiece> {
        let is_removal = matches!(op, Op::Delete) && self.map.is_some();
        let need = if matches!(op, Op::Delete) { state::PENDING } else { state::EXISTS };
        let piece = SpecialPiece { is_guarded, is_removal, ..SpecialPiece::guarded(index, object, op) };
        let request = self.special_request(&piece);
        self.park(host, object, need, request, Ticket(Purpose::Piece { io, index }));
        (is_guarded || is_removal).then_some(piece)
    }

    /// Sends a write of an object that is conditional on its bytes being `expected`. The parent's bytes that show in it are copied
    /// first, so that they are compared too.
    #[cold]
    fn compare_object(
        &mut self,
        host: &mut impl Host<T>,
        changes: &mut Changes,
        extent: &Extent,
        [expected, data]: [&List; 2],
    ) {
        let offset = extent.offset;
        let compare = Op::CmpExt { offset, data: collect(expected, &extent.buffer) };
        let write = Op::Write { offset, data: collect(data, &extent.buffer) };
        let index = changes.outstanding;
        changes.outstanding += 1;
        let is_guarded = self.overlap_of(extent.object) > 0;
        let guarded = SpecialPiece::guarded(index, extent.object, write);
        let piece = SpecialPiece { condition: Some(compare), is_guarded, ..guarded };
        let request = self.special_request(&piece);
        self.park(
            host,
            extent.object,
            state::EXISTS,
            request,
            Ticket(Purpose::Piece { io: changes.io, index }),
        );
        changes.special.extend(is_guarded.then_some(piece));
    }

    fn copy_object(&mut self, host: &mut impl Host<T>, changes: &mut Changes, object: u64) {
        // The object map does not matter: objects may exist in it before they do. A shrink has trimmed the objects past the new end.
        let is_past_end = self.facts.data.layout.object_end(object, self.visible_size()) == 0;
        let is_cut = !self.resizes.is_empty() && is_past_end;
        if is_cut || self.overlap_of(object) == 0 {
            return;
        }
        let piece = SpecialPiece::guarded(0, object, Op::Stat);
        changes.outstanding += 1;
        host.request(self.special_request(&piece), Ticket(Purpose::Piece { io: changes.io, index: 0 }));
        changes.special.push(piece);
    }

    fn clear_object(
        &mut self,
        host: &mut impl Host<T>,
        changes: &mut Changes,
        extent: &Extent,
        clearing: Clearing,
    ) {
        let overlap = self.overlap_of(extent.object);
        if self.is_known_missing(extent.object)
            && (overlap == 0 || clearing == Clearing::Trim && extent.offset == 0)
        {
            return;
        }
        let to_the_end = extent.offset + extent.length == self.facts.data.layout.object_size();
        let op = match extent.offset {
            // An empty object hides the parent's bytes.
            0 if to_the_end && overlap > 0 && clearing == Clearing::Zero => Op::Truncate { size: 0 },
            0 if to_the_end => Op::Delete,
            size if to_the_end => Op::Truncate { size },
            offset => Op::Zero { offset, length: extent.length },
        };
        // Snapshots keep the parent's bytes even when the image is no longer a clone, so they get a copy first.
        let may_hide = clearing == Clearing::Trim || self.facts.state.snap_context.snaps.is_empty();
        let hides_all = extent.offset == 0 && to_the_end && may_hide && !self.is_deep();
        let is_guarded = extent.offset < overlap && !hides_all;
        changes.outstanding += 1;
        self.change_special(host, changes, extent.object, op, is_guarded);
    }

    fn is_known_missing(&self, object: u64) -> bool {
        self.map.as_ref().is_some_and(|map| map.state(object) == state::NONEXISTENT)
    }

    /// Returns how many bytes of a missing object show the parent's.
    pub(super) fn overlap_of(&self, object: u64) -> u64 {
        let data = &self.facts.data;
        let parent = self.facts.parent.as_ref().filter(|parent| parent.overlap > 0);
        parent.map_or(0, |parent| data.layout.object_end(object, data.start() + parent.overlap))
    }

    /// Returns whether a write would leave parent's bytes of the object uncovered.
    pub(super) fn shows_parent(&self, offset: u64, length: u64, object: u64) -> bool {
        let overlap = self.overlap_of(object);
        let covers = offset == 0 && length >= overlap;
        // Snapshots continue to show them.
        overlap > 0 && !(covers && self.facts.state.snap_context.snaps.is_empty())
    }

    #[inline]
    pub(super) fn change_request(&self, object: u64, op: Op) -> Request {
        let snap_context = self.facts.state.snap_context.clone();
        Request { snap_context, ..self.facts.data.request(object, op) }
    }

    /// Builds the request of a special piece. A guarded one fails if the object does not exist.
    pub(super) fn special_request(&self, piece: &SpecialPiece) -> Request {
        match &piece.op {
            Op::Stat if !piece.is_guarded || !self.is_deep() => self.change_request(piece.object, Op::Stat),
            // It succeeds even if the object does not exist.
            op @ Op::Truncate { size: 0 } if piece.is_guarded && self.is_deep() => {
                self.guarded_request(piece.object).and(Op::Create { exclusive: false }).and(op.clone())
            }
            _ if piece.is_guarded => piece.extend(self.guarded_request(piece.object)),
            Op::Truncate { size: 0 } if self.overlap_of(piece.object) > 0 => {
                let create = self.change_request(piece.object, Op::Create { exclusive: false });
                create.and(piece.op.clone())
            }
            op => match &piece.condition {
                Some(condition) => self.change_request(piece.object, condition.clone()).and(op.clone()),
                None => self.change_request(piece.object, op.clone()),
            },
        }
    }

    /// Handles the completion of a special piece. Returns whether the piece is still in flight.
    #[cold]
    pub(super) fn special_completed(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        io: u32,
        piece: SpecialPiece,
        reply: &Result<Option<OpReply>, ClientError>,
    ) -> bool {
        match reply {
            reply if piece.is_guarded && self.is_refused(reply) => {
                self.copy_up(now, host, io, piece);
                true
            }
            Ok(Some(_)) if piece.is_copy() => self.note_copied(host, io, &piece),
            Ok(_) if piece.is_removal => {
                self.forget_object(host, piece.object);
                false
            }
            _ => false,
        }
    }
}
