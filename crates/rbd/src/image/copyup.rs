//! Copy-up: the first change of a clone's object copies the parent's bytes into it.
//!
//! Source: ceph `src/librbd/io/CopyupRequest.cc`, `doc/dev/rbd-layering.rst`.

use super::machine::{AncestralTarget, OpenImage};
use super::running::{ObjectCopy, SpecialPiece};
use crate::error::Error;
use crate::host::{Host, Purpose, Ticket};
use onego_buf::List;
use onego_ceph::client::{Error as ClientError, OpReply, Request, errno};
use onego_ceph::cls::Method as _;
use onego_ceph::cls::rbd::{CopyUp, ObjectMapUpdate, Rest, SetFlags, image_flag, state};
use onego_ceph::messages::ObjectName;
use onego_ceph::ops::{Op, flag};
use onego_ceph::rbd::Features;
use onego_ceph::types::SnapContext;
use onego_wire::Time;

impl<T> OpenImage<T> {
    /// Starts a copy-up for a change of a missing object that shows the parent, or joins the one in flight.
    pub(super) fn copy_up(&mut self, now: Time, host: &mut impl Host<T>, io: u32, piece: SpecialPiece) {
        let object = piece.object;
        let copy = self.copyups.entry(object).or_default();
        copy.waiting.push((io, piece));
        if copy.waiting.len() > 1 {
            return;
        }
        if self.migration.is_some() {
            return self.copy_migrating(host, object);
        }
        let overlap = self.overlap_of(object);
        match self.facts.parent.clone() {
            Some(parent) if overlap > 0 => {
                let start = self.facts.data.start();
                let ranges = self.facts.data.layout.ranges(object, 0, overlap);
                let ranges = ranges.into_iter().map(|range| range.start - start..range.end - start);
                self.read_ancestor(now, host, parent, ranges, AncestralTarget::CopyUp { object });
            }
            // The image was flattened meanwhile.
            _ => self.resume_changes(host, object, Op::Create { exclusive: false }),
        }
    }

