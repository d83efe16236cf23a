//! The monitor session: search for a monitor, subscriptions and requests.
//!
//! Source: ceph `src/mon/MonClient.cc`; linux `net/ceph/mon_client.c`. Unlike there, a monitor that fails is
//! replaced at once by another; only after all have failed there is a delay, which grows.

mod requests;
mod subscriptions;

pub(crate) use requests::{Ask, Asker};

use super::awaited::Awaited;
use super::config::{Config, MonConfig, Monitor};
use super::error::{Error, Waiting};
use super::hub::{Hub, Role};
use super::random::Random;
use super::request::Event;
use crate::messages::{Auth, AuthReply, Log, MapUpdate, MonMapMessage, kind};
use crate::monmap::MonMap;
use crate::types::{EntityName, Epoch, Uuid};
use onego_msgr::addr::{EntityAddr, Versions};
use onego_msgr::auth;
use onego_msgr::encoding::Decode;
use onego_msgr::{Message, Peer};
use onego_wire::{Backoff, ConnId, Decoded, Time};
use requests::Requests;
use subscriptions::Subscriptions;

#[derive(Debug)]
enum State {
    Idle,
    Hunting {
        tries: Vec<ConnId>,
        priority: u16,
        until: Time,
    },
    Resting {
        until: Time,
    },
    /// Session with one. `heard`: it has sent a message that could be decoded.
    Open {
        conn: ConnId,
        heard: bool,
        since: Time,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    addr: EntityAddr,
    priority: u16,
    weight: u16,
}

/// Message from a monitor that is not for its session.
#[derive(Debug)]
pub(crate) enum FromMonitor {
    Maps(MapUpdate),
    Newest(Epoch),
    /// It refuses new tickets, so the session is useless.
    NoTickets(auth::Error),
}

#[derive(Debug)]
pub(crate) struct Monitors<T> {
    config: MonConfig,
    hostname: String,
    known: Vec<Known>,
    versions: Versions,
    /// Indexes of the known ones that were not tried yet in this round; the next one is last.
    untried: Vec<usize>,
    last: Option<usize>,
    /// Failed rounds since the last session that lasted, and the delay before the next.
    rounds: Backoff,
    /// Consecutive sessions that ended soon after their start, and the delay after all but the first.
    brief: Backoff,
    state: State,
    random: Random,
    map: Option<MonMap>,
    subscriptions: Subscriptions,
    requests: Requests<T>,
    /// Start of the current wait for a session, or of the last one.
    apart_since: Time,
    /// Error of the last attempt, until a session delivers a message.
    failure: Option<Error>,
}

impl<T> Monitors<T> {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            config: config.mon,
            hostname: config.hostname.clone(),
            known: reachable(config.monitors.iter().cloned(), config.versions),
            versions: config.versions,
            untried: Vec::new(),
            last: None,
            rounds: Backoff::new(config.mon.hunt_rest, config.mon.hunt_rest_max),
            brief: Backoff::new(config.mon.hunt_rest, config.mon.hunt_rest_max),
            state: State::Idle,
            random: Random::new(config.seed),
            map: None,
            subscriptions: Subscriptions::default(),
            requests: Requests::new(),
            apart_since: Time::default(),
            failure: None,
        }
    }

    pub(crate) fn map(&self) -> Option<&MonMap> {
        self.map.as_ref()
    }

    fn addr(&self, monitor: usize) -> Option<EntityAddr> {
        self.known.get(monitor).map(|known| known.addr)
    }

    pub(crate) fn start(&mut self, now: Time, hub: &mut Hub<T>) {
        if matches!(self.state, State::Idle) {
            self.apart_since = now;
            self.hunt(now, hub);
        }
    }

    fn hunt(&mut self, now: Time, hub: &mut Hub<T>) {
        if self.untried.is_empty() {
            self.untried = (0..self.known.len()).collect();
            let known = &self.known;
            self.random.shuffle(&mut self.untried, |monitor| known[*monitor].weight);
            self.untried.sort_by_key(|monitor| (known[*monitor].priority, Some(*monitor) == self.last));
            self.untried.reverse();
        }
        let until = now + self.config.hunt_interval.saturating_mul(1 << self.rounds.failures().min(3));
        self.state = State::Hunting { tries: Vec::new(), priority: 0, until };
        self.try_more(now, hub);
    }

    /// Tries monitors up to the configured parallelism, all of one priority (MonClient.cc, _add_conns). Waits if
    /// there is none.
    fn try_more(&mut self, now: Time, hub: &mut Hub<T>) {
        let State::Hunting { tries, priority, .. } = &mut self.state else { return };
        while tries.len() < self.config.hunt_parallel.max(1)
            && let Some(&monitor) = self.untried.last()
            && (tries.is_empty() || self.known[monitor].priority == *priority)
        {
            self.untried.pop();
            *priority = self.known[monitor].priority;
            tries.extend(hub.open(now, Role::Monitor(monitor), self.known[monitor].addr));
        }
        if tries.is_empty() {
            self.rest(now);
        }
    }

    fn rest(&mut self, now: Time) {
        let rest = self.rounds.fail(self.random.next());
        self.state = State::Resting { until: now + rest };
    }

    /// Handles a ready connection: the first one wins. Returns the client's previous name if the monitor has
    /// changed it.
    pub(crate) fn ready(
        &mut self,
        now: Time,
        hub: &mut Hub<T>,
        conn: ConnId,
        monitor: usize,
        peer: Peer,
    ) -> Option<EntityName> {
        let State::Hunting { tries, .. } = &mut self.state else {
            hub.close(conn);
            return None;
        };
        let losers = std::mem::take(tries);
        losers.into_iter().filter(|other| *other != conn).for_each(|other| drop(hub.close(other)));
        self.state = State::Open { conn, heard: false, since: now };
        self.last = Some(monitor);
        self.untried.clear();
        let before = hub.identify(now, peer);
        if let Some(addr) = self.addr(monitor) {
            hub.tell(Event::Monitor(addr));
        }
        hub.send(conn, 0, &self.subscriptions.all(&self.hostname));
        if let Some(map) = &self.map {
            self.requests.send_all(hub, conn, map.fsid);
        }
        before
    }

    pub(crate) fn lost(&mut self, now: Time, hub: &mut Hub<T>, conn: ConnId, monitor: usize, error: Error) {
        let peer = EntityName::mon(monitor as i64);
        self.failure = Some(error.clone());
        hub.tell(Event::Fault { peer, addr: self.addr(monitor), error });
        match &mut self.state {
            State::Hunting { tries, .. } => {
                tries.retain(|other| *other != conn);
                self.try_more(now, hub);
            }
            State::Open { conn: open, heard, since } if *open == conn => {
                let (heard, lasted) = (*heard, now.since(*since) >= self.config.hunt_interval);
                hub.principal().session_ended();
                if !heard {
                    return self.rest(now);
                }
                self.apart_since = now;
                self.rounds.reset();
                if lasted {
                    self.brief.reset();
                }
                let is_first = self.brief.failures() == 0;
                let rest = self.brief.fail(self.random.next());
                if is_first {
                    self.hunt(now, hub);
                } else {
                    self.state = State::Resting { until: now + rest };
                }
            }
            _ => {}
        }
    }

    pub(crate) fn receive(
        &mut self,
        now: Time,
        hub: &mut Hub<T>,
        from: ConnId,
        message: &mut Message,
    ) -> Decoded<Option<FromMonitor>> {
        let since = match self.state {
            State::Open { conn, since, .. } if conn == from => since,
            _ => return Ok(None),
        };
        let taken = self.take(now, hub, from, message)?;
        self.state = State::Open { conn: from, heard: true, since };
        self.failure = None;
        Ok(taken)
    }

    fn take(
        &mut self,
        now: Time,
        hub: &mut Hub<T>,
        from: ConnId,
        message: &mut Message,
    ) -> Decoded<Option<FromMonitor>> {
        match message.header.kind {
            kind::OSD_MAP => return message.decode().map(FromMonitor::Maps).map(Some),
            kind::MON_MAP => self.take_map(hub, from, &message.decode::<MonMapMessage>()?.map)?,
            kind::AUTH_REPLY => {
                return Ok(take_tickets(now, hub, &message.decode()?).err().map(FromMonitor::NoTickets));
            }
            kind::MON_COMMAND_ACK
            | kind::STATFS_REPLY
            | kind::GET_POOL_STATS_REPLY
            | kind::POOL_OP_REPLY
            | kind::PING
            | kind::COMMAND_REPLY
            | kind::MON_GET_VERSION_REPLY => {
                return Ok(self.requests.answer(hub, message).map(FromMonitor::Newest));
            }
            kind::LOG => {
                let Log { version, entries, .. } = message.decode()?;
                if self.subscriptions.got_log(version) {
                    hub.tell(Event::Log(entries));
                }
            }
            // Monitors that support stateful subscriptions, as all with msgr2 do, need no renewal; their other
            // messages (settings, the manager map) are not needed.
            other => tracing::trace!(kind = other, "ignored a monitor's message"),
        }
        Ok(None)
    }

    fn take_map(&mut self, hub: &mut Hub<T>, conn: ConnId, bytes: &[u8]) -> Decoded<()> {
        let map = MonMap::from_bytes(bytes)?;
        self.subscriptions.got_monmap(map.epoch);
        let monitors = map.monitors.values().map(|monitor| Monitor {
            addrs: monitor.public_addrs.clone(),
            priority: monitor.priority,
            weight: monitor.weight,
        });
        let known = reachable(monitors, self.versions);
        // A map without a usable address does not replace the known ones: old addresses are better than none.
        if !known.is_empty() && known != self.known {
            self.last =
                self.last.and_then(|last| known.iter().position(|one| one.addr == self.known[last].addr));
            self.untried.clear();
            self.known = known;
        }
        let fsid = map.fsid;
        let first = self.map.replace(map).is_none();
        if first {
            // Requests carry the cluster's id, which was unknown until now.
            self.requests.send_all(hub, conn, fsid);
        }
        Ok(())
    }

    pub(crate) fn fsid(&self) -> Option<Uuid> {
        self.map.as_ref().map(|map| map.fsid)
    }

    /// Subscribes to the OSD map from epoch `start` on, once or permanently.
    pub(crate) fn want_osdmap(&mut self, hub: &mut Hub<T>, start: Epoch, once: bool) {
        let news = self.subscriptions.want_osdmap(start, once, &self.hostname);
        if let (Some(subscribe), State::Open { conn, .. }) = (news, &self.state) {
            hub.send(*conn, 0, &subscribe);
        }
    }

    pub(crate) fn want_log(&mut self, hub: &mut Hub<T>, is_wanted: bool) {
        let news = self.subscriptions.want_log(is_wanted, &self.hostname);
        if let (Some(subscribe), State::Open { conn, .. }) = (news, &self.state) {
            hub.send(*conn, 0, &subscribe);
        }
    }

    /// Handles the arrival of an OSD map of this epoch from any source.
    pub(crate) fn got_osdmap(&mut self, epoch: Epoch) {
        self.subscriptions.got_osdmap(epoch);
    }

    pub(crate) fn ask(&mut self, now: Time, hub: &mut Hub<T>, asker: Asker<T>, ask: Ask) {
        if let Asker::Caller(ticket) = asker {
            if self.requests.len() >= self.config.max_requests {
                let (what, bound) = ("requests to monitors", self.config.max_requests as u64);
                return hub.complete(ticket, Err(Error::Busy { what, bound }), None);
            }
            self.add(now, hub, Asker::Caller(ticket), ask);
        } else {
            self.add(now, hub, asker, ask);
        }
    }

    pub(crate) fn cancel_where(&mut self, hub: &mut Hub<T>, unwanted: &impl Fn(&T) -> bool) {
        self.requests.cancel_where(hub, unwanted);
    }

    fn add(&mut self, now: Time, hub: &mut Hub<T>, asker: Asker<T>, ask: Ask) {
        let tid = self.requests.add(now, &self.config, asker, ask);
        if let (State::Open { conn, .. }, Some(map)) = (&self.state, &self.map) {
            self.requests.send(hub, *conn, map.fsid, tid);
        }
    }

    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.requests.len() > 0
    }

    /// Returns the wait for a session, if there is none that has delivered a message.
    pub(crate) fn waiting_session(&self, now: Time) -> Option<Waiting> {
        if matches!(self.state, State::Open { heard: true, .. } | State::Idle) {
            return None;
        }
        Some(Waiting {
            target: Awaited::Monitor(self.known.iter().map(|known| known.addr).collect()),
            elapsed: now.since(self.apart_since),
            cause: self.failure.clone().map(Box::new),
        })
    }

    pub(crate) fn waiting_map(&self, now: Time) -> Option<Waiting> {
        let elapsed = now.since(self.apart_since);
        let open = matches!(self.state, State::Open { .. });
        open.then_some(Waiting { target: Awaited::OsdMap, elapsed, cause: None })
    }

    pub(crate) fn waiting_reply(&self, now: Time) -> Option<Waiting> {
        let elapsed = now.since(self.requests.oldest()?);
        Some(Waiting { target: Awaited::MonitorReply, elapsed, cause: None })
    }

    pub(crate) fn deadline(&self, hub: &Hub<T>) -> Option<Time> {
        let hunt = match &self.state {
            State::Hunting { until, .. } | State::Resting { until } => Some(*until),
            State::Open { .. } => hub.renewal_due(),
            State::Idle => None,
        };
        [hunt, self.requests.deadline()].into_iter().flatten().min()
    }

    pub(crate) fn timeout(&mut self, now: Time, hub: &mut Hub<T>) {
        if self.requests.deadline().is_some_and(|deadline| deadline <= now) {
            let waiting = self.waiting_session(now).or_else(|| self.waiting_reply(now));
            self.requests.timeout(now, hub, &self.config, waiting);
        }
        match &mut self.state {
            State::Hunting { tries, until, .. } if *until <= now => {
                for conn in std::mem::take(tries) {
                    let silence = Error::Timeout { after: self.config.hunt_interval, waiting: None };
                    self.failure = Some(silence.clone());
                    if let Some(Role::Monitor(monitor)) = hub.close(conn).map(|ended| ended.role) {
                        let peer = EntityName::mon(monitor as i64);
                        hub.tell(Event::Fault {
                            peer,
                            addr: self.known.get(monitor).map(|known| known.addr),
                            error: silence,
                        });
                    }
                }
                if self.untried.is_empty() {
                    // No delay: the monitors that were tried had their time.
                    let _ = self.rounds.fail(0);
                }
                self.hunt(now, hub);
            }
            State::Resting { until } if *until <= now => self.hunt(now, hub),
            State::Open { conn, .. } => renew_tickets(now, hub, *conn),
            _ => {}
        }
    }

    pub(crate) fn close(&mut self, hub: &mut Hub<T>) {
        self.state = State::Idle;
        self.requests.close(hub);
    }
}

