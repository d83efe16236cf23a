//! Calls without a reply, and finished calls.

use super::call::{Call, Completion, Reply, Sink};
use super::config::Config;
use super::error::Error;
use super::metrics::{Ended, Meter};
use super::transport::Incoming;
use crate::kinds::kind;
use crate::rpc::{self, Accepted, Procedure, Record, Split, Splitter};
use crate::v3::{self, Status};
use crate::xdr::{Reader, Writer, Xdr as _};
use onego_buf::{List, Pool, SegmentMut};
use onego_rdma::Memory;
use onego_wire::{BULK, ConnId, Time};
use rustc_hash::FxHashMap;
use slab::Slab;
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Pending<T> {
    xid: u32,
    pub(super) channel: usize,
    /// Position in the order of all calls.
    pub(super) sequence: u64,
    /// Connection and time of the last transmission, unless that connection has ended.
    pub(super) sent: Option<(ConnId, Time)>,
    pub(super) cancelled: bool,
    pub(super) made: Time,
    pub(super) deadline: Option<Time>,
    pub(super) soft: bool,
    pub(super) front: Writer,
    pub(super) payload: List,
    pub(super) program: u32,
    is_nfs: bool,
    procedure: u32,
    /// The server has asked the client to retry later (`NFS3ERR_JUKEBOX`).
    pub(super) put_off: bool,
    pub(super) sink: Option<SegmentMut>,
    pub(super) has_sink: bool,
    /// Maximum payload for which memory is allocated on arrival, if the sink is fresh memory.
    pub(super) fresh: Option<usize>,
    pub(super) results_max: usize,
    pub(super) expected: usize,
    ticket: T,
}

impl<T> Pending<T> {
    pub(super) fn is_on(&self, conn: ConnId) -> bool {
        self.sent.is_some_and(|(on, _)| on == conn)
    }

    /// Takes the memory that the server may write the payload to.
    pub(super) fn offer(&mut self, pool: &Pool) -> Option<Memory> {
        let fresh = self.fresh.map(|most| Memory::Fresh(pool.clone(), most));
        fresh.or_else(|| self.sink.take().map(Memory::Sink))
    }

    /// Returns the receive target of an interrupted payload to the caller's sink, if there is one.
    pub(super) fn give_back(&mut self, place: SegmentMut) {
        if self.fresh.is_none() {
            self.put_back(place);
        }
    }

    fn put_back(&mut self, mut place: SegmentMut) {
        if let Some(rest) = self.sink.take() {
            place.try_join(rest).expect("the place is the beginning of the sink");
        }
        self.sink = Some(place);
    }
}

#[derive(Debug)]
pub(super) struct Calls<T> {
    pending: Slab<Pending<T>>,
    /// Slab keys by xid.
    places: FxHashMap<u32, usize>,
    /// Xid and slab key of the last lookup: each reply is looked up several times. The key may be stale.
    last: (u32, usize),
    done: VecDeque<Completion<T>>,
    first_xid: u32,
    made: u64,
    credential: Writer,
    pub(super) meter: Meter,
    spare: Vec<Writer>,
    spare_args: Writer,
}

impl<T> Calls<T> {
    pub(super) fn new(config: &Config) -> Self {
        let mut credential = Writer::new();
        config.credential.encode(&mut credential);
        Self {
            pending: Slab::new(),
            places: FxHashMap::default(),
            last: (0, 0),
            done: VecDeque::new(),
            first_xid: config.first_xid,
            made: 0,
            credential,
            meter: Meter::new(config.slow),
            spare: Vec::new(),
            spare_args: Writer::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len() + self.done.len()
    }

    pub(super) fn are_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Pending<T>)> {
        self.places.iter().map(|(xid, place)| (*xid, &self.pending[*place]))
    }

    pub(super) fn get(&self, xid: u32) -> Option<&Pending<T>> {
        self.places.get(&xid).map(|place| &self.pending[*place])
    }

    pub(super) fn get_mut(&mut self, xid: u32) -> Option<&mut Pending<T>> {
        self.place(xid).map(|place| &mut self.pending[place])
    }

