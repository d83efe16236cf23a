//! Client of a Ceph cluster as one machine: a session with a monitor, and object requests.
//!
//! [`Client`] is a [`Machine`]: a driver moves its bytes. Its callers use [`submit`](Client::submit),
//! [`command`](Client::command), [`watch`](Client::watch) and so on. Each call ends in exactly one [`Completion`] with the
//! caller's ticket; unsolicited news come as [`Event`]s. After a call, the driver must poll for actions; after the driver's
//! calls, the caller should poll for completions and events.

mod awaited;
mod config;
mod error;
mod hub;
mod metrics;
mod mon;
mod osdc;
mod random;
mod request;

pub use awaited::Awaited;
pub use config::{Config, MonConfig, Monitor, OsdConfig};
pub use error::{Answered, Blame, Error, Waiting, errno};
pub use metrics::{ClientFigures, ClientSnapshot};
pub use osdc::ALL_NAMESPACES;
pub use request::{
    Completion, Event, Notified, OpId, OpReply, Outcome, Rejected, Request, WatchId, WatchTarget,
};

use hub::{Ended, Hub, Role};
use mon::{Ask, Asker, FromMonitor, Monitors};
use osdc::{Objecter, Places};

use crate::messages::{GetPoolStats, MonCommand, PoolOp, Statfs, Tell};
use crate::monmap::MonMap;
use crate::ops::MAX_PAYLOAD;
use crate::osdmap::OsdMap;
use crate::types::{EntityName, Uuid};
use onego_buf::{List, Segment, SegmentMut};
use onego_msgr::addr::EntityAddr;
use onego_msgr::auth::{self, Entropy, Principal};
use onego_msgr::{Message, NoPlacer};
use onego_wire::{Action, ConnId, Disconnect, Landing, ListenerId, Machine, Time};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Client of a Ceph cluster. `T` is the caller's ticket, returned with each completion.
#[derive(Debug)]
pub struct Client<T> {
    hub: Hub<T>,
    monitors: Monitors<T>,
    objects: Objecter<T>,
}

impl<T> Client<T> {
    /// Creates a client, which starts to connect to a monitor.
    pub fn new(now: Time, config: &Config) -> Self {
        let link = onego_msgr::Config::client(config.nonce, config.pool.clone());
        let to_monitors = onego_msgr::Config { data_crc: config.data_crc, ..link };
        let limits = onego_msgr::Limits { data: MAX_PAYLOAD, ..to_monitors.limits };
        let mut to_osds =
            onego_msgr::Config { limits, compression: config.compression.clone(), ..to_monitors.clone() };
        if config.as_osd {
            to_osds.entity.kind = EntityName::OSD;
        }
        let credentials = Arc::new(config.credentials.clone());
        let principal =
            Principal::new(credentials, auth::service::OSD, Entropy::from(config.secret_seed.clone()));
        let (monitors, objects) = (Monitors::new(config), Objecter::new(config));
        let mut client = Self { hub: Hub::new(to_monitors, to_osds, principal), monitors, objects };
        client.forward_wishes(now);
        client.monitors.start(now, &mut client.hub);
        client
    }

    /// Submits a request. Fails at once if it is invalid or a limit is reached (see [`Config::osd`]).
    #[inline]
    pub fn submit(&mut self, now: Time, request: Request, ticket: T) -> Result<OpId, Box<Rejected<T>>> {
        let result = self.objects.submit(now, &mut self.hub, request, ticket);
        self.forward_wishes(now);
        result
    }

