//! The session with a monitor: which one, what it tells, what it is asked.
//!
//! Source: ceph `src/mon/MonClient.cc`; linux `net/ceph/mon_client.c`. Unlike there, monitors that fail at once are
//! followed at once by others, and only when all have failed a rest is taken, which grows.

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

/// How far the search for a monitor is.
#[derive(Debug)]
enum State {
    /// Not begun, or closed.
    Idle,
    /// Some of one priority are being tried.
    Hunting { tries: Vec<ConnId>, priority: u16, until: Time },
    /// All have failed.
    Resting { until: Time },
    /// One is found. `heard`: it has sent a message that could be read.
    Open { conn: ConnId, heard: bool, since: Time },
}

/// A monitor that can be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    addr: EntityAddr,
    priority: u16,
    weight: u16,
}

/// Something from a monitor that is not for its session.
#[derive(Debug)]
pub(crate) enum FromMonitor {
    /// Maps of the OSDs.
    Maps(MapUpdate),
    /// The newest epoch of the OSD map.
    Newest(Epoch),
    /// It gives no new tickets: a session with it is of no more use.
    NoTickets(auth::Error),
}

/// The monitors, and the session with one of them.
#[derive(Debug)]
pub(crate) struct Monitors<T> {
    config: MonConfig,
    hostname: String,
    /// Those that can be tried.
    known: Vec<Known>,
    /// In which versions of the messenger's protocol monitors are connected to.
    versions: Versions,
    /// Those of them, by place, that were not tried yet in this round; the next one last.
    untried: Vec<usize>,
    /// The one of the last session, which is tried last.
    last: Option<usize>,
    /// Rounds in which all have failed, since a session has lasted, and the rest before the next.
    rounds: Backoff,
    /// Sessions in a row that were lost soon after they had begun, and the rest behind all but the first.
    brief: Backoff,
    state: State,
    random: Random,
    map: Option<MonMap>,
    subscriptions: Subscriptions,
    requests: Requests<T>,
    /// Since when there is no session with a monitor, or what the last one is waited for.
    apart_since: Time,
    /// Why the last attempt to have a session failed, until one brings a message.
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

    /// The map of the monitors, once one has sent it.
    pub(crate) fn map(&self) -> Option<&MonMap> {
        self.map.as_ref()
    }

    /// Where a monitor is that can be tried.
    fn addr(&self, monitor: usize) -> Option<EntityAddr> {
        self.known.get(monitor).map(|known| known.addr)
    }

    /// Begins to look for a monitor.
    pub(crate) fn start(&mut self, now: Time, hub: &mut Hub<T>) {
        if matches!(self.state, State::Idle) {
            self.apart_since = now;
            self.hunt(now, hub);
        }
    }

    /// Tries the next monitors.
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

    /// Tries as many monitors at the same time as are wanted, all of one priority (MonClient.cc, _add_conns); rests if
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

    /// Messages may flow to a monitor: the first one is taken. Returns the client's name of before, if the monitor has
    /// given it another.
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

    /// A connection to a monitor is over.
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

