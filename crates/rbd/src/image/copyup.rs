//! The first change of an object of a clone: the parent's bytes are copied into it first.
//!
//! Source: ceph `src/librbd/io/CopyupRequest.cc`, `doc/dev/rbd-layering.rst`.

use super::machine::{AncestralTarget, OpenImage};
use super::running::SpecialPiece;
use crate::error::Error;
use crate::host::{Host, Purpose, Ticket};
use onego_buf::List;
use onego_ceph::client::{Error as ClientError, OpReply, Request};
use onego_ceph::cls::Method as _;
use onego_ceph::cls::rbd::{CopyUp, Rest};
use onego_ceph::ops::{Op, flag};
use onego_ceph::types::SnapContext;
use onego_wire::Time;

impl<T> OpenImage<T> {
    /// An object that is to be changed does not exist, and the parent shows in it.
    pub(super) fn copy_up(&mut self, now: Time, host: &mut impl Host<T>, io: u32, piece: SpecialPiece) {
        let object = piece.object;
        let waiting = self.copyups.entry(object).or_default();
        waiting.push((io, piece));
        if waiting.len() > 1 {
            return;
        }
        let overlap = self.overlap_of(object);
        match self.facts.parent.clone() {
            Some(parent) if overlap > 0 => {
                let ranges = self.facts.data.layout.ranges(object, 0, overlap);
                self.read_ancestor(now, host, parent, ranges, AncestralTarget::CopyUp { object });
            }
            // Meanwhile the image became one of its own.
            _ => self.resume(host, object, Op::Create { exclusive: false }),
        }
    }

    /// The parent's bytes of an object are here.
    pub(super) fn write_copy(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        object: u64,
        bytes: Result<List, Error>,
    ) {
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(error) => return self.copy_failed(now, host, object, &error),
        };
        if bytes.segments().all(|segment| segment.iter().all(|byte| *byte == 0)) {
            return self.resume(host, object, Op::Create { exclusive: false });
        }
        let copy = CopyUp { data: Rest(bytes.to_vec()) }.call();
        if self.facts.state.snap_context.snaps.is_empty() {
            return self.resume(host, object, copy);
        }
        // Without snapshots in the context it becomes the oldest version of the object, so that snapshots show it, too.
        let request = self.change_request(object, copy).with_flags(flag::WRITE);
        let request = Request { snap_context: SnapContext::default(), ..request };
        host.request(request, Ticket(Purpose::CopyUp { object }));
    }

    /// The parent's bytes of an object are written for the snapshots.
    pub(super) fn copied_up(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        object: u64,
        result: Result<OpReply, ClientError>,
    ) {
        match result {
            Ok(_) => self.resume(host, object, Op::Stat),
            Err(error) => self.copy_failed(now, host, object, &error.into()),
        }
    }

    /// Sends the changes that waited for an object; the first brings `first` with it. The others find out whether that
    /// succeeded.
    fn resume(&mut self, host: &mut impl Host<T>, object: u64, first: Op) {
        let mut first = Some(first);
        for (io, piece) in self.copyups.remove(&object).unwrap_or_default() {
            let ticket = Ticket(Purpose::Piece { io, index: piece.index });
            let request = match first.take() {
                Some(first) => {
                    let writes = if matches!(first, Op::Call { .. }) { flag::WRITE } else { 0 };
                    self.change_request(object, first).with_flags(writes).and(piece.op.clone())
                }
                None => self.special_request(&piece),
            };
            if let Some(running) = self.ios.get_mut(io as usize) {
                running.keep(piece);
            }
            host.request(request, ticket);
        }
    }

    fn copy_failed(&mut self, now: Time, host: &mut impl Host<T>, object: u64, error: &Error) {
        for (io, piece) in self.copyups.remove(&object).unwrap_or_default() {
            let Some(running) = self.ios.get_mut(io as usize) else { continue };
            running.inherited(piece.index, Err(error.clone()));
            if running.outstanding == 0 {
                self.finish(now, host, io);
            }
        }
    }
}
