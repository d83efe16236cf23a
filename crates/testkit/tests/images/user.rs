//! A client with one open image.

use onego_buf::{List, Pool};
use onego_ceph::client::{self, Client, Completion, Config, Event, Request, WatchId, WatchTarget};
use onego_ceph::cls::rbd::ParentImageSpec;
use onego_ceph::rbd::{DataNames, Features, Layout, header_object};
use onego_ceph::types::{NOSNAP, SnapContext};
use onego_engine::Pump;
use onego_msgr::auth::Secret;
use onego_rbd::{DataObjects, Error, Host, ImageFacts, ImageState, Io, OpenImage, Outcome, Ticket};
use onego_testkit::{Sim, SimEngine};
use onego_wire::{Layer, Time};
use std::net::{IpAddr, Ipv4Addr};

/// The image.
pub(crate) const ID: &str = "1f2e3d";
pub(crate) const FEATURES: Features = Features::DEFAULT;

/// How the image lies in objects: of 64 KiB, as 2^16.
pub(crate) fn layout() -> Layout {
    Layout::plain(16).expect("64 KiB is a size of objects")
}

/// What the data objects are called.
pub(crate) fn prefix() -> String {
    format!("rbd_data.{ID}")
}

/// A client, with what it has open.
pub(crate) struct ImageUser {
    client: Client<Ticket>,
    image: OpenImage<u64>,
    inbox: Inbox,
}

/// What comes for an image, and for its users.
#[derive(Default)]
struct Inbox {
    finished: Vec<(u64, Result<Outcome, Error>)>,
    /// Requests that ended at once.
    refused: Vec<Completion<Ticket>>,
    map_waiters: Vec<(u32, Ticket)>,
    due: Option<Time>,
}

struct UserHost<'a> {
    client: &'a mut Client<Ticket>,
    inbox: &'a mut Inbox,
    now: Time,
}

impl Host<u64> for UserHost<'_> {
    fn request(&mut self, request: Request, ticket: Ticket) {
        if let Err(rejected) = self.client.submit(self.now, request, ticket) {
            let buffer = rejected.request.read_into;
            let refused = Completion { ticket: rejected.ticket, outcome: Err(rejected.error), buffer };
            self.inbox.refused.push(refused);
        }
    }

    fn watch(&mut self, target: WatchTarget, ticket: Ticket) {
        self.client.watch(self.now, target, ticket);
    }

    fn unwatch(&mut self, watch: WatchId, ticket: Ticket) {
        self.client.unwatch(self.now, watch, ticket);
    }

    fn notify(&mut self, target: WatchTarget, payload: List, timeout: u32, ticket: Ticket) {
        self.client.notify(self.now, target, payload, Some(timeout), ticket);
    }

    fn acknowledge(&mut self, watch: WatchId, notify_id: u64, reply: List) {
        self.client.acknowledge(self.now, watch, notify_id, reply);
    }

    fn command(&mut self, json: &str, ticket: Ticket) {
        self.client.command(self.now, json, List::new(), ticket);
    }

    fn newest_map(&mut self, ticket: Ticket) {
        self.client.newest_version(self.now, "osdmap", ticket);
    }

    fn wait_for_map(&mut self, epoch: u32, ticket: Ticket) {
        self.inbox.map_waiters.push((epoch, ticket));
        self.client.want_newer_map(self.now);
    }

    fn wake_at(&mut self, time: Time) {
        let due = &mut self.inbox.due;
        *due = Some(due.map_or(time, |due| due.min(time)));
    }

    fn finished(&mut self, token: u64, result: Result<Outcome, Error>) {
        self.inbox.finished.push((token, result));
    }

    fn epoch(&self) -> u32 {
        self.client.osdmap().map_or(0, |map| map.epoch)
    }

    fn global_id(&self) -> u64 {
        self.client.global_id()
    }
}

impl ImageUser {
    /// A client of that number, which opens the image: `token` comes back when it is open.
    pub(crate) fn open(
        sim: &Sim,
        config: &Config,
        number: u32,
        pool: i64,
        size: u64,
        token: u64,
    ) -> Pump<SimEngine, Self> {
        let mut config = config.clone();
        config.seed ^= u64::from(number) << 32;
        config.secret_seed = Secret::new(number.to_le_bytes().repeat(8));
        config.nonce = number + 1;
        let now = sim.now();
        let mut client = Client::new(now, &config);
        let mut inbox = Inbox::default();
        let image = OpenImage::watched(
            &mut UserHost { client: &mut client, inbox: &mut inbox, now },
            facts(pool, size),
            token,
        );
        Pump::new(sim.engine(address(number)), Self { client, image, inbox })
    }

