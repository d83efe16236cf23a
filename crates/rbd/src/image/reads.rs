//! Reads, and completions of object requests.

use super::machine::{AncestralTarget, OpenImage};
use super::running::{Gather, InflightIo, pieces};
use crate::host::{Host, Purpose, Ticket};
use crate::request::{Io, STATUS_OBJECTS};
use onego_buf::{List, SegmentMut};
use onego_ceph::client::{self, Error as ClientError, OpReply, Request, errno};
use onego_ceph::ops::Op;
use onego_wire::Time;
use smallvec::SmallVec;
use std::iter;

impl<T> OpenImage<T> {
    #[inline]
    pub(super) fn read(&mut self, now: Time, host: &mut impl Host<T>, io: Io, token: T) {
        let key = self.ios.vacant_key() as u32;
        let data = &self.facts.data;
        let mut start = 0;
        if let Some(encryption) = &data.encryption {
            if encryption.cuts(&io) {
                return self.read_around(now, host, io, token);
            }
            start = encryption.data_offset();
        }
        let mut outstanding = 0;
        let mut send = |request| {
            host.request(request, Ticket(Purpose::Piece { io: key, index: outstanding }));
            outstanding += 1;
        };
        let (offset, length, gather) = match io {
            Io::ReadInto { offset, mut buffer } => {
                let offset = start + offset;
                let length = buffer.len() as u64;
                let mut parts = SmallVec::new();
                for piece in pieces(&data.layout, offset, length) {
                    let part = buffer.split_to(piece.length as usize);
                    parts.push(None);
                    send(Request { read_into: Some(part), ..data.request(piece.object, piece.read()) });
                }
                if parts.is_empty() {
                    parts.push(Some(buffer));
                }
                (offset, length, Gather::Buffer(parts))
            }
            Io::Allocated { offset, length } => {
                let offset = start + offset;
                let mut sizes = Vec::new();
                let length = length.min(STATUS_OBJECTS as u64 * data.layout.object_size());
                for piece in pieces(&data.layout, offset, length).into_iter().take(STATUS_OBJECTS) {
                    send(data.request(piece.object, Op::Stat));
                    sizes.push((piece, 0));
                }
                (offset, length, Gather::Sizes(sizes))
            }
            Io::Read { offset, length } => {
                let offset = start + offset;
                let mut parts = SmallVec::new();
                for piece in pieces(&data.layout, offset, length) {
                    parts.push((piece.length, List::new()));
                    send(data.request(piece.object, piece.read()));
                }
                (offset, length, Gather::Lists(parts))
            }
            Io::Write { .. }
            | Io::CompareAndWrite { .. }
            | Io::Zero { .. }
            | Io::Trim { .. }
            | Io::CopyUp { .. }
            | Io::Flush => return,
        };
        self.ios.insert(InflightIo { token, offset, length, outstanding, error: None, gather });
        if outstanding == 0 {
            self.finish(now, host, key);
        }
    }

    #[inline]
    pub(super) fn piece_completed(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        io: u32,
        index: u32,
        outcome: Result<client::Outcome, ClientError>,
        mut buffer: Option<SegmentMut>,
    ) {
        let Some(running) = self.ios.get_mut(io as usize) else { return };
        let mut reply = accept(outcome);
        match &mut running.gather {
            Gather::Changes { special, .. } => {
                if !special.is_empty()
                    && let Some(at) = special.iter().position(|piece| piece.index == index)
                {
                    let piece = special.swap_remove(at);
                    if self.special_completed(now, host, io, piece, &reply) {
                        return;
                    }
                }
                if self.facts.data.encryption.is_some() && self.sealed_completed(now, host, io, index, &reply)
                {
                    return;
                }
            }
            Gather::Lists(_) | Gather::Buffer(_) | Gather::Sectors { .. } => match &mut reply {
                Ok(None) if self.facts.parent.is_some() => {
                    return self.inherit(now, host, io, index, buffer);
                }
                Ok(Some(reply)) if self.facts.data.encryption.is_some() => {
                    self.decrypt_piece(io, index, reply, buffer.as_mut());
                }
                _ => {}
            },
            Gather::Sizes(sizes) => {
                let (piece, size) = &mut sizes[index as usize];
                // The parent is not queried: its whole overlap counts as allocated.
                let start = self.facts.data.start();
                let overlap = self.facts.parent.as_ref().map_or(0, |parent| start + parent.overlap);
                if let Ok(None) = &reply
                    && piece.at < overlap
                {
                    *size = piece.offset + piece.length.min(overlap - piece.at);
                    reply = Ok(None);
                }
            }
        }
        let Some(running) = self.ios.get_mut(io as usize) else { return };
        running.completed(index, reply, buffer);
        if running.outstanding == 0 {
            self.finish(now, host, io);
        }
    }

    #[cold]
    fn inherit(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        io: u32,
        index: u32,
        buffer: Option<SegmentMut>,
    ) {
        let Some(running) = self.ios.get_mut(io as usize) else { return };
        if let (Gather::Buffer(parts), Some(buffer)) = (&mut running.gather, buffer) {
            parts[index as usize] = Some(buffer);
        }
        let pieces = pieces(&self.facts.data.layout, running.offset, running.length);
        let piece = pieces[index as usize];
        let Some(parent) = self.facts.parent.clone() else { return };
        let start = piece.at - self.facts.data.start();
        let range = start..start + piece.length;
        self.read_ancestor(now, host, parent, iter::once(range), AncestralTarget::Piece { io, index });
    }
}

/// Returns the reply of a data object request. A missing object has none: it reads as zeros, and has nothing to clear.
#[inline]
pub(super) fn accept(outcome: Result<client::Outcome, ClientError>) -> Result<Option<OpReply>, ClientError> {
    match outcome? {
        client::Outcome::Reply(reply) if reply.result == errno::ENOENT => Ok(None),
        client::Outcome::Reply(reply) => reply.ok().map(Some),
        _ => Err(ClientError::Mismatch("it is of another kind")),
    }
}
