//! The machine that the reactor drives: the protocol client, and requests composed of several of its own.

use super::commands::{CephCommand, Question, SessionInfo, WatchDone, WatchNotice};
use super::done::{Completed, OTHER_KIND, ReplyTo, RequestOutcome};
use super::error::Error;
use super::image_key::{ImageControl, ImageKey};
use super::images::{CoreParts, Images};
use super::log::LogFollowers;
use super::operations::Operations;
use super::tickets::{MapReply, MapWaiter, Purpose, Ticket, refused, submit_or_park};
use crate::mailbox::Mailbox;
use crate::reactor::{self, Core as _};
use crate::waiting::{StallMonitor, WaitReport};
use futures_channel::{mpsc, oneshot};
use onego_buf::List;
use onego_ceph::client::{self, Client, Completion, Request};
use onego_ceph::client::{Event, Waiting, WatchId};
use onego_ceph::types::EntityName;
use onego_msgr::auth;
use onego_rbd::{Io, Outcome};
use onego_wire::{Layer, Time};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Most completions of tagged requests before [`Core::has_room`] returns false, long before their memory matters.
const MAX_COMPLETED: usize = 1 << 16;

enum Watcher {
    Stream(mpsc::Sender<WatchNotice>),
    Image(ImageKey),
}

/// State machine driven by a reactor.
pub struct Core {
    client: Client<Ticket>,
    mailbox: Arc<Mailbox<CephCommand>>,
    images: Images,
    operations: Operations,
    /// Requests that exceeded the client's capacity, in order. While any are parked, the mailbox is not read.
    parked: VecDeque<(Request, Ticket)>,
    map_waiters: Vec<MapWaiter>,
    watchers: HashMap<WatchId, Watcher>,
    log: LogFollowers,
    completed: VecDeque<(u64, Result<Outcome, Error>)>,
    stall_monitor: StallMonitor<Waiting>,
    watching: usize,
    unwatching: usize,
}

impl Core {
    pub(crate) fn new(
        config: &client::Config,
        mailbox: Arc<Mailbox<CephCommand>>,
        stall_monitor: StallMonitor<Waiting>,
        now: Time,
    ) -> Self {
        Self {
            client: Client::new(now, config),
            operations: Operations::new(Arc::clone(&mailbox)),
            mailbox,
            images: Images::default(),
            parked: VecDeque::new(),
            map_waiters: Vec::new(),
            watchers: HashMap::new(),
            log: LogFollowers::default(),
            completed: VecDeque::new(),
            stall_monitor,
            watching: 0,
            unwatching: 0,
        }
    }

    pub(crate) fn figures(&self) -> client::ClientFigures {
        self.client.figures()
    }

    #[inline]
    pub(crate) fn start(&mut self, now: Time, image: ImageKey, io: Io, done: ReplyTo) {
        self.with_images(now, |images, parts| images.submit(now, parts, image, io, done));
    }