    /// Gives the image something to do.
    pub(crate) fn submit(&mut self, now: Time, io: Io, token: u64) {
        self.with(now, |image, host| image.submit(now, host, io, token));
    }

    /// What has ended.
    pub(crate) fn take_finished(&mut self) -> Vec<(u64, Result<Outcome, Error>)> {
        std::mem::take(&mut self.inbox.finished)
    }

    pub(crate) fn has_finished(&self) -> bool {
        !self.inbox.finished.is_empty()
    }

    pub(crate) fn is_owner(&self) -> bool {
        self.image.view().is_lock_owner()
    }

    /// What it waits for, and how its image is.
    pub(crate) fn describe(&self, now: Time) -> String {
        format!("{:?}, {:?}", self.client.waiting(now), self.image)
    }

    fn with(&mut self, now: Time, give: impl FnOnce(&mut OpenImage<u64>, &mut UserHost<'_>)) {
        give(&mut self.image, &mut UserHost { client: &mut self.client, inbox: &mut self.inbox, now });
    }

    fn heard(&mut self, now: Time, event: Event) {
        match event {
            Event::Notify { watch, notify_id, payload, .. } => {
                self.with(now, |image, host| image.notified(now, host, watch, notify_id, &payload));
            }
            Event::WatchLost { watch, error } => {
                self.with(now, |image, host| image.watch_lost(now, host, watch, &error));
            }
            Event::Monitor(_) | Event::Map(_) | Event::BadMap(_) | Event::Fault { .. } => {}
        }
    }
}

impl Layer for ImageUser {
    type Below = Client<Ticket>;

    fn below(&self) -> &Client<Ticket> {
        &self.client
    }

    fn below_mut(&mut self) -> &mut Client<Ticket> {
        &mut self.client
    }

    fn settle(&mut self, now: Time) {
        while let Some(Completion { ticket, outcome, buffer }) = self.client.poll_completion() {
            self.with(now, |image, host| image.completed(now, host, ticket, outcome, buffer));
        }
        while let Some(event) = self.client.poll_event() {
            self.heard(now, event);
        }
        let epoch = self.client.osdmap().map_or(0, |map| map.epoch);
        let here: Vec<_> = self.inbox.map_waiters.extract_if(.., |(wanted, _)| *wanted <= epoch).collect();
        for (wanted, ticket) in here {
            let outcome = Ok(client::Outcome::Version(wanted.into()));
            self.with(now, |image, host| image.completed(now, host, ticket, outcome, None));
        }
        for Completion { ticket, outcome, buffer } in std::mem::take(&mut self.inbox.refused) {
            self.with(now, |image, host| image.completed(now, host, ticket, outcome, buffer));
        }
    }

    fn due_at(&self) -> Option<Time> {
        self.inbox.due
    }

    fn due(&mut self, now: Time) {
        if self.inbox.due.is_some_and(|due| due <= now) {
            self.inbox.due = None;
            self.with(now, |image, host| image.due(now, host));
            self.inbox.due = self.image.deadline();
        }
    }
}

/// Where client `number` is.
pub(crate) fn address(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0x0a01_0000 + number))
}

/// What a client needs that connects to this monitor.
pub(crate) fn config(monitor: onego_msgr::addr::AddrVec, seed: u64) -> Config {
    let mut config = Config::new(vec![monitor], "admin", Pool::new(1 << 20));
    config.seed = seed;
    config
}

fn facts(pool: i64, size: u64) -> ImageFacts {
    ImageFacts {
        id: ID.to_owned(),
        header: WatchTarget { pool, object: header_object(ID), namespace: String::new() },
        data: DataObjects {
            pool,
            namespace: String::new(),
            flags: 0,
            names: DataNames::new(&prefix()),
            layout: layout(),
            snap: NOSNAP,
            encryption: None,
        },
        state: ImageState {
            size,
            features: FEATURES,
            flags: 0,
            snap_context: SnapContext::default(),
            parent: ParentImageSpec::default(),
            overlap: 0,
        },
        parent: None,
    }
}