    /// A message from a monitor.
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
            // Monitors that know stateful subscriptions, as all do that speak msgr2, need no renewal; what else they
            // tell (settings, the managers' map) is of no use here.
            other => tracing::trace!(kind = other, "a monitor's message is ignored"),
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
        // A map that names no place to go leaves those that were given: better old addresses than none.
        if !known.is_empty() && known != self.known {
            self.last =
                self.last.and_then(|last| known.iter().position(|one| one.addr == self.known[last].addr));
            self.untried.clear();
            self.known = known;
        }
        let fsid = map.fsid;
        let first = self.map.replace(map).is_none();
        if first {
            // Until now the cluster's id was not known, which requests bear.
            self.requests.send_all(hub, conn, fsid);
        }
        Ok(())
    }

    /// The cluster's id, if known.
    pub(crate) fn fsid(&self) -> Option<Uuid> {
        self.map.as_ref().map(|map| map.fsid)
    }

    /// Asks for the OSD map from epoch `start` on, once or for good.
    pub(crate) fn want_osdmap(&mut self, hub: &mut Hub<T>, start: Epoch, once: bool) {
        let news = self.subscriptions.want_osdmap(start, once, &self.hostname);
        if let (Some(subscribe), State::Open { conn, .. }) = (news, &self.state) {
            hub.send(*conn, 0, &subscribe);
        }
    }

    /// Asks for the cluster's log, or for no more of it.
    pub(crate) fn want_log(&mut self, hub: &mut Hub<T>, is_wanted: bool) {
        let news = self.subscriptions.want_log(is_wanted, &self.hostname);
        if let (Some(subscribe), State::Open { conn, .. }) = (news, &self.state) {
            hub.send(*conn, 0, &subscribe);
        }
    }

    /// An OSD map of this epoch is here, from whomever.
    pub(crate) fn got_osdmap(&mut self, epoch: Epoch) {
        self.subscriptions.got_osdmap(epoch);
    }

    /// Asks the monitors something. Requests wait for a session.
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

    /// Gives the requests up whose tickets are `unwanted`.
    pub(crate) fn cancel_where(&mut self, hub: &mut Hub<T>, unwanted: &impl Fn(&T) -> bool) {
        self.requests.cancel_where(hub, unwanted);
    }

    fn add(&mut self, now: Time, hub: &mut Hub<T>, asker: Asker<T>, ask: Ask) {
        let tid = self.requests.add(now, &self.config, asker, ask);
        if let (State::Open { conn, .. }, Some(map)) = (&self.state, &self.map) {
            self.requests.send(hub, *conn, map.fsid, tid);
        }
    }

    /// Does anybody wait for an answer?
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.requests.len() > 0
    }

    /// The session that is missing, if one is: one counts that has brought a message.
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

    /// The first map that a monitor has not sent yet.
    pub(crate) fn waiting_map(&self, now: Time) -> Option<Waiting> {
        let elapsed = now.since(self.apart_since);
        let open = matches!(self.state, State::Open { .. });
        open.then_some(Waiting { target: Awaited::OsdMap, elapsed, cause: None })
    }

    /// The oldest request to monitors that has no answer.
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
                    // No rest: the monitors that were tried had their time.
                    let _ = self.rounds.fail(0);
                }
                self.hunt(now, hub);
            }
            State::Resting { until } if *until <= now => self.hunt(now, hub),
            State::Open { conn, .. } => renew_tickets(now, hub, *conn),
            _ => {}
        }
    }

    /// Gives up everything.
    pub(crate) fn close(&mut self, hub: &mut Hub<T>) {
        self.state = State::Idle;
        self.requests.close(hub);
    }
}

/// Asks the monitor for new tickets if it is time.
fn renew_tickets<T>(now: Time, hub: &mut Hub<T>, conn: ConnId) {
    if let Some(payload) = hub.principal().renew(now) {
        hub.send(conn, 0, &Auth { method: auth::method::CEPHX, payload, monmap_epoch: 0 });
    }
}

/// Takes the tickets that a monitor sends. Without new ones, the old ones do as long as they are good.
///
/// `Err`: the monitor refuses. It would do so again, for the ticket that names this client may be too old; a login tells,
/// and is made without that ticket if need be.
fn take_tickets<T>(now: Time, hub: &mut Hub<T>, reply: &AuthReply) -> Result<(), auth::Error> {
    let principal = hub.principal();
    if reply.result < 0 {
        let name = principal.name().clone();
        return Err(auth::Error::TicketRefused { name, errno: reply.result });
    }
    if let Err(error) = principal.renewed(now, &reply.payload) {
        tracing::warn!(name = %principal.name(), %error, "new tickets cannot be used");
    }
    Ok(())
}

/// The monitors to which this client can speak.
fn reachable(monitors: impl Iterator<Item = Monitor>, versions: Versions) -> Vec<Known> {
    let known = |monitor: Monitor| {
        let addr = *monitor.addrs.reached_by(versions)?;
        Some(Known { addr, priority: monitor.priority, weight: monitor.weight })
    };
    monitors.filter_map(known).collect()
}
