//! The calls that have no reply yet.

use super::call::{Call, Completion, Reply};
use super::transport::Incoming;
use super::{Config, Error};
use crate::rpc::{self, Accepted, Record, Split, Splitter};
use crate::v3;
use crate::xdr::{Reader, Writer, Xdr as _};
use onego_buf::{List, SegmentMut};
use onego_wire::{ConnId, Time};
use rustc_hash::FxHashMap;

/// A call that has no reply yet.
#[derive(Debug)]
pub(super) struct Pending<T> {
    /// The channel that it goes by.
    pub(super) channel: usize,
    /// Its place among all calls.
    pub(super) sequence: u64,
    /// On which connection it was sent, and when, unless that is over.
    pub(super) sent: Option<(ConnId, Time)>,
    /// When it was made.
    pub(super) made: Time,
    pub(super) deadline: Option<Time>,
    pub(super) soft: bool,
    pub(super) front: Writer,
    pub(super) payload: List,
    is_nfs: bool,
    procedure: u32,
    /// Where the payload of the reply goes, unless the transport has it.
    pub(super) sink: Option<SegmentMut>,
    pub(super) has_sink: bool,
    pub(super) results_max: usize,
    ticket: T,
}

impl<T> Pending<T> {
    /// Ends it without results.
    pub(super) fn fail(self, error: Error) -> Completion<T> {
        Completion { ticket: self.ticket, result: Err(error), sink: self.sink }
    }

    /// Puts back the part of the sink in which a payload was to be received.
    pub(super) fn put_back(&mut self, mut place: SegmentMut) {
        if let Some(rest) = self.sink.take() {
            place.try_join(rest).expect("the place is the beginning of the sink");
        }
        self.sink = Some(place);
    }
}

/// The calls that have no reply yet, by their numbers.
#[derive(Debug)]
pub(super) struct Calls<T> {
    pub(super) pending: FxHashMap<u32, Pending<T>>,
    first_xid: u32,
    made: u64,
    credential: Writer,
    /// Memory of fronts of calls that are done with.
    spare: Vec<Writer>,
}

impl<T> Calls<T> {
    pub(super) fn new(config: &Config) -> Self {
        let mut credential = Writer::new();
        config.credential.encode(&mut credential);
        Self {
            pending: FxHashMap::default(),
            first_xid: config.first_xid,
            made: 0,
            credential,
            spare: Vec::new(),
        }
    }

    /// Adds a call and says its number.
    pub(super) fn add(&mut self, now: Time, channel: usize, call: Call, ticket: T) -> u32 {
        let sequence = self.made;
        self.made += 1;
        let xid = self.first_xid.wrapping_add(sequence as u32);
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
        let pending = Pending {
            channel,
            sequence,
            sent: None,
            made: now,
            deadline: call.deadline,
            soft: call.soft,
            front,
            payload: call.payload,
            is_nfs: (call.program, call.version) == (v3::PROGRAM, v3::VERSION),
            procedure: call.procedure,
            has_sink: call.sink.is_some(),
            sink: call.sink,
            results_max: call.results_max,
            ticket,
        };
        self.pending.insert(xid, pending);
        xid
    }

    /// The call of that number, if it was sent on that connection.
    fn sent(&mut self, conn: ConnId, xid: u32) -> Option<&mut Pending<T>> {
        self.pending.get_mut(&xid).filter(|pending| pending.sent.is_some_and(|(on, _)| on == conn))
    }

    /// Something has come by a connection: ends its call. `None`: there is no such call.
    pub(super) fn came(&mut self, conn: ConnId, incoming: Incoming) -> Option<Completion<T>> {
        match incoming {
            Incoming::Reply(record, rest) => self.reply(conn, record, rest),
            Incoming::NotTaken(xid, error, sink) => {
                self.sent(conn, xid)?;
                let pending = self.pending.remove(&xid)?;
                Some(Completion { ticket: pending.ticket, result: Err(Error::NotTaken(error)), sink })
            }
        }
    }

    /// `rest`: what of the sink the payload is not in, if the transport had it.
    fn reply(&mut self, conn: ConnId, record: Record, rest: Option<SegmentMut>) -> Option<Completion<T>> {
        let mut reader = Reader::new(&record.front);
        let xid = Reader::new(&record.front).u32("xid").ok()?;
        self.sent(conn, xid)?;
        let mut pending = self.pending.remove(&xid)?;
        pending.sink = rest.or(pending.sink);
        let filled = record.placed.as_ref().map_or(0, |placed| placed.len());
        if let Some(placed) = record.placed {
            pending.put_back(placed);
        }
        let result =
            rpc::Reply::decode(&mut reader).map_err(Error::from).and_then(|reply| match reply.result {
                Ok(Accepted::Success) => {
                    let header = record.front.len() - reader.left();
                    let front = record.front.slice(header..);
                    Ok(Reply { front, payload: record.payload, filled })
                }
                Ok(refused) => Err(Error::Refused(refused)),
                Err(denied) => Err(Error::Denied(denied)),
            });
        let Pending { mut front, ticket, sink, .. } = pending;
        front.clear();
        self.spare.push(front);
        Some(Completion { ticket, result, sink })
    }
}

/// Tells what replies on a connection are made of.
pub(super) struct Replies<'a, T> {
    pub(super) calls: &'a mut Calls<T>,
    pub(super) conn: ConnId,
    /// Gets the call whose payload is being received into its sink.
    pub(super) placing: &'a mut Option<u32>,
}

impl<T> Replies<'_, T> {
    /// The number of the call that a reply is to, and the call.
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
        let (xid, pending) = self.call(front)?;
        let mut rest = pending.sink.take_if(|sink| sink.len() >= payload)?;
        let place = rest.split_to(payload);
        pending.sink = Some(rest);
        *self.placing = Some(xid);
        Some(place)
    }
}
