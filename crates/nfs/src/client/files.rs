//! Reads and writes of files: split to the server's limits, resumed after short transfers, and kept until they are
//! durable.

use super::call::{self, Call, Reply, Sink};
use super::channel::ServerId;
use super::config::Config;
use super::error::Error;
use super::metrics::CallFigures;
use super::rpc::Client;
use super::transport::Way;
use super::waiting::Waiting;
use super::written::{Parked, RewriteProgress, Written};
use crate::rpc::Procedure;
use crate::v3::{
    Commit, CommitArgs, Handle, Read, ReadArgs, ReadFront, Stability, Write, WriteArgs, WriteOk,
};
use onego_buf::{List, SegmentMut};
use onego_wire::{DecodeError, Layer, LocalPort, Time};
use rustc_hash::FxHashMap;
use slab::Slab;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// The successful result of a request.
#[derive(Debug)]
pub enum Outcome {
    /// A read filled the request's buffer.
    Read(Filled),
    /// A read without a buffer returned these bytes.
    Bytes(List, Filled),
    /// All bytes were written.
    Written,
    /// All earlier writes are durable.
    Synced,
    /// Results of a plain call.
    Reply(Reply),
}

/// The extent of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Filled {
    /// Number of bytes read, at the start of the buffer.
    pub bytes: usize,
    /// Set if the read reached the end of the file.
    pub eof: bool,
}

/// A finished request.
#[derive(Debug)]
pub struct Completion<T> {
    /// The caller's name for the request.
    pub ticket: T,
    /// The result.
    pub result: Result<Outcome, Error>,
    /// The request's buffer or sink, at its full length.
    pub buffer: Option<SegmentMut>,
}

/// Identifies a call that the file client makes.
#[derive(Debug)]
pub struct Ticket<T>(Purpose<T>);

#[derive(Debug)]
enum Purpose<T> {
    Plain(T),
    Read {
        ticket: T,
        file: Handle,
        offset: u64,
        len: usize,
        to_buffer: bool,
    },
    Part {
        io: usize,
        part: u32,
        len: usize,
    },
    Write {
        io: usize,
        offset: u64,
    },
    Commit(Handle),
    /// A rewrite of data that the server lost, starting at `offset`.
    Rewrite {
        file: Handle,
        offset: u64,
        stable: Stability,
    },
}

/// A write in flight, or a read that takes several calls.
#[derive(Debug)]
struct Io<T> {
    ticket: T,
    file: Handle,
    outstanding: usize,
    error: Option<Error>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Read(Vec<Part>),
    Write {
        /// Sequence number among the writes of the file.
        number: u64,
        stable: Stability,
    },
}

#[derive(Debug)]
struct Part {
    offset: u64,
    /// The part of the caller's buffer that is not lent to a call.
    buffer: Option<SegmentMut>,
    is_buffer: bool,
    bytes: List,
    filled: usize,
    eof: bool,
}

/// A client of one file server. The caller names each request by a `T`.
///
/// Writes that the server may still lose are kept until they are committed. If the write verifier shows that the server
/// has restarted in between, the client sends them again before a [sync](Self::sync) completes. Requests wait for as
/// long as the server is unreachable, unless a [patience](Self::set_patience) is set.
#[derive(Debug)]
pub struct FileClient<T> {
    client: Client<Ticket<T>>,
    server: Option<ServerId>,
    limits: Limits,
    patience: Option<Duration>,
    ios: Slab<Io<T>>,
    files: FxHashMap<Handle, Written<T>>,
    completions: VecDeque<Completion<T>>,
}

/// Maximum transfer sizes of a server, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a READ.
    pub read: usize,
    /// Maximum size of a WRITE.
    pub write: usize,
}

impl Default for Limits {
    /// Sizes that every server accepts.
    fn default() -> Self {
        Self { read: 8 << 10, write: 8 << 10 }
    }
}

impl<T> FileClient<T> {
    /// Creates a client without a server.
    pub fn new(config: Config) -> Self {
        Self {
            client: Client::new(config),
            server: None,
            limits: Limits::default(),
            patience: None,
            ios: Slab::new(),
            files: FxHashMap::default(),
            completions: VecDeque::new(),
        }
    }