    pub(super) fn fail(&mut self, xid: u32, error: Error) {
        if let Some(place) = self.places.remove(&xid) {
            self.end(place, Err(error));
        }
    }

    /// Cancels the calls whose tickets are `unwanted`. Calls that were not sent end at once; the others end with their
    /// reply or their connection.
    pub(super) fn cancel_where(&mut self, unwanted: impl Fn(&T) -> bool) {
        let mut unsent = Vec::new();
        for (_, pending) in self.pending.iter_mut().filter(|(_, pending)| unwanted(&pending.ticket)) {
            if pending.sent.is_some() {
                pending.cancelled = true;
            } else {
                unsent.push(pending.xid);
            }
        }
        unsent.into_iter().for_each(|xid| self.fail(xid, Error::Cancelled));
    }

    /// Finishes the call at `place`, which must no longer have an xid.
    fn end(&mut self, place: usize, result: Result<Reply, Error>) {
        let pending = self.pending.remove(place);
        let read = result.as_ref().map_or(0, |reply| reply.filled + reply.payload.len());
        self.meter.end(&Ended {
            kind: kind(pending.program, pending.procedure),
            bytes: (pending.payload.len() + read) as u64,
            has_failed: result.is_err(),
            made: pending.made,
            sent: pending.sent.map(|(_, sent)| sent),
        });
        let Pending { mut front, ticket, sink, payload, .. } = pending;
        front.clear();
        self.spare.push(front);
        self.done.push_back(Completion { ticket, result, sink, payload });
    }

    pub(super) fn completion(&mut self) -> Option<Completion<T>> {
        self.done.pop_front()
    }

    pub(super) fn prepare<P: Procedure>(&mut self, args: &P::Args) -> Call {
        let mut memory = std::mem::take(&mut self.spare_args);
        memory.clear();
        Call::new_in::<P>(memory, args)
    }

    fn number(&mut self) -> (u64, u32) {
        let sequence = self.made;
        self.made += 1;
        (sequence, self.first_xid.wrapping_add(sequence as u32))
    }

    pub(super) fn add(&mut self, now: Time, channel: usize, call: Call, ticket: T) -> u32 {
        self.meter.tick(now);
        self.meter.begin();
        let (sequence, xid) = self.number();
        let mut front = self.spare.pop().unwrap_or_default();
        rpc::put_call(
            &mut front,
            xid,
            call.program,
            call.version,
            call.procedure,
            self.credential.as_slice(),
        );
        front.append(call.args.as_slice());
        self.spare_args = call.args;
        let (sink, fresh) = match call.sink {
            Sink::None => (None, None),
            Sink::Buffer(buffer) => (Some(buffer), None),
            Sink::Fresh(most) => (None, Some(most)),
        };
        let expected = sink.as_ref().map(|sink| sink.len()).or(fresh).unwrap_or(0);
        let pending = Pending {
            xid,
            expected,
            channel,
            sequence,
            sent: None,
            cancelled: false,
            made: now,
            deadline: call.deadline,
            soft: call.soft,
            front,
            payload: call.payload,
            program: call.program,
            is_nfs: (call.program, call.version) == (v3::PROGRAM, v3::VERSION),
            procedure: call.procedure,
            put_off: false,
            has_sink: sink.is_some(),
            sink,
            fresh,
            results_max: call.results_max,
            ticket,
        };
        self.last = (xid, self.pending.insert(pending));
        self.places.insert(xid, self.last.1);
        xid
    }

    fn place(&mut self, xid: u32) -> Option<usize> {
        let (last, place) = self.last;
        if last == xid && self.pending.get(place).is_some_and(|call| call.xid == xid) {
            return Some(place);
        }
        let place = *self.places.get(&xid)?;
        self.last = (xid, place);
        Some(place)
    }

    fn sent(&mut self, conn: ConnId, xid: u32) -> Option<&mut Pending<T>> {
        self.get_mut(xid).filter(|pending| pending.is_on(conn))
    }

