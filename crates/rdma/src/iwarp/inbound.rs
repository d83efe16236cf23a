//! Processing of the peer's segments: which are valid, the destination of their payload, and the work that they
//! complete (RFC 5040, section 5; RFC 5041, section 5).

use super::forecast::Spot;
use super::header::{
    Control, HEADER_MAX, Opcode, READ_QUEUE, ReadRequest, SEND_QUEUE, TAGGED_LEN, TERMINATE_QUEUE, Tagged,
    UNTAGGED_LEN, Untagged,
};
use super::regions::{Entropy, Held, Regions, wraps};
use super::violation::{Code, TERMINATE_LEN, Violation};
use crate::memory::{Key, Memory, Remote};
use crate::verbs::{CompletedWork, Completion, Status};
use onego_buf::{List, SegmentMut};
use onego_wire::Place;
use std::collections::VecDeque;

#[derive(Debug)]
struct Receive {
    id: u64,
    buffer: SegmentMut,
}

#[derive(Debug)]
struct Message {
    receive: Receive,
    opcode: Opcode,
    filled: usize,
}

#[derive(Debug)]
pub(super) struct Read {
    /// `None` for a read that is hidden from the user.
    pub(super) id: Option<u64>,
    pub(super) sink: SegmentMut,
    pub(super) from: Remote,
}

#[derive(Debug)]
struct Pending {
    read: Read,
    key: u32,
    len: usize,
    received: usize,
}

#[derive(Debug)]
pub(super) struct Response {
    pub(super) bytes: List,
    pub(super) sink: Tagged,
    pub(super) begun: bool,
}

#[derive(Debug)]
pub(super) enum Ended {
    Part,
    CompletedWork(Completion),
    Asked(Response),
    Terminated(Code),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PayloadBuffer {
    Region(u32),
    Message,
    Read,
    /// The region with that key, which was invalidated since the segment began.
    Gone(u32),
}

#[derive(Debug)]
pub(super) struct Inbound {
    pub(super) regions: Regions,
    receives: VecDeque<Receive>,
    message: Option<Message>,
    reads: VecDeque<Pending>,
    place: Option<(PayloadBuffer, Place)>,
    /// The current region was invalidated while its place is out.
    revoked: bool,
    send_msn: u32,
    read_msn: u32,
    /// The peer may indicate that it is ready by a message that is hidden from the user.
    pub(super) ready_by_send: bool,
    foresee_writes: bool,
}

impl Inbound {
    pub(super) fn new(regions: usize, entropy: Entropy, foresee_writes: bool) -> Self {
        Self {
            regions: Regions::new(regions, entropy),
            receives: VecDeque::new(),
            message: None,
            reads: VecDeque::new(),
            place: None,
            revoked: false,
            send_msn: 1,
            read_msn: 1,
            ready_by_send: false,
            foresee_writes,
        }
    }

    pub(super) fn post_receive(&mut self, id: u64, buffer: SegmentMut) {
        self.receives.push_back(Receive { id, buffer });
    }

    pub(super) fn reads_under_way(&self) -> usize {
        self.reads.len()
    }

    pub(super) fn expect(&mut self, read: Read) -> Tagged {
        let len = read.sink.len();
        let key = self.regions.insert(Held::Sink, len, 0);
        self.reads.push_back(Pending { read, key, len, received: 0 });
        Tagged { key, offset: 0 }
    }

    /// Checks a segment that begins and determines its destination. An invalid one touches nothing.
    pub(super) fn begin(&mut self, control: Control, header: &[u8; HEADER_MAX]) -> Result<(), Violation> {
        let payload = control.payload_len();
        let (tagged, _) = header.split_first_chunk::<TAGGED_LEN>().expect("a header is longer than that");
        let (untagged, _) = header.split_first_chunk::<UNTAGGED_LEN>().expect("a header is longer than that");
        self.place = match control.opcode {
            // The key of a zero-length write is not checked: it touches nothing (RFC 5040, section 5.1).
            Opcode::Write if payload == 0 => None,
            Opcode::Write => {
                let Tagged { key, offset } = Tagged::parse(tagged);
                let at = self.regions.write(key, offset, payload)?;
                // Bytes for a withdrawn sink are dropped.
                let is_wanted = !self.regions.is_withdrawn(key);
                is_wanted.then(|| (PayloadBuffer::Region(key), Place::new(at, payload)))
            }
            Opcode::ReadResponse => self.begin_response(Tagged::parse(tagged), control)?,
            Opcode::ReadRequest => self.begin_read(Untagged::parse(untagged), control)?,
            Opcode::Terminate => begin_terminate(Untagged::parse(untagged), control)?,
            _ => self.begin_message(Untagged::parse(untagged), control)?,
        };
        Ok(())
    }

