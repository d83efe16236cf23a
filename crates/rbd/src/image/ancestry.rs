//! Reads of a clone's ancestors.

use super::machine::{AncestralPart, AncestralRead, AncestralTarget, OpenImage};
use super::reads::accept;
use super::running::{ObjectPiece, chain, fill_up, pieces};
use crate::data::{Ancestor, AncestorData};
use crate::error::Error;
use crate::host::{Host, Purpose, Ticket};
use onego_buf::List;
use onego_ceph::client::{self, Error as ClientError};
use onego_wire::Time;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

impl<T> OpenImage<T> {
    /// Reads ranges of the image's data from an ancestor. Bytes that it lacks read as zeros.
    pub(super) fn read_ancestor(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        ancestor: Arc<Ancestor>,
        ranges: impl IntoIterator<Item = Range<u64>>,
        target: AncestralTarget,
    ) {
        let read = self.ancestral.vacant_key() as u32;
        let start = ancestor.data.start();
        let (mut parts, mut outstanding) = (Vec::new(), 0);
        for range in ranges {
            let end = range.end.min(ancestor.overlap).max(range.start);
            let shown = start + range.start..start + end;
            let ticket = |index: usize| Ticket(Purpose::Ancestral { read, index: index as u32 });
            match &ancestor.data {
                AncestorData::Objects(data) => {
                    let whole =
                        data.encryption.as_ref().map_or(shown.clone(), |it| it.aligned(shown.clone()));
                    for piece in pieces(&data.layout, whole.start, whole.end - whole.start) {
                        host.request(data.request(piece.object, piece.read()), ticket(parts.len()));
                        parts.push(AncestralPart::of(&piece, &shown));
                        outstanding += 1;
                    }
                }
                AncestorData::External(bytes) if !shown.is_empty() => {
                    host.read_external(&**bytes, shown.clone(), ticket(parts.len()));
                    parts.push(AncestralPart::whole(shown, List::new()));
                    outstanding += 1;
                }
                AncestorData::External(_) => {}
            }
            if end < range.end {
                let mut zeros = List::new();
                fill_up(&mut zeros, range.end - end);
                parts.push(AncestralPart::whole(start + end..start + range.end, zeros));
            }
        }
        let is_there = false;
        self.ancestral.insert(AncestralRead { ancestor, parts, is_there, outstanding, error: None, target });
        if outstanding == 0 {
            self.ancestor_read(now, host, read);
        }
    }

    pub(super) fn part_completed(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        read: u32,
        index: u32,
        outcome: Result<client::Outcome, ClientError>,
    ) {
        let Some(state) = self.ancestral.get_mut(read as usize) else { return };
        let AncestralPart { at, length, .. } = state.parts[index as usize];
        let bytes = match accept(outcome) {
            Ok(None) => {
                let start = at - state.ancestor.data.start();
                match state.ancestor.parent.clone() {
                    Some(parent) if start < parent.overlap => {
                        let (range, target) = (start..start + length, AncestralTarget::Part { read, index });
                        return self.read_ancestor(now, host, parent, iter::once(range), target);
                    }
                    _ => Ok(List::new()),
                }
            }
            Ok(Some(reply)) => {
                state.is_there = true;
                let bytes = reply.ops.into_iter().next().map(|op| op.output).unwrap_or_default();
                Ok(match state.ancestor.data.encryption() {
                    Some(encryption) => encryption.decrypt(at, &bytes),
                    None => bytes,
                })
            }
            Err(error) => Err(error.into()),
        };
        self.part_read(now, host, read, index, bytes);
    }

    /// Handles the completion of a [read of external bytes](Host::read_external).
    pub fn external_read(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        ticket: Ticket,
        bytes: Result<List, Error>,
    ) {
        let Purpose::Ancestral { read, index } = ticket.0 else { return };
        self.part_read(now, host, read, index, bytes);
        self.process(now, host);
    }

    fn part_read(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        read: u32,
        index: u32,
        bytes: Result<List, Error>,
    ) {
        let Some(state) = self.ancestral.get_mut(read as usize) else { return };
        let part = &mut state.parts[index as usize];
        match bytes {
            Ok(bytes) => {
                part.bytes = bytes;
                fill_up(&mut part.bytes, part.length);
            }
            Err(error) => {
                state.error.get_or_insert(error);
            }
        }
        state.outstanding -= 1;
        if state.outstanding == 0 {
            self.ancestor_read(now, host, read);
        }
    }

    fn ancestor_read(&mut self, now: Time, host: &mut impl Host<T>, read: u32) {
        let AncestralRead { parts, is_there, error, target, .. } = self.ancestral.remove(read as usize);
        let bytes = error.map_or_else(|| Ok(chain(parts.into_iter().map(AncestralPart::wanted))), Err);
        self.answer_notifiers(host);
        match target {
            AncestralTarget::Part { read, index } => {
                if let Some(state) = self.ancestral.get_mut(read as usize) {
                    state.is_there |= is_there;
                }
                self.part_read(now, host, read, index, bytes);
            }
            AncestralTarget::CopyUp { object } => self.write_copy(now, host, object, bytes, is_there),
            AncestralTarget::Piece { io, index } => {
                let Some(running) = self.ios.get_mut(io as usize) else { return };
                running.inherited(index, bytes);
                if running.outstanding == 0 {
                    self.finish(now, host, io);
                }
            }
        }
    }
}

impl AncestralPart {
    /// Creates a part for a piece of an object. The caller wants the bytes that `shown` covers.
    fn of(piece: &ObjectPiece, shown: &Range<u64>) -> Self {
        let end = piece.at + piece.length;
        let wanted = shown.start.max(piece.at)..shown.end.min(end);
        let wanted = wanted.start - piece.at..wanted.end.max(wanted.start) - piece.at;
        Self { at: piece.at, length: piece.length, wanted, bytes: List::new() }
    }

    fn whole(range: Range<u64>, bytes: List) -> Self {
        let length = range.end - range.start;
        Self { at: range.start, length, wanted: 0..length, bytes }
    }

    fn wanted(self) -> List {
        let Self { length, wanted, bytes, .. } = self;
        if wanted == (0..length) {
            return bytes;
        }
        bytes.slice(wanted.start as usize, (wanted.end - wanted.start) as usize)
    }
}
