//! The server side of RPC over RDMA: receives calls and reads their data, sends replies and writes their data.

use super::error::Error;
use super::header::{Chunks, Content, Header, Parameters, RdmaError, RdmaSegment, ReadSegment, WriteChunk};
use super::limits::{Config, Inline};
use super::message::{cut, number, pad, split, total};
use super::work::Works;
use crate::rpc::record::{Record, Splitter};
use crate::xdr::{Reader, Writer, padding};
use onego_buf::{Arena, List, Segment, SegmentMut};
use onego_rdma::{CompletedWork, Completion, Key, QueuePair, SendFlags, Status};
use onego_wire::Unfinished;
use std::collections::{HashMap, VecDeque};
use std::iter::{once, repeat};

/// The server side of a connection.
///
/// The owner drives the queue pair, polls for [calls](Self::next) whenever it may have completed work, and sends a
/// [reply](Self::reply) to each. It stops polling while too much data is [unsent](Self::unsent).
#[derive(Debug)]
pub struct Responder<Q> {
    queue_pair: Q,
    config: Config,
    inline: Inline,
    invalidates: bool,
    receives: usize,
    /// Calls that wait for their data to be read.
    arrived: VecDeque<Arrived>,
    /// Calls whose data is being read, in the order of the reads.
    reading: VecDeque<Reading>,
    reading_len: usize,
    calls: HashMap<u32, Call>,
    works: Works,
    /// Completions that were polled but not processed.
    completed: VecDeque<Completion>,
    arena: Arena,
    writer: Writer,
}

#[derive(Debug)]
struct Call {
    xid: u32,
    /// Number of calls that the client wants to have in flight.
    credits: u32,
    writes: Vec<WriteChunk>,
    reply: Option<WriteChunk>,
    /// The only region of the call's chunks, which the reply may invalidate.
    key: Option<Key>,
}

#[derive(Debug)]
struct Arrived {
    call: Call,
    /// The message, if it was sent inline.
    message: Segment,
    /// Segments of the message, if it must be read.
    whole: Vec<RdmaSegment>,
    payload: Payload,
}

#[derive(Debug, Default)]
struct Payload {
    position: u32,
    targets: Vec<RdmaSegment>,
}

#[derive(Debug)]
struct Reading {
    call: Call,
    target: ReadTarget,
    left: usize,
    len: usize,
    sink: Option<SegmentMut>,
}

#[derive(Debug)]
enum ReadTarget {
    Message(Payload),
    /// The payload of a message, with its front, and whether the splitter provided the buffer.
    Payload(Segment, bool),
}

/// Returns the key that all segments share, if they do: the reply may invalidate only one region (RFC 8166, section
/// 3.4.1).
fn only_key(chunks: &Chunks) -> Option<Key> {
    let reads = chunks.reads.iter().map(|read| &read.target);
    let writes = chunks.writes.iter().chain(&chunks.reply).flat_map(|chunk| &chunk.0);
    let mut handles = reads.chain(writes).map(|target| target.handle);
    let first = handles.next()?;
    handles.all(|handle| handle == first).then_some(Key(first))
}

impl<Q: QueuePair> Responder<Q> {
    /// Creates the server side of a connection that a client opens. Posts receives at once.
    pub fn new(queue_pair: Q, config: Config) -> Self {
        let inline = Inline::agreed(config.parameters(), Parameters::default());
        let arena = Arena::new(config.pool.clone());
        let mut this = Self {
            queue_pair,
            config,
            inline,
            invalidates: false,
            receives: 0,
            arrived: VecDeque::new(),
            reading: VecDeque::new(),
            reading_len: 0,
            calls: HashMap::new(),
            works: Works::default(),
            completed: VecDeque::new(),
            arena,
            writer: Writer::new(),
        };
        this.replenish();
        this
    }

    /// Processes the client's private data before the connection is accepted, and returns the server's.
    pub fn requested(&mut self, private_data: &[u8]) -> [u8; Parameters::LEN] {
        let theirs = Parameters::decode(private_data).unwrap_or_default();
        let ours = self.config.parameters();
        self.inline = Inline::agreed(ours, theirs);
        self.invalidates = theirs.remote_invalidation && self.config.remote_invalidation;
        // Only the memory of clients is invalidated.
        Parameters { remote_invalidation: false, ..ours }.encode()
    }

    /// Returns the queue pair.
    pub fn queue_pair(&self) -> &Q {
        &self.queue_pair
    }