    /// Calls the images, and completes their requests that the client refused at once.
    #[inline]
    fn with_images<R>(&mut self, now: Time, give: impl FnOnce(&mut Images, &mut CoreParts<'_>) -> R) -> R {
        let mut parts = CoreParts {
            client: &mut self.client,
            parked: &mut self.parked,
            completed: &mut self.completed,
            map_waiters: &mut self.map_waiters,
            operations: &mut self.operations,
            failed: Vec::new(),
        };
        let given = give(&mut self.images, &mut parts);
        let failed = parts.failed;
        failed.into_iter().for_each(|completion| self.complete(now, completion));
        given
    }

    fn execute(&mut self, now: Time, command: CephCommand) {
        match command {
            // Cancelled before a sweep found it in the mailbox.
            CephCommand::Request { done, .. } if done.is_canceled() => {}
            CephCommand::Request { request, done } => {
                self.submit(now, *request, Ticket(Purpose::Future(done)));
            }
            CephCommand::Image { image, io, done } => self.start(now, image, io, done),
            CephCommand::OpenImage { facts, watched, opened, done } => {
                self.with_images(now, |images, parts| {
                    let image = images.open(now, parts, *facts, watched, done);
                    if let Err(image) = opened.send(image) {
                        images.control(now, parts, image.key, ImageControl::Close(None));
                    }
                });
            }
            CephCommand::ControlImage { image, control } => {
                self.with_images(now, |images, parts| images.control(now, parts, image, control));
            }
            CephCommand::Monitor { question, done } => self.ask(now, question, Ticket(Purpose::Future(done))),
            // The caller may have stopped waiting.
            CephCommand::SessionInfo { done } => {
                let (global_id, addr) = (self.client.global_id(), self.client.addr());
                let monitors = self.client.monmap().cloned();
                drop(done.send(SessionInfo { global_id, addr, monitors }));
            }
            CephCommand::WatchAge { watch, done } => {
                let confirmed = self.client.watch_confirmed(watch);
                let _ = done.send(confirmed.map(|confirmed| now.since(confirmed)));
            }
            CephCommand::FollowLog { entries } => {
                self.log.add(entries);
                self.client.want_log(true);
            }
            CephCommand::Map { epoch, timeout, done } => {
                let done = MapReply::Future(done);
                self.map_waiters.push(MapWaiter { epoch, deadline: now + timeout, timeout, done });
                self.serve_map_waiters(now);
                if !self.map_waiters.is_empty() {
                    self.client.want_newer_map(now);
                }
            }
            CephCommand::Watch { target, events, done } => {
                self.watching += 1;
                self.client.watch(now, target, Ticket(Purpose::Watch(done, events)));
            }
            CephCommand::Unwatch { watch, done } => self.unwatch(now, watch, done),
            CephCommand::Acknowledge { watch, notify_id, reply } => {
                self.client.acknowledge(now, watch, notify_id, reply);
            }
            CephCommand::Notify { target, payload, timeout, done } => {
                let ticket = Ticket(Purpose::Future(done));
                self.client.notify(now, target, payload, Some(timeout), ticket);
            }
        }
    }

    fn unwatch(&mut self, now: Time, watch: WatchId, done: Option<oneshot::Sender<RequestOutcome>>) {
        self.watchers.remove(&watch);
        self.unwatching += 1;
        self.client.unwatch(now, watch, Ticket(Purpose::Unwatch(done)));
    }

    fn sweep(&mut self, now: Time) {
        if self.mailbox.is_closed() {
            // All handles are gone, and their last commands have been executed.
            self.shut_down(now);
        }
        self.map_waiters.retain(|waiter| !waiter.is_canceled());
        if self.log.sweep() {
            self.client.want_log(false);
        }
        self.with_images(now, |images, parts| images.sweep(now, parts));
        let images = &self.images;
        let is_abandoned = |ticket: &Ticket| match &ticket.0 {
            Purpose::Future(done) => done.is_canceled(),
            Purpose::Image { key, ticket } => images.is_abandoned(*key, ticket),
            // An abandoned watch is removed once established; a removal completes by itself.
            Purpose::Watch(..) | Purpose::Unwatch(_) => false,
        };
        self.client.cancel_where(is_abandoned);
        let mut cancelled = Vec::new();
        for (request, ticket) in std::mem::take(&mut self.parked) {
            if is_abandoned(&ticket) {
                let outcome = Err(client::Error::Cancelled);
                cancelled.push(Completion { ticket, outcome, buffer: request.read_into });
            } else {
                self.parked.push_back((request, ticket));
            }
        }
        cancelled.into_iter().for_each(|completion| self.complete(now, completion));
    }

    fn submit(&mut self, now: Time, request: Request, ticket: Ticket) {
        if let Some(failed) = submit_or_park(&mut self.client, &mut self.parked, now, request, ticket) {
            self.complete(now, failed);
        }
    }

    fn ask(&mut self, now: Time, question: Question, ticket: Ticket) {
        match question {
            Question::Command(command, input) => self.client.command(now, &command, input, ticket),
            Question::Statfs(pool) => self.client.statfs(now, pool, ticket),
            Question::PoolStats(pools) => self.client.pool_stats(now, pools, ticket),
            Question::NewestMap => self.client.newest_version(now, "osdmap", ticket),
            Question::Pool(op) => self.client.pool_op(now, op, ticket),
            Question::ThisMonitor(command, input) => self.client.tell_monitor(now, &command, input, ticket),
            Question::Ping => self.client.ping(now, ticket),
            Question::Osd(osd, command, input) => self.client.tell(now, osd, &command, input, ticket),
        }
    }

    /// Submits a parked request; returns it if there is still no room.
    fn try_submit(&mut self, now: Time, request: Request, ticket: Ticket) -> Option<(Request, Ticket)> {
        let rejected = self.client.submit(now, request, ticket).err()?;
        if let client::Error::Busy { .. } = rejected.error {
            return Some((rejected.request, rejected.ticket));
        }
        self.complete(now, refused(rejected));
        None
    }

    fn complete(&mut self, now: Time, completion: Completion<Ticket>) {
        let Completion { ticket, outcome, buffer } = completion;
        match ticket.0 {
            Purpose::Image { key, ticket } => {
                if let Ok(client::Outcome::Watching(watch)) = &outcome {
                    self.watchers.insert(*watch, Watcher::Image(key));
                }
                self.with_images(now, |images, parts| {
                    images.completed(now, parts, key, ticket, outcome, buffer);
                });
            }
            // The caller may have stopped waiting.
            Purpose::Future(done) => drop(done.send((outcome, buffer))),
            Purpose::Watch(done, events) => self.established(now, outcome, done, events),
            Purpose::Unwatch(done) => {
                self.unwatching -= 1;
                if let Some(done) = done {
                    drop(done.send((outcome, buffer)));
                }
            }
        }
    }

    fn established(
        &mut self,
        now: Time,
        outcome: Result<client::Outcome, client::Error>,
        done: WatchDone,
        events: mpsc::Sender<WatchNotice>,
    ) {
        self.watching -= 1;
        let result = outcome.and_then(|outcome| match outcome {
            client::Outcome::Watching(watch) => Ok(watch),
            _ => Err(OTHER_KIND),
        });
        if let Ok(watch) = &result {
            self.watchers.insert(*watch, Watcher::Stream(events));
        }
        // The caller may have stopped waiting.
        if let Err(Ok(watch)) = done.send(result.map_err(Error::from)) {
            self.unwatch(now, watch, None);
        }
    }

    fn heard(&mut self, now: Time, event: Event) {
        match event {
            Event::Map(_) => self.serve_map_waiters(now),
            Event::Log(entries) => self.log.tell(&entries),
            Event::Notify { watch, notify_id, notifier, payload } => {
                self.notified(now, watch, WatchNotice::Notify { notify_id, notifier, payload });
            }
            Event::WatchLost { watch, error } => {
                tracing::warn!(%error, "lost a watch");
                self.notified(now, watch, WatchNotice::Lost(error));
            }
            Event::Monitor(addr) => tracing::debug!(%addr, "monitor session open"),
            Event::BadMap(error) => tracing::error!(%error, "invalid cluster map"),
            Event::Fault { peer, error, .. } => {
                tracing::debug!(%peer, %error, "connection failed");
                if let client::Error::Connection(onego_msgr::Error::Auth(error)) = error
                    && peer.kind == EntityName::MON
                {
                    self.refused_by_monitor(&error);
                }
            }
        }
    }

    /// Handles a monitor's rejection of the client's identity. Retrying does not help a caller that waits for the
    /// first connection; a client that was connected before keeps retrying, because its key may be about to change.
    fn refused_by_monitor(&mut self, error: &auth::Error) {
        if self.client.osdmap().is_none() {
            for waiter in self.map_waiters.drain(..) {
                if let MapReply::Future(done) = waiter.done {
                    drop(done.send(Err(error.clone().into())));
                }
            }
        } else {
            tracing::warn!(%error, "cannot authenticate with a monitor");
        }
    }

    /// Handles an event of a watch. The users of a [`Watch`](crate::rados::Watch) acknowledge notifications
    /// themselves.
    fn notified(&mut self, now: Time, watch: WatchId, notice: WatchNotice) {
        let notify_id = notice.notify_id();
        let is_told = match self.watchers.get_mut(&watch) {
            Some(Watcher::Stream(events)) => events.try_send(notice).is_ok(),
            Some(Watcher::Image(key)) => {
                let key = *key;
                if notify_id.is_none() {
                    self.watchers.remove(&watch);
                }
                return self.with_images(now, |images, parts| {
                    images.notified(now, parts, key, watch, &notice);
                });
            }
            None => false,
        };
        if !is_told {
            // The watcher is too slow or gone. A stream with a gap would look complete, so it ends here.
            self.acknowledge(now, watch, notify_id);
            if self.watchers.contains_key(&watch) {
                self.unwatch(now, watch, None);
            }
        }
    }

    /// Acknowledges the event if it is a notification, so that its sender does not wait for this client.
    fn acknowledge(&mut self, now: Time, watch: WatchId, notify_id: Option<u64>) {
        if let Some(notify_id) = notify_id {
            self.client.acknowledge(now, watch, notify_id, List::new());
        }
    }

    fn serve_map_waiters(&mut self, now: Time) {
        let map = self.client.osdmap().cloned();
        let epoch = map.as_ref().map_or(0, |map| map.epoch);
        let served: Vec<MapWaiter> =
            self.map_waiters.extract_if(.., |w| epoch >= w.epoch || w.deadline <= now).collect();
        for waiter in served {
            match (waiter.done, &map) {
                (MapReply::Future(done), Some(map)) if epoch >= waiter.epoch => {
                    drop(done.send(Ok(Arc::clone(map))));
                }
                (MapReply::Future(done), _) => {
                    let waiting = self.client.waiting(now).map(Box::new);
                    drop(done.send(Err(Error::NoAnswer { waited: waiter.timeout, waiting })));
                }
                (MapReply::Ticket(ticket), _) => {
                    let late = client::Error::Timeout { after: waiter.timeout, waiting: None };
                    let version = client::Outcome::Version(epoch.into());
                    let outcome = if epoch >= waiter.epoch { Ok(version) } else { Err(late) };
                    self.complete(now, Completion { ticket, outcome, buffer: None });
                }
            }
        }
    }
}

impl WaitReport for Waiting {
    fn elapsed(&self) -> Duration {
        self.elapsed
    }
}

impl reactor::Core for Core {
    type Completed = Completed;
    type Error = Error;

