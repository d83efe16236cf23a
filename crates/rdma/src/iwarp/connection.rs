//! One connection: handshake, segments, end.

use super::config::Config;
use super::error::Error;
use super::forecast::{Foreseen, Landed};
use super::handshake::{self, Agreement, Request};
use super::header::Control;
use super::inbound::{Ended, Inbound, Read};
use super::mpa::{Frame, Kind, ReadyToReceive};
use super::nudge::Nudge;
use super::receive::{Input, Receiver};
use super::regions::Entropy;
use super::send::Sender;
use super::violation::Violation;
use super::work::Work;
use crate::error::PostError;
use crate::memory::{Key, Remote};
use crate::verbs::{CompletedWork, Completion};
use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{Landing, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Event of a connection, other than completions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A client requests a connection, with its user's private data: [accept](Connection::accept) or
    /// [reject](Connection::reject) it.
    Requested(Vec<u8>),
    /// The connection carries work from now on. A server's work is sent once the client has sent something.
    Established(Established),
    /// The server's user rejected the connection, with its private data. A [`Fault`](Self::Fault) follows.
    Rejected(Vec<u8>),
    /// The connection has failed: close it once [`Connection::transmit`] has no more bytes. All work and memory comes
    /// back by completions.
    Fault(Error),
}

/// Parameters negotiated by both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Established {
    /// The server's private data, for the client.
    pub private_data: Vec<u8>,
    /// Segments have checksums.
    pub crc: bool,
    /// Limit on the peer's RDMA Reads in flight.
    pub ird: u16,
    /// Limit on this side's RDMA Reads in flight.
    pub ord: u16,
}

#[derive(Debug)]
enum Phase {
    /// A client waits for the transport to open; holds the bytes of its request.
    Opening(Vec<u8>),
    AwaitReply,
    AwaitRequest,
    /// A client's request waits for this side's user.
    Requested(Request),
    /// `quiet`: a server that must not send before the client has (RFC 5044, section 7.1.2).
    Ready {
        quiet: bool,
    },
    Over,
}

/// One iWARP connection, of a client or of a server.
///
/// Its owner moves bytes for it as a driver does for a [`Machine`](onego_wire::Machine), which documents the methods of
/// the same names. After each of these calls there may be [events](Self::event) and
/// [completions](crate::QueuePair::poll), and [output](Self::has_output).
#[derive(Debug)]
pub struct Connection {
    pub(super) config: Arc<Config>,
    phase: Phase,
    rx: Receiver,
    pub(super) inbound: Inbound,
    pub(super) tx: Sender,
    events: VecDeque<Event>,
    pub(super) completions: VecDeque<Completion>,
    /// Everything must be flushed once the place that is out for a receive comes back.
    flush_due: bool,
    started: Time,
    /// Set for a client until the server has sent something.
    nudge: Option<Nudge>,
    spoke: bool,
    /// Posted or completed work and receives that are not polled.
    pub(super) sends: usize,
    pub(super) receives: usize,
    pub(super) regions: usize,
    ord: u16,
    ird: u16,
}

impl Connection {
    /// Creates the client side of a connection; sends `private_data` to the server's user.
    pub fn connect(
        now: Time,
        config: Arc<Config>,
        entropy: Entropy,
        private_data: &[u8],
    ) -> Result<Self, PostError> {
        let request = handshake::request(&config, private_data)?;
        Ok(Self::new(now, config, entropy, Phase::Opening(request), Kind::Reply))
    }

    /// Creates the server side of a connection that a client has opened.
    pub fn serve(now: Time, config: Arc<Config>, entropy: Entropy) -> Self {
        Self::new(now, config, entropy, Phase::AwaitRequest, Kind::Request)
    }

    fn new(now: Time, config: Arc<Config>, entropy: Entropy, phase: Phase, first: Kind) -> Self {
        Self {
            rx: Receiver::new(first),
            inbound: Inbound::new(
                config.regions + usize::from(config.ord) + 1,
                entropy,
                config.foresee_writes,
            ),
            tx: Sender::new(config.whole_fpdu(), config.pool.clone()),
            config,
            phase,
            events: VecDeque::new(),
            completions: VecDeque::new(),
            flush_due: false,
            started: now,
            nudge: None,
            spoke: false,
            sends: 0,
            receives: 0,
            regions: 0,
            ord: 0,
            ird: 0,
        }
    }

    /// Starts the handshake once the client's transport is open.
    pub fn opened(&mut self, _now: Time) {
        if let Phase::Opening(request) = &self.phase {
            self.tx.frame(request);
            self.phase = Phase::AwaitReply;
        }
    }

