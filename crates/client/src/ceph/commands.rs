//! What other threads ask of the reactor.

use super::done::RequestOutcome;
use super::error::Error;
use super::image_io::{IoOp, Shape};
use futures_channel::{mpsc, oneshot};
use onego_buf::List;
use onego_ceph::client::{Request, WatchId, WatchTarget};
use onego_ceph::messages::PoolOp;
use onego_ceph::osdmap::OsdMap;
use std::sync::{Arc, Weak};
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
    Image { shape: Arc<Shape>, op: IoOp },
    /// Gives the map once it is at least that new.
    Map { epoch: u32, timeout: Duration, done: MapDone },
    /// Tells `events` what happens to an object.
    Watch { target: WatchTarget, events: mpsc::Sender<Told>, done: WatchDone },
    /// Watches an image's header, and keeps its size true.
    WatchImage { target: WatchTarget, shape: Weak<Shape>, done: WatchDone },
    /// Ends a watch.
    Unwatch { watch: WatchId, done: Option<oneshot::Sender<RequestOutcome>> },
    /// Acknowledges a notification.
    Acknowledge { watch: WatchId, notify_id: u64, reply: List },
    /// Notifies the watchers of an object.
    Notify { target: WatchTarget, payload: List, timeout: u32, done: oneshot::Sender<RequestOutcome> },
}

/// A question to the monitors.
pub(crate) enum Question {
    /// A command in JSON, and its input.
    Command(String, List),
    /// How full the cluster is.
    Statfs(Option<i64>),
    /// The newest epoch of the OSD map.
    NewestMap,
    /// A new number for a snapshot of a pool's objects, or to take one back.
    PoolSnapshot(PoolOp),
}

/// What a watch is told by the reactor.
pub(crate) enum Told {
    Notify { notify_id: u64, notifier: u64, payload: List },
    Lost,
}

impl Told {
    pub(crate) fn notify_id(&self) -> Option<u64> {
        match self {
            Self::Notify { notify_id, .. } => Some(*notify_id),
            Self::Lost => None,
        }
    }
}