    fn has_room(&self) -> bool {
        self.parked.is_empty() && self.completed.len() < MAX_COMPLETED
    }

    fn next_completed(&mut self) -> Option<Completed> {
        self.completed.pop_front().map(|(tag, result)| Completed { tag, result })
    }

    fn is_over(&self) -> bool {
        self.mailbox.is_closed() && self.images.are_idle()
    }

    fn close(&self) {
        self.mailbox.close();
    }

    /// Removes all watches, so that no client waits for this one after its exit.
    fn shut_down(&mut self, now: Time) {
        let is_stream = |watcher: &Watcher| matches!(watcher, Watcher::Stream(_));
        let streams = self.watchers.iter().filter(|(_, watcher)| is_stream(watcher));
        let watches: Vec<WatchId> = streams.map(|(watch, _)| *watch).collect();
        watches.into_iter().for_each(|watch| self.unwatch(now, watch, None));
        self.with_images(now, |images, parts| images.close_all(now, parts));
    }

    /// Watches whose OSD is unreachable end by themselves at their timeout.
    fn is_leaving(&self) -> bool {
        (self.watching + self.unwatching > 0 || !self.images.is_empty()) && self.client.expects_reply()
    }
}

impl Layer for Core {
    type Below = Client<Ticket>;

    fn below(&self) -> &Client<Ticket> {
        &self.client
    }