    pub(super) fn write_copy(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        object: u64,
        bytes: Result<List, Error>,
        is_there: bool,
    ) {
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(error) => return self.copy_failed(now, host, object, &error),
        };
        // For other programs, a hole in encrypted data does not read as zeros.
        let is_needed = if self.facts.data.encryption.is_some() { is_there } else { !bytes.is_zeros() };
        if !is_needed {
            // Changes of encrypted data that wait for the copy continue after it.
            if self.facts.data.encryption.is_none() {
                self.end_copies(now, host, object);
            }
            return self.resume_changes(host, object, Op::Create { exclusive: false });
        }
        let bytes = self.encrypt_object(object, bytes);
        let copy = CopyUp { data: Rest(bytes.to_vec()) }.call();
        // An OSD compares with the object's state before the request, so the copy must be written before.
        let is_compared = self.copyups.get(&object).is_some_and(ObjectCopy::is_compared);
        if self.facts.state.snap_context.snaps.is_empty() && !is_compared {
            return self.resume_changes(host, object, copy);
        }
        // With an empty snapshot context, the copy becomes the oldest version of the object, so snapshots show it too.
        let request = self.change_request(object, copy).with_flags(flag::WRITE);
        let request = Request { snap_context: SnapContext::default(), ..request };
        let marks = self.mark_snapshots(host, object);
        let Some(copy) = self.copyups.get_mut(&object).filter(|_| marks > 0) else {
            return self.park(host, object, state::EXISTS, request, Ticket(Purpose::CopyUp { object }));
        };
        copy.marks = marks;
        copy.request = Some(Box::new(request));
    }

    /// Marks an object as existing in the object maps of the snapshots. Returns their number.
    fn mark_snapshots(&mut self, host: &mut impl Host<T>, object: u64) -> usize {
        if self.map.is_none() {
            return 0;
        }
        let fast_diff = self.facts.state.features.contains(Features::FAST_DIFF);
        let snaps = &self.facts.state.snap_context.snaps;
        for (index, snap) in snaps.iter().enumerate() {
            // It is new in the oldest snapshot and unchanged in the later ones.
            let is_clean = fast_diff && index + 1 < snaps.len();
            let state = if is_clean { state::EXISTS_CLEAN } else { state::EXISTS };
            let op = ObjectMapUpdate { start: object, end: object + 1, state, current: None }.call();
            let name = format!("rbd_object_map.{}.{snap:016x}", self.facts.id);
            let request = Request { object: ObjectName::from(name.as_str()), ..self.map_request(op) };
            host.request(request.with_flags(flag::WRITE), Ticket(Purpose::Mark { object, snap: *snap }));
        }
        snaps.len()
    }

    pub(super) fn marked(
        &mut self,
        host: &mut impl Host<T>,
        object: u64,
        snap: u64,
        result: &Result<OpReply, ClientError>,
    ) {
        // A snapshot smaller than the image lacks the object.
        if let Err(error) = result
            && error.errno() != errno::ERANGE
        {
            tracing::warn!(image = self.facts.id, snap, %error, "cannot update the object map of a snapshot");
            let flags = image_flag::OBJECT_MAP_INVALID;
            let op = SetFlags { flags, mask: flags, snap }.call();
            host.request(self.header_request(op).with_flags(flag::WRITE), Ticket(Purpose::Ignored));
        }
        let Some(copy) = self.copyups.get_mut(&object) else { return };
        copy.marks = copy.marks.saturating_sub(1);
        if let Some(request) = copy.request.take_if(|_| copy.marks == 0) {
            self.park(host, object, state::EXISTS, *request, Ticket(Purpose::CopyUp { object }));
        }
    }

    pub(super) fn copied_up(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        object: u64,
        result: Result<OpReply, ClientError>,
    ) {
        match result {
            Ok(_) => self.resume_changes(host, object, Op::Stat),
            Err(error) => self.copy_failed(now, host, object, &error.into()),
        }
    }

    /// Sends the changes that waited for an object. The first request starts with the operation `first`; the others find
    /// out whether it succeeded.
    fn resume_changes(&mut self, host: &mut impl Host<T>, object: u64, first: Op) {
        let mut first = Some(first);
        for (io, piece) in self.copyups.remove(&object).unwrap_or_default().waiting {
            let ticket = Ticket(Purpose::Piece { io, index: piece.index });
            let request = match first.take() {
                Some(first) => {
                    let writes = if matches!(first, Op::Call { .. }) { flag::WRITE } else { 0 };
                    piece.extend(self.change_request(object, first).with_flags(writes))
                }
                None => self.special_request(&piece),
            };
            if let Some(running) = self.ios.get_mut(io as usize) {
                running.keep(piece);
            }
            // Unlike a write, a copy without one has not updated the object map.
            self.park(host, object, state::EXISTS, request, ticket);
        }
    }

    /// Ends the pieces that only wanted a copy: the parent's bytes are zeros.
    fn end_copies(&mut self, now: Time, host: &mut impl Host<T>, object: u64) {
        let Some(copy) = self.copyups.get_mut(&object) else { return };
        for (io, piece) in copy.waiting.extract_if(.., |(_, piece)| piece.is_copy()).collect::<Vec<_>>() {
            let Some(running) = self.ios.get_mut(io as usize) else { continue };
            running.completed(piece.index, Ok(None), None);
            if running.outstanding == 0 {
                self.finish(now, host, io);
            }
        }
    }

    pub(super) fn copy_failed(&mut self, now: Time, host: &mut impl Host<T>, object: u64, error: &Error) {
        for (io, piece) in self.copyups.remove(&object).unwrap_or_default().waiting {
            let Some(running) = self.ios.get_mut(io as usize) else { continue };
            running.inherited(piece.index, Err(error.clone()));
            let is_last = running.outstanding == 0;
            self.end_sealed(host, (io, piece.index));
            if is_last {
                self.finish(now, host, io);
            }
        }
    }
}
