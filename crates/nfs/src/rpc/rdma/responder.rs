//! The end of a server: takes calls, and fetches what goes with them; sends replies, and writes what goes with them.

use super::error::Error;
use super::header::{Chunks, Content, Header, Parameters, RdmaError, RdmaSegment, ReadSegment, WriteChunk};
use super::limits::{Config, Inline};
use super::message::{cut, fill_up, number, split, total};
use super::work::Works;
use crate::rpc::record::{Record, Splitter};
use crate::xdr::{Reader, Writer, padding};
use onego_buf::{Arena, List, Segment, SegmentMut};
use onego_rdma::{CompletedWork, Completion, Key, QueuePair, SendFlags, Status};
use onego_wire::Unfinished;
use std::collections::{HashMap, VecDeque};
use std::iter::{once, repeat};

/// The end of a server.
///
/// Its owner drives the queue pair, asks for [calls](Self::next) whenever that may have completed something, and gives a
/// [reply](Self::reply) to each. It stops asking while too much is [unsent](Self::unsent).
#[derive(Debug)]
pub struct Responder<Q> {
    queue_pair: Q,
    config: Config,
    inline: Inline,
    /// The client lets its memory be invalidated.
    invalidates: bool,
    /// Receives that are posted.
    receives: usize,
    /// Calls of which something is to be read, when it is their turn.
    arrived: VecDeque<Arrived>,
    /// Calls of which something is being read, in the order of the reads.
    reading: VecDeque<Reading>,
    /// Bytes that are being read.
    reading_len: usize,
    /// Calls that are with the owner.
    calls: HashMap<u32, Call>,
    works: Works,
    /// What else has completed, and was not looked at.
    completed: VecDeque<Completion>,
    arena: Arena,
    writer: Writer,
}

/// What is needed of a call for its reply.
#[derive(Debug)]
struct Call {
    xid: u32,
    /// Calls that the client would like to have under way.
    credits: u32,
    writes: Vec<WriteChunk>,
    reply: Option<WriteChunk>,
    /// The one region that the call told of, which the reply may invalidate.
    key: Option<Key>,
}

/// A call, with what is to be read for it.
#[derive(Debug)]
struct Arrived {
    call: Call,
    /// The message, as far as it was sent...
    message: Segment,
    /// ...or where it is to be read from.
    whole: Vec<RdmaSegment>,
    payload: Payload,
}

/// The chunk that has the payload.
#[derive(Debug, Default)]
struct Payload {
    position: u32,
    targets: Vec<RdmaSegment>,
}

/// A call of which something is being read.
#[derive(Debug)]
struct Reading {
    call: Call,
    what: What,
    /// Reads that are not done.
    left: usize,
    /// Bytes of all of them.
    len: usize,
    sink: Option<SegmentMut>,
}

#[derive(Debug)]
enum What {
    /// The message.
    Whole(Payload),
    /// The payload of the message with that front; in the place where it belongs?
    Payload(Segment, bool),
}

/// The region, if all segments are of one (RFC 8166, section 3.4.1: memory may be invalidated by the reply).
fn only_key(chunks: &Chunks) -> Option<Key> {
    let reads = chunks.reads.iter().map(|read| &read.target);
    let writes = chunks.writes.iter().chain(&chunks.reply).flat_map(|chunk| &chunk.0);
    let mut handles = reads.chain(writes).map(|target| target.handle);
    let first = handles.next()?;
    handles.all(|handle| handle == first).then_some(Key(first))
}

impl<Q: QueuePair> Responder<Q> {
    /// The end of a connection that a client opens. Receives are posted at once.
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

    /// Takes what the client told of itself when it asked to connect, before it is let in, and returns what it is told.
    pub fn requested(&mut self, private_data: &[u8]) -> [u8; Parameters::LEN] {
        let told = Parameters::decode(private_data).unwrap_or_default();
        let ours = self.config.parameters();
        self.inline = Inline::agreed(ours, told);
        self.invalidates = told.remote_invalidation && self.config.remote_invalidation;
        // Only clients have memory that is invalidated.
        Parameters { remote_invalidation: false, ..ours }.encode()
    }