    fn below_mut(&mut self) -> &mut Client<Ticket> {
        &mut self.client
    }

    /// Processes completions, notifies their callers, and starts as many queued requests as there is room for,
    /// including those in the mailbox.
    fn settle(&mut self, now: Time) {
        while let Some(completion) = self.client.poll_completion() {
            self.complete(now, completion);
        }
        while let Some(event) = self.client.poll_event() {
            self.heard(now, event);
        }
        while let Some((request, ticket)) = self.parked.pop_front() {
            if let Some(back) = self.try_submit(now, request, ticket) {
                self.parked.push_front(back);
                return;
            }
        }
        while self.parked.is_empty()
            && let Some(command) = self.mailbox.take()
        {
            self.execute(now, command);
        }
        for event in self.operations.poll() {
            self.with_images(now, |images, parts| images.worked(now, parts, event));
        }
        if self.mailbox.take_sweep() {
            self.sweep(now);
        }
        // Neither a request for another client's lock nor the pause before the next one is in flight in the client.
        let is_busy = self.client.is_busy() || !self.map_waiters.is_empty() || self.images.is_lock_awaited();
        self.stall_monitor.set_busy(now, is_busy);
    }

    fn due_at(&self) -> Option<Time> {
        let waiters = self.map_waiters.iter().map(|waiter| waiter.deadline);
        waiters.chain(self.stall_monitor.deadline()).chain(self.images.due_at()).min()
    }

    fn due(&mut self, now: Time) {
        self.serve_map_waiters(now);
        self.with_images(now, |images, parts| images.due(now, parts));
        let (client, images) = (&self.client, &self.images);
        let waiting = || client.waiting(now).into_iter().chain(images.waiting(now));
        self.stall_monitor.check(now, || waiting().max_by_key(|waiting| waiting.elapsed));
    }
}
