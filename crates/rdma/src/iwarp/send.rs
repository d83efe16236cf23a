//! Assembly of FPDUs: many per call, in as few pieces as possible.

use super::header::{
    CRC_LEN, HEADER_MAX, LENGTH_LEN, Opcode, READ_LEN, READ_QUEUE, ReadRequest, SEND_QUEUE, TAGGED_LEN,
    TERMINATE_QUEUE, Tagged, UNTAGGED_LEN, Untagged, padding,
};
use super::inbound::{Inbound, Read, Response};
use super::receive::wire_crc;
use super::violation::{About, Code, TERMINATE_LEN};
use super::work::{Turn, Work, Works};
use crate::memory::{Key, Remote};
use crate::verbs::{CompletedWork, Completion, SendFlags, Status};
use onego_buf::{Arena, List, Pool, crc32c};
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Sender {
    /// Bytes that precede all work: the frame of the handshake, the Terminate message.
    first: Vec<u8>,
    pub(super) works: Works,
    writer: Writer,
    send_msn: u32,
    read_msn: u32,
    ord: usize,
}

impl Sender {
    /// `fpdu`: maximum size of an FPDU in bytes.
    pub(super) fn new(fpdu: usize, pool: Pool) -> Self {
        Self {
            first: Vec::new(),
            works: Works::default(),
            writer: Writer { arena: Arena::new(pool), crc: false, fpdu },
            send_msn: 1,
            read_msn: 1,
            ord: 0,
        }
    }

    pub(super) fn frame(&mut self, bytes: &[u8]) {
        self.first.extend_from_slice(bytes);
    }

    pub(super) fn segments(&mut self, crc: bool, ord: u16) {
        self.writer.crc = crc;
        self.ord = usize::from(ord);
    }

    /// Sends a zero-length message, hidden from the user, before all others.
    pub(super) fn ready_by_send(&mut self) {
        let mut header = [0; UNTAGGED_LEN];
        let segment = Untagged { invalidate: 0, queue: SEND_QUEUE, msn: self.send_msn, offset: 0 };
        segment.write(Opcode::Send, true, 0, &mut header);
        self.send_msn += 1;
        self.whole(&header);
    }

    /// Sends a zero-length write before all work.
    pub(super) fn write_nothing(&mut self) {
        let mut header = [0; TAGGED_LEN];
        Tagged { key: 0, offset: 0 }.write(Opcode::Write, true, 0, &mut header);
        self.whole(&header);
    }

    fn whole(&mut self, header: &[u8]) {
        let (trailer, len) = self.writer.trailer(header.len(), crc32c(u32::MAX, header));
        self.first.extend_from_slice(header);
        self.first.extend_from_slice(&trailer[..len]);
    }

    /// Sends a Terminate message about the segment with that header, and nothing after it.
    pub(super) fn terminate(&mut self, code: Code, about: Option<(Opcode, &[u8])>) {
        let about = about.filter(|_| code.is_about_segment());
        let kind = about.map(|(opcode, _)| match opcode {
            Opcode::ReadRequest => About::Read,
            _ => About::Segment,
        });
        let headers = about.map_or(&[][..], |(_, header)| header);
        let mut bytes = [0; UNTAGGED_LEN + TERMINATE_LEN + HEADER_MAX];
        let (header, rest) = bytes.split_first_chunk_mut::<UNTAGGED_LEN>().expect("the buffer is longer");
        let segment = Untagged { invalidate: 0, queue: TERMINATE_QUEUE, msn: 1, offset: 0 };
        segment.write(Opcode::Terminate, true, headers.len(), header);
        rest[..TERMINATE_LEN].copy_from_slice(&code.to_bytes(kind));
        rest[TERMINATE_LEN..][..headers.len()].copy_from_slice(headers);
        self.whole(&bytes[..UNTAGGED_LEN + TERMINATE_LEN + headers.len()]);
    }

    pub(super) fn has_first(&self) -> bool {
        !self.first.is_empty()
    }

    fn may_read(&self, inbound: &Inbound) -> bool {
        inbound.reads_under_way() < self.ord
    }

    pub(super) fn has_work(&self, inbound: &Inbound) -> bool {
        !self.works.is_empty(self.may_read(inbound))
    }

    pub(super) fn transmit_first(&mut self, out: &mut List) {
        if !self.first.is_empty() {
            out.push(onego_buf::Segment::from(std::mem::take(&mut self.first)));
        }
    }

    /// Appends about `limit` bytes of work to `out`: whole FPDUs, at least one if there is any. Adds completions to
    /// `done`.
    pub(super) fn transmit(
        &mut self,
        out: &mut List,
        limit: usize,
        inbound: &mut Inbound,
        done: &mut VecDeque<Completion>,
    ) {
        let start = out.len();
        let mut len = 0;
        while len < limit {
            let Some(turn) = self.works.next(self.may_read(inbound)) else { break };
            match turn {
                Turn::WaitingRead => {
                    let read = self.works.waiting.pop_front();
                    read.into_iter().for_each(|read| self.read(read, inbound, out));
                }
                Turn::Posted => self.posted(out, inbound, done),
                Turn::Response => self.response(out),
            }
            let before = std::mem::replace(&mut len, out.len() + self.writer.arena.pending() - start);
            self.works.sent(len - before);
        }
        self.writer.arena.flush(out);
        if self.works.posted.is_empty() && self.works.responses.is_empty() {
            self.writer.arena.rest();
        }
    }

