//! The client side of RPC over RDMA: sends calls, lends memory to the server, and receives replies.

use super::error::Error;
use super::header::{Chunks, Content, Header, Parameters, RdmaError, RdmaSegment, ReadSegment, WriteChunk};
use super::limits::{Config, Inline};
use super::message::{cut, number, pad, split, total};
use super::work::Works;
use crate::rpc::record::{Record, Splitter};
use crate::xdr::{Reader, Writer, padding};
use onego_buf::{Arena, List, Segment, SegmentMut};
use onego_rdma::{CompletedWork, Completion, Key, Memory, PostError, QueuePair, Refused, SendFlags, Status};
use std::collections::{HashMap, VecDeque};

/// Encoded size of a header without chunks, and of one segment of each kind (RFC 8166, section 4.3).
const HEADER_LEN: usize = 28;
const READ_LEN: usize = 24;
const WRITE_LEN: usize = 24;
const REPLY_LEN: usize = 20;

/// The client side of a connection.
///
/// The owner drives the queue pair, makes [calls](Self::call), and polls for [answers](Self::next) whenever the queue
/// pair may have completed work. After the connection has ended it takes the [unanswered](Self::unanswered) calls.
#[derive(Debug)]
pub struct Requester<Q> {
    queue_pair: Q,
    config: Config,
    inline: Inline,
    /// Credits: calls that the server allows in flight. None until the server accepts the connection, and one until its
    /// first reply (RFC 8166, section 3.3.1).
    granted: usize,
    calls: HashMap<u32, RequesterCall>,
    waiting: VecDeque<Waiting>,
    works: Works,
    failed: Option<PostError>,
    arena: Arena,
    writer: Writer,
}

#[derive(Debug, Default)]
struct RequesterCall {
    source: Option<Key>,
    sink: Sink,
    reply: Sink,
    given_up: bool,
}

#[derive(Debug, Default)]
enum Sink {
    #[default]
    None,
    Here(SegmentMut),
    Offered(RdmaSegment),
    /// Withdrawn; the server's writes are dropped.
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

/// The outcome of a call.
#[derive(Debug)]
pub struct Answer {
    /// Xid of the call.
    pub xid: u32,
    /// The reply, with its payload at the start of the sink, or the error with which the server rejected the call.
    pub reply: Result<Record, RdmaError>,
    /// The unfilled rest of the call's sink.
    pub rest: Option<SegmentMut>,
}

/// A call that the connection ended without answering.
#[derive(Debug)]
pub struct Unanswered {
    /// Xid of the call.
    pub xid: u32,
    /// The call's sink.
    pub sink: Option<SegmentMut>,
}

impl<Q: QueuePair> Requester<Q> {
    /// Creates the client side of a connection that is being opened with the configuration's
    /// [parameters](Config::parameters) as private data. Posts receives for all replies that may arrive.
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

    /// Handles the server's acceptance of the connection, with its private data.
    pub fn connected(&mut self, private_data: &[u8]) {
        let theirs = Parameters::decode(private_data).unwrap_or_default();
        self.inline = Inline::agreed(self.config.parameters(), theirs);
        self.granted = self.granted.max(1);
        self.start_waiting();
    }

    /// Returns the queue pair.
    pub fn queue_pair(&self) -> &Q {
        &self.queue_pair
    }

    /// Returns the queue pair for its driver.
    pub fn queue_pair_mut(&mut self) -> &mut Q {
        &mut self.queue_pair
    }

    /// Returns the number of bytes that the transport has not taken yet.
    pub fn unsent(&self) -> usize {
        self.works.unsent()
    }

    /// Returns whether the call has no answer yet, even if it was given up.
    pub fn is_under_way(&self, xid: u32) -> bool {
        self.calls.contains_key(&xid) || self.waiting.iter().any(|waiting| waiting.xid == xid)
    }

    /// Returns whether the queue pair has permanently rejected work. [`next`](Self::next) returns the error, and the
    /// connection must be closed.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some() || self.works.has_failed()
    }

    /// Returns the number of unanswered calls.
    pub fn under_way(&self) -> usize {
        self.calls.len() + self.waiting.len()
    }

    /// Returns whether a call would be sent at once, without waiting for credits.
    pub fn has_room(&self) -> bool {
        self.waiting.is_empty() && self.calls.len() < self.granted
    }

    /// Makes a call under the xid at the start of `front`, which must be unused. The payload of the reply goes to
    /// `sink`, which must be large enough for it; the rest of the reply has at most `reply_max` bytes.
    ///
    /// # Panics
    /// If the front is shorter than an xid.
    pub fn call(&mut self, front: &[u8], payload: List, sink: Option<Memory>, reply_max: usize) {
        let xid = number(front).expect("a call begins with its number");
        if self.has_room() {
            self.start(xid, front, payload, sink, reply_max);
        } else {
            let front = Segment::copy_from(front);
            self.waiting.push_back(Waiting { xid, front, payload, sink, reply_max });
        }
    }

    /// Gives up a call; its reply will be dropped. Until the reply arrives, the call keeps its credit and the server
    /// keeps the memory that it was offered. With `take_sink`, however, the sink is returned at once.
    ///
    /// On an error the connection must be closed; the sink is then returned by [`unanswered`](Self::unanswered).
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