    /// Sets the NFS server, with the number of connections and their local ports. Must be called before requests are
    /// made.
    pub fn connect(&mut self, addr: SocketAddr, local: LocalPort, way: &Way, connections: usize) {
        self.server = Some(self.client.server(addr, local, way, connections));
    }

    /// Sets the server's maximum transfer sizes.
    ///
    /// # Panics
    /// If a limit is 0.
    pub fn set_limits(&mut self, limits: Limits) {
        assert!(limits.read > 0 && limits.write > 0, "a server takes something");
        self.limits = limits;
    }

    /// Returns a handle to the call statistics that any thread can read.
    pub fn figures(&self) -> CallFigures {
        self.client.figures()
    }

    /// Sets the time after which a request fails without a reply; `None` waits until the server is back.
    pub fn set_patience(&mut self, patience: Option<Duration>) {
        self.patience = patience;
    }

    /// Returns whether another request stays within the client's bound on calls.
    pub fn has_room(&self) -> bool {
        self.client.has_room()
    }

    /// Returns whether no requests or completions are pending.
    pub fn is_idle(&self) -> bool {
        self.client.is_idle() && self.completions.is_empty()
    }

    /// Returns what the oldest pending call waits for. Scans all calls, so it should be called about once a second at
    /// most.
    pub fn waiting(&self, now: Time) -> Option<Waiting> {
        self.client.waiting(now)
    }

    /// Returns whether a completion is ready to be taken.
    pub fn has_completion(&self) -> bool {
        !self.completions.is_empty()
    }

    /// Returns the next completion.
    pub fn completion(&mut self) -> Option<Completion<T>> {
        self.completions.pop_front()
    }

    /// Returns the underlying RPC client, for calls to other servers by [`call_to`](Self::call_to).
    pub fn rpc(&mut self) -> &mut Client<Ticket<T>> {
        &mut self.client
    }

    /// Makes a call to the file server.
    ///
    /// # Panics
    /// If [`connect`](Self::connect) was not called; this applies to all requests.
    pub fn call(&mut self, now: Time, call: Call, ticket: T) {
        self.make(now, call, Purpose::Plain(ticket));
    }

    /// Makes a call to another server.
    pub fn call_to(&mut self, now: Time, server: ServerId, call: Call, ticket: T) {
        self.client.call(now, server, call, Ticket(Purpose::Plain(ticket)));
    }

    /// Reads from `offset` until the buffer is full or the file ends.
    pub fn read(&mut self, now: Time, file: Handle, offset: u64, mut buffer: SegmentMut, ticket: T) {
        match buffer.len() {
            len if len <= self.limits.read => {
                self.read_at_once(now, file, offset, len, Sink::Buffer(buffer), ticket);
            }
            len => {
                self.read_in_parts(now, file, offset, len, ticket, |len| Sink::Buffer(buffer.split_to(len)));
            }
        }
    }

    /// Reads up to `len` bytes from `offset` into memory of the client's pool, allocated as they arrive.
    pub fn read_bytes(&mut self, now: Time, file: Handle, offset: u64, len: usize, ticket: T) {
        if len <= self.limits.read {
            self.read_at_once(now, file, offset, len, Sink::Fresh(len), ticket);
        } else {
            self.read_in_parts(now, file, offset, len, ticket, Sink::Fresh);
        }
    }

    fn read_at_once(&mut self, now: Time, file: Handle, offset: u64, len: usize, sink: Sink, ticket: T) {
        let to_buffer = matches!(sink, Sink::Buffer(_));
        let purpose = Purpose::Read { ticket, file, offset, len, to_buffer };
        self.make_read(now, file, offset, len, sink, purpose);
    }

    fn read_in_parts(
        &mut self,
        now: Time,
        file: Handle,
        offset: u64,
        mut len: usize,
        ticket: T,
        mut sink: impl FnMut(usize) -> Sink,
    ) {
        let io = self.ios.insert(Io::new(ticket, file, Kind::Read(Vec::new())));
        let (mut parts, mut at) = (Vec::new(), offset);
        while len > 0 {
            let piece = len.min(self.limits.read);
            let sink = sink(piece);
            parts.push(Part::new(at, matches!(sink, Sink::Buffer(_))));
            self.read_part(now, io, (parts.len() - 1) as u32, at, piece, sink);
            at += piece as u64;
            len -= piece;
        }
        self.ios[io].kind = Kind::Read(parts);
    }

