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

pub(super) type MapDone = oneshot::Sender<Result<Arc<OsdMap>, Error>>;

pub(super) type WatchDone = oneshot::Sender<Result<WatchId, Error>>;

pub(crate) enum CephCommand {
    Request {
        request: Box<Request>,
        done: oneshot::Sender<RequestOutcome>,
    },
    Monitor {
        question: Question,
        done: oneshot::Sender<RequestOutcome>,
    },
    Image {
        image: ImageKey,
        io: Io,
        done: ReplyTo,
    },
    /// Opens an image. `opened` receives its key at once, `done` a result once the image is usable.
    OpenImage {
        facts: Box<ImageFacts>,
        /// `None` for a read-only image without a watch.
        watched: Option<Watched>,
        opened: oneshot::Sender<OpenedImage>,
        done: ReplyTo,
    },
    ControlImage {
        image: ImageKey,
        control: ImageControl,
    },
    SessionInfo {
        done: oneshot::Sender<SessionInfo>,
    },
    FollowLog {
        entries: mpsc::Sender<LogEntry>,
    },
    /// Returns a map of at least this epoch.
    Map {
        epoch: u32,
        timeout: Duration,
        done: MapDone,
    },
    Watch {
        target: WatchTarget,
        events: mpsc::Sender<WatchNotice>,
        done: WatchDone,
    },
    WatchAge {
        watch: WatchId,
        done: oneshot::Sender<Option<Duration>>,
    },
    Unwatch {
        watch: WatchId,
        done: Option<oneshot::Sender<RequestOutcome>>,
    },
    Acknowledge {
        watch: WatchId,
        notify_id: u64,
        reply: List,
    },
    Notify {
        target: WatchTarget,
        payload: List,
        timeout: u32,
        done: oneshot::Sender<RequestOutcome>,
    },
}

pub(crate) struct SessionInfo {
    pub(crate) global_id: u64,
    pub(crate) addr: Option<EntityAddr>,
    pub(crate) monitors: Option<MonMap>,
}

pub(crate) enum Question {
    Command(String, List),
    Statfs(Option<i64>),
    PoolStats(Vec<String>),
    NewestMap,
    Pool(PoolOp),
    Ping,
    ThisMonitor(String, List),
    Osd(i32, String, List),
}

pub(crate) enum WatchNotice {
    Notify { notify_id: u64, notifier: u64, payload: List },
    Lost(client::Error),
}

impl WatchNotice {
    pub(crate) fn notify_id(&self) -> Option<u64> {
        match self {
            Self::Notify { notify_id, .. } => Some(*notify_id),
            Self::Lost(_) => None,
        }
    }
}