    #[inline]
    fn posted(&mut self, out: &mut List, inbound: &mut Inbound, done: &mut VecDeque<Completion>) {
        let completion = match self.works.posted.front_mut() {
            Some(Work::Send { id, bytes, offset, flags }) => {
                let msn = self.send_msn;
                if !self.writer.message(bytes, msn, offset, *flags, out) {
                    return;
                }
                self.send_msn = msn.wrapping_add(1);
                Completion { id: *id, status: Status::Success, done: CompletedWork::Sent }
            }
            Some(Work::Write { id, bytes, to, begun }) => {
                *begun = true;
                if !self.writer.tagged(Opcode::Write, bytes, to, out) {
                    return;
                }
                Completion { id: *id, status: Status::Success, done: CompletedWork::Written }
            }
            _ => {
                if let Some(Work::Read(read)) = self.works.posted.pop_front() {
                    self.read(read, inbound, out);
                }
                return;
            }
        };
        self.works.posted.pop_front();
        done.push_back(completion);
    }

    fn read(&mut self, read: Read, inbound: &mut Inbound, out: &mut List) {
        let (from, len) = (read.from, read.sink.len() as u32);
        let source = Tagged { key: from.key.0, offset: from.offset };
        let request = ReadRequest { sink: inbound.expect(read), len, source };
        self.writer.read(request, self.read_msn, out);
        self.read_msn = self.read_msn.wrapping_add(1);
    }

    fn response(&mut self, out: &mut List) {
        let Some(Response { bytes, sink, begun }) = self.works.responses.front_mut() else { return };
        *begun = true;
        let mut to = Remote { key: Key(sink.key), offset: sink.offset };
        let whole = self.writer.tagged(Opcode::ReadResponse, bytes, &mut to, out);
        sink.offset = to.offset;
        if whole {
            self.works.responses.pop_front();
        }
    }

    pub(super) fn flush(&mut self, done: &mut VecDeque<Completion>) {
        self.works.flush(done);
    }
}

#[derive(Debug)]
struct Writer {
    arena: Arena,
    crc: bool,
    fpdu: usize,
}

impl Writer {
    #[inline]
    fn message(
        &mut self,
        bytes: &mut List,
        msn: u32,
        offset: &mut u32,
        flags: SendFlags,
        out: &mut List,
    ) -> bool {
        let len = bytes.len().min(self.fpdu - UNTAGGED_LEN - CRC_LEN);
        let last = len == bytes.len();
        let opcode = Opcode::send(flags.invalidate.is_some(), flags.solicited);
        let invalidate = flags.invalidate.map_or(0, |key| key.0);
        let segment = Untagged { invalidate, queue: SEND_QUEUE, msn, offset: *offset };
        let crc = self.header::<UNTAGGED_LEN>(out, |to| segment.write(opcode, last, len, to));
        self.payload(bytes, UNTAGGED_LEN, len, crc, out);
        *offset += len as u32;
        last
    }

    #[inline]
    fn tagged(&mut self, opcode: Opcode, bytes: &mut List, to: &mut Remote, out: &mut List) -> bool {
        let len = bytes.len().min(self.fpdu - TAGGED_LEN - CRC_LEN);
        let last = len == bytes.len();
        let segment = Tagged { key: to.key.0, offset: to.offset };
        let crc = self.header::<TAGGED_LEN>(out, |to| segment.write(opcode, last, len, to));
        self.payload(bytes, TAGGED_LEN, len, crc, out);
        // May wrap after the last byte of the offset space, when nothing follows.
        to.offset = to.offset.wrapping_add(len as u64);
        last
    }

    fn read(&mut self, request: ReadRequest, msn: u32, out: &mut List) {
        let segment = Untagged { invalidate: 0, queue: READ_QUEUE, msn, offset: 0 };
        let crc = self.header::<HEADER_MAX>(out, |to| {
            let (header, rest) = to.split_first_chunk_mut().expect("the buffer is longer");
            segment.write(Opcode::ReadRequest, true, 0, header);
            rest[..READ_LEN].copy_from_slice(&request.to_bytes());
        });
        self.payload(&mut List::new(), HEADER_MAX, 0, crc, out);
    }

    #[inline(always)]
    fn header<const N: usize>(&mut self, out: &mut List, write: impl FnOnce(&mut [u8; N])) -> u32 {
        let (mut crc, summed) = (u32::MAX, self.crc);
        self.arena.write::<N>(out, |to| {
            write(to);
            if summed {
                crc = crc32c(u32::MAX, to);
            }
        });
        crc
    }

    #[inline]
    fn payload(&mut self, bytes: &mut List, header: usize, len: usize, mut crc: u32, out: &mut List) {
        let summed = self.crc;
        let sum = |piece: &[u8]| {
            if summed {
                crc = crc32c(crc, piece);
            }
        };
        if len == bytes.len() {
            self.arena.pieces(bytes, out, sum);
            *bytes = List::new();
        } else {
            self.arena.pieces(&mut bytes.split_to(len), out, sum);
        }
        let (trailer, len) = self.trailer(header + len, crc);
        self.arena.put(&trailer[..len], out);
    }

    /// Returns padding and checksum after an FPDU of `len` bytes, including MPA's length field, and their number.
    fn trailer(&self, len: usize, crc: u32) -> ([u8; 3 + CRC_LEN], usize) {
        let padding = padding(len - LENGTH_LEN);
        let mut trailer = [0; 3 + CRC_LEN];
        if self.crc {
            let crc = crc32c(crc, &trailer[..padding]);
            trailer[padding..padding + CRC_LEN].copy_from_slice(&wire_crc(crc));
        }
        (trailer, padding + CRC_LEN)
    }
}
