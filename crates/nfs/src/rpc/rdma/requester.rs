//! The end of a client: offers memory with its calls, and takes replies and what was written with them.

use super::error::Error;
use super::header::{Chunks, Content, Header, Parameters, RdmaError, RdmaSegment, ReadSegment, WriteChunk};
use super::limits::{Config, Inline};
use super::message::{cut, fill_up, number, split, total};
use super::work::Works;
use crate::rpc::record::{Record, Splitter};
use crate::xdr::{Reader, Writer, padding};
use onego_buf::{Arena, List, Segment, SegmentMut};
use onego_rdma::{CompletedWork, Completion, Key, Memory, PostError, QueuePair, Refused, SendFlags, Status};
use std::collections::{HashMap, VecDeque};

/// Bytes of a header without chunks, and what one segment of each kind adds (RFC 8166, section 4.3).
const HEADER_LEN: usize = 28;
const READ_LEN: usize = 24;
const WRITE_LEN: usize = 24;
const REPLY_LEN: usize = 20;

/// The end of a client.
///
/// Its owner drives the queue pair, makes [calls](Self::call), and asks for [answers](Self::next) whenever the queue pair
/// may have completed something. Once the connection is over it takes back what is [unanswered](Self::unanswered).
#[derive(Debug)]
pub struct Requester<Q> {
    queue_pair: Q,
    config: Config,
    inline: Inline,
    /// Calls that the server lets be under way: none before it lets us in, and one until it has answered
    /// (RFC 8166, section 3.3.1).
    granted: usize,
    calls: HashMap<u32, RequesterCall>,
    /// Calls that wait for others to be answered.
    waiting: VecDeque<Waiting>,
    works: Works,
    /// Memory could not be registered.
    failed: Option<PostError>,
    arena: Arena,
    writer: Writer,
}

/// A call that is under way: what of its memory is where.
#[derive(Debug, Default)]
struct RequesterCall {
    source: Option<Key>,
    sink: Sink,
    reply: Sink,
    /// Nobody waits for its reply any more.
    given_up: bool,
}

/// Memory for a reply.
#[derive(Debug, Default)]
enum Sink {
    #[default]
    None,
    /// It is here.
    Here(SegmentMut),
    /// The server may write it there.
    Offered(RdmaSegment),
    /// It was taken back, and what the server writes is dropped.
    Withdrawn(Key),
}

#[derive(Debug)]
struct Waiting {
    xid: u32,
    front: Segment,
    payload: List,
    sink: Option<Memory>,
    reply_max: usize,
}

/// What became of a call.
#[derive(Debug)]
pub struct Answer {
    /// The call.
    pub xid: u32,
    /// The reply, with the payload in the beginning of the sink; or why the server could not take the call.
    pub reply: Result<Record, RdmaError>,
    /// The rest of the sink that was given with the call.
    pub rest: Option<SegmentMut>,
}

/// A call that has no answer, and will have none on this connection.
#[derive(Debug)]
pub struct Unanswered {
    /// The call.
    pub xid: u32,
    /// The sink that was given with it.
    pub sink: Option<SegmentMut>,
}

impl<Q: QueuePair> Requester<Q> {
    /// The end of a connection that is being opened, with the [parameters](Config::parameters) as private data. Receives
    /// are posted at once, as many as there may be replies.
    pub fn new(queue_pair: Q, config: Config) -> Self {
        let inline = Inline::agreed(config.parameters(), Parameters::default());
        let arena = Arena::new(config.pool.clone());
        let mut this = Self {
            queue_pair,
            config,
            inline,
            granted: 0,
            calls: HashMap::new(),
            waiting: VecDeque::new(),
            works: Works::default(),
            failed: None,
            arena,
            writer: Writer::new(),
        };
        (0..this.config.credits()).for_each(|_| this.post_receive());
        this
    }

    /// The server let us in, and told that of itself.
    pub fn connected(&mut self, private_data: &[u8]) {
        let told = Parameters::decode(private_data).unwrap_or_default();
        self.inline = Inline::agreed(self.config.parameters(), told);
        self.granted = self.granted.max(1);
        self.start_waiting();
    }