    fn read_part(&mut self, now: Time, io: usize, part: u32, offset: u64, len: usize, sink: Sink) {
        let state = &mut self.ios[io];
        state.outstanding += 1;
        let file = state.file;
        self.make_read(now, file, offset, len, sink, Purpose::Part { io, part, len });
    }

    fn make_read(
        &mut self,
        now: Time,
        file: Handle,
        offset: u64,
        len: usize,
        sink: Sink,
        purpose: Purpose<T>,
    ) {
        // The split to the server's limit keeps it far below 4 GiB.
        let args = ReadArgs { file, offset, count: len as u32 };
        let call = Call { sink, ..self.client.prepare::<Read>(&args) };
        self.make(now, call, purpose);
    }

    /// Writes `data`. Unless `stable` requires stable storage, the bytes may be lost until a [sync](Self::sync).
    pub fn write(&mut self, now: Time, file: Handle, offset: u64, data: List, stable: Stability, ticket: T) {
        let written = self.files.entry(file).or_default();
        let request = Parked { offset, data, stable, ticket };
        if written.is_full() || !written.parked.is_empty() {
            written.parked.push_back(request);
        } else {
            self.begin_write(now, file, request);
        }
    }

    fn begin_write(&mut self, now: Time, file: Handle, request: Parked<T>) {
        let Parked { mut offset, mut data, stable, ticket } = request;
        let number = self.files.entry(file).or_default().begin();
        let io = self.ios.insert(Io::new(ticket, file, Kind::Write { number, stable }));
        loop {
            let piece = data.split_to(data.len().min(self.limits.write));
            let len = piece.len();
            self.write_part(now, io, offset, piece);
            offset += len as u64;
            if data.is_empty() {
                break;
            }
        }
    }

    fn write_part(&mut self, now: Time, io: usize, offset: u64, data: List) {
        let state = &mut self.ios[io];
        state.outstanding += 1;
        let Kind::Write { stable, .. } = state.kind else { return };
        let args = WriteArgs { file: state.file, offset, stable, data };
        let call = self.client.prepare::<Write>(&args);
        self.make(now, call, Purpose::Write { io, offset });
    }

    /// Completes when all bytes of earlier writes are durable. On an error, from the commit or from rewriting lost
    /// data, those bytes may be gone.
    pub fn sync(&mut self, now: Time, file: Handle, ticket: T) {
        let written = self.files.entry(file).or_default();
        written.syncs.push_back((written.next(), ticket));
        self.advance(now, file);
    }

    /// Cancels the requests whose tickets are `unwanted`: they complete with [`Error::Cancelled`], unless they have
    /// finished. Nothing more is sent for them, but calls in flight must still end ([`Client::cancel_where`]). A
    /// cancelled request may have changed data, in part, or may still change it. Scans all requests.
    pub fn cancel_where(&mut self, now: Time, unwanted: impl Fn(&T) -> bool) {
        // Process replies first: requests that have finished are not cancelled.
        self.settle(now);
        for (_, io) in self.ios.iter_mut().filter(|(_, io)| unwanted(&io.ticket)) {
            io.fail(Error::Cancelled);
        }
        let ios = &self.ios;
        self.client.cancel_where(|Ticket(purpose)| match purpose {
            Purpose::Plain(ticket) | Purpose::Read { ticket, .. } => unwanted(ticket),
            Purpose::Part { io, .. } | Purpose::Write { io, .. } => unwanted(&ios[*io].ticket),
            // They belong to the file, and other requests may wait for them.
            Purpose::Commit(_) | Purpose::Rewrite { .. } => false,
        });
        self.cancel_writes(now, unwanted);
        self.settle(now);
    }

    fn cancel_writes(&mut self, now: Time, unwanted: impl Fn(&T) -> bool) {
        let mut changed = Vec::new();
        for (file, written) in &mut self.files {
            let tickets = written.cancel_where(&unwanted);
            if !tickets.is_empty() {
                changed.push(*file);
            }
            let cancelled = |ticket| Completion { ticket, result: Err(Error::Cancelled), buffer: None };
            self.completions.extend(tickets.into_iter().map(cancelled));
        }
        changed.into_iter().for_each(|file| self.advance(now, file));
    }