    /// Returns whether the limits admit a request that reads or writes `bytes` bytes.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.objects.has_room(bytes)
    }

    /// Returns the number of requests in flight, and the bytes that they read and write.
    pub fn load(&self) -> (usize, u64) {
        self.objects.load()
    }

    /// Cancels a request. It ends with [`Error::Cancelled`], at once or as soon as its buffer is released; its changes
    /// may have been applied nevertheless. A no-op if the request has ended.
    pub fn cancel(&mut self, id: OpId) {
        self.objects.cancel(&mut self.hub, id);
    }

    /// Cancels all requests whose tickets are `unwanted`, including monitor requests and notifications. Scans all requests:
    /// meant for rare use.
    pub fn cancel_where(&mut self, unwanted: impl Fn(&T) -> bool) {
        self.objects.cancel_where(&mut self.hub, &unwanted);
        self.monitors.cancel_where(&mut self.hub, &unwanted);
    }

    /// Sends a command to the monitors: JSON, as `ceph --verbose` prints it. Ends with
    /// [`Outcome::Command`].
    pub fn command(&mut self, now: Time, command: &str, input: List, ticket: T) {
        let command = MonCommand { fsid: Uuid::default(), command: vec![command.to_owned()], input };
        self.ask(now, Ask::Command(command), ticket);
    }

    /// Creates a pool. Ends with [`Outcome::Command`].
    pub fn create_pool(&mut self, now: Time, name: &str, pg_num: Option<u32>, ticket: T) {
        let mut command = serde_json::json!({ "prefix": "osd pool create", "pool": name });
        if let Some(pg_num) = pg_num {
            command["pg_num"] = pg_num.into();
        }
        self.command(now, &command.to_string(), List::new(), ticket);
    }

    /// Deletes a pool with all its objects. Ends with [`Outcome::Command`].
    pub fn delete_pool(&mut self, now: Time, name: &str, ticket: T) {
        let command = serde_json::json!({
            "prefix": "osd pool rm",
            "pool": name,
            "pool2": name,
            "yes_i_really_really_mean_it": true,
        });
        self.command(now, &command.to_string(), List::new(), ticket);
    }

    /// Performs a pool operation, such as creating or removing a snapshot. Ends with [`Outcome::Pool`].
    pub fn pool_op(&mut self, now: Time, op: PoolOp, ticket: T) {
        self.ask(now, Ask::Pool(op), ticket);
    }

    /// Queries the usage of the cluster, or of a pool. Ends with [`Outcome::Statfs`].
    pub fn statfs(&mut self, now: Time, pool: Option<i64>, ticket: T) {
        self.ask(now, Ask::Statfs(Statfs { fsid: Uuid::default(), data_pool: pool }), ticket);
    }

    /// Queries usage and I/O statistics of pools. Ends with [`Outcome::PoolStats`].
    pub fn pool_stats(&mut self, now: Time, pools: Vec<String>, ticket: T) {
        self.ask(now, Ask::PoolStats(GetPoolStats { fsid: Uuid::default(), pools }), ticket);
    }

    /// Queries the newest version of a map such as "osdmap". Ends with [`Outcome::Version`].
    pub fn newest_version(&mut self, now: Time, map: &str, ticket: T) {
        self.ask(now, Ask::Version(map.to_owned()), ticket);
    }

    fn ask(&mut self, now: Time, ask: Ask, ticket: T) {
        self.monitors.ask(now, &mut self.hub, Asker::Caller(ticket), ask);
    }

    /// Sends a command to an OSD itself, like `ceph tell`. Ends with [`Outcome::Command`].
    pub fn tell(&mut self, now: Time, osd: i32, command: &str, input: List, ticket: T) {
        let message = Tell { fsid: Uuid::default(), command: vec![command.to_owned()], input };
        self.objects.tell(now, &mut self.hub, osd, message, ticket);
        self.forward_wishes(now);
    }

    /// Sends a command to the session's monitor itself, like `ceph tell`. Ends with [`Outcome::Command`].
    pub fn tell_monitor(&mut self, now: Time, command: &str, input: List, ticket: T) {
        let message = Tell { fsid: Uuid::default(), command: vec![command.to_owned()], input };
        self.ask(now, Ask::Tell(message), ticket);
    }

    /// Pings the session's monitor. Ends with [`Outcome::Pong`].
    pub fn ping(&mut self, now: Time, ticket: T) {
        self.ask(now, Ask::Ping, ticket);
    }

    /// Subscribes to new entries of the cluster's log, or unsubscribes: they come as [`Event::Log`]. The first event may also
    /// contain some earlier entries, at the monitor's discretion.
    pub fn want_log(&mut self, is_wanted: bool) {
        self.monitors.want_log(&mut self.hub, is_wanted);
    }

    /// Requests the next OSD map as soon as it exists, even if no request in flight needs it: for a caller that
    /// waits for a change. Its arrival is an [`Event::Map`].
    pub fn want_newer_map(&mut self, now: Time) {
        self.objects.want_newer_map();
        self.forward_wishes(now);
    }

    /// Watches an object. Ends with [`Outcome::Watching`] when the watch is established; from then on notifications
    /// come as [`Event::Notify`].
    pub fn watch(&mut self, now: Time, target: WatchTarget, ticket: T) -> WatchId {
        let id = self.objects.watch(now, &mut self.hub, target, ticket);
        self.forward_wishes(now);
        id
    }

    /// Returns the last time at which a watch was known to be established; `None` if it is lost or unknown.
    pub fn watch_confirmed(&self, id: WatchId) -> Option<Time> {
        self.objects.confirmed(id)
    }

    /// Removes a watch. Ends with [`Outcome::Unwatched`].
    pub fn unwatch(&mut self, now: Time, id: WatchId, ticket: T) {
        self.objects.unwatch(now, &mut self.hub, id, ticket);
        self.forward_wishes(now);
    }

    /// Notifies the watchers of an object, and gives them `timeout` seconds to answer. Ends with
    /// [`Outcome::Notified`].
    pub fn notify(&mut self, now: Time, target: WatchTarget, payload: List, timeout: Option<u32>, ticket: T) {
        self.objects.notify(now, &mut self.hub, target, payload, timeout, ticket);
        self.forward_wishes(now);
    }

    /// Answers a notification.
    pub fn acknowledge(&mut self, now: Time, id: WatchId, notify_id: u64, reply: List) {
        self.objects.acknowledge(now, &mut self.hub, id, notify_id, reply);
        self.forward_wishes(now);
    }

    /// Returns the next completion.
    #[inline]
    pub fn poll_completion(&mut self) -> Option<Completion<T>> {
        self.hub.next_completion()
    }

    /// Returns whether a completion or an event can be polled.
    pub fn has_news(&self) -> bool {
        self.hub.has_news()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.hub.next_event()
    }

    /// Returns a handle to the client's metrics, for any thread.
    pub fn figures(&self) -> ClientFigures {
        self.objects.figures()
    }

    /// Returns the OSD map, once received.
    pub fn osdmap(&self) -> Option<&Arc<OsdMap>> {
        self.objects.map()
    }

    /// Returns the monitor map, once received.
    pub fn monmap(&self) -> Option<&MonMap> {
        self.monitors.map()
    }

    /// Returns the cluster's id, once a monitor has sent it.
    pub fn fsid(&self) -> Option<Uuid> {
        self.monitors.fsid()
    }

    /// Returns the id that the monitors gave this client, or 0.
    pub fn global_id(&self) -> u64 {
        self.hub.global_id()
    }

    /// Returns the address under which peers know this client, after its first connection.
    pub fn addr(&self) -> Option<EntityAddr> {
        self.hub.addr()
    }

    /// Returns whether any request to an OSD or a monitor is in flight, including those of watches.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.objects.is_busy() || self.monitors.is_asked()
    }

    /// Returns whether a reply is expected from an OSD that is reachable, as far as known. Scans all requests.
    pub fn expects_reply(&self) -> bool {
        self.objects.expects_reply()
    }

    /// Returns the longest wait of a request in flight, with its target. Scans all requests: meant for callers that
    /// poll about once per second.
    pub fn waiting(&self, now: Time) -> Option<Waiting> {
        let waiting = self.objects.waiting(now).into_iter().chain(self.monitors.waiting_reply(now));
        let mut longest = waiting.max_by_key(|waiting| waiting.elapsed);
        if longest.is_none() && self.objects.map().is_none() {
            longest = self.monitors.waiting_session(now).or_else(|| self.monitors.waiting_map(now));
        }
        longest.map(|waiting| self.blame_monitors(now, waiting))
    }

    /// Blames the missing monitor session for a wait that only a new map can end.
    fn blame_monitors(&self, now: Time, waiting: Waiting) -> Waiting {
        match self.monitors.waiting_session(now) {
            Some(session) if waiting.target.needs_monitor() => {
                Waiting { elapsed: waiting.elapsed, ..session }
            }
            _ => waiting,
        }
    }

    /// Closes all connections and ends all requests with [`Error::Closed`]. Requests whose buffers are with the
    /// driver end when it returns them.
    pub fn close(&mut self, now: Time) {
        self.monitors.close(&mut self.hub);
        for conn in self.hub.connections() {
            if let Some(ended) = self.hub.close(conn) {
                self.objects.reclaim_buffers(now, &mut self.hub, ended);
            }
        }
        self.objects.close(&mut self.hub);
    }

    #[inline]
    fn forward_wishes(&mut self, now: Time) {
        if let Some(wishes) = self.objects.take_wishes() {
            if let Some(start) = wishes.map {
                self.monitors.want_osdmap(&mut self.hub, start, !wishes.forever);
            }
            if wishes.newest {
                self.objects.asking_newest();
                self.monitors.ask(now, &mut self.hub, Asker::Objecter, Ask::Version("osdmap".to_owned()));
            }
        }
    }

    fn poll_connection(&mut self, now: Time, conn: ConnId) {
        while let Some(link) = self.hub.link(conn)
            && let Some(event) = link.connection.poll()
        {
            let role = link.role;
            match event {
                onego_msgr::Event::Message(mut message) => {
                    link.heard();
                    self.message(now, conn, role, &mut message);
                }
                onego_msgr::Event::Ready(peer) => match role {
                    Role::Monitor(monitor) => {
                        let before = self.monitors.ready(now, &mut self.hub, conn, monitor, peer);
                        if let Some(before) = before {
                            self.renamed(now, before);
                        }
                    }
                    Role::Osd(osd) => self.objects.ready(now, &mut self.hub, osd, conn),
                },
                onego_msgr::Event::Unplaced(header, part) => {
                    self.objects.unplaced(now, &mut self.hub, header.tid, part);
                }
                onego_msgr::Event::Fault(error) => self.fail(now, conn, error.into()),
            }
        }
        if let Some(link) = self.hub.link(conn) {
            let deadline = link.connection.deadline();
            self.hub.wake_by(deadline);
            self.hub.announce(conn);
        }
        self.forward_wishes(now);
    }

    #[inline]
    fn message(&mut self, now: Time, conn: ConnId, role: Role, message: &mut Message) {
        let before = self.objects.epoch();
        let result = match role {
            Role::Osd(osd) => self.objects.receive(now, &mut self.hub, osd, conn, message),
            Role::Monitor(_) => self.monitor_message(now, conn, message),
        };
        let epoch = self.objects.epoch();
        if epoch != before {
            self.monitors.got_osdmap(epoch);
        }
        if let Err(error) = result {
            tracing::error!(%error, ?role, "a peer violated the protocol");
            self.fail(now, conn, error);
        }
    }

    fn monitor_message(&mut self, now: Time, conn: ConnId, message: &mut Message) -> Result<(), Error> {
        match self.monitors.receive(now, &mut self.hub, conn, message)? {
            Some(FromMonitor::Maps(update)) => self.objects.take_maps(now, &mut self.hub, &update),
            Some(FromMonitor::Newest(epoch)) => self.objects.newest(&mut self.hub, epoch),
            Some(FromMonitor::NoTickets(error)) => {
                self.fail(now, conn, onego_msgr::Error::Auth(error).into());
            }
            None => {}
        }
        Ok(())
    }

    /// Handles a new name of the client. Requests that were sent under the old one keep it, so that OSDs recognize them; all
    /// OSD connections are reopened with the new one.
    fn renamed(&mut self, now: Time, before: EntityName) {
        tracing::warn!(%before, now = self.global_id(), "the client has logged in again");
        self.objects.name_sent(before);
        for conn in self.hub.to_osds() {
            self.fail(now, conn, Error::Io(std::io::ErrorKind::ConnectionAborted));
        }
    }

    fn fail(&mut self, now: Time, conn: ConnId, error: Error) {
        if let Some(ended) = self.hub.close(conn) {
            self.ended(now, conn, ended, error);
        }
    }

    fn ended(&mut self, now: Time, conn: ConnId, ended: Ended, error: Error) {
        let role = ended.role;
        self.hub.failed(now, role, &error);
        self.objects.reclaim_buffers(now, &mut self.hub, ended);
        match role {
            Role::Monitor(monitor) => self.monitors.lost(now, &mut self.hub, conn, monitor, error),
            Role::Osd(osd) => self.objects.lost(now, &mut self.hub, osd, conn, error),
        }
        self.forward_wishes(now);
    }
}

