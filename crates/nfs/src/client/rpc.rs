//! The RPC client: its connections, and the calls on each.

use super::call::{Call, Completion};
use super::calls::{Calls, Pending, ProcessedReply, Replies};
use super::channel::{Channel, Conn, ServerId};
use super::config::Config;
use super::error::Error;
use super::metrics::CallFigures;
use super::transport::{Transport, Way};
use super::waiting::Waiting;
use crate::rpc::Procedure;
use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{Action, ConnId, ConnTable, Disconnect, Landing, ListenerId, LocalPort, Machine, Time};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(100);

/// Delay before a call is retried after `NFS3ERR_JUKEBOX`.
const JUKEBOX: Duration = Duration::from_secs(1);

/// A client of RPC servers. The caller names each call by a `T`.
#[derive(Debug)]
pub struct Client<T> {
    config: Config,
    servers: usize,
    channels: Vec<Channel>,
    conns: ConnTable<Conn>,
    calls: Calls<T>,
    actions: VecDeque<Action>,
    /// Final output of closed connections: the transport's error report.
    final_output: Vec<(ConnId, List)>,
    later: VecDeque<(Time, u32)>,
    /// Time of the next check for overdue calls, while there are any calls.
    tick: Option<Time>,
}

impl<T> Client<T> {
    /// Creates a client without servers.
    pub fn new(config: Config) -> Self {
        Self {
            servers: 0,
            channels: Vec::new(),
            conns: ConnTable::default(),
            calls: Calls::new(&config),
            actions: VecDeque::new(),
            final_output: Vec::new(),
            later: VecDeque::new(),
            tick: None,
            config,
        }
    }

    /// Adds a server, with the number of connections and their local ports.
    pub fn server(&mut self, addr: SocketAddr, local: LocalPort, way: &Way, connections: usize) -> ServerId {
        let server = ServerId(self.servers);
        self.servers += 1;
        let channel = |_| Channel::new(server, addr, local, way.clone(), &self.config);
        let channels = (0..connections.max(1)).map(channel);
        self.channels.extend(channels);
        server
    }

    /// Returns whether another call stays within the client's bound on calls.
    pub fn has_room(&self) -> bool {
        self.calls.len() < self.config.calls
    }

    /// Returns whether no calls or completions are pending.
    pub fn is_idle(&self) -> bool {
        self.calls.len() == 0
    }

    /// Creates a call of the procedure `P` in memory of an earlier call. The caller must make it at once.
    pub(super) fn prepare<P: Procedure>(&mut self, args: &P::Args) -> Call {
        self.calls.prepare::<P>(args)
    }

    /// Makes a call. Without [room](Self::has_room), the client grows beyond its bound.
    pub fn call(&mut self, now: Time, server: ServerId, call: Call, ticket: T) {
        let channels = self.channels.iter().enumerate().filter(|(_, channel)| channel.server == server);
        let least = channels.min_by_key(|(_, channel)| channel.load()).expect("a server has channels");
        let channel = least.0;
        let xid = self.calls.add(now, channel, call, ticket);
        self.tick.get_or_insert(now + TICK);
        self.channels[channel].waiting.push_back(xid);
        self.send(now, channel);
    }

    /// Returns a handle to the call statistics that any thread can read.
    pub fn figures(&self) -> CallFigures {
        self.calls.meter.figures()
    }

    /// Returns the next completion.
    pub fn completion(&mut self) -> Option<Completion<T>> {
        self.calls.completion()
    }

    /// Returns what the oldest call waits for, cancelled calls aside. Scans all calls, so it should be called about
    /// once a second at most.
    pub fn waiting(&self, now: Time) -> Option<Waiting> {
        let calls = self.calls.iter().map(|(_, call)| call).filter(|call| !call.cancelled);
        let oldest = calls.min_by_key(|call| (call.made, call.sequence))?;
        let channel = &self.channels[oldest.channel];
        let live = channel.conn.and_then(|conn| self.conns.get(conn));
        Some(Waiting::of(now, oldest, channel, live.is_some_and(|live| live.open)))
    }

    /// Cancels the calls whose tickets are `unwanted`: they complete with [`Error::Cancelled`]. A call that was not
    /// sent completes at once and is never sent. One that was sent completes when its reply arrives or its connection
    /// ends, because its memory may be in use until then; it is not sent again. Scans all calls.
    pub fn cancel_where(&mut self, unwanted: impl Fn(&T) -> bool) {
        let calls = &mut self.calls;
        calls.cancel_where(unwanted);
        for channel in &mut self.channels {
            channel.waiting.retain(|xid| calls.get(*xid).is_some());
        }
    }