    fn make(&mut self, now: Time, mut call: Call, purpose: Purpose<T>) {
        call.deadline = call.deadline.or(self.patience.map(|patience| now + patience));
        let server = self.server.expect("requests are made once the server is known");
        self.client.call(now, server, call, Ticket(purpose));
    }

    fn completed(&mut self, now: Time, completion: call::Completion<Ticket<T>>) {
        let call::Completion { ticket: Ticket(purpose), result, sink, payload } = completion;
        match purpose {
            Purpose::Plain(ticket) => {
                let result = result.map(Outcome::Reply);
                self.completions.push_back(Completion { ticket, result, buffer: sink });
            }
            Purpose::Read { ticket, file, offset, len, to_buffer } => {
                let front = result.as_ref().ok().and_then(|reply| read_results(reply, len).ok());
                match (result, front) {
                    (Ok(reply), Some(front)) if front.count as usize == len || front.eof => {
                        self.has_read(ticket, front, reply.payload, sink, to_buffer);
                    }
                    (result, _) => {
                        let parts = vec![Part::new(offset, to_buffer)];
                        let io = self.ios.insert(Io::new(ticket, file, Kind::Read(parts)));
                        self.ios[io].outstanding = 1;
                        self.part_read(now, (io, 0), len, result, sink);
                    }
                }
            }
            Purpose::Part { io, part, len } => self.part_read(now, (io, part), len, result, sink),
            Purpose::Write { io, offset } => self.part_written(now, io, offset, payload, result),
            Purpose::Commit(file) => self.committed(now, file, results::<Commit>(result)),
            Purpose::Rewrite { file, offset, stable } => {
                let done =
                    taken(results::<Write>(result), &payload).and_then(|done| is_as_stable(done, stable));
                self.rewrite_call_done(now, file, offset, payload, done);
            }
        }
    }

    fn has_read(
        &mut self,
        ticket: T,
        front: ReadFront,
        payload: List,
        sink: Option<SegmentMut>,
        to_buffer: bool,
    ) {
        let filled = Filled { bytes: front.count as usize, eof: front.eof };
        let (outcome, buffer) = match sink {
            buffer @ Some(_) if to_buffer => (Outcome::Read(filled), buffer),
            Some(mut memory) => {
                memory.truncate(filled.bytes);
                (Outcome::Bytes(memory.into(), filled), None)
            }
            None => (Outcome::Bytes(payload, filled), None),
        };
        self.completions.push_back(Completion { ticket, result: Ok(outcome), buffer });
    }

    fn part_read(
        &mut self,
        now: Time,
        (io, index): (usize, u32),
        len: usize,
        result: Result<Reply, Error>,
        sink: Option<SegmentMut>,
    ) {
        let state = &mut self.ios[io];
        state.outstanding -= 1;
        let Kind::Read(parts) = &mut state.kind else { return };
        let part = &mut parts[index as usize];
        let result = result.and_then(|reply| Ok((read_results(&reply, len)?, reply.payload)));
        let count = result.as_ref().map_or(0, |(front, _)| front.count as usize);
        let rest = part.take(sink, count, len);
        match result {
            Ok((front, payload)) => {
                part.bytes.append(payload);
                part.filled += count;
                part.eof = front.eof;
                if count < len && !front.eof && state.error.is_none() {
                    let offset = part.offset + part.filled as u64;
                    return self.read_part(now, io, index, offset, len - count, rest);
                }
            }
            Err(error) => drop(state.error.get_or_insert(error)),
        }
        if let Sink::Buffer(rest) = rest {
            join(&mut part.buffer, rest);
        }
        self.end_if_done(now, io);
    }

    fn part_written(&mut self, now: Time, io: usize, offset: u64, data: List, result: Result<Reply, Error>) {
        let state = &mut self.ios[io];
        state.outstanding -= 1;
        let file = state.file;
        match taken(results::<Write>(result), &data) {
            Ok(done) => {
                let has_failed = state.error.is_some();
                if let Some(rest) = self.record_accepted(file, offset, data, &done).filter(|_| !has_failed) {
                    self.write_part(now, io, offset + u64::from(done.count), rest);
                }
            }
            Err(error) => state.fail(error),
        }
        self.end_if_done(now, io);
    }

