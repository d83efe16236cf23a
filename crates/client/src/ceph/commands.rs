//! What other threads ask of the reactor.

use super::done::{ReplyTo, RequestOutcome};
use super::error::Error;
use super::image_key::{ImageControl, ImageKey};
use super::operator::{OpenedImage, Watched};
use futures_channel::{mpsc, oneshot};
use onego_buf::List;
use onego_ceph::client::{self, Request, WatchId, WatchTarget};
use onego_ceph::messages::{LogEntry, PoolOp};
use onego_ceph::monmap::MonMap;
use onego_ceph::osdmap::OsdMap;
use onego_msgr::addr::EntityAddr;
use onego_rbd::{ImageFacts, Io};
use std::sync::Arc;
use std::time::Duration;

/// Gives a map that is new enough, or says why there is none.
pub(super) type MapDone = oneshot::Sender<Result<Arc<OsdMap>, Error>>;

/// Gives the name of a watch, or says why there is none.
pub(super) type WatchDone = oneshot::Sender<Result<WatchId, Error>>;

/// Something for the reactor to do.
pub(crate) enum CephCommand {
    /// Operations on an object.
    Request { request: Box<Request>, done: oneshot::Sender<RequestOutcome> },
    /// A question to the monitors.
    Monitor { question: Question, done: oneshot::Sender<RequestOutcome> },
    /// A request to an image.
    Image { image: ImageKey, io: Io, done: ReplyTo },
    /// Opens an image. `opened` names it at once, `done` tells when it can be used.
    OpenImage {
        facts: Box<ImageFacts>,
        /// `None`: it is read, and nobody need know.
        watched: Option<Watched>,
        opened: oneshot::Sender<OpenedImage>,
        done: ReplyTo,
    },
    /// Asks an image for something beside reads and writes.
    ControlImage { image: ImageKey, control: ImageControl },
    /// Says how the cluster and this client know each other.
    Acquaintance { done: oneshot::Sender<Acquaintance> },
    /// Gives `entries` what is new in the cluster's log.
    FollowLog { entries: mpsc::Sender<LogEntry> },
    /// Gives the map once it is at least that new.
    Map { epoch: u32, timeout: Duration, done: MapDone },
    /// Tells `events` what happens to an object.
    Watch { target: WatchTarget, events: mpsc::Sender<Told>, done: WatchDone },
    /// Gives the time since a watch was last confirmed; `None`: it is lost.
    WatchAge { watch: WatchId, done: oneshot::Sender<Option<Duration>> },
    /// Ends a watch.
    Unwatch { watch: WatchId, done: Option<oneshot::Sender<RequestOutcome>> },
    /// Acknowledges a notification.
    Acknowledge { watch: WatchId, notify_id: u64, reply: List },
    /// Notifies the watchers of an object.
    Notify { target: WatchTarget, payload: List, timeout: u32, done: oneshot::Sender<RequestOutcome> },
}

/// How the cluster and a client know each other.
pub(crate) struct Acquaintance {
    /// The number by which the cluster knows the client.
    pub(crate) global_id: u64,
    /// The address by which it does.
    pub(crate) addr: Option<EntityAddr>,
    /// The cluster's monitors, once one has told of them.
    pub(crate) monitors: Option<MonMap>,
}

/// A question to the monitors, or to an OSD itself.
pub(crate) enum Question {
    /// A command in JSON, and its input.
    Command(String, List),
    /// How full the cluster is.
    Statfs(Option<i64>),
    /// How full pools are, by their names.
    PoolStats(Vec<String>),
    /// The newest epoch of the OSD map.
    NewestMap,
    /// A change of a pool.
    Pool(PoolOp),
    /// A sign of life of the monitor of the session.
    Ping,
    /// A command in JSON to the monitor of the session itself, and its input.
    ThisMonitor(String, List),
    /// A command in JSON to the OSD of this number, and its input.
    Osd(i32, String, List),
}

/// What a watch is told by the reactor.
pub(crate) enum Told {
    Notify { notify_id: u64, notifier: u64, payload: List },
    Lost(client::Error),
}

impl Told {
    pub(crate) fn notify_id(&self) -> Option<u64> {
        match self {
            Self::Notify { notify_id, .. } => Some(*notify_id),
            Self::Lost(_) => None,
        }
    }
}
