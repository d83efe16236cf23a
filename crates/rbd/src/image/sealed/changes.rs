//! Changes of encrypted data.

use crate::encryption::Encryption;
use crate::flush::WriteEpoch;
use crate::host::{Host, Purpose, Ticket};
use crate::image::machine::OpenImage;
use crate::image::running::{Gather, InflightIo, ObjectPiece, SpecialPiece, fill_up, pieces};
use crate::image::sealed_state::{ChangeKey, SealedChange, SealedKind, SealedStep};
use crate::request::Io;
use onego_buf::List;
use onego_ceph::client::{Error as ClientError, OpReply, Request, errno};
use onego_ceph::cls::rbd::state;
use onego_ceph::ops::Op;
use onego_ceph::rbd::Extent;
use onego_wire::Time;
use std::ops::Range;

impl<T> OpenImage<T> {
    pub(in crate::image) fn change_sealed(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        io: Io,
        token: T,
        epoch: WriteEpoch,
    ) {
        let key = self.ios.vacant_key() as u32;
        let changes = self.sealed_changes(io);
        let outstanding = changes.len() as u32;
        let gather = Gather::Changes { epoch, special: Vec::new() };
        self.ios.insert(InflightIo { token, offset: 0, length: 0, outstanding, error: None, gather });
        self.changing += 1;
        for (kind, index) in changes.into_iter().zip(0..) {
            self.enter_sealed(host, (key, index), kind);
        }
        if outstanding == 0 {
            self.finish(now, host, key);
        }
    }

    fn sealed_changes(&self, io: Io) -> Vec<SealedKind> {
        let data = &self.facts.data;
        let writes = |offset: u64, bytes: &List| {
            let pieces = pieces(&data.layout, data.start() + offset, bytes.len() as u64);
            let mut rest = bytes.clone();
            let write =
                |piece: ObjectPiece| SealedKind::Write { piece, plain: rest.split_to(piece.length as usize) };
            pieces.into_iter().map(write).collect()
        };
        match io {
            Io::Write { offset, data } => writes(offset, &data),
            Io::Zero { offset, length } => writes(offset, &zeros(length)),
            Io::Trim { offset, length } => {
                let start = data.start() + offset;
                let extents = data.layout.map(start, length);
                extents.iter().flat_map(|extent| self.cuts(start, extent)).collect()
            }
            // Objects are only copied to images that are being moved, whose data is not decrypted meanwhile.
            Io::CopyUp { .. } => Vec::new(),
            // Encrypted data is not compared.
            Io::CompareAndWrite { .. } => Vec::new(),
            Io::Read { .. } | Io::ReadInto { .. } | Io::Allocated { .. } | Io::Flush => Vec::new(),
        }
    }

    /// Trims an object from an offset on: zeroes the rest of a sector, then truncates the object.
    fn cuts(&self, start: u64, extent: &Extent) -> impl Iterator<Item = SealedKind> + use<T> {
        let &Extent { object, offset, length, .. } = extent;
        let is_missing = self.map.as_ref().is_some_and(|map| map.state(object) == state::NONEXISTENT);
        let from = self.facts.data.encryption.as_ref().map_or(0, |it| it.aligned(0..offset).end);
        let within = (from - offset).min(length);
        let at = start + extent.buffer.first().map_or(0, |range| range.start);
        let write = || SealedKind::Write {
            piece: ObjectPiece { object, offset, length: within, at },
            plain: zeros(within),
        };
        let shows_parent = self.overlap_of(object) > 0;
        let zero = (within > 0 && (shows_parent || !is_missing)).then(write);
        let is_whole = from == 0;
        let cut = length > within && !(is_missing && (is_whole || !shows_parent));
        zero.into_iter().chain(cut.then_some(SealedKind::Cut { object, from }))
    }

    fn enter_sealed(&mut self, host: &mut impl Host<T>, key: ChangeKey, kind: SealedKind) {
        let Some(encryption) = &self.facts.data.encryption else { return };
        let (object, hold) = (kind.object(), kind.hold(encryption));
        self.sealed.insert(key, SealedChange { kind, step: SealedStep::Waiting });
        if self.holds.enter(object, key, hold) {
            self.start_sealed(host, key);
        }
    }

    fn start_sealed(&mut self, host: &mut impl Host<T>, key: ChangeKey) {
        let Some(encryption) = self.facts.data.encryption.clone() else { return };
        let Some(change) = self.sealed.get_mut(&key) else { return };
        change.step = SealedStep::Writing;
        match change.kind.clone() {
            SealedKind::Cut { object, from } => {
                let op = if from == 0 { Op::Delete } else { Op::Truncate { size: from } };
                let is_guarded = from > 0 && from < self.overlap_of(object);
                self.send_sealed(host, key, object, op, is_guarded);
            }
            SealedKind::Write { piece, plain } => {
                if change.kind.hold(&encryption).is_exclusive {
                    return self.read_edges(host, key);
                }
                let data = List::from(encryption.encrypt(piece.at, &plain));
                let op = Op::Write { offset: piece.offset, data };
                let is_guarded = self.facts.parent.is_some()
                    && self.shows_parent(piece.offset, piece.length, piece.object);
                self.send_sealed(host, key, piece.object, op, is_guarded);
            }
        }
    }

    fn send_sealed(
        &mut self,
        host: &mut impl Host<T>,
        (io, index): ChangeKey,
        object: u64,
        op: Op,
        is_guarded: bool,
    ) {
        let special = self.send_special(host, io, index, object, op, is_guarded);
        if let (Some(special), Some(running)) = (special, self.ios.get_mut(io as usize)) {
            running.keep(special);
        }
    }