    /// Records the bytes that the server accepted, which it may still lose. Returns the rest.
    fn record_accepted(&mut self, file: Handle, offset: u64, mut data: List, done: &WriteOk) -> Option<List> {
        let taken = data.split_to(done.count as usize);
        if let Some(written) = self.files.get_mut(&file) {
            match done.committed {
                Stability::Unstable => written.unstable.put(offset, taken, Some(done.verifier)),
                _ => written.unstable.cut(offset, taken.len() as u64),
            }
        }
        (!data.is_empty()).then_some(data)
    }

    fn end_if_done(&mut self, now: Time, io: usize) {
        if self.ios[io].outstanding > 0 {
            return;
        }
        let Io { ticket, file, error, kind, .. } = self.ios.remove(io);
        let (outcome, buffer) = match kind {
            Kind::Read(parts) => {
                let (filled, buffer, bytes) = gather(parts);
                match buffer {
                    Some(buffer) => (Outcome::Read(filled), Some(buffer)),
                    None => (Outcome::Bytes(bytes, filled), None),
                }
            }
            Kind::Write { number, .. } => {
                if let Some(written) = self.files.get_mut(&file) {
                    written.end(number);
                }
                self.advance(now, file);
                (Outcome::Written, None)
            }
        };
        let result = error.map_or(Ok(outcome), Err);
        self.completions.push_back(Completion { ticket, result, buffer });
    }

    /// Starts the next step of a file: a rewrite, a commit, or parked writes.
    fn advance(&mut self, now: Time, file: Handle) {
        let Some(written) = self.files.get_mut(&file) else { return };
        if let Some(lost) = written.take_lost() {
            return self.rewrite_all(now, file, lost);
        }
        if written.begin_commit() {
            let call = Call::new::<Commit>(&CommitArgs { file, offset: 0, count: 0 });
            return self.make(now, call, Purpose::Commit(file));
        }
        while let Some(parked) = self.files.get_mut(&file).and_then(Written::unpark) {
            self.begin_write(now, file, parked);
        }
        if self.files.get(&file).is_some_and(Written::is_idle) {
            self.files.remove(&file);
        }
    }

    fn committed(&mut self, now: Time, file: Handle, result: Result<Committed, Error>) {
        let Some(written) = self.files.get_mut(&file) else { return };
        let verifier = match result {
            Ok(Ok(done)) => done.verifier,
            Ok(Err(failed)) => return self.commit_ended(now, file, Err(Error::Failed(failed.status))),
            Err(error) => return self.commit_ended(now, file, Err(error)),
        };
        if written.committed(verifier) {
            self.advance(now, file);
        } else {
            self.commit_ended(now, file, Ok(()));
        }
    }

    fn rewrite_all(&mut self, now: Time, file: Handle, lost: Vec<(u64, List)>) {
        if lost.is_empty() {
            return self.finish_rewrite_call(now, file, None);
        }
        for (mut offset, mut data) in lost {
            while !data.is_empty() {
                let piece = data.split_to(data.len().min(self.limits.write));
                let len = piece.len();
                self.rewrite(now, file, offset, piece);
                offset += len as u64;
            }
        }
    }

    fn rewrite(&mut self, now: Time, file: Handle, offset: u64, data: List) {
        let Some(written) = self.files.get_mut(&file) else { return };
        written.begin_rewrite_call();
        let stable = written.rewrite_stability();
        let call = Call::new::<Write>(&WriteArgs { file, offset, stable, data });
        self.make(now, call, Purpose::Rewrite { file, offset, stable });
    }

    fn rewrite_call_done(
        &mut self,
        now: Time,
        file: Handle,
        offset: u64,
        data: List,
        result: Result<WriteOk, Error>,
    ) {
        let error = match result {
            Ok(done) => {
                if let Some(rest) = self.record_accepted(file, offset, data.clone(), &done) {
                    self.rewrite(now, file, offset + u64::from(done.count), rest);
                }
                None
            }
            Err(error) => Some(error),
        };
        let Some(written) = self.files.get_mut(&file) else { return };
        if error.as_ref().is_some_and(|error| !error.is_final()) {
            written.unstable.put(offset, data, None);
        }
        self.finish_rewrite_call(now, file, error);
    }

    fn finish_rewrite_call(&mut self, now: Time, file: Handle, error: Option<Error>) {
        let Some(written) = self.files.get_mut(&file) else { return };
        match written.end_rewrite_call(error) {
            RewriteProgress::InFlight => {}
            RewriteProgress::Done => self.advance(now, file),
            RewriteProgress::Failed(error) => self.commit_ended(now, file, Err(error)),
        }
    }