    /// The queue pair.
    pub fn queue_pair(&self) -> &Q {
        &self.queue_pair
    }

    /// The queue pair, for its driver.
    pub fn queue_pair_mut(&mut self) -> &mut Q {
        &mut self.queue_pair
    }

    /// Bytes of replies that are not with the transport yet.
    pub fn unsent(&self) -> usize {
        self.works.unsent()
    }

    /// Has the queue pair refused something for good? [`next`](Self::next) says what, and the connection has to end.
    pub fn has_failed(&self) -> bool {
        self.works.has_failed()
    }

    /// Calls that are not answered yet: those that are still being read, and those that the owner has.
    pub fn under_way(&self) -> usize {
        self.calls.len() + self.arrived.len() + self.reading.len()
    }

    /// Calls whose data is being read from the client's memory. How much of it is here is not known.
    #[inline]
    pub fn unfinished(&self) -> Option<Unfinished> {
        (self.reading_len > 0).then_some(Unfinished { announced: self.reading_len, held: 0 })
    }

    /// The transport has taken something: counts again what is [unsent](Self::unsent), and gives it more.
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

    /// The next call that is here with all its data. `splitter` is asked where its payload belongs.
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
                // What is flushed is of no use any more.
                (status == Status::Success).then(|| self.message(buffer.freeze().slice(..len), splitter))?
            }
            CompletedWork::Read(sink) if status == Status::Success => self.read(sink, splitter),
            _ => None,
        };
        self.admit(splitter);
        record
    }

    /// A message came.
    fn message(&mut self, mut bytes: Segment, splitter: &mut dyn Splitter) -> Option<Record> {
        let mut r = Reader::new(&bytes);
        let header = match Header::decode(&mut r) {
            Ok(header) => header,
            Err(unreadable) => {
                // A message without a number cannot be answered.
                self.error(unreadable.xid?, 0, unreadable.error);
                return None;
            }
        };
        bytes.advance(bytes.len() - r.left());
        let (chunks, has_message) = match header.content {
            Content::Message(chunks) => (chunks, true),
            Content::NoMessage(chunks) => (chunks, false),
            // A client has nothing to complain of.
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

    /// What is to be read: the message, and the one payload that a call of NFS may have. `None`: that cannot be.
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
        // The message is either here or to be read (RFC 8166, section 3.5.2).
        (lengths_fit && whole.is_empty() == has_message).then_some((whole, payload))
    }

    /// Begins to read for calls whose turn it is.
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
                self.fetch(call, What::Whole(payload), &whole, sink);
            }
        }
    }

    /// Reads the payload of a message to where it belongs. The message ends where the payload begins.
    fn fetch_payload(&mut self, call: Call, front: Segment, payload: Payload, splitter: &mut dyn Splitter) {
        let there = total(&payload.targets) as usize;
        let len = match split(&front, splitter) {
            Some((front_len, len)) if front_len == front.len() && payload.position as usize == front_len => {
                len
            }
            _ => return self.refuse(&call),
        };
        // What fills up the last unit may be in the chunk or not (RFC 8166, section 3.4.5.2).
        if there != len && there != len + padding(len) {
            return self.refuse(&call);
        }
        let place = splitter.place(&front, len);
        let placed = place.is_some();
        let sink = place.unwrap_or_else(|| self.config.pool.get(len));
        assert_eq!(sink.len(), len, "a place has the size of the payload");
        self.fetch(call, What::Payload(front, placed), &payload.targets, sink);
    }

    /// Reads as much as the sink holds.
    fn fetch(&mut self, call: Call, what: What, targets: &[RdmaSegment], mut sink: SegmentMut) {
        let (len, mut left) = (sink.len(), 0);
        for target in targets {
            let part = sink.split_to(sink.len().min(target.length as usize));
            if !part.is_empty() {
                left += 1;
                self.works.read(part, target.remote());
            }
        }
        if left == 0 {
            // Chunks of no bytes carry nothing.
            return self.refuse(&call);
        }
        self.reading_len += len;
        self.reading.push_back(Reading { call, what, left, len, sink: None });
    }

    /// A part of what is being read for the first call is here.
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
        let Reading { call, what, len, sink, .. } = self.reading.pop_front()?;
        self.reading_len -= len;
        let sink = sink?;
        match what {
            What::Whole(payload) if payload.targets.is_empty() => self.whole(call, sink.freeze(), splitter),
            What::Whole(payload) => {
                self.fetch_payload(call, sink.freeze(), payload, splitter);
                None
            }
            What::Payload(front, placed) => {
                let (payload, placed) = match placed {
                    true => (List::new(), Some(sink)),
                    false => (List::from(sink), None),
                };
                self.deliver(call, Record { front, payload, placed, broken: false })
            }
        }
    }

    /// A call is here in one piece.
    fn whole(&mut self, call: Call, message: Segment, splitter: &mut dyn Splitter) -> Option<Record> {
        let record = cut(message, splitter);
        self.deliver(call, record)
    }

    /// A call is here with all its data.
    fn deliver(&mut self, call: Call, record: Record) -> Option<Record> {
        if number(&record.front) != Some(call.xid) {
            // RFC 8166, section 4.2.1: both numbers are the same.
            self.refuse(&call);
            return None;
        }
        // A client that repeats a call on one connection gets the reply to the first.
        if self.calls.contains_key(&call.xid) {
            return None;
        }
        self.calls.insert(call.xid, call);
        Some(record)
    }

    /// Gives a call up: there will be no reply.
    pub fn forget(&mut self, xid: u32) {
        self.calls.remove(&xid);
        self.replenish();
    }

    /// Sends a reply to the call of its number. Nothing happens if there is no such call.
    pub fn reply(&mut self, front: &[u8], payload: List) {
        let Some(call) = number(front).and_then(|xid| self.calls.remove(&xid)) else { return };
        if !self.try_reply(&call, front, payload) {
            // What was offered for the reply is too small for it (RFC 8166, section 4.5.3).
            self.refuse(&call);
        }
        self.replenish();
        self.post();
    }

    /// Posts what waits. What goes wrong is told by the next look for calls.
    fn post(&mut self) {
        let _ = self.works.post(&mut self.queue_pair);
    }

    /// `false`: there is no way for it.
    fn try_reply(&mut self, call: &Call, front: &[u8], payload: List) -> bool {
        // The payload goes to the first chunk that there is for it, alone and not filled up (RFC 8166, section 3.4.6).
        let (mut beside, mut body) = (List::new(), List::new());
        match call.writes.is_empty() {
            true => body = fill_up(payload),
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

    /// Writes the header of a reply.
    fn header(&mut self, call: &Call, content: Content) {
        let credits = self.granted(call.credits);
        self.writer.clear();
        Header { xid: call.xid, credits, content }.encode(&mut self.writer);
    }

    /// Tells a client that the chunks of its call cannot be used.
    fn refuse(&mut self, call: &Call) {
        self.error(call.xid, call.credits, RdmaError::Chunk);
    }

    fn error(&mut self, xid: u32, credits: u32, error: RdmaError) {
        let credits = self.granted(credits);
        self.writer.clear();
        Header { xid, credits, content: Content::Error(error) }.encode(&mut self.writer);
        self.works.send(List::from(Segment::copy_from(self.writer.as_slice())), SendFlags::default());
    }

    /// Calls that a client may have under way that asks for `asked`: never more than there are receives for.
    fn granted(&self, asked: u32) -> u32 {
        asked.clamp(1, self.config.credits() as u32)
    }

    /// Posts a receive for each call that may come: there is none for those that are not answered, nor for those whose
    /// answers are not taken.
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

/// What is said of a chunk to which `len` bytes are written. `None`: they have no room in it.
fn used(chunk: &WriteChunk, mut len: usize) -> Option<WriteChunk> {
    let mut chunk = chunk.clone();
    for target in &mut chunk.0 {
        let used = len.min(target.length as usize);
        target.length = used as u32;
        len -= used;
    }
    (len == 0).then_some(chunk)
}

/// Writes to memory of the client, as many bytes to each piece as it says.
fn write(works: &mut Works, targets: &[RdmaSegment], bytes: &mut List) {
    for target in targets.iter().filter(|target| target.length > 0) {
        let part = bytes.split_to(target.length as usize);
        works.write(part, target.remote());
    }
}