    /// The queue pair.
    pub fn queue_pair(&self) -> &Q {
        &self.queue_pair
    }

    /// The queue pair, for its driver.
    pub fn queue_pair_mut(&mut self) -> &mut Q {
        &mut self.queue_pair
    }

    /// Bytes that are not with the transport yet.
    pub fn unsent(&self) -> usize {
        self.works.unsent()
    }

    /// Has that call no answer yet, be it that nobody waits for it any more?
    pub fn is_under_way(&self, xid: u32) -> bool {
        self.calls.contains_key(&xid) || self.waiting.iter().any(|waiting| waiting.xid == xid)
    }

    /// Has the queue pair refused something for good? [`next`](Self::next) says what, and the connection has to end.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some() || self.works.has_failed()
    }

    /// Calls that were made and are not answered.
    pub fn under_way(&self) -> usize {
        self.calls.len() + self.waiting.len()
    }

    /// Would a call go out at once? If not it waits until others are answered.
    pub fn has_room(&self) -> bool {
        self.waiting.is_empty() && self.calls.len() < self.granted
    }

    /// Makes the call with the number that its front begins with, and that no other call under way has. The payload of
    /// the reply goes to `sink`, which is as long as that may be; the reply has at most `reply_max` bytes beside it.
    ///
    /// # Panics
    /// If the front has no number.
    pub fn call(&mut self, front: &[u8], payload: List, sink: Option<Memory>, reply_max: usize) {
        let xid = number(front).expect("a call begins with its number");
        if self.has_room() {
            self.start(xid, front, payload, sink, reply_max);
        } else {
            let front = Segment::copy_from(front);
            self.waiting.push_back(Waiting { xid, front, payload, sink, reply_max });
        }
    }

    /// Gives up a call, whose reply is dropped when it comes. Until then the call keeps its place among those that the server
    /// lets be under way, and the server the memory that it was offered; but the sink comes back at once if `take_sink`
    /// says so.
    ///
    /// An error is one that ends the connection: with it, the sink comes back from [`unanswered`](Self::unanswered).
    pub fn give_up(&mut self, xid: u32, take_sink: bool) -> Result<Option<SegmentMut>, Error> {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.xid == xid) {
            return Ok(self.waiting.remove(at).and_then(|waiting| Sink::here(waiting.sink?).take()));
        }
        let Some(call) = self.calls.get_mut(&xid) else { return Ok(None) };
        let sink = match call.sink {
            Sink::Offered(target) if take_sink => {
                let key = target.remote().key;
                let Some(Memory::Sink(memory)) = self.queue_pair.withdraw(key)? else {
                    return Err(Error::StillWriting(xid));
                };
                call.sink = Sink::Withdrawn(key);
                Some(memory)
            }
            _ if take_sink => call.sink.take(),
            _ => None,
        };
        call.given_up = true;
        Ok(sink)
    }

    fn start_waiting(&mut self) {
        while self.calls.len() < self.granted {
            let Some(Waiting { xid, front, payload, sink, reply_max }) = self.waiting.pop_front() else {
                return;
            };
            self.start(xid, &front, payload, sink, reply_max);
        }
    }

    /// Sends a call. One that cannot be sent, because its memory cannot be registered, stays unanswered.
    fn start(&mut self, xid: u32, front: &[u8], payload: List, sink: Option<Memory>, reply_max: usize) {
        let (mut call, mut chunks) = (RequesterCall::default(), Chunks::default());
        let prepared = self
            .offer_for_reply(sink, reply_max, &mut call, &mut chunks)
            .and_then(|()| self.lend_what_is_long(front, payload, &mut call, &mut chunks));
        self.calls.insert(xid, call);
        match prepared {
            Ok(body) => self.send(xid, front, body, chunks),
            // Its end is told by the queue pair.
            Err(PostError::Over) => {}
            Err(error) => self.failed = Some(error),
        }
    }

    /// Memory for what may not fit in one message with the reply.
    fn offer_for_reply(
        &mut self,
        sink: Option<Memory>,
        reply_max: usize,
        call: &mut RequesterCall,
        chunks: &mut Chunks,
    ) -> Result<(), PostError> {
        let mut reply_len = HEADER_LEN + reply_max;
        if let Some(sink) = sink {
            let len = sink.len() + padding(sink.len());
            if reply_len + len <= self.inline.receive {
                call.sink = Sink::here(sink);
            } else {
                chunks.writes.push(self.offer(sink, &mut call.sink)?);
                reply_len += WRITE_LEN;
            }
        }
        if reply_len > self.inline.receive {
            let memory = Memory::Fresh(self.config.pool.clone(), reply_max);
            chunks.reply = Some(self.offer(memory, &mut call.reply)?);
        }
        Ok(())
    }

    /// What is sent behind the front; `None`: nothing is sent behind the header, not even the front.
    fn lend_what_is_long(
        &mut self,
        front: &[u8],
        payload: List,
        call: &mut RequesterCall,
        chunks: &mut Chunks,
    ) -> Result<Option<List>, PostError> {
        let header_len = HEADER_LEN + WRITE_LEN * chunks.writes.len() + REPLY_LEN * chunks.reply.iter().len();
        let room = self.inline.send.saturating_sub(header_len);
        if front.len() + payload.len() + padding(payload.len()) <= room {
            return Ok(Some(fill_up(payload)));
        }
        let (position, bytes) = if !payload.is_empty() && READ_LEN + front.len() <= room {
            (front.len() as u32, payload)
        } else {
            let mut whole = List::from(Segment::copy_from(front));
            whole.append(fill_up(payload));
            (0, whole)
        };
        let length = bytes.len() as u32;
        let source = self.queue_pair.register(Memory::Source(bytes)).map_err(|refused| refused.error)?;
        call.source = Some(source.key);
        chunks.reads.push(ReadSegment { position, target: RdmaSegment::new(source, length) });
        Ok((position > 0).then(List::new))
    }

    /// Registers memory that the server may write.
    fn offer(&mut self, memory: Memory, to: &mut Sink) -> Result<WriteChunk, PostError> {
        let len = memory.len();
        match self.queue_pair.register(memory) {
            Ok(remote) => {
                let target = RdmaSegment::new(remote, len as u32);
                *to = Sink::Offered(target);
                Ok(WriteChunk(vec![target]))
            }
            Err(Refused { error, given }) => {
                *to = Sink::here(given);
                Err(error)
            }
        }
    }

    fn send(&mut self, xid: u32, front: &[u8], body: Option<List>, chunks: Chunks) {
        let content = if body.is_some() { Content::Message(chunks) } else { Content::NoMessage(chunks) };
        let credits = self.config.credits() as u32;
        self.writer.clear();
        Header { xid, credits, content }.encode(&mut self.writer);
        let mut message = List::new();
        self.arena.put(self.writer.as_slice(), &mut message);
        if let Some(mut body) = body {
            self.arena.bytes(front, &mut message);
            self.arena.pieces(&mut body, &mut message, |_| {});
        }
        self.arena.flush(&mut message);
        self.works.send(message, SendFlags::default());
        // What goes wrong here is told by the next look for answers.
        let _ = self.works.post(&mut self.queue_pair);
    }

    /// The next answer. `splitter` says where the payload of a reply begins that came in one piece with it, and is asked
    /// where it belongs if its call had no sink.
    pub fn next(&mut self, splitter: &mut dyn Splitter) -> Result<Option<Answer>, Error> {
        loop {
            if let Some(error) = self.failed {
                return Err(error.into());
            }
            self.works.post(&mut self.queue_pair)?;
            let Some(Completion { status, done, .. }) = self.queue_pair.poll() else { return Ok(None) };
            self.works.done(&done);
            match done {
                CompletedWork::Received { buffer, len, invalidated, .. } if status == Status::Success => {
                    self.post_receive();
                    let answer = self.message(buffer.freeze().slice(..len), invalidated, splitter)?;
                    self.start_waiting();
                    if answer.is_some() {
                        return Ok(answer);
                    }
                }
                CompletedWork::Released(key, memory) => self.keep(key, memory),
                _ => {}
            }
        }
    }

    fn post_receive(&mut self) {
        let buffer = self.config.pool.get(self.config.parameters().receive_size as usize);
        // It is refused only by a connection that is over, or too small for the configuration: then replies will find
        // no receive, and the connection ends.
        let _ = self.queue_pair.post_receive(0, buffer);
    }

    /// A message came.
    fn message(
        &mut self,
        mut bytes: Segment,
        mut invalidated: Option<(Key, Memory)>,
        splitter: &mut dyn Splitter,
    ) -> Result<Option<Answer>, Error> {
        let mut r = Reader::new(&bytes);
        let header = Header::decode(&mut r).map_err(|_| Error::NoReply)?;
        bytes.advance(bytes.len() - r.left());
        let xid = header.xid;
        // RFC 8166, section 4.2.3: a grant of none would leave no way to go on.
        self.granted = (header.credits as usize).clamp(1, self.config.credits());
        let Some(mut call) = self.calls.remove(&xid) else {
            return match invalidated {
                Some((key, memory)) => {
                    self.keep(key, memory);
                    Err(Error::Invalidated(xid))
                }
                // A late reply that nobody waits for.
                None => Ok(None),
            };
        };
        let offered = [&call.sink, &call.reply].map(Sink::offered);
        let settled = self.settle(xid, &mut call, &mut invalidated);
        if call.given_up && settled.is_ok() {
            return Ok(None);
        }
        let settled = settled.and_then(|()| match header.content {
            Content::Error(error) => Ok(Err(error)),
            Content::Message(chunks) => Ok(Ok((bytes, written(xid, &chunks, offered)?.0))),
            Content::NoMessage(chunks) => {
                let (written, len) = written(xid, &chunks, offered)?;
                let Sink::Here(memory) = std::mem::take(&mut call.reply) else {
                    return Err(Error::Written(xid));
                };
                Ok(Ok((memory.freeze().slice(..len), written)))
            }
        });
        let reply = settled.and_then(|settled| match (settled, offered[0]) {
            (Err(error), _) => Ok(Err(error)),
            (Ok((message, written)), Some(_)) => {
                beside(xid, message, written, &mut call.sink, splitter).map(Ok)
            }
            (Ok((message, _)), None) => inside(xid, message, &mut call.sink, splitter).map(Ok),
        });
        match reply {
            Ok(reply) => Ok(Some(Answer { xid, reply, rest: call.sink.take() })),
            Err(error) => {
                // Its memory goes back with that of the others.
                self.calls.insert(xid, call);
                Err(error)
            }
        }
    }

    /// Takes the memory of a call that is answered back from the server, before anybody looks at it.
    fn settle(
        &mut self,
        xid: u32,
        call: &mut RequesterCall,
        invalidated: &mut Option<(Key, Memory)>,
    ) -> Result<(), Error> {
        if let Some(key) = call.source {
            self.reclaim(xid, key, invalidated)?;
            call.source = None;
        }
        for sink in [&mut call.sink, &mut call.reply] {
            if let Sink::Offered(target) = *sink
                && let Memory::Sink(memory) = self.reclaim(xid, target.remote().key, invalidated)?.taken()
            {
                *sink = Sink::Here(memory);
            } else if let Sink::Withdrawn(key) = *sink {
                *sink = Sink::None;
                // It may have gone when its memory did.
                let _ = self.reclaim(xid, key, invalidated);
            }
        }
        match invalidated.take() {
            None => Ok(()),
            Some((key, memory)) => {
                self.keep(key, memory);
                Err(Error::Invalidated(xid))
            }
        }
    }

    fn reclaim(
        &mut self,
        xid: u32,
        key: Key,
        invalidated: &mut Option<(Key, Memory)>,
    ) -> Result<Memory, Error> {
        if let Some((_, memory)) = invalidated.take_if(|(invalidated, _)| *invalidated == key) {
            return Ok(memory);
        }
        // Bytes that are still being written keep it, and end the connection.
        self.queue_pair.invalidate(key)?.ok_or(Error::StillWriting(xid))
    }

    /// Memory came back on its own: it stays with its call.
    fn keep(&mut self, key: Key, memory: Memory) {
        let Memory::Sink(memory) = memory else { return };
        let mut sinks = self.calls.values_mut().flat_map(|call| [&mut call.sink, &mut call.reply]);
        if let Some(sink) =
            sinks.find(|sink| matches!(sink, Sink::Offered(target) if target.remote().key == key))
        {
            *sink = Sink::Here(memory);
        }
    }

    /// The calls that are not answered, and were not given up, once the connection is over and everything has come back.
    pub fn unanswered(mut self) -> Vec<Unanswered> {
        while let Some(completion) = self.queue_pair.poll() {
            if let CompletedWork::Released(key, memory) = completion.done {
                self.keep(key, memory);
            }
        }
        let calls = self.calls.into_iter().filter(|(_, call)| !call.given_up);
        let calls = calls.map(|(xid, mut call)| Unanswered { xid, sink: call.sink.take() });
        let waiting = self.waiting.into_iter().map(|Waiting { xid, sink, .. }| Unanswered {
            xid,
            sink: sink.and_then(|sink| Sink::here(sink).take()),
        });
        calls.chain(waiting).collect()
    }
}

