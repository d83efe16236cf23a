//! Assembles frames for the wire: many messages per call, in as few pieces as possible.

use super::control::SIGNATURE_LEN;
use super::frame::{
    CachedPreamble, Framing, LATE_COMPLETE, MAX_SEGMENTS, PREAMBLE_LEN, Preamble, SEGMENT_SEED,
};
use super::header::HEADER_LEN;
use super::pack::{Packed, Packer};
use super::secure::{SEALED_STATUS_LEN, SealTx, padded};
use crate::send::fronts::Fronts;
use crate::send::outbox::Outbox;
use crate::send::parts::{put_parts, transmit};
use crate::send::queue::{Front, Queued};
use crate::tag::Tag;
use onego_buf::{Arena, List, Pool, Segment};
use onego_wire::Writer;

/// Capacity for the control frames of a handshake.
const CONTROL_CAPACITY: usize = 4 * SIGNATURE_LEN;

#[derive(Debug)]
pub(super) struct Sender {
    assembler: Assembler,
    arena: Arena,
    control: Vec<u8>,
    /// Everything sent before authentication; it will be signed.
    transcript: Option<Vec<u8>>,
    /// Scratch space for a control frame's payload.
    writer: Writer,
}

impl Sender {
    pub(super) fn new(framing: Framing, pool: Pool) -> Self {
        Self {
            assembler: Assembler {
                framing,
                secure: None,
                packer: None,
                last: CachedPreamble::new(Preamble::new(Tag::Message, [0; MAX_SEGMENTS])),
            },
            arena: Arena::new(pool),
            control: Vec::with_capacity(CONTROL_CAPACITY),
            transcript: Some(Vec::new()),
            writer: Writer::new(),
        }
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.control.extend_from_slice(bytes);
        self.record(self.control.len() - bytes.len());
    }

    /// Queues a control frame with the payload that `body` writes.
    pub(super) fn control(&mut self, tag: Tag, body: impl FnOnce(&mut Writer)) {
        self.writer.clear();
        body(&mut self.writer);
        let payload = self.writer.as_slice();
        let packed = self.assembler.packer.as_mut().and_then(|packer| packer.control(payload));
        let payload = packed.as_deref().unwrap_or(payload);
        let len = u32::try_from(payload.len()).expect("a control frame has less than 4 GiB");
        let preamble =
            Preamble { compressed: packed.is_some(), ..Preamble::new(tag, [len, 0, 0, 0]) }.to_wire();
        let start = self.control.len();
        match &mut self.assembler.secure {
            Some(secure) => secure.seal_control(&preamble, payload, &mut self.control),
            None => self.assembler.framing.seal_control(&preamble, payload, &mut self.control),
        }
        self.record(start);
    }

    fn record(&mut self, start: usize) {
        if let Some(transcript) = &mut self.transcript {
            transcript.extend_from_slice(&self.control[start..]);
        }
    }

    /// Returns everything sent so far and stops recording.
    pub(super) fn take_transcript(&mut self) -> Vec<u8> {
        self.transcript.take().unwrap_or_default()
    }

    pub(super) fn secure(&mut self, keys: SealTx) {
        self.assembler.secure = Some(Box::new(keys));
    }

    /// Compresses frames from now on, where it makes them smaller.
    pub(super) fn pack(&mut self, packer: Packer) {
        self.assembler.packer = Some(Box::new(packer));
    }

    pub(super) fn clear(&mut self) {
        self.control.clear();
    }

    pub(super) fn has_control(&self) -> bool {
        !self.control.is_empty()
    }

    pub(super) fn transmit_control(&mut self, out: &mut List) {
        if !self.control.is_empty() {
            self.arena.put(&self.control, out);
            self.arena.flush(out);
            self.control.clear();
        }
    }

    /// Appends control frames and about `limit` bytes of messages to `out`. Message headers acknowledge the messages up
    /// to `ack`.
    pub(super) fn transmit(&mut self, out: &mut List, limit: usize, outbox: &mut Outbox, ack: u64) {
        let Self { assembler, arena, control, .. } = self;
        transmit(arena, control, out, limit, outbox, |message, fronts, arena, out| {
            message.header.ack_seq = ack;
            assembler.message(message, fronts, arena, out);
        });
        control.clear();
    }
}

#[derive(Debug)]
struct Assembler {
    framing: Framing,
    secure: Option<Box<SealTx>>,
    packer: Option<Box<Packer>>,
    last: CachedPreamble,
}