    /// Closes the connections to a server. Calls in progress fail, and no more calls may be made.
    pub fn close(&mut self, now: Time, server: ServerId) {
        for channel in 0..self.channels.len() {
            if self.channels[channel].server != server {
                continue;
            }
            self.channels[channel].closed = true;
            self.break_off(now, channel, Error::Closed.to_string());
            self.fail_waiting(channel, |_| Some(Error::Closed));
        }
    }

    /// Sends a channel's waiting calls, as far as its window allows.
    fn send(&mut self, now: Time, index: usize) {
        let channel = &mut self.channels[index];
        let Some(conn) = channel.conn else { return self.open(now, index) };
        let Some(live) = self.conns.get_mut(conn).filter(|live| live.open) else { return };
        while channel.in_flight < channel.window
            && live.transport.is_ready()
            && let Some(xid) = channel.waiting.pop_front()
        {
            let Some(pending) = self.calls.get_mut(xid) else { continue };
            pending.sent = Some((conn, now));
            let payload = pending.payload.clone();
            let sink = if live.transport.holds_sinks() { pending.offer(&self.config.pool) } else { None };
            live.transport.send(pending.front.as_slice(), payload, sink, pending.results_max);
            live.expected.sent(pending.expected);
            channel.in_flight += 1;
            live.made += 1;
        }
        if live.transport.has_failed() {
            // No event will follow that would report the failure.
            return self.take_replies(now, conn);
        }
        self.announce(conn);
    }

    fn open(&mut self, now: Time, index: usize) {
        let channel = &mut self.channels[index];
        if channel.closed || channel.waiting.is_empty() || channel.retry_at.is_some_and(|at| now < at) {
            return;
        }
        match Transport::open(now, &channel.way, channel.addr, &self.config) {
            Ok((transport, opening)) => {
                if channel.last.is_some() {
                    self.calls.meter.reconnect();
                }
                let conn = self.conns.insert(Conn::new(index, transport));
                channel.conn = Some(conn);
                channel.retry_at = None;
                self.actions.push_back(opening.action(conn, channel.addr, channel.local));
            }
            Err(error) => {
                channel.broken(now, &self.config, error.to_string());
                self.unreachable(index);
            }
        }
    }

    /// Fails the soft calls of a channel that cannot connect.
    fn unreachable(&mut self, index: usize) {
        let channel = &self.channels[index];
        let error =
            Error::Unreachable { addr: channel.addr, reason: channel.last.clone().unwrap_or_default() };
        self.fail_waiting(index, |pending| pending.soft.then(|| error.clone()));
    }

    /// Tells the driver, once, about pending output, and about a new low-water mark.
    fn announce(&mut self, conn: ConnId) {
        let Some(live) = self.conns.get_mut(conn) else { return };
        if live.open && !live.announced && !live.over && live.transport.has_output() {
            live.announced = true;
            self.actions.push_back(Action::Transmit { conn });
        }
        if live.transport.has_low_water()
            && let Some(bytes) = live.expected.new_mark()
        {
            self.actions.push_back(Action::LowWater { conn, bytes });
        }
    }