    /// Reads the first and the last sector of a write, from the object itself. The object map already records the object.
    fn read_edges(&mut self, host: &mut impl Host<T>, key: ChangeKey) {
        let Some(encryption) = &self.facts.data.encryption else { return };
        let Some(SealedChange { kind: SealedKind::Write { piece, .. }, step }) = self.sealed.get_mut(&key)
        else {
            return;
        };
        *step = SealedStep::Reading;
        let (object, edges) = (piece.object, edges(encryption, piece));
        let read = |edge: &Range<u64>| Op::Read { offset: edge.start, length: edge.end - edge.start };
        let mut reads = edges.iter().map(read);
        let Some(first) = reads.next() else { return };
        let request = reads.fold(self.facts.data.request(object, first), Request::and);
        let ticket = Ticket(Purpose::Piece { io: key.0, index: key.1 });
        self.park(host, object, state::EXISTS, request, ticket);
    }

    /// Writes whole sectors with the bytes between the edges that were read. Fails if another client changed the object since.
    fn write_between(&mut self, host: &mut impl Host<T>, key: ChangeKey, read: Option<&OpReply>) {
        let Some(encryption) = &self.facts.data.encryption else { return };
        let Some(SealedChange { kind: SealedKind::Write { piece, plain }, step }) = self.sealed.get_mut(&key)
        else {
            return;
        };
        *step = SealedStep::Writing;
        let (object, sectors) = (piece.object, encryption.aligned(piece.offset..piece.offset + piece.length));
        // Offset of the sectors in the image.
        let at = piece.at - (piece.offset - sectors.start);
        let mut bytes = vec![0; (sectors.end - sectors.start) as usize];
        let outputs = read.into_iter().flat_map(|reply| &reply.ops);
        for (edge, op) in edges(encryption, piece).into_iter().zip(outputs) {
            let within = edge.start - sectors.start;
            encryption.decrypt(at + within, &op.output).copy_to(&mut bytes[within as usize..]);
        }
        plain.copy_to(&mut bytes[(piece.offset - sectors.start) as usize..]);
        let data = List::from(encryption.encrypt(at, &bytes.into()));
        let guard = match read {
            Some(reply) => Op::AssertVer { version: reply.user_version },
            None => Op::Create { exclusive: true },
        };
        let request = self.change_request(object, guard).and(Op::Write { offset: sectors.start, data });
        let ticket = Ticket(Purpose::Piece { io: key.0, index: key.1 });
        self.park(host, object, state::EXISTS, request, ticket);
    }

    /// Handles the completion of a change's request. Returns whether the change is still in flight.
    pub(in crate::image) fn sealed_completed(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        io: u32,
        index: u32,
        reply: &Result<Option<OpReply>, ClientError>,
    ) -> bool {
        let (key, Some(encryption)) = ((io, index), &self.facts.data.encryption) else { return false };
        let Some(change) = self.sealed.get_mut(&key) else { return false };
        let object = change.kind.object();
        let is_partial =
            matches!(change.kind, SealedKind::Write { .. }) && change.kind.hold(encryption).is_exclusive;
        match (change.step, reply) {
            (SealedStep::Reading, Ok(None)) if self.overlap_of(object) > 0 => {
                if let Some(change) = self.sealed.get_mut(&key) {
                    change.step = SealedStep::CopyingUp;
                }
                self.copy_up(now, host, io, SpecialPiece::guarded(index, object, Op::Stat));
            }
            (SealedStep::Reading, Ok(reply)) => self.write_between(host, key, reply.as_ref()),
            (SealedStep::CopyingUp, Ok(_)) => self.read_edges(host, key),
            (SealedStep::Writing, reply) if is_partial && was_late(reply) => self.read_edges(host, key),
            _ => {
                self.end_sealed(host, key);
                return false;
            }
        }
        true
    }

    /// Encrypts the first bytes of an object, padded with zeros to whole sectors, if the image is encrypted.
    pub(in crate::image) fn encrypt_object(&self, object: u64, mut plain: List) -> List {
        let data = &self.facts.data;
        let Some(encryption) = &data.encryption else { return plain };
        let length = encryption.aligned(0..plain.len() as u64).end;
        fill_up(&mut plain, length);
        let ranges = data.layout.ranges(object, 0, length);
        let encrypt = |range: Range<u64>| {
            let sectors = plain.split_to((range.end - range.start) as usize);
            encryption.encrypt(range.start, &sectors)
        };
        ranges.into_iter().map(encrypt).collect()
    }

    /// Ends a change and starts those that waited for it.
    pub(in crate::image) fn end_sealed(&mut self, host: &mut impl Host<T>, key: ChangeKey) {
        let Some(change) = self.sealed.remove(&key) else { return };
        for next in self.holds.leave(change.kind.object(), key) {
            self.start_sealed(host, next);
        }
    }
}

/// Returns whether another client changed the object after it was read.
fn was_late(reply: &Result<Option<OpReply>, ClientError>) -> bool {
    match reply {
        Ok(reply) => reply.is_none(),
        Err(error) => matches!(error.errno(), errno::ERANGE | errno::EOVERFLOW | errno::EEXIST),
    }
}

/// Returns the sectors of an object that a write covers in part: one or two.
fn edges(encryption: &Encryption, piece: &ObjectPiece) -> Vec<Range<u64>> {
    let (start, end) = (piece.offset, piece.offset + piece.length);
    let (first, last) = (encryption.aligned(start..start + 1), encryption.aligned(end - 1..end));
    let mut edges = Vec::with_capacity(2);
    if first.start < start || first == last {
        edges.push(first.clone());
    }
    if last.end > end && last != first {
        edges.push(last);
    }
    edges
}

fn zeros(length: u64) -> List {
    let mut zeros = List::new();
    fill_up(&mut zeros, length);
    zeros
}