    /// Returns the queue pair for its driver.
    pub fn queue_pair_mut(&mut self) -> &mut Q {
        &mut self.queue_pair
    }

    /// Returns the number of reply bytes that the transport has not taken yet.
    pub fn unsent(&self) -> usize {
        self.works.unsent()
    }

    /// Returns whether the queue pair has permanently rejected work. [`next`](Self::next) returns the error, and the
    /// connection must be closed.
    pub fn has_failed(&self) -> bool {
        self.works.has_failed()
    }

    /// Returns the number of unanswered calls: those whose data is being read, and those that the owner has.
    pub fn under_way(&self) -> usize {
        self.calls.len() + self.arrived.len() + self.reading.len()
    }

    /// Returns the size of the calls being read from the client's memory. The number of bytes read so far is unknown.
    #[inline]
    pub fn unfinished(&self) -> Option<Unfinished> {
        (self.reading_len > 0).then_some(Unfinished { announced: self.reading_len, held: 0 })
    }

    /// Handles output that the transport has taken: updates [`unsent`](Self::unsent) and posts more work.
    pub fn taken(&mut self) {
        while let Some(completion) = self.queue_pair.poll() {
            match completion.done {
                CompletedWork::Sent | CompletedWork::Written => self.works.done(&completion.done),
                _ => self.completed.push_back(completion),
            }
        }
        self.replenish();
        self.post();
    }

    /// Returns the next call with all its data. `splitter` provides a buffer for its payload.
    pub fn next(&mut self, splitter: &mut dyn Splitter) -> Result<Option<Record>, Error> {
        loop {
            self.works.post(&mut self.queue_pair)?;
            let completion = self.completed.pop_front().or_else(|| self.queue_pair.poll());
            let Some(completion) = completion else { return Ok(None) };
            let record = self.completed(completion, splitter);
            self.replenish();
            if record.is_some() {
                return Ok(record);
            }
        }
    }

    fn completed(
        &mut self,
        Completion { status, done, .. }: Completion,
        splitter: &mut dyn Splitter,
    ) -> Option<Record> {
        self.works.done(&done);
        let record = match done {
            CompletedWork::Received { buffer, len, .. } => {
                self.receives -= 1;
                // Flushed receives are useless.
                (status == Status::Success).then(|| self.message(buffer.freeze().slice(..len), splitter))?
            }
            CompletedWork::Read(sink) if status == Status::Success => self.read(sink, splitter),
            _ => None,
        };
        self.admit(splitter);
        record
    }

    fn message(&mut self, mut bytes: Segment, splitter: &mut dyn Splitter) -> Option<Record> {
        let mut r = Reader::new(&bytes);
        let header = match Header::decode(&mut r) {
            Ok(header) => header,
            Err(unreadable) => {
                // A message without an xid cannot be answered.
                self.error(unreadable.xid?, 0, unreadable.error);
                return None;
            }
        };
        bytes.advance(bytes.len() - r.left());
        let (chunks, has_message) = match header.content {
            Content::Message(chunks) => (chunks, true),
            Content::NoMessage(chunks) => (chunks, false),
            // Clients have no errors to report.
            Content::Error(_) => return None,
        };
        let key = only_key(&chunks);
        let (xid, credits) = (header.xid, header.credits);
        let call = Call { xid, credits, writes: chunks.writes, reply: chunks.reply, key };
        let Some((whole, payload)) = self.sort(chunks.reads, has_message) else {
            self.refuse(&call);
            return None;
        };
        if whole.is_empty() && payload.targets.is_empty() {
            return self.whole(call, bytes, splitter);
        }
        self.arrived.push_back(Arrived { call, message: bytes, whole, payload });
        None
    }

    /// Sorts the segments to read into the message and the single payload that an NFS call may have. Returns `None` for
    /// invalid combinations.
    fn sort(&self, reads: Vec<ReadSegment>, has_message: bool) -> Option<(Vec<RdmaSegment>, Payload)> {
        let (mut whole, mut payload) = (Vec::new(), Payload::default());
        for ReadSegment { position, target } in reads {
            if position == 0 {
                whole.push(target);
                continue;
            }
            if !payload.targets.is_empty() && payload.position != position {
                return None;
            }
            payload.position = position;
            payload.targets.push(target);
        }
        let bound = self.config.message_max as u64;
        let lengths_fit = total(&whole).saturating_add(total(&payload.targets)) <= bound;
        // The message is either inline or must be read (RFC 8166, section 3.5.2).
        (lengths_fit && whole.is_empty() == has_message).then_some((whole, payload))
    }

