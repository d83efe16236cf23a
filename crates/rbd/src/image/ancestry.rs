//! Bytes that an ancestor of a clone has.

use super::machine::{AncestralPart, AncestralRead, AncestralTarget, OpenImage};
use super::reads::accept;
use super::running::{chain, fill_up, pieces};
use crate::error::Error;
use crate::facts::Ancestor;
use crate::host::{Host, Purpose, Ticket};
use onego_buf::List;
use onego_ceph::client::{self, Error as ClientError};
use onego_wire::Time;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

impl<T> OpenImage<T> {
    /// Reads ranges of the image's data as an ancestor has them; what it does not have reads as zeros.
    pub(super) fn read_ancestor(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        ancestor: Arc<Ancestor>,
        ranges: impl IntoIterator<Item = Range<u64>>,
        target: AncestralTarget,
    ) {
        let read = self.ancestral.vacant_key() as u32;
        let data = &ancestor.data;
        let start = data.start();
        let (mut parts, mut outstanding) = (Vec::new(), 0);
        for range in ranges {
            let end = range.end.min(ancestor.overlap).max(range.start);
            let shown = start + range.start..start + end;
            let whole = data.encryption.as_ref().map_or(shown.clone(), |it| it.aligned(shown.clone()));
            for piece in pieces(&data.layout, whole.start, whole.end - whole.start) {
                let request = data.request(piece.object, piece.read());
                host.request(request, Ticket(Purpose::Ancestral { read, index: parts.len() as u32 }));
                let wanted = shown.start.max(piece.at)..shown.end.min(piece.at + piece.length);
                let wanted = wanted.start - piece.at..wanted.end.max(wanted.start) - piece.at;
                parts.push(AncestralPart { at: piece.at, length: piece.length, wanted, bytes: List::new() });
                outstanding += 1;
            }
            if end < range.end {
                let mut zeros = List::new();
                let length = range.end - end;
                fill_up(&mut zeros, length);
                parts.push(AncestralPart { at: start + end, length, wanted: 0..length, bytes: zeros });
            }
        }
        let is_there = false;
        self.ancestral.insert(AncestralRead { ancestor, parts, is_there, outstanding, error: None, target });
        if outstanding == 0 {
            self.ancestor_read(now, host, read);
        }
    }

    /// An object of an ancestor is read.
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
                Ok(match &state.ancestor.data.encryption {
                    Some(encryption) => encryption.decrypt(at, &bytes),
                    None => bytes,
                })
            }
            Err(error) => Err(error.into()),
        };
        self.part_read(now, host, read, index, bytes);
    }

    /// A part of a read of an ancestor has its bytes.
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

    /// All of a read of an ancestor is here.
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
    /// The bytes that are wanted of it.
    fn wanted(self) -> List {
        let Self { length, wanted, bytes, .. } = self;
        if wanted == (0..length) {
            return bytes;
        }
        bytes.slice(wanted.start as usize, (wanted.end - wanted.start) as usize)
    }
}
