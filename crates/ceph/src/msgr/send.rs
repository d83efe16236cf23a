//! Puts frames together for the wire: many messages a call, in as few pieces as can be.

use super::arena::Arena;
use super::control::SIGNATURE_LEN;
use super::frame::{
    Framing, HEADER_LEN, Known, LATE_COMPLETE, MAX_SEGMENTS, PREAMBLE_LEN, Preamble, SEGMENT_SEED, Tag,
};
use super::fronts::Fronts;
use super::message::{Header, Message};
use super::secure::{SealTx, padded};
use crate::messages::Payload;
use onego_buf::{List, Pool, Segment};
use onego_wire::Writer;
use std::collections::VecDeque;

/// Pieces of a front or payload up to this size are copied in between the headers. Another vector in a gathered send
/// costs about as much as copying 1 KiB that is in the cache (its checksum was just made), and it cuts the run of
/// headers in two, which makes it two.
pub(super) const COPY_MAX: usize = 1 << 10;

/// Room for the control frames of a handshake.
const CONTROL_CAPACITY: usize = 4 * SIGNATURE_LEN;

/// A message that waits to be sent.
#[derive(Debug)]
struct Queued {
    header: Header,
    front: Front,
    middle: Option<Segment>,
    data: List,
}

/// Where the front of a message is.
#[derive(Debug)]
enum Front {
    /// So many bytes behind those of the messages before it.
    Encoded(usize),
    /// By itself.
    Own(Segment),
}

impl Queued {
    fn front_len(&self) -> usize {
        match &self.front {
            Front::Encoded(len) => *len,
            Front::Own(front) => front.len(),
        }
    }

    fn middle_len(&self) -> usize {
        self.middle.as_deref().map_or(0, <[u8]>::len)
    }

    fn body_len(&self) -> usize {
        self.front_len() + self.middle_len() + self.data.len()
    }
}

#[derive(Debug)]
pub(super) struct Sender {
    assembler: Assembler,
    /// Control frames that go out before the next message.
    control: Vec<u8>,
    /// All that was sent until both sides know each other: it will be signed.
    transcript: Option<Vec<u8>>,
    /// What a control frame says, while it is written.
    writer: Writer,
    queue: VecDeque<Queued>,
    fronts: Fronts,
    /// Bytes of the bodies in the queue.
    queued: usize,
    /// Number of the last message that was sent.
    seq: u64,
}

impl Sender {
    pub(super) fn new(framing: Framing, pool: Pool) -> Self {
        Self {
            assembler: Assembler {
                framing,
                secure: None,
                last: Known::new(Preamble::new(Tag::Message, [0; MAX_SEGMENTS])),
                arena: Arena::new(pool),
            },
            control: Vec::with_capacity(CONTROL_CAPACITY),
            transcript: Some(Vec::new()),
            writer: Writer::new(),
            queue: VecDeque::new(),
            fronts: Fronts::default(),
            queued: 0,
            seq: 0,
        }
    }

    /// Sends bytes that are no frame: the banner.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.control.extend_from_slice(bytes);
        self.record(self.control.len() - bytes.len());
    }

    /// Sends a control frame with the payload that `body` writes.
    pub(super) fn control(&mut self, tag: Tag, body: impl FnOnce(&mut Writer)) {
        self.writer.clear();
        body(&mut self.writer);
        let payload = self.writer.as_slice();
        let preamble = Preamble::new(tag, lens([payload.len(), 0, 0, 0])).to_wire();
        let start = self.control.len();
        match &mut self.assembler.secure {
            Some(secure) => secure.seal_control(&preamble, payload, &mut self.control),
            None => self.assembler.framing.seal_control(&preamble, payload, &mut self.control),
        }
        self.record(start);
    }

    /// Keeps what was sent from `start` on if it is still to be signed.
    fn record(&mut self, start: usize) {
        if let Some(transcript) = &mut self.transcript {
            transcript.extend_from_slice(&self.control[start..]);
        }
    }

    /// All that was sent so far. It is asked for once, and no more is kept then.
    pub(super) fn take_transcript(&mut self) -> Vec<u8> {
        self.transcript.take().unwrap_or_default()
    }

    /// What follows is encrypted.
    pub(super) fn secure(&mut self, keys: SealTx) {
        self.assembler.secure = Some(Box::new(keys));
    }

    /// Queues a message.
    pub(super) fn push(&mut self, message: Message) {
        let Message { header, front, middle, data, placed: _ } = message;
        let message = Queued { header, front: Front::Own(front), middle, data };
        self.queued += message.body_len();
        self.queue.push_back(message);
    }

    /// Queues the message with this content, without taking memory for its front alone.
    #[inline]
    pub(super) fn push_payload<P: Payload>(&mut self, tid: u64, payload: &P) {
        let header = Header::of::<P>(tid);
        // Encoded where it stays.
        let message = self.queue.push_back_mut(Queued {
            header,
            front: Front::Encoded(0),
            middle: None,
            data: List::new(),
        });
        let front = self.fronts.add(|writer| payload.encode(writer, &mut message.data));
        message.front = Front::Encoded(front);
        self.queued += message.body_len();
    }

    /// Forgets everything that was not handed out yet.
    pub(super) fn clear(&mut self) {
        self.control.clear();
        self.queue.clear();
        self.fronts.clear();
        self.queued = 0;
    }

    pub(super) fn queued_bytes(&self) -> usize {
        self.queued
    }

    pub(super) fn queued_messages(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn has_control(&self) -> bool {
        !self.control.is_empty()
    }

    /// Appends control frames to `out`.
    pub(super) fn transmit_control(&mut self, out: &mut List) {
        if !self.control.is_empty() {
            self.assembler.arena.put(&self.control, out);
            self.assembler.arena.flush(out);
            self.control.clear();
        }
    }

    /// Appends control frames and about `limit` bytes of messages to `out`. Messages tell the peer that those up to
    /// number `ack` were received.
    pub(super) fn transmit(&mut self, out: &mut List, limit: usize, ack: u64) {
        let start = out.len();
        self.assembler.arena.put(&self.control, out);
        self.control.clear();
        while out.len() + self.assembler.arena.pending() - start < limit {
            // Looked at where it stands: to move it would take as long as to write its header.
            let Some(message) = self.queue.front_mut() else { break };
            self.queued -= message.body_len();
            self.seq += 1;
            (message.header.seq, message.header.ack_seq) = (self.seq, ack);
            self.assembler.frame(message, &mut self.fronts, out);
            self.queue.pop_front();
        }
        self.assembler.arena.flush(out);
        if self.queue.is_empty() {
            self.fronts.clear();
            self.assembler.arena.rest();
        }
    }
}