    /// Starts reading for waiting calls, within `reading_max`.
    fn admit(&mut self, splitter: &mut dyn Splitter) {
        while let Some(next) = self.arrived.front() {
            let targets = if next.whole.is_empty() { &next.payload.targets } else { &next.whole };
            let len = total(targets) as usize;
            if self.reading_len > 0 && self.reading_len + len > self.config.reading_max {
                return;
            }
            let Some(Arrived { call, message, whole, payload }) = self.arrived.pop_front() else { return };
            if whole.is_empty() {
                self.fetch_payload(call, message, payload, splitter);
            } else {
                let sink = self.config.pool.get(len);
                self.fetch(call, ReadTarget::Message(payload), &whole, sink);
            }
        }
    }

    fn fetch_payload(&mut self, call: Call, front: Segment, payload: Payload, splitter: &mut dyn Splitter) {
        let there = total(&payload.targets) as usize;
        let len = match split(&front, splitter) {
            Some((front_len, len)) if front_len == front.len() && payload.position as usize == front_len => {
                len
            }
            _ => return self.refuse(&call),
        };
        // The chunk may or may not include the padding (RFC 8166, section 3.4.5.2).
        if there != len && there != len + padding(len) {
            return self.refuse(&call);
        }
        let place = splitter.place(&front, len);
        let placed = place.is_some();
        let sink = place.unwrap_or_else(|| self.config.pool.get(len));
        assert_eq!(sink.len(), len, "a place has the size of the payload");
        self.fetch(call, ReadTarget::Payload(front, placed), &payload.targets, sink);
    }

    fn fetch(&mut self, call: Call, target: ReadTarget, targets: &[RdmaSegment], mut sink: SegmentMut) {
        let (len, mut left) = (sink.len(), 0);
        for segment in targets {
            let part = sink.split_to(sink.len().min(segment.length as usize));
            if !part.is_empty() {
                left += 1;
                self.works.read(part, segment.remote());
            }
        }
        if left == 0 {
            // Empty chunks are invalid.
            return self.refuse(&call);
        }
        self.reading_len += len;
        self.reading.push_back(Reading { call, target, left, len, sink: None });
    }

    /// Processes a completed read, which belongs to the first call in `reading`.
    fn read(&mut self, part: SegmentMut, splitter: &mut dyn Splitter) -> Option<Record> {
        let reading = self.reading.front_mut()?;
        match &mut reading.sink {
            Some(sink) => sink.try_join(part).expect("the parts of a sink follow each other"),
            None => reading.sink = Some(part),
        }
        reading.left -= 1;
        if reading.left > 0 {
            return None;
        }
        let Reading { call, target, len, sink, .. } = self.reading.pop_front()?;
        self.reading_len -= len;
        let sink = sink?;
        match target {
            ReadTarget::Message(payload) if payload.targets.is_empty() => {
                self.whole(call, sink.freeze(), splitter)
            }
            ReadTarget::Message(payload) => {
                self.fetch_payload(call, sink.freeze(), payload, splitter);
                None
            }
            ReadTarget::Payload(front, placed) => {
                let (payload, placed) = match placed {
                    true => (List::new(), Some(sink)),
                    false => (List::from(sink), None),
                };
                self.deliver(call, Record { front, payload, placed, broken: false })
            }
        }
    }

    fn whole(&mut self, call: Call, message: Segment, splitter: &mut dyn Splitter) -> Option<Record> {
        let record = cut(message, splitter);
        self.deliver(call, record)
    }

    fn deliver(&mut self, call: Call, record: Record) -> Option<Record> {
        if number(&record.front) != Some(call.xid) {
            // RFC 8166, section 4.2.1: both xids must be equal.
            self.refuse(&call);
            return None;
        }
        // A client that repeats a call on the same connection gets the reply to the first.
        if self.calls.contains_key(&call.xid) {
            return None;
        }
        self.calls.insert(call.xid, call);
        Some(record)
    }

    /// Drops a call that will not be answered.
    pub fn forget(&mut self, xid: u32) {
        self.calls.remove(&xid);
        self.replenish();
    }

