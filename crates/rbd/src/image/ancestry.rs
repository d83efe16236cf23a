//! Bytes that an ancestor of a clone has.

use super::machine::{AncestralRead, AncestralTarget, OpenImage};
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
    /// Reads ranges of the image as an ancestor has them; what it does not have reads as zeros.
    pub(super) fn read_ancestor(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        ancestor: Arc<Ancestor>,
        ranges: impl IntoIterator<Item = Range<u64>>,
        target: AncestralTarget,
    ) {
        let read = self.ancestral.vacant_key() as u32;
        let (mut parts, mut outstanding) = (Vec::new(), 0);
        for range in ranges {
            let end = range.end.min(ancestor.overlap).max(range.start);
            for piece in pieces(&ancestor.data.layout, range.start, end - range.start) {
                let request = ancestor.data.request(piece.object, piece.read());
                host.request(request, Ticket(Purpose::Ancestral { read, index: parts.len() as u32 }));
                parts.push((piece.at, piece.length, List::new()));
                outstanding += 1;
            }
            if end < range.end {
                let mut zeros = List::new();
                fill_up(&mut zeros, range.end - end);
                parts.push((end, range.end - end, zeros));
            }
        }
        self.ancestral.insert(AncestralRead { ancestor, parts, outstanding, error: None, target });
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
        let (at, length, _) = state.parts[index as usize];
        let bytes = match accept(outcome) {
            Ok(None) => match state.ancestor.parent.clone() {
                Some(parent) if at < parent.overlap => {
                    let target = AncestralTarget::Part { read, index };
                    return self.read_ancestor(now, host, parent, iter::once(at..at + length), target);
                }
                _ => Ok(List::new()),
            },
            Ok(Some(reply)) => Ok(reply.ops.into_iter().next().map(|op| op.output).unwrap_or_default()),
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
        let (_, length, part) = &mut state.parts[index as usize];
        match bytes {
            Ok(bytes) => {
                *part = bytes;
                fill_up(part, *length);
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
        let AncestralRead { parts, error, target, .. } = self.ancestral.remove(read as usize);
        let bytes = error.map_or_else(|| Ok(chain(parts.into_iter().map(|(_, _, part)| part))), Err);
        self.answer_notifiers(host);
        match target {
            AncestralTarget::Part { read, index } => self.part_read(now, host, read, index, bytes),
            AncestralTarget::CopyUp { object } => self.write_copy(now, host, object, bytes),
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