impl Assembler {
    fn message(&mut self, message: &mut Queued, fronts: &mut Fronts, arena: &mut Arena, out: &mut List) {
        if let Some(packer) = &mut self.packer
            && let Some(packed) = packer.message(message, fronts)
        {
            return self.packed(&packed, arena, out);
        }
        let [front, middle, data] = message.lens();
        let preamble = Preamble::new(Tag::Message, [HEADER_LEN as u32, front, middle, data]);
        if let Some(secure) = &mut self.secure {
            let bytes = self.last.bytes_of(preamble);
            return Sealing { secure, arena, out }.message(bytes, &preamble, message, fronts);
        }
        let (framing, bytes) = (self.framing, self.last.bytes_of(preamble));
        arena.write(out, |to| framing.seal_header(bytes, &message.header, to));
        let crcs = put_parts(message, fronts, arena, out, (framing.sums(), SEGMENT_SEED));
        if self.framing.epilogue_len(&preamble) > 0 {
            arena.write(out, |to| framing.seal_epilogue(&preamble, crcs, to));
        }
    }
}

impl Assembler {
    #[cold]
    fn packed(&mut self, packed: &Packed, arena: &mut Arena, out: &mut List) {
        let Packed { first, parts: [front, middle, data] } = packed;
        let lens = [first, front, middle, data].map(|segment| segment.len() as u32);
        let preamble = Preamble::of_compressed(Tag::Message, lens);
        let (bytes, framing) = (self.last.bytes_of(preamble), self.framing);
        let mut head = Vec::with_capacity(PREAMBLE_LEN + first.len() + SEALED_STATUS_LEN);
        if let Some(secure) = &mut self.secure {
            secure.seal_control(bytes, first, &mut head);
            arena.bytes(&head, out);
            return Sealing { secure, arena, out }.parts(&preamble, &packed.parts);
        }
        framing.seal_control(bytes, first, &mut head);
        arena.bytes(&head, out);
        let crcs = packed.parts.each_ref().map(|part| {
            arena.piece(part, out);
            framing.sum(SEGMENT_SEED, part)
        });
        if framing.epilogue_len(&preamble) > 0 {
            arena.write(out, |to| framing.seal_epilogue(&preamble, crcs, to));
        }
    }
}

/// Message being sealed: encryption is the copy into send memory.
struct Sealing<'a> {
    secure: &'a mut SealTx,
    arena: &'a mut Arena,
    out: &'a mut List,
}

impl Sealing<'_> {
    fn message(
        mut self,
        bytes: &[u8; PREAMBLE_LEN],
        preamble: &Preamble,
        message: &mut Queued,
        fronts: &mut Fronts,
    ) {
        let secure = &mut *self.secure;
        self.arena.write(self.out, |to| secure.seal_header(bytes, &message.header, to));
        if preamble.segments == 1 {
            return;
        }
        self.secure.begin();
        match &message.front {
            Front::Encoded(len) => self.piece(fronts.take(*len)),
            Front::Own(front) => self.piece(front),
        }
        let [_, front, middle, data] = preamble.lens;
        self.zeros(front);
        if let Some(piece) = &message.middle {
            self.piece(piece);
            self.zeros(middle);
        }
        std::mem::take(&mut message.data).segments().for_each(|piece| self.piece(piece));
        self.zeros(data);
        self.status();
    }

    fn parts(mut self, preamble: &Preamble, parts: &[Segment; MAX_SEGMENTS - 1]) {
        if preamble.segments == 1 {
            return;
        }
        self.secure.begin();
        for part in parts {
            self.piece(part);
            self.zeros(part.len() as u32);
        }
        self.status();
    }

    fn status(&mut self) {
        let secure = &mut *self.secure;
        self.arena.write(self.out, |to| secure.seal_status(LATE_COMPLETE, to));
    }

    fn piece(&mut self, mut piece: &[u8]) {
        let secure = &mut *self.secure;
        self.arena.fill(piece.len(), self.out, |room| {
            let (now, later) = piece.split_at(room.len());
            secure.seal(now, room);
            piece = later;
        });
    }

    /// Pads a segment of length `len`.
    fn zeros(&mut self, len: u32) {
        let (secure, len) = (&mut *self.secure, len as usize);
        self.arena.fill(padded(len) - len, self.out, |room| secure.seal_zeros(room));
    }
}