    /// A response continues where it was, and its last segment is at its end.
    fn begin_response(
        &mut self,
        sink: Tagged,
        control: Control,
    ) -> Result<Option<(PayloadBuffer, Place)>, Violation> {
        let read = self.reads.front().ok_or(Violation::Unasked)?;
        if sink.key != read.key {
            return Err(Violation::ResponseKey { found: sink.key, expected: read.key });
        }
        let payload = control.payload_len();
        let left = read.len - read.received;
        if sink.offset != read.received as u64 || payload > left || control.last != (payload == left) {
            return Err(Violation::ResponseBounds(read.received as u64));
        }
        Ok((payload > 0).then(|| (PayloadBuffer::Read, Place::new(read.received, payload))))
    }

    fn begin_read(
        &mut self,
        segment: Untagged,
        control: Control,
    ) -> Result<Option<(PayloadBuffer, Place)>, Violation> {
        check(segment, READ_QUEUE, self.read_msn, 0)?;
        if control.payload_len() > 0 || !control.last {
            return Err(Violation::Length(control.len));
        }
        Ok(None)
    }

    fn begin_message(
        &mut self,
        segment: Untagged,
        control: Control,
    ) -> Result<Option<(PayloadBuffer, Place)>, Violation> {
        let payload = control.payload_len();
        let filled = self.message.as_ref().map_or(0, |message| message.filled);
        check(segment, SEND_QUEUE, self.send_msn, filled as u64)?;
        if self.is_ready_message(control) {
            return Ok(None);
        }
        if let Some(Message { opcode, .. }) = &self.message
            && *opcode != control.opcode
        {
            return Err(Violation::Mixed { began: *opcode as u8, found: control.opcode as u8 });
        }
        let room = match &self.message {
            Some(message) => message.receive.buffer.len(),
            None => self.receives.front().ok_or(Violation::NoReceive)?.buffer.len(),
        };
        if payload > room - filled {
            return Err(Violation::MessageTooLong { len: filled as u64 + payload as u64, room });
        }
        if self.message.is_none() {
            self.message = self.receives.pop_front().map(|receive| Message {
                receive,
                opcode: control.opcode,
                filled: 0,
            });
        }
        Ok((payload > 0).then(|| (PayloadBuffer::Message, Place::new(filled, payload))))
    }

    /// Returns whether the segment is the empty message that indicates that the peer is ready. It is the first of all,
    /// and takes no receive.
    fn is_ready_message(&self, control: Control) -> bool {
        self.ready_by_send && self.message.is_none() && control.last && control.payload_len() == 0
    }

    fn place(&mut self) -> Option<(&mut Place, &mut SegmentMut)> {
        let (target, place) = self.place.as_mut()?;
        let buffer = match *target {
            PayloadBuffer::Region(key) => self.regions.sink(key)?,
            PayloadBuffer::Message => &mut self.message.as_mut()?.receive.buffer,
            PayloadBuffer::Read => &mut self.reads.front_mut()?.read.sink,
            PayloadBuffer::Gone(_) => return None,
        };
        Some((place, buffer))
    }