/// Puts frames of messages together.
#[derive(Debug)]
struct Assembler {
    framing: Framing,
    /// Seals frames in secure mode.
    secure: Option<Box<SealTx>>,
    /// The preamble of the last message.
    last: Known,
    /// What is on its way out.
    arena: Arena,
}

impl Assembler {
    /// Appends the frame of a message, whose data it takes.
    fn frame(&mut self, message: &mut Queued, fronts: &mut Fronts, out: &mut List) {
        let lens = lens([HEADER_LEN, message.front_len(), message.middle_len(), message.data.len()]);
        let preamble = Preamble::new(Tag::Message, lens);
        if let Some(secure) = &mut self.secure {
            let bytes = self.last.bytes_of(preamble);
            return Sealing { secure, arena: &mut self.arena, out }
                .message(bytes, &preamble, message, fronts);
        }
        let (framing, bytes) = (self.framing, self.last.bytes_of(preamble));
        self.arena.write(out, |to| framing.seal_header(bytes, &message.header, to));
        let front = match &message.front {
            Front::Encoded(len) => self.bytes(fronts.take(*len), out),
            Front::Own(front) => self.piece(front, SEGMENT_SEED, out),
        };
        let middle =
            message.middle.as_ref().map_or(SEGMENT_SEED, |middle| self.piece(middle, SEGMENT_SEED, out));
        let crcs = [front, middle, self.pieces(&mut message.data, out)];
        if self.framing.epilogue_len(&preamble) > 0 {
            self.arena.write(out, |to| framing.seal_epilogue(&preamble, crcs, to));
        }
    }

    /// Appends a copy of `bytes`, and returns their checksum.
    #[inline]
    fn bytes(&mut self, bytes: &[u8], out: &mut List) -> u32 {
        if bytes.len() > COPY_MAX {
            return self.piece(&Segment::copy_from(bytes), SEGMENT_SEED, out);
        }
        self.arena.put(bytes, out);
        self.framing.sum(SEGMENT_SEED, bytes)
    }

    /// Takes a list and appends it as it is, but for its small pieces. Returns its checksum.
    fn pieces(&mut self, list: &mut List, out: &mut List) -> u32 {
        let large = list.segments().all(|piece| piece.len() > COPY_MAX);
        if large && !list.is_empty() {
            let framing = self.framing;
            let crc = list.segments().fold(SEGMENT_SEED, |crc, piece| framing.sum(crc, piece));
            self.arena.flush(out);
            out.append(std::mem::take(list));
            return crc;
        }
        list.segments().fold(SEGMENT_SEED, |crc, piece| self.piece(piece, crc, out))
    }

    /// Appends a piece and continues a checksum over it.
    #[inline]
    fn piece(&mut self, piece: &Segment, crc: u32, out: &mut List) -> u32 {
        let crc = self.framing.sum(crc, piece);
        if piece.len() <= COPY_MAX {
            self.arena.put(piece, out);
        } else {
            self.arena.flush(out);
            out.push(piece.clone());
        }
        crc
    }
}

/// A message that is being sealed: to encrypt it is to copy it to where it is sent from.
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
        self.zeros(message.front_len());
        if let Some(middle) = &message.middle {
            self.piece(middle);
            self.zeros(middle.len());
        }
        let data = std::mem::take(&mut message.data);
        data.segments().for_each(|piece| self.piece(piece));
        self.zeros(data.len());
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

    /// Fills a segment of that length up.
    fn zeros(&mut self, len: usize) {
        let secure = &mut *self.secure;
        self.arena.fill(padded(len) - len, self.out, |room| secure.seal_zeros(room));
    }
}

/// Lengths as they are on the wire.
fn lens(lens: [usize; MAX_SEGMENTS]) -> [u32; MAX_SEGMENTS] {
    lens.map(|len| u32::try_from(len).expect("a part of a message has less than 4 GiB"))
}