impl<T> Machine for Client<T> {
    #[inline]
    fn next_action(&mut self, _now: Time) -> Option<Action> {
        self.hub.next_action()
    }

    fn listening(&mut self, _now: Time, _listener: ListenerId, _result: io::Result<SocketAddr>) {}

    fn accepted(&mut self, _: Time, _: ListenerId, _: SocketAddr, _: SocketAddr) -> Option<ConnId> {
        None
    }

    fn connected(&mut self, now: Time, conn: ConnId, local: SocketAddr) {
        self.hub.opened(now, conn, local);
        self.poll_connection(now, conn);
    }

    fn disconnected(&mut self, now: Time, conn: ConnId, cause: Disconnect) {
        let kind = match cause {
            Disconnect::Closed => io::ErrorKind::ConnectionReset,
            Disconnect::Failed(error) => error.kind(),
        };
        if let Some(ended) = self.hub.end(conn) {
            self.ended(now, conn, ended, Error::Io(kind));
        }
    }

    fn landing(&mut self, conn: ConnId) -> Landing {
        self.hub.landing(conn)
    }

    fn landed(&mut self, now: Time, conn: ConnId, place: SegmentMut, filled: usize) {
        match self.hub.landed(now, conn, place, filled) {
            Some(connection) => self.objects.drain_events(now, &mut self.hub, connection),
            None => self.poll_connection(now, conn),
        }
    }

    fn received(&mut self, now: Time, conn: ConnId, bytes: Segment) {
        if let Some(link) = self.hub.link(conn) {
            match link.role {
                Role::Osd(_) => {
                    let mut places = Places { objects: &mut self.objects, conn };
                    link.connection.received(now, bytes, &mut places);
                }
                Role::Monitor(_) => link.connection.received(now, bytes, &mut NoPlacer),
            }
            self.poll_connection(now, conn);
        }
    }

    fn transmit(&mut self, _now: Time, conn: ConnId, out: &mut List, limit: usize) {
        self.hub.transmit(conn, out, limit);
    }

    fn deadline(&self) -> Option<Time> {
        [self.hub.deadline(), self.monitors.deadline(&self.hub), self.objects.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn timeout(&mut self, now: Time) {
        for conn in self.hub.timeout(now) {
            self.poll_connection(now, conn);
        }
        self.monitors.timeout(now, &mut self.hub);
        self.objects.timeout(now, &mut self.hub);
        self.forward_wishes(now);
    }
}