    /// Copies payload that was received in shared memory. Fails if its region was invalidated since the segment began.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        match self.place() {
            Some((place, buffer)) => place.fill(buffer, bytes),
            None => self.check_revoked()?,
        }
        Ok(())
    }

    /// Payload without a place is skipped (as in a Terminate message), unless its region is gone.
    fn check_revoked(&self) -> Result<(), Violation> {
        match self.place {
            Some((PayloadBuffer::Gone(key), _)) => Err(Violation::Revoked(key)),
            _ => Ok(()),
        }
    }

    /// Returns the place of the payload for a receive, if it is large enough.
    pub(super) fn landing(&mut self) -> Option<SegmentMut> {
        let (place, buffer) = self.place()?;
        let left = place.left();
        place.hand_out(buffer, left)
    }

    /// Returns the destination of the rest of the current payload, if the segment is a tagged one.
    pub(super) fn spot(&self) -> Option<Spot> {
        let (target, place) = self.place.as_ref()?;
        let key = match *target {
            PayloadBuffer::Region(key) => key,
            PayloadBuffer::Read => self.reads.front()?.key,
            PayloadBuffer::Message | PayloadBuffer::Gone(_) => return None,
        };
        Some(Spot { key, at: place.at(), len: place.left() })
    }

    /// Predicts the spot after `spot`, of at most `whole` bytes, if the peer continues regularly: with the same
    /// message, or with the response to the next RDMA Read.
    pub(super) fn foresee(&self, spot: Spot, whole: usize) -> Option<Spot> {
        let within = |key, at, len: usize| (len > at).then(|| Spot { key, at, len: whole.min(len - at) });
        match self.reads.iter().position(|read| read.key == spot.key) {
            Some(index) => {
                let read = &self.reads[index];
                let next = self.reads.get(index + 1);
                within(spot.key, spot.end(), read.len)
                    .or_else(|| next.and_then(|next| within(next.key, 0, next.len)))
            }
            None if !self.foresee_writes => None,
            None => within(spot.key, spot.end(), self.regions.unwritten(spot.key, spot.end())?),
        }
    }

    fn sink(&mut self, key: u32) -> Option<&mut SegmentMut> {
        if let Some(read) = self.reads.iter_mut().find(|read| read.key == key) {
            return Some(&mut read.read.sink);
        }
        self.regions.sink(key)
    }

    /// Takes the memory of a spot for a receive. All earlier parts of the same memory are already taken.
    pub(super) fn take(&mut self, spot: Spot) -> SegmentMut {
        self.sink(spot.key).expect("a predicted spot has memory").split_to(spot.len)
    }

    /// Puts back memory that was taken, other than that of the current segment.
    pub(super) fn put_back(&mut self, key: u32, memory: SegmentMut) {
        let sink = self.sink(key).expect("memory stays while a part of it is out");
        let rest = std::mem::replace(sink, memory);
        sink.try_join(rest).expect("spots are taken from the front");
    }

    pub(super) fn bytes(&mut self, spot: Spot, len: usize) -> &[u8] {
        self.sink(spot.key).map_or(&[], |sink| &sink[spot.at..spot.at + len])
    }

    pub(super) fn skip(&mut self, bytes: usize) {
        if let Some((_, place)) = &mut self.place {
            place.skip(bytes);
        }
    }

    pub(super) fn rest(&self) -> usize {
        self.place.as_ref().map_or(0, |(_, place)| place.left())
    }

    pub(super) fn is_out(&self) -> bool {
        self.place.as_ref().is_some_and(|(_, place)| place.is_out())
    }

    /// Takes the place back after a receive. A region that was invalidated meanwhile returns to the user, and the
    /// connection ends.
    pub(super) fn landed(&mut self, buffer: SegmentMut, filled: usize) -> Option<(Violation, Completion)> {
        let (place, into) = self.place().expect("a place that was handed out");
        place.landed(into, buffer, filled);
        if !std::mem::take(&mut self.revoked) {
            return None;
        }
        let Some((PayloadBuffer::Region(key), _)) = self.place.take() else { return None };
        let memory = self.regions.take(key)?;
        Some((Violation::Revoked(key), released(Key(key), memory, Status::Success)))
    }

    /// Takes memory back. `Some(None)`: part of it is out for a receive, and it comes back by [`landed`](Self::landed).
    pub(super) fn invalidate(&mut self, key: u32) -> Option<Option<Memory>> {
        if let Some((target, place)) =
            self.place.as_mut().filter(|(target, _)| *target == PayloadBuffer::Region(key))
        {
            if place.is_out() {
                self.revoked = true;
                return Some(None);
            }
            *target = PayloadBuffer::Gone(key);
        }
        self.regions.take(key).map(Some)
    }

    /// Takes the memory of a sink back but keeps its key, dropping later bytes for it. `None`: part of it is out for a
    /// receive, and it comes back by [`landed`](Self::landed).
    pub(super) fn withdraw(&mut self, key: u32) -> Option<Memory> {
        let place = self.place.as_ref().filter(|(target, _)| *target == PayloadBuffer::Region(key));
        if place.is_some_and(|(_, place)| place.is_out()) {
            self.revoked = true;
            return None;
        }
        if place.is_some() {
            self.place = None;
        }
        self.regions.withdraw(key).map(Memory::Sink)
    }

    /// Completes a segment whose checksum was correct.
    pub(super) fn end(&mut self, control: Control, header: &[u8; HEADER_MAX]) -> Result<Ended, Violation> {
        self.place = None;
        let ready = std::mem::take(&mut self.ready_by_send);
        match control.opcode {
            Opcode::Write => Ok(Ended::Part),
            Opcode::ReadResponse => Ok(self.end_response(control)),
            Opcode::ReadRequest => self.end_read(header).map(Ended::Asked),
            Opcode::Terminate => {
                let code: [u8; TERMINATE_LEN] = std::array::from_fn(|i| header[UNTAGGED_LEN + i]);
                Ok(Ended::Terminated(Code::parse(code)))
            }
            _ if ready && self.message.is_none() => {
                self.send_msn += 1;
                Ok(Ended::Part)
            }
            _ => self.end_message(control, header),
        }
    }

    fn end_response(&mut self, control: Control) -> Ended {
        let Some(pending) = self.reads.front_mut() else { return Ended::Part };
        pending.received += control.payload_len();
        if !control.last {
            return Ended::Part;
        }
        let Some(Pending { read, key, .. }) = self.reads.pop_front() else { return Ended::Part };
        self.regions.release_sink(key);
        let done = CompletedWork::Read(read.sink);
        read.id
            .map_or(Ended::Part, |id| Ended::CompletedWork(Completion { id, status: Status::Success, done }))
    }

    fn end_read(&mut self, header: &[u8; HEADER_MAX]) -> Result<Response, Violation> {
        let request = header[UNTAGGED_LEN..].first_chunk().expect("a header has room for a read request");
        let ReadRequest { sink, len, source } = ReadRequest::parse(request);
        self.read_msn = self.read_msn.wrapping_add(1);
        // The key of a zero-length read is not checked.
        let bytes = if len == 0 { List::new() } else { self.regions.read(source.key, source.offset, len)? };
        if wraps(sink.offset, len as usize) {
            return Err(Violation::ReadWraps(sink.offset));
        }
        Ok(Response { bytes, sink, begun: false })
    }

    fn end_message(&mut self, control: Control, header: &[u8; HEADER_MAX]) -> Result<Ended, Violation> {
        let Some(message) = &mut self.message else { return Ok(Ended::Part) };
        message.filled += control.payload_len();
        if !control.last {
            return Ok(Ended::Part);
        }
        let invalidated = match control.opcode.invalidates() {
            true => {
                let untagged = header.first_chunk().expect("a header is longer than that");
                let key = Untagged::parse(untagged).invalidate;
                let memory = self.regions.take(key).ok_or(Violation::CannotInvalidate(key))?;
                Some((Key(key), memory))
            }
            false => None,
        };
        let Some(Message { receive, filled, .. }) = self.message.take() else { return Ok(Ended::Part) };
        self.send_msn = self.send_msn.wrapping_add(1);
        let done = CompletedWork::Received {
            buffer: receive.buffer,
            len: filled,
            solicited: control.opcode.is_solicited(),
            invalidated,
        };
        Ok(Ended::CompletedWork(Completion { id: receive.id, status: Status::Success, done }))
    }

    pub(super) fn flush(&mut self, to: &mut VecDeque<Completion>) {
        self.place = None;
        let begun = self.message.take().map(|message| message.receive);
        for Receive { id, buffer } in begun.into_iter().chain(self.receives.drain(..)) {
            let done = CompletedWork::Received { buffer, len: 0, solicited: false, invalidated: None };
            to.push_back(Completion { id, status: Status::Flushed, done });
        }
        for Pending { read, key, .. } in self.reads.drain(..) {
            self.regions.release_sink(key);
            to.extend(read.flushed());
        }
        let regions = self.regions.drain().into_iter();
        to.extend(regions.map(|(key, memory)| released(key, memory, Status::Flushed)));
    }
}

impl Read {
    pub(super) fn flushed(self) -> Option<Completion> {
        let done = CompletedWork::Read(self.sink);
        self.id.map(|id| Completion { id, status: Status::Flushed, done })
    }
}

fn released(key: Key, memory: Memory, status: Status) -> Completion {
    Completion { id: u64::from(key.0), status, done: CompletedWork::Released(key, memory) }
}

fn check(segment: Untagged, queue: u32, msn: u32, offset: u64) -> Result<(), Violation> {
    if segment.queue != queue {
        return Err(Violation::Queue(segment.queue));
    }
    if segment.msn != msn {
        return Err(Violation::Msn { found: segment.msn, expected: msn });
    }
    if u64::from(segment.offset) != offset {
        let expected = u32::try_from(offset).unwrap_or(u32::MAX);
        return Err(Violation::MessageOffset { found: segment.offset, expected });
    }
    Ok(())
}

fn begin_terminate(segment: Untagged, control: Control) -> Result<Option<(PayloadBuffer, Place)>, Violation> {
    check(segment, TERMINATE_QUEUE, 1, 0)?;
    if control.payload_len() > HEADER_MAX || !control.last {
        return Err(Violation::Length(control.len));
    }
    Ok(None)
}