    fn take_replies(&mut self, now: Time, conn: ConnId) {
        self.calls.meter.tick(now);
        let Some(live) = self.conns.get_mut(conn).filter(|live| !live.over) else { return };
        let index = live.channel;
        let failed = loop {
            let mut replies =
                Replies { calls: &mut self.calls, conn, placing: &mut live.placing, pool: &self.config.pool };
            match live.transport.next(&mut replies) {
                Ok(Some(incoming)) => {
                    live.placing = None;
                    let Some(ProcessedReply { expected, later }) = self.calls.process(conn, incoming) else {
                        continue;
                    };
                    self.channels[index].heard(&self.config);
                    live.expected.done(expected);
                    if let Some(xid) = later {
                        self.later.push_back((now + JUKEBOX, xid));
                    }
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        live.open |= live.transport.is_accepted();
        if let Some(error) = failed {
            return self.break_off(now, index, error.to_string());
        }
        if !self.channels[index].waiting.is_empty() {
            self.send(now, index);
        }
        self.announce(conn);
    }

    fn resend_delayed(&mut self, now: Time, xid: u32) {
        let Some(pending) = self.calls.get(xid) else { return };
        let index = pending.channel;
        self.channels[index].waiting.push_back(xid);
        if self.channels[index].closed {
            self.fail_waiting(index, |_| Some(Error::Closed));
        } else {
            self.send(now, index);
        }
    }

    fn break_off(&mut self, now: Time, index: usize, why: String) {
        if let Some(conn) = self.channels[index].conn {
            let live = self.conns.get_mut(conn).filter(|live| live.open);
            let output = live.and_then(|live| live.transport.final_output());
            self.final_output.extend(output.map(|output| (conn, output)));
            self.actions.push_back(Action::Close { conn });
            self.broken(now, conn, why);
        }
    }

    /// Handles the end of a connection: its calls wait for the next one.
    fn broken(&mut self, now: Time, conn: ConnId, why: String) {
        let Some(live) = self.conns.get_mut(conn).filter(|live| !live.over) else { return };
        let (index, was_open) = (live.channel, live.open);
        live.over = true;
        let landing = live.landing;
        if landing == 0 {
            self.release(conn);
        }
        self.channels[index].broken(now, &self.config, why);
        if !was_open {
            self.unreachable(index);
        }
        self.requeue(now, conn, index);
    }

    /// Drops a connection that has ended, once all lent memory has returned.
    fn release(&mut self, conn: ConnId) {
        let Some(mut live) = self.conns.remove(conn) else { return };
        let place = live.transport.take_place();
        if let Some((xid, place)) = live.placing.zip(place)
            && let Some(pending) = self.calls.get_mut(xid)
        {
            pending.give_back(place);
        }
        for (xid, sink) in live.transport.into_sinks() {
            if let Some(pending) = self.calls.get_mut(xid) {
                pending.give_back(sink);
            }
        }
    }

    /// Requeues the calls of a connection that has ended, the oldest first, and ends those that were cancelled. Calls
    /// whose sinks are still lent out for a receive stay: a call is only sent again with its whole sink.
    fn requeue(&mut self, now: Time, conn: ConnId, index: usize) {
        let held = self.conns.get(conn);
        let mut again = Vec::new();
        for (xid, pending) in self.calls.iter() {
            let is_held = held.is_some_and(|live| live.holds(xid, pending.has_sink));
            if !is_held && pending.is_on(conn) {
                again.push((pending.sequence, xid));
            }
        }
        again.sort_unstable();
        for (_, xid) in again.into_iter().rev() {
            let pending = self.calls.get_mut(xid).expect("the call was just seen");
            if pending.cancelled {
                self.calls.fail(xid, Error::Cancelled);
                continue;
            }
            pending.sent = None;
            self.calls.meter.retry();
            self.channels[index].waiting.push_front(xid);
        }
        if self.channels[index].closed {
            self.fail_waiting(index, |_| Some(Error::Closed));
        } else {
            self.send(now, index);
        }
    }

    fn fail_waiting(&mut self, index: usize, error: impl Fn(&Pending<T>) -> Option<Error>) {
        let channel = &mut self.channels[index];
        let calls = &mut self.calls;
        channel.waiting.retain(|xid| {
            let Some(error) = calls.get(*xid).and_then(&error) else { return true };
            calls.fail(*xid, error);
            false
        });
    }

    fn time_passed(&mut self, now: Time, conn: ConnId) {
        let Some(live) = self.conns.get_mut(conn).filter(|live| !live.over) else { return };
        if live.transport.deadline().is_some_and(|deadline| deadline <= now) {
            live.transport.timeout(now);
            self.take_replies(now, conn);
        }
    }

    /// Fails calls whose deadline has passed, and closes connections on which a reply is overdue.
    fn check_timeouts(&mut self, now: Time) {
        self.calls.meter.tick(now);
        let overdue = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= now);
        for index in 0..self.channels.len() {
            let patience = self.config.retransmit_after;
            let calls = self.calls.iter().map(|(_, call)| call).filter(|call| call.channel == index);
            let conn = self.channels[index].conn.and_then(|conn| self.conns.get_mut(conn));
            if calls.filter_map(|call| call.sent).any(|(_, sent)| now.since(sent) >= patience)
                || conn.is_some_and(|live| live.is_overdue(now, patience))
            {
                self.break_off(now, index, format!("no reply within {patience:?}"));
            }
        }
        let late = self.calls.iter().filter(|(_, call)| overdue(call.deadline)).map(|(xid, _)| xid);
        let late: Vec<u32> = late.collect();
        for xid in late {
            self.give_up(now, xid);
        }
    }

    /// Fails a call whose deadline has passed. If bytes are arriving in its sink, the connection must end first.
    fn give_up(&mut self, now: Time, xid: u32) {
        let Some(call) = self.calls.get_mut(xid) else { return };
        let (index, has_sink) = (call.channel, call.has_sink);
        let Some((conn, sent)) = call.sent else { return self.end_without_reply(now, xid) };
        if let Some(live) = self.conns.get_mut(conn).filter(|live| !live.over) {
            // Memory of the client's own may stay with the connection.
            let is_callers = call.fresh.is_none();
            match live.give_up(xid, sent, is_callers) {
                Ok(sink) if live.placing != Some(xid) => {
                    call.sink = sink.or(call.sink.take());
                    return self.end_without_reply(now, xid);
                }
                _ => self.break_off(now, index, "a call timed out while its reply was arriving".to_owned()),
            }
        }
        if !self.conns.get(conn).is_some_and(|live| live.holds(xid, has_sink)) {
            self.end_without_reply(now, xid);
        }
    }

    fn end_without_reply(&mut self, now: Time, xid: u32) {
        let Some(call) = self.calls.get(xid) else { return };
        let channel = &mut self.channels[call.channel];
        channel.waiting.retain(|waiting| *waiting != xid);
        if let Some((conn, _)) = call.sent {
            channel.in_flight -= 1;
            if let Some(live) = self.conns.get_mut(conn) {
                live.expected.done(call.expected);
            }
        }
        let (waited, last) = (now.since(call.made), channel.last.clone());
        let error = Error::NoReply { addr: channel.addr, waited, last };
        self.calls.fail(xid, error);
    }
}

impl<T> Machine for Client<T> {
    fn next_action(&mut self, _: Time) -> Option<Action> {
        if self.actions.is_empty() {
            // All connections to close have been closed.
            self.final_output.clear();
        }
        self.actions.pop_front()
    }

    fn listening(&mut self, _: Time, _: ListenerId, _: io::Result<SocketAddr>) {
        // A client does not listen.
    }

    fn accepted(&mut self, _: Time, _: ListenerId, _: SocketAddr, _: SocketAddr) -> Option<ConnId> {
        None
    }

    fn connected(&mut self, now: Time, conn: ConnId, _: SocketAddr) {
        let Some(live) = self.conns.get_mut(conn).filter(|live| !live.over) else { return };
        live.open = true;
        live.transport.opened(now);
        let index = live.channel;
        self.send(now, index);
        self.announce(conn);
    }

    fn disconnected(&mut self, now: Time, conn: ConnId, cause: Disconnect) {
        let why = match cause {
            Disconnect::Closed => "the server has closed the connection".to_owned(),
            Disconnect::Failed(error) => error.to_string(),
        };
        self.broken(now, conn, why);
    }

    fn landing(&mut self, conn: ConnId) -> Landing {
        let Some(live) = self.conns.get_mut(conn).filter(|live| !live.over) else {
            return Landing::default();
        };
        let landing = live.transport.landing();
        live.landing = landing.places();
        landing
    }

    fn landed(&mut self, now: Time, conn: ConnId, place: SegmentMut, filled: usize) {
        let Some(live) = self.conns.get_mut(conn) else { return };
        live.landing -= 1;
        live.transport.landed(now, place, filled);
        if live.landing > 0 {
            return;
        }
        if live.over {
            let index = live.channel;
            self.release(conn);
            self.requeue(now, conn, index);
        } else {
            self.take_replies(now, conn);
        }
    }

    fn received(&mut self, now: Time, conn: ConnId, bytes: Segment) {
        let Some(live) = self.conns.get_mut(conn).filter(|live| !live.over) else { return };
        live.transport.received(now, bytes);
        self.take_replies(now, conn);
    }

    fn transmit(&mut self, _: Time, conn: ConnId, out: &mut List, limit: usize) {
        if let Some(live) = self.conns.get_mut(conn).filter(|live| !live.over) {
            live.transmit(self.channels[live.channel].in_flight, out, limit);
            self.announce(conn);
        } else if let Some(at) = self.final_output.iter().position(|(of, _)| *of == conn) {
            // The driver asks for output once more after it was asked to close.
            out.append(self.final_output.swap_remove(at).1);
        }
    }

    fn ready(&mut self, now: Time, conn: ConnId) {
        let Some(live) = self.conns.get_mut(conn).filter(|live| !live.over) else { return };
        live.transport.watched();
        self.take_replies(now, conn);
    }

    fn deadline(&self) -> Option<Time> {
        let retries = self.channels.iter().filter(|channel| !channel.waiting.is_empty());
        let transports = self.conns.iter().filter_map(|(_, live)| live.transport.deadline());
        let later = self.later.front().map(|(at, _)| *at);
        retries.filter_map(|channel| channel.retry_at).chain(transports).chain(later).chain(self.tick).min()
    }

    fn timeout(&mut self, now: Time) {
        if self.tick.is_some_and(|tick| tick <= now) {
            self.check_timeouts(now);
            self.tick = self.calls.are_pending().then(|| now + TICK);
        }
        while let Some((_, xid)) = self.later.pop_front_if(|(at, _)| *at <= now) {
            self.resend_delayed(now, xid);
        }
        for index in 0..self.channels.len() {
            match self.channels[index].conn {
                None => self.send(now, index),
                Some(conn) => self.time_passed(now, conn),
            }
        }
    }
}