impl Sink {
    /// Memory that was not offered. What is still in a pool stays there.
    fn here(memory: Memory) -> Self {
        match memory {
            Memory::Sink(memory) => Self::Here(memory),
            _ => Self::None,
        }
    }

    fn offered(&self) -> Option<RdmaSegment> {
        match *self {
            Self::Offered(target) => Some(target),
            _ => None,
        }
    }

    /// The memory, if it is here.
    fn take(&mut self) -> Option<SegmentMut> {
        match std::mem::take(self) {
            Self::Here(memory) => Some(memory),
            other => {
                *self = other;
                None
            }
        }
    }
}

/// How many bytes the server says to have written of the payload and of the reply, to what was offered for them.
fn written(xid: u32, chunks: &Chunks, offered: [Option<RdmaSegment>; 2]) -> Result<(usize, usize), Error> {
    if !chunks.reads.is_empty() {
        return Err(Error::NoReply);
    }
    let one = |chunk: Option<&WriteChunk>, offered: Option<RdmaSegment>| {
        let Some(chunk) = chunk else { return Some(0) };
        let [target] = chunk.0[..] else { return (total(&chunk.0) == 0).then_some(0) };
        let offered = offered?;
        let is_ours = target.remote() == offered.remote() && target.length <= offered.length;
        is_ours.then_some(target.length as usize)
    };
    let payload = one(chunks.writes.first(), offered[0]).filter(|_| chunks.writes.len() <= 1);
    let reply = one(chunks.reply.as_ref(), offered[1]);
    payload.zip(reply).ok_or(Error::Written(xid))
}