    fn commit_ended(&mut self, now: Time, file: Handle, result: Result<(), Error>) {
        let Some(written) = self.files.get_mut(&file) else { return };
        let (tickets, error) = written.end_commit(result.as_ref().err());
        for ticket in tickets {
            let result = error.clone().map_or(Ok(Outcome::Synced), Err);
            self.completions.push_back(Completion { ticket, result, buffer: None });
        }
        self.advance(now, file);
    }
}

impl<T> Layer for FileClient<T> {
    type Below = Client<Ticket<T>>;

    fn below(&self) -> &Client<Ticket<T>> {
        &self.client
    }

    fn below_mut(&mut self) -> &mut Client<Ticket<T>> {
        &mut self.client
    }

    fn settle(&mut self, now: Time) {
        while let Some(completion) = self.client.completion() {
            self.completed(now, completion);
        }
    }
}

impl Part {
    fn new(offset: u64, is_buffer: bool) -> Self {
        Self { offset, buffer: None, is_buffer, bytes: List::new(), filled: 0, eof: false }
    }

    /// Takes the first `count` bytes of a sink for `len` bytes and returns the rest.
    fn take(&mut self, sink: Option<SegmentMut>, count: usize, len: usize) -> Sink {
        match sink {
            Some(mut sink) if self.is_buffer => {
                join(&mut self.buffer, sink.split_to(count));
                Sink::Buffer(sink)
            }
            Some(mut sink) => {
                sink.truncate(count);
                self.bytes.push(sink.freeze());
                Sink::Fresh(len - count)
            }
            None => Sink::Fresh(len - count),
        }
    }
}

impl<T> Io<T> {
    fn new(ticket: T, file: Handle, kind: Kind) -> Self {
        Self { ticket, file, outstanding: 0, error: None, kind }
    }

    fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }
}

type WriteResults = <Write as Procedure>::Results;
type Committed = <Commit as Procedure>::Results;

fn results<P: Procedure>(result: Result<Reply, Error>) -> Result<P::Results, Error> {
    Ok(result?.read::<P>()?)
}

fn read_results(reply: &Reply, wanted: usize) -> Result<ReadFront, Error> {
    if let Some(status) = reply.status()? {
        return Err(Error::Failed(status));
    }
    let (front, received) = reply.read_front(|r| {
        r.take_ok()?;
        ReadFront::read(r)
    })?;
    let count = front.count as usize;
    let nothing = count == 0 && wanted > 0 && !front.eof;
    if count != received || count > wanted || nothing {
        let invalid = DecodeError::Invalid { what: "count of bytes read", value: front.count.into() };
        return Err(invalid.into());
    }
    Ok(front)
}

fn taken(result: Result<WriteResults, Error>, data: &List) -> Result<WriteOk, Error> {
    let done = result?.map_err(|failed| Error::Failed(failed.status))?;
    let count = done.count as usize;
    if count > data.len() || (count == 0 && !data.is_empty()) {
        let invalid = DecodeError::Invalid { what: "count of bytes written", value: done.count.into() };
        return Err(invalid.into());
    }
    Ok(done)
}

/// Fails if the server did not make a stable write durable (RFC 1813, section 3.3.7).
fn is_as_stable(done: WriteOk, wanted: Stability) -> Result<WriteOk, Error> {
    if wanted == Stability::FileSync && done.committed == Stability::Unstable {
        let value = u64::from(done.committed as u32);
        return Err(DecodeError::Invalid { what: "stability of a stable write", value }.into());
    }
    Ok(done)
}

fn join(buffer: &mut Option<SegmentMut>, next: SegmentMut) {
    match buffer {
        Some(buffer) => buffer.try_join(next).expect("the parts of a buffer come back in order"),
        None => *buffer = Some(next),
    }
}

fn gather(parts: Vec<Part>) -> (Filled, Option<SegmentMut>, List) {
    let (mut filled, mut whole, mut bytes) = (Filled::default(), None, List::new());
    for part in parts {
        if !filled.eof {
            filled.bytes += part.filled;
            filled.eof = part.eof;
            bytes.append(part.bytes);
        }
        if let Some(buffer) = part.buffer {
            join(&mut whole, buffer);
        }
    }
    (filled, whole, bytes)
}