    /// Accepts the requesting client, and sends its user `private_data`. A no-op if the request is gone.
    pub fn accept(&mut self, private_data: &[u8]) -> Result<(), PostError> {
        let Phase::Requested(request) = &self.phase else { return Ok(()) };
        let (reply, agreement) = request.accept(&self.config, private_data)?;
        self.tx.frame(&reply);
        self.inbound.ready_by_send = agreement.ready.send;
        self.establish(agreement, Vec::new(), true);
        Ok(())
    }

    /// Rejects the requesting client, and sends its user `private_data`. The connection has ended: close it once
    /// [`transmit`](Self::transmit) has no more bytes.
    pub fn reject(&mut self, private_data: &[u8]) -> Result<(), PostError> {
        let Phase::Requested(request) = &self.phase else { return Ok(()) };
        let reply = request.reject(&self.config, private_data)?;
        self.tx.frame(&reply);
        self.closed();
        Ok(())
    }

    /// Returns whether the connection is established and has not ended.
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready { .. })
    }

    /// Returns the destination of the next bytes. A connection that has ended takes none.
    pub fn landing(&mut self) -> Landing {
        if matches!(self.phase, Phase::Over) {
            Landing::default()
        } else {
            self.rx.landing(&mut self.inbound, &self.config.pool)
        }
    }

    /// Takes back a buffer from [`landing`](Self::landing), with its first `filled` bytes received. Has no effect until
    /// all of its buffers are back.
    ///
    /// # Panics
    /// Panics if it is not the next of these buffers.
    pub fn landed(&mut self, now: Time, place: SegmentMut, filled: usize) {
        let Some(landed) = self.rx.forecast.landed(place, filled) else { return };
        let Landed { first, filled, others, foreseen } = landed;
        others.into_iter().for_each(|(key, memory)| self.inbound.put_back(key, memory));
        self.rx.landed(&first[..filled]);
        if let Some((violation, completion)) = self.inbound.landed(first, filled) {
            self.completions.push_back(completion);
            self.fail(violation.into());
        }
        self.read_on(now, foreseen);
        if self.flush_due {
            self.flush();
        }
    }

    fn read_on(&mut self, now: Time, foreseen: Vec<Foreseen>) {
        let is_full = foreseen.last().is_some_and(|last| last.filled == last.spot.len);
        let mut foreseen = foreseen.into_iter();
        while let Some(Foreseen { gap, spot, filled }) = foreseen.next() {
            self.received(now, gap);
            if filled == 0 || self.is_over() {
                return;
            }
            if !self.rx.came(spot, filled, &mut self.inbound) {
                self.rx.forecast.failed(spot);
                let mut strays = self.inbound.bytes(spot, filled).to_vec();
                for Foreseen { gap, spot, filled } in foreseen {
                    strays.extend_from_slice(&gap);
                    strays.extend_from_slice(self.inbound.bytes(spot, filled));
                }
                return self.received(now, Segment::from(strays));
            }
        }
        if is_full {
            self.rx.forecast.succeeded();
        }
    }

    /// Processes bytes received in shared memory.
    pub fn received(&mut self, now: Time, mut bytes: Segment) {
        if matches!(self.phase, Phase::Opening(_) | Phase::Requested(_)) && !bytes.is_empty() {
            self.fail(Error::Impatient);
        }
        while !matches!(self.phase, Phase::Over) {
            let handled = match self.rx.next(&mut bytes, &mut self.inbound) {
                Ok(None) => break,
                Ok(Some(Input::Segment(control))) => self.segment(control),
                Ok(Some(Input::Frame(frame, private))) => self.frame(now, frame, &private, bytes.is_empty()),
                Err(error) => Err(error),
            };
            if let Err(error) = handled {
                self.fail(error);
            }
        }
    }

    /// Processes the frame of the handshake. `alone`: no bytes follow it.
    fn frame(&mut self, now: Time, frame: Frame, private: &[u8], alone: bool) -> Result<(), Error> {
        match self.phase {
            Phase::AwaitRequest if !alone => Err(Error::Impatient),
            Phase::AwaitRequest => match handshake::asked(&self.config, frame, private) {
                Ok(request) => {
                    self.events.push_back(Event::Requested(request.private_data.clone()));
                    self.phase = Phase::Requested(request);
                    Ok(())
                }
                Err((error, refusal)) => {
                    self.tx.frame(&refusal);
                    Err(error)
                }
            },
            _ => self.answered(now, frame, private),
        }
    }

    fn answered(&mut self, now: Time, frame: Frame, private: &[u8]) -> Result<(), Error> {
        let (agreement, private_data) = handshake::answered(&self.config, frame, private);
        let agreement = agreement.inspect_err(|error| {
            if *error == Error::Rejected {
                self.events.push_back(Event::Rejected(private_data.clone()));
            }
            // The Terminate message has a checksum if the reply requests it.
            self.tx.segments(self.config.crc || frame.crc, 0);
        })?;
        self.establish(agreement, private_data, false);
        self.nudge = Some(Nudge::new(now));
        match agreement.ready {
            ReadyToReceive { write: true, .. } => self.tx.write_nothing(),
            ReadyToReceive { read: true, .. } => {
                let (sink, from) = (SegmentMut::zeroed(0), Remote { key: Key(0), offset: 0 });
                self.tx.works.posted.push_front(Work::Read(Read { id: None, sink, from }));
            }
            ReadyToReceive { send: true, .. } => self.tx.ready_by_send(),
            _ => {}
        }
        Ok(())
    }

    fn establish(&mut self, agreement: Agreement, private_data: Vec<u8>, quiet: bool) {
        let Agreement { crc, ird, ord, ready } = agreement;
        // The ready-to-receive read needs no negotiated depth.
        let ready_by_read = u16::from(ready.read);
        (self.ird, self.ord) = (ird.max(ready_by_read), ord);
        self.rx.segments(crc);
        self.tx.segments(crc, ord.max(ready_by_read));
        self.phase = Phase::Ready { quiet };
        self.events.push_back(Event::Established(Established { private_data, crc, ird, ord }));
    }

    fn segment(&mut self, control: Control) -> Result<(), Error> {
        let Phase::Ready { quiet } = &mut self.phase else { return Err(Error::Impatient) };
        *quiet = false;
        self.nudge = None;
        match self.inbound.end(control, self.rx.whole_header())? {
            Ended::Part => {}
            Ended::CompletedWork(completion) => {
                if let CompletedWork::Received { invalidated: Some(_), .. } = completion.done {
                    self.regions -= 1;
                }
                self.completions.push_back(completion);
            }
            Ended::Asked(response) => {
                let responses = &mut self.tx.works.responses;
                if responses.len() >= usize::from(self.ird) {
                    return Err(Violation::TooManyReads(self.ird).into());
                }
                responses.push_back(response);
            }
            Ended::Terminated(code) => return Err(Error::Terminated(code)),
        }
        Ok(())
    }

    /// Returns whether there are bytes to send.
    pub fn has_output(&self) -> bool {
        let works = matches!(self.phase, Phase::Ready { quiet: false });
        self.tx.has_first() || (works && self.tx.has_work(&self.inbound))
    }

    /// Appends about `limit` bytes to `out`: whole FPDUs, at least one if there is any.
    pub fn transmit(&mut self, out: &mut List, limit: usize) {
        self.tx.transmit_first(out);
        if matches!(self.phase, Phase::Ready { quiet: false }) {
            self.spoke |= self.tx.has_work(&self.inbound);
            self.tx.transmit(out, limit.max(1), &mut self.inbound, &mut self.completions);
        }
    }

    /// Returns the next event, if any.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`timeout`](Self::timeout) is due.
    pub fn deadline(&self) -> Option<Time> {
        match self.phase {
            Phase::Ready { .. } => self.nudge.as_ref().and_then(Nudge::deadline),
            Phase::Over => None,
            _ => Some(self.started + self.config.handshake_timeout),
        }
    }

    /// Handles the passing of time: gives up if the handshake takes too long, and nudges a server that may have
    /// overlooked early bytes.
    pub fn timeout(&mut self, now: Time) {
        if self.is_ready() {
            if self.nudge.as_mut().is_some_and(|nudge| nudge.is_due(now)) && self.spoke {
                self.tx.write_nothing();
            }
        } else if self.deadline().is_some_and(|deadline| now >= deadline) {
            self.fail(Error::HandshakeTimeout(self.config.handshake_timeout));
        }
    }

    /// Ends the connection because the transport is closed: everything comes back. If a place is out for a receive, it
    /// comes back after [`landed`](Self::landed).
    pub fn closed(&mut self) {
        if !matches!(self.phase, Phase::Over) {
            self.phase = Phase::Over;
            self.flush_due = true;
            self.flush();
        }
    }

    fn fail(&mut self, error: Error) {
        if self.is_over() {
            return;
        }
        if let Some(code) = error.code() {
            let about = self.rx.header().map(|(control, header)| (control.opcode, header));
            self.tx.terminate(code, about);
        }
        self.closed();
        self.events.push_back(Event::Fault(error));
    }

    fn flush(&mut self) {
        if self.inbound.is_out() {
            return;
        }
        self.flush_due = false;
        self.regions = 0;
        self.inbound.flush(&mut self.completions);
        self.tx.flush(&mut self.completions);
    }

    pub(super) fn allows_reads(&self) -> bool {
        self.ord > 0 && self.is_ready()
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }
}