/// A reply whose payload was written to where it belongs: its front ends with the length of it.
fn beside(
    xid: u32,
    mut message: Segment,
    written: usize,
    sink: &mut Sink,
    splitter: &mut dyn Splitter,
) -> Result<Record, Error> {
    let parts = split(&message, splitter);
    let (front, told) = parts.unwrap_or((message.len(), 0));
    let Sink::Here(rest) = sink else { return Err(Error::StillWriting(xid)) };
    if told != written {
        return Err(Error::Length { xid, told, written });
    }
    // Some fill the payload up behind the front.
    message.truncate(front);
    let placed = parts.map(|_| rest.split_to(told));
    Ok(Record { placed, ..Record::of(message) })
}

/// A reply in one piece: its payload goes to the sink, if there is one.
fn inside(
    xid: u32,
    mut message: Segment,
    sink: &mut Sink,
    splitter: &mut dyn Splitter,
) -> Result<Record, Error> {
    let Sink::Here(rest) = sink else { return Ok(cut(message, splitter)) };
    let Some((front, told)) = split(&message, splitter) else {
        return Ok(Record::of(message));
    };
    let written = (message.len() - front).min(rest.len());
    if told > written {
        return Err(Error::Length { xid, told, written });
    }
    let mut placed = rest.split_to(told);
    placed.copy_from_slice(&message[front..front + told]);
    message.truncate(front);
    Ok(Record { placed: Some(placed), ..Record::of(message) })
}