fn renew_tickets<T>(now: Time, hub: &mut Hub<T>, conn: ConnId) {
    if let Some(payload) = hub.principal().renew(now) {
        hub.send(conn, 0, &Auth { method: auth::method::CEPHX, payload, monmap_epoch: 0 });
    }
}

/// Applies the tickets from a monitor. If they are invalid, the old ones remain in use while they last.
///
/// Fails if the monitor refuses them. It would refuse again, because the ticket that identifies this client may be too old;
/// a login finds out, and falls back to one without that ticket.
fn take_tickets<T>(now: Time, hub: &mut Hub<T>, reply: &AuthReply) -> Result<(), auth::Error> {
    let principal = hub.principal();
    if reply.result < 0 {
        let name = principal.name().clone();
        return Err(auth::Error::TicketRefused { name, errno: reply.result });
    }
    if let Err(error) = principal.renewed(now, &reply.payload) {
        tracing::warn!(name = %principal.name(), %error, "cannot use new tickets");
    }
    Ok(())
}

/// Returns the monitors with an address of an accepted protocol version.
fn reachable(monitors: impl Iterator<Item = Monitor>, versions: Versions) -> Vec<Known> {
    let known = |monitor: Monitor| {
        let addr = *monitor.addrs.reached_by(versions)?;
        Some(Known { addr, priority: monitor.priority, weight: monitor.weight })
    };
    monitors.filter_map(known).collect()
}
