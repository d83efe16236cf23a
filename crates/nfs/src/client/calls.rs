//! The calls that have no reply yet.

use super::call::{Call, Completion, Reply, Sink};
use super::transport::Incoming;
use super::{Config, Error};
use crate::rpc::{self, Accepted, Procedure, Record, Split, Splitter};
use crate::v3::{self, Status};
use crate::xdr::{Reader, Writer, Xdr as _};
use onego_buf::{List, Pool, SegmentMut};
use onego_wire::{BULK, ConnId, Time};
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
    /// Most bytes for which memory is taken when the payload comes, if it is.
    pub(super) fresh: Option<usize>,
    pub(super) results_max: usize,
    /// Bytes of the reply's payload, at the most.
    pub(super) expected: usize,
    ticket: T,
}

impl<T> Pending<T> {
    /// Ends it without results.
    pub(super) fn fail(self, error: Error) -> Completion<T> {
        Completion { ticket: self.ticket, result: Err(error), sink: self.sink, payload: self.payload }
    }

    /// Puts back the part of the sink in which a payload was to be received, if it is the caller's.
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

/// The calls that have no reply yet, by their numbers.
#[derive(Debug)]
pub(super) struct Calls<T> {
    pub(super) pending: FxHashMap<u32, Pending<T>>,
    first_xid: u32,
    made: u64,
    credential: Writer,
    /// Memory of fronts of calls that are done with...
    spare: Vec<Writer>,
    /// ...and of the arguments of the last call that was added.
    spare_args: Writer,
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
            spare_args: Writer::new(),
        }
    }

    /// A call of the procedure `P`, in memory of an earlier one.
    pub(super) fn prepare<P: Procedure>(&mut self, args: &P::Args) -> Call {
        let mut memory = std::mem::take(&mut self.spare_args);
        memory.clear();
        Call::new_in::<P>(memory, args)
    }

    /// The place of the next call among all, and its number.
    fn number(&mut self) -> (u64, u32) {
        let sequence = self.made;
        self.made += 1;
        (sequence, self.first_xid.wrapping_add(sequence as u32))
    }

    /// Adds a call and says its number.
    pub(super) fn add(&mut self, now: Time, channel: usize, call: Call, ticket: T) -> u32 {
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
            expected,
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
            has_sink: sink.is_some(),
            sink,
            fresh,
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

    /// Something has come by a connection: what becomes of its call. `None`: there is no such call.
    pub(super) fn came(&mut self, conn: ConnId, incoming: Incoming) -> Option<Came<T>> {
        let xid = match &incoming {
            Incoming::Reply(record, _) => Reader::new(&record.front).u32("xid").ok()?,
            Incoming::NotTaken(xid, ..) => *xid,
        };
        self.sent(conn, xid)?;
        let pending = self.pending.remove(&xid)?;
        let expected = pending.expected;
        let fate = match incoming {
            Incoming::Reply(record, rest) => self.reply(pending, record, rest),
            Incoming::NotTaken(_, error, sink) => {
                let Pending { ticket, payload, .. } = pending;
                Fate::Done(Completion { ticket, result: Err(Error::NotTaken(error)), sink, payload })
            }
        };
        Some(Came { expected, fate })
    }

    /// `rest`: what of the sink the payload is not in, if the transport had it.
    fn reply(&mut self, mut pending: Pending<T>, record: Record, rest: Option<SegmentMut>) -> Fate<T> {
        let mut reader = Reader::new(&record.front);
        pending.sink = rest.or(pending.sink);
        let filled = record.placed.as_ref().map_or(0, |placed| placed.len());
        if let Some(placed) = record.placed {
            pending.put_back(placed);
        }
        let result = match rpc::Reply::decode(&mut reader).map(|reply| reply.result) {
            Ok(Ok(Accepted::Success)) => {
                let left = reader.left();
                if pending.is_nfs && reader.u32("status") == Ok(Status::Jukebox as u32) {
                    return Fate::Later(self.ask_later(pending));
                }
                let header = record.front.len() - left;
                Ok(Reply { front: record.front.slice(header..), payload: record.payload, filled })
            }
            Ok(Ok(refused)) => Err(Error::Refused(refused)),
            Ok(Err(denied)) => Err(Error::Denied(denied)),
            Err(error) => Err(error.into()),
        };
        let Pending { mut front, ticket, sink, payload, .. } = pending;
        front.clear();
        self.spare.push(front);
        Fate::Done(Completion { ticket, result, sink, payload })
    }

    /// The server has not done it, and wants to be asked again later: under another number, or it would give the same reply
    /// (RFC 1813, section 4.5).
    fn ask_later(&mut self, mut pending: Pending<T>) -> u32 {
        let (sequence, xid) = self.number();
        pending.front.as_mut_slice()[..4].copy_from_slice(&xid.to_be_bytes());
        (pending.sequence, pending.sent) = (sequence, None);
        self.pending.insert(xid, pending);
        xid
    }
}

/// The reply to a call.
pub(super) struct Came<T> {
    /// Bytes that were expected.
    pub(super) expected: usize,
    pub(super) fate: Fate<T>,
}

/// What has become of a call.
pub(super) enum Fate<T> {
    /// It is done with.
    Done(Completion<T>),
    /// It is to be sent again after a while, under this number.
    Later(u32),
}

/// Tells what replies on a connection are made of.
pub(super) struct Replies<'a, T> {
    pub(super) calls: &'a mut Calls<T>,
    pub(super) conn: ConnId,
    /// Gets the call whose payload is being received into its sink.
    pub(super) placing: &'a mut Option<u32>,
    /// Gives memory for payloads.
    pub(super) pool: &'a Pool,
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
        let pool = self.pool;
        let (xid, pending) = self.call(front)?;
        let place = match (pending.fresh, &mut pending.sink) {
            // A shorter one stays where it is received, together with others.
            (Some(most), _) if (BULK..=most).contains(&payload) => pool.get(payload),
            (None, Some(sink)) if payload <= sink.len() => sink.split_to(payload),
            _ => return None,
        };
        *self.placing = Some(xid);
        Some(place)
    }
}
