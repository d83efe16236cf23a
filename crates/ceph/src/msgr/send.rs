//! Puts frames together for the wire: many messages a call, in as few pieces as can be.

use super::arena::Arena;
use super::control::SIGNATURE_LEN;
use super::frame::{Framing, MAX_SEGMENTS, Preamble, SEGMENT_SEED, Tag};
use super::message::{HEADER_LEN, Message};
use crate::messages::Payload;
use onego_buf::{List, Pool, Segment};
use onego_wire::Writer;
use std::collections::VecDeque;

/// Pieces of a front or payload up to this size are copied in between the headers. Another vector in a gathered send
/// costs about as much as copying 1 KiB that is in the cache (its checksum was just made), and it cuts the run of
/// headers in two, which makes it two.
const COPY_MAX: usize = 1 << 10;

/// Room for the control frames of a handshake.
const CONTROL_CAPACITY: usize = 4 * SIGNATURE_LEN;

#[derive(Debug)]
pub(super) struct Sender {
    framing: Framing,
    /// What is on its way out.
    arena: Arena,
    /// Fronts of messages in the queue, as they come out of `writer`.
    fronts: Arena,
    writer: Writer,
    /// Control frames that go out before the next message.
    control: Vec<u8>,
    queue: VecDeque<Message>,
    /// Bytes of the bodies in the queue.
    queued: usize,
    /// Number of the last message that was sent.
    seq: u64,
}

impl Sender {
    pub(super) fn new(framing: Framing, pool: Pool) -> Self {
        Self {
            framing,
            arena: Arena::new(pool.clone()),
            fronts: Arena::new(pool),
            writer: Writer::new(),
            control: Vec::with_capacity(CONTROL_CAPACITY),
            queue: VecDeque::new(),
            queued: 0,
            seq: 0,
        }
    }

    /// Sends bytes that are no frame: the banner.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.control.extend_from_slice(bytes);
    }

    /// Sends a control frame with the payload that `body` writes.
    pub(super) fn control(&mut self, tag: Tag, body: impl FnOnce(&mut Writer)) {
        self.writer.clear();
        body(&mut self.writer);
        let payload = self.writer.as_slice();
        let preamble = Preamble::new(tag, lens([payload.len(), 0, 0, 0]));
        self.framing.seal_first(preamble, payload, |bytes| self.control.extend_from_slice(bytes));
    }

    /// Queues a message.
    pub(super) fn push(&mut self, message: Message) {
        self.queued += message.body_len();
        self.queue.push_back(message);
    }

    /// Queues the message with this content, without taking memory for its front alone.
    pub(super) fn push_payload<P: Payload>(&mut self, tid: u64, payload: &P) {
        self.writer.clear();
        let mut data = List::new();
        payload.encode(&mut self.writer, &mut data);
        let front = self.fronts.copy(self.writer.as_slice());
        self.push(Message::new(P::KIND, P::VERSION, P::COMPAT, front).with_tid(tid).with_data(data));
    }

    /// Forgets everything that was not handed out yet.
    pub(super) fn clear(&mut self) {
        self.control.clear();
        self.queue.clear();
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
            self.arena.put(&self.control, out);
            self.arena.flush(out);
            self.control.clear();
        }
    }

    /// Appends control frames and about `limit` bytes of messages to `out`. Messages tell the peer that those up to
    /// number `ack` were received.
    pub(super) fn transmit(&mut self, out: &mut List, limit: usize, ack: u64) {
        let start = out.len();
        self.arena.put(&self.control, out);
        self.control.clear();
        while out.len() + self.arena.pending() - start < limit {
            let Some(message) = self.queue.pop_front() else { break };
            self.queued -= message.body_len();
            self.frame(message, ack, out);
        }
        self.arena.flush(out);
    }

    /// Appends the frame of a message.
    fn frame(&mut self, message: Message, ack: u64, out: &mut List) {
        let lens = lens([HEADER_LEN, message.front.len(), message.middle_len(), message.data.len()]);
        let Message { mut header, front, middle, data, placed: _ } = message;
        self.seq += 1;
        header.seq = self.seq;
        header.ack_seq = ack;
        let preamble = Preamble::new(Tag::Message, lens);
        self.framing.seal_first(preamble, &header.to_wire(), |bytes| self.arena.put(bytes, out));
        let crcs = [
            self.piece(front, SEGMENT_SEED, out),
            middle.map_or(SEGMENT_SEED, |middle| self.piece(middle, SEGMENT_SEED, out)),
            self.pieces(data, out),
        ];
        if self.framing.epilogue_len(&preamble) > 0 {
            self.arena.put(&self.framing.seal_epilogue(&preamble, crcs), out);
        }
    }

    /// Appends a list as it is, but for its small pieces, and returns its checksum.
    fn pieces(&mut self, list: List, out: &mut List) -> u32 {
        if list.is_empty() {
            return SEGMENT_SEED;
        }
        if list.segments().all(|piece| piece.len() > COPY_MAX) {
            let crc = list.segments().fold(SEGMENT_SEED, |crc, piece| self.framing.sum(crc, piece));
            self.arena.flush(out);
            out.append(list);
            return crc;
        }
        list.segments().fold(SEGMENT_SEED, |crc, piece| self.piece(piece.clone(), crc, out))
    }

    /// Appends a piece and continues a checksum over it.
    fn piece(&mut self, piece: Segment, crc: u32, out: &mut List) -> u32 {
        let crc = self.framing.sum(crc, &piece);
        if piece.len() <= COPY_MAX {
            self.arena.put(&piece, out);
        } else {
            self.arena.flush(out);
            out.push(piece);
        }
        crc
    }
}

/// Lengths as they are on the wire.
fn lens(lens: [usize; MAX_SEGMENTS]) -> [u32; MAX_SEGMENTS] {
    lens.map(|len| u32::try_from(len).expect("a part of a message has less than 4 GiB"))
}