    /// Processes an incoming message. Returns `None` if no call on `conn` matches it.
    pub(super) fn process(&mut self, conn: ConnId, incoming: Incoming) -> Option<ProcessedReply> {
        let xid = match &incoming {
            Incoming::Reply(record, _) => Reader::new(&record.front).u32("xid").ok()?,
            Incoming::NotTaken(xid, ..) => *xid,
        };
        let expected = self.sent(conn, xid)?.expected;
        let place = self.places.remove(&xid)?;
        let later = match incoming {
            Incoming::Reply(record, rest) => self.reply(place, record, rest),
            Incoming::NotTaken(_, error, sink) => {
                self.pending[place].sink = sink;
                self.end(place, Err(Error::NotTaken(error)));
                None
            }
        };
        Some(ProcessedReply { expected, later })
    }

    /// Processes the reply to the call at `place`, which no longer has an xid. `rest` is the unfilled part of the sink,
    /// if the transport held it. Returns the new xid if the call must be sent again.
    fn reply(&mut self, place: usize, record: Record, rest: Option<SegmentMut>) -> Option<u32> {
        let pending = &mut self.pending[place];
        let mut reader = Reader::new(&record.front);
        if rest.is_some() {
            pending.sink = rest;
        }
        let filled = record.placed.as_ref().map_or(0, |placed| placed.len());
        if let Some(placed) = record.placed {
            pending.put_back(placed);
        }
        let result = match rpc::Reply::decode(&mut reader).map(|reply| reply.result) {
            _ if pending.cancelled => Err(Error::Cancelled),
            Ok(Ok(Accepted::Success)) => {
                let left = reader.left();
                if pending.is_nfs && reader.u32("status") == Ok(Status::Jukebox as u32) {
                    return Some(self.retry_with_new_xid(place));
                }
                let header = record.front.len() - left;
                Ok(Reply { front: record.front.slice(header..), payload: record.payload, filled })
            }
            Ok(Ok(refused)) => Err(Error::Refused(refused)),
            Ok(Err(denied)) => Err(Error::Denied(denied)),
            Err(error) => Err(error.into()),
        };
        self.end(place, result);
        None
    }

    /// Assigns a new xid to a call that the server wants retried (`NFS3ERR_JUKEBOX`): under the old xid it would send
    /// the same reply (RFC 1813, section 4.5).
    fn retry_with_new_xid(&mut self, place: usize) -> u32 {
        let (sequence, xid) = self.number();
        let pending = &mut self.pending[place];
        pending.front.as_mut_slice()[..4].copy_from_slice(&xid.to_be_bytes());
        (pending.xid, pending.sequence, pending.sent) = (xid, sequence, None);
        pending.put_off = true;
        self.places.insert(xid, place);
        xid
    }
}

pub(super) struct ProcessedReply {
    pub(super) expected: usize,
    pub(super) later: Option<u32>,
}

pub(super) struct Replies<'a, T> {
    pub(super) calls: &'a mut Calls<T>,
    pub(super) conn: ConnId,
    /// Set to the call whose payload is being received into its sink.
    pub(super) placing: &'a mut Option<u32>,
    pub(super) pool: &'a Pool,
}

impl<T> Replies<'_, T> {
    fn call(&mut self, front: &[u8]) -> Option<(u32, &mut Pending<T>)> {
        let xid = Reader::new(front).u32("xid").ok()?;
        self.calls.sent(self.conn, xid).map(|pending| (xid, pending))
    }
}

impl<T> Splitter for Replies<'_, T> {
    fn split(&mut self, start: &[u8]) -> Split {
        match self.call(start) {
            Some((_, pending)) if pending.is_nfs => v3::split_reply(start, pending.procedure),
            _ => Split::Never,
        }
    }

    fn place(&mut self, front: &[u8], payload: usize) -> Option<SegmentMut> {
        let pool = self.pool;
        let (xid, pending) = self.call(front)?;
        let place = match (pending.fresh, &mut pending.sink) {
            // The reply is dropped, in the receive buffer.
            _ if pending.cancelled => return None,
            // A shorter payload stays in the receive buffer that it shares with other replies.
            (Some(most), _) if (BULK..=most).contains(&payload) => pool.get(payload),
            (None, Some(sink)) if payload <= sink.len() => sink.split_to(payload),
            _ => return None,
        };
        *self.placing = Some(xid);
        Some(place)
    }
}