    /// Sends a reply to the call with its xid. Does nothing if there is no such call.
    pub fn reply(&mut self, front: &[u8], payload: List) {
        let Some(call) = number(front).and_then(|xid| self.calls.remove(&xid)) else { return };
        if !self.try_reply(&call, front, payload) {
            // The offered memory is too small for the reply (RFC 8166, section 4.5.3).
            self.refuse(&call);
        }
        self.replenish();
        self.post();
    }

    fn post(&mut self) {
        let _ = self.works.post(&mut self.queue_pair);
    }

    /// Returns `false` if the offered memory is too small.
    fn try_reply(&mut self, call: &Call, front: &[u8], payload: List) -> bool {
        // The payload alone goes to the first write chunk, without padding (RFC 8166, section 3.4.6).
        let (mut beside, mut body) = (List::new(), List::new());
        match call.writes.is_empty() {
            true => body = pad(payload),
            false => beside = payload,
        }
        let lens = once(beside.len()).chain(repeat(0));
        let writes = call.writes.iter().zip(lens).map(|(chunk, len)| used(chunk, len));
        let Some(writes) = writes.collect::<Option<Vec<_>>>() else { return false };
        let unused = call.reply.as_ref().and_then(|chunk| used(chunk, 0));
        self.header(
            call,
            Content::Message(Chunks { reads: Vec::new(), writes: writes.clone(), reply: unused }),
        );
        let mut message = List::new();
        if self.writer.len() + front.len() + body.len() <= self.inline.send {
            self.arena.put(self.writer.as_slice(), &mut message);
            self.arena.bytes(front, &mut message);
            self.arena.pieces(&mut body, &mut message, |_| {});
        } else {
            let len = front.len() + body.len();
            let Some(reply) = call.reply.as_ref().and_then(|chunk| used(chunk, len)) else { return false };
            let targets = reply.0.clone();
            let chunks = Chunks { reads: Vec::new(), writes: writes.clone(), reply: Some(reply) };
            self.header(call, Content::NoMessage(chunks));
            if self.writer.len() > self.inline.send {
                return false;
            }
            self.arena.put(self.writer.as_slice(), &mut message);
            let mut whole = List::from(Segment::copy_from(front));
            whole.append(body);
            write(&mut self.works, &targets, &mut whole);
        }
        self.arena.flush(&mut message);
        writes.iter().for_each(|chunk| write(&mut self.works, &chunk.0, &mut beside));
        let invalidate = call.key.filter(|_| self.invalidates);
        self.works.send(message, SendFlags { invalidate, solicited: false });
        true
    }

    fn header(&mut self, call: &Call, content: Content) {
        let credits = self.granted(call.credits);
        self.writer.clear();
        Header { xid: call.xid, credits, content }.encode(&mut self.writer);
    }

    fn refuse(&mut self, call: &Call) {
        self.error(call.xid, call.credits, RdmaError::Chunk);
    }

    fn error(&mut self, xid: u32, credits: u32, error: RdmaError) {
        let credits = self.granted(credits);
        self.writer.clear();
        Header { xid, credits, content: Content::Error(error) }.encode(&mut self.writer);
        self.works.send(List::from(Segment::copy_from(self.writer.as_slice())), SendFlags::default());
    }

    /// Returns the credits to grant: never more than there are receives.
    fn granted(&self, asked: u32) -> u32 {
        asked.clamp(1, self.config.credits() as u32)
    }

    /// Posts receives for the calls that may arrive. Unanswered calls, and replies that the transport has not taken,
    /// count against the credits.
    fn replenish(&mut self) {
        let credits = self.config.credits();
        let kept = self.under_way() + self.works.messages().saturating_sub(credits);
        while self.receives + kept < credits {
            let buffer = self.config.pool.get(self.config.parameters().receive_size as usize);
            if self.queue_pair.post_receive(0, buffer).is_err() {
                return;
            }
            self.receives += 1;
        }
    }
}

/// Returns the chunk with the lengths written to each segment, or `None` if `len` bytes do not fit.
fn used(chunk: &WriteChunk, mut len: usize) -> Option<WriteChunk> {
    let mut chunk = chunk.clone();
    for target in &mut chunk.0 {
        let used = len.min(target.length as usize);
        target.length = used as u32;
        len -= used;
    }
    (len == 0).then_some(chunk)
}

/// Writes `bytes` to the client's memory, as many to each segment as it specifies.
fn write(works: &mut Works, targets: &[RdmaSegment], bytes: &mut List) {
    for target in targets.iter().filter(|target| target.length > 0) {
        let part = bytes.split_to(target.length as usize);
        works.write(part, target.remote());
    }
}