    /// Sends a call. If its memory cannot be registered, the call stays unanswered.
    fn start(&mut self, xid: u32, front: &[u8], payload: List, sink: Option<Memory>, reply_max: usize) {
        let (mut call, mut chunks) = (RequesterCall::default(), Chunks::default());
        let prepared = self
            .offer_for_reply(sink, reply_max, &mut call, &mut chunks)
            .and_then(|()| self.register_long_data(front, payload, &mut call, &mut chunks));
        self.calls.insert(xid, call);
        match prepared {
            Ok(body) => self.send(xid, front, body, chunks),
            // The queue pair reports its own end.
            Err(PostError::Over) => {}
            Err(error) => self.failed = Some(error),
        }
    }

    /// Prepares memory for the parts of the reply that may not fit inline.
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

    /// Returns the message body that follows the front. Registers data that does not fit inline; `None` means that the
    /// front is part of it.
    fn register_long_data(
        &mut self,
        front: &[u8],
        payload: List,
        call: &mut RequesterCall,
        chunks: &mut Chunks,
    ) -> Result<Option<List>, PostError> {
        let header_len = HEADER_LEN + WRITE_LEN * chunks.writes.len() + REPLY_LEN * chunks.reply.iter().len();
        let room = self.inline.send.saturating_sub(header_len);
        if front.len() + payload.len() + padding(payload.len()) <= room {
            return Ok(Some(pad(payload)));
        }
        let (position, bytes) = if !payload.is_empty() && READ_LEN + front.len() <= room {
            (front.len() as u32, payload)
        } else {
            let mut whole = List::from(Segment::copy_from(front));
            whole.append(pad(payload));
            (0, whole)
        };
        let length = bytes.len() as u32;
        let source = self.queue_pair.register(Memory::Source(bytes)).map_err(|refused| refused.error)?;
        call.source = Some(source.key);
        chunks.reads.push(ReadSegment { position, target: RdmaSegment::new(source, length) });
        Ok((position > 0).then(List::new))
    }

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
        // `next` returns the error.
        let _ = self.works.post(&mut self.queue_pair);
    }

    /// Returns the next answer. `splitter` locates the payload of an inline reply, and provides a buffer for it if the
    /// call has no sink.
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
        // The post is rejected only if the connection has ended, or if its queue is too small for the configuration. In
        // the latter case a reply will find no receive, which ends the connection.
        let _ = self.queue_pair.post_receive(0, buffer);
    }

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
        // RFC 8166, section 4.2.3: a grant of zero credits would cause a deadlock.
        self.granted = (header.credits as usize).clamp(1, self.config.credits());
        let Some(mut call) = self.calls.remove(&xid) else {
            return match invalidated {
                Some((key, memory)) => {
                    self.keep(key, memory);
                    Err(Error::Invalidated(xid))
                }
                // A late reply to a call that no longer exists.
                None => Ok(None),
            };
        };
        let offered = [&call.sink, &call.reply].map(Sink::offered);
        let reclaimed = self.reclaim_all(xid, &mut call, &mut invalidated);
        if call.given_up && reclaimed.is_ok() {
            return Ok(None);
        }
        let content = reclaimed.and_then(|()| match header.content {
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
        let reply = content.and_then(|content| match (content, offered[0]) {
            (Err(error), _) => Ok(Err(error)),
            (Ok((message, written)), Some(_)) => {
                written_reply(xid, message, written, &mut call.sink, splitter).map(Ok)
            }
            (Ok((message, _)), None) => inline_reply(xid, message, &mut call.sink, splitter).map(Ok),
        });
        match reply {
            Ok(reply) => Ok(Some(Answer { xid, reply, rest: call.sink.take() })),
            Err(error) => {
                // `unanswered` returns its memory with that of the other calls.
                self.calls.insert(xid, call);
                Err(error)
            }
        }
    }

    /// Deregisters the memory of an answered call, before anything reads it.
    fn reclaim_all(
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
                // The registration may have ended with its memory.
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
        // Memory that is still being written stays registered, and the connection must end.
        self.queue_pair.invalidate(key)?.ok_or(Error::StillWriting(xid))
    }

    /// Keeps memory that the queue pair has released in the call that it belongs to.
    fn keep(&mut self, key: Key, memory: Memory) {
        let Memory::Sink(memory) = memory else { return };
        let mut sinks = self.calls.values_mut().flat_map(|call| [&mut call.sink, &mut call.reply]);
        if let Some(sink) =
            sinks.find(|sink| matches!(sink, Sink::Offered(target) if target.remote().key == key))
        {
            *sink = Sink::Here(memory);
        }
    }

    /// Returns the calls that are neither answered nor given up, after the connection has ended and all memory has
    /// returned.
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
    /// Keeps memory that was not offered. Memory of a pool is dropped.
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

/// Validates the chunks of a reply. Returns the number of bytes that the server wrote to the sink and to the reply
/// chunk.
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

/// Completes a reply with a payload that the server wrote to the sink: the front ends with its length.
fn written_reply(
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
    // Some servers send the payload's padding after the front.
    message.truncate(front);
    let placed = parts.map(|_| rest.split_to(told));
    Ok(Record { placed, ..Record::of(message) })
}

fn inline_reply(
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
