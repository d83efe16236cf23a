use super::cluster::Cluster;
use super::outputs::Watcher;
use super::pool::Pool;
use crate::ceph::commands::{CephCommand, Told};
use crate::ceph::done::OTHER_KIND;
use crate::ceph::error::Error;
use futures_channel::{mpsc, oneshot};
use futures_core::Stream;
use onego_buf::List;
use onego_ceph::client::{Outcome, WatchId, WatchTarget};
use onego_ceph::messages::ObjectName;
use onego_ceph::ops::Op;
use onego_wire::text;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Notifications that may wait to be looked at; a watch with more is lost.
const BACKLOG: usize = 256;

/// What a watcher is told.
#[derive(Debug)]
pub enum WatchEvent {
    /// Somebody notifies the watchers.
    Notify(Notification),
    /// The watch has ended: the object is gone, its OSD has not heard of this client for too long, the client is closed,
    /// or more than 256 notifications waited. Notifications may have been missed: look at the object, and watch anew.
    Lost,
}

/// A notification. Its sender waits until it is acknowledged, which dropping it does, too.
pub struct Notification {
    cluster: Cluster,
    watch: WatchId,
    notify_id: u64,
    notifier: u64,
    payload: List,
    reply: List,
}

impl Notification {
    /// Global id of the client that sent it.
    pub fn notifier(&self) -> u64 {
        self.notifier
    }

    /// Its number.
    pub fn id(&self) -> u64 {
        self.notify_id
    }

    /// This client's own name for the watch.
    pub fn cookie(&self) -> u64 {
        self.watch.cookie()
    }

    /// What it says.
    pub fn payload(&self) -> &List {
        &self.payload
    }

    /// Acknowledges it with a reply to its sender. Nothing tells whether the reply arrives: the sender waits no longer
    /// than it said.
    pub fn acknowledge(mut self, reply: impl Into<List>) {
        self.reply = reply.into();
    }
}

impl Drop for Notification {
    fn drop(&mut self) {
        self.cluster.acknowledge(self.watch, self.notify_id, std::mem::take(&mut self.reply));
    }
}

impl fmt::Debug for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notification")
            .field("notifier", &self.notifier)
            .field("payload", &self.payload)
            .finish_non_exhaustive()
    }
}

/// A watch of an object: it is told when somebody notifies the object's watchers. It ends when it is dropped.
///
/// It is a stream, too, of [`WatchEvent`]s.
pub struct Watch {
    pool: Pool,
    id: WatchId,
    events: mpsc::Receiver<Told>,
    has_ended: bool,
    /// The OSD was told already that it ends.
    is_closed: bool,
}

impl Watch {
    /// This client's own name for the watch.
    pub fn cookie(&self) -> u64 {
        self.id.cookie()
    }

    /// A view of the watch, which does not keep it.
    pub fn monitor(&self) -> WatchMonitor {
        WatchMonitor { pool: self.pool.clone(), id: self.id }
    }

    /// Ends the watch, and waits until the object's OSD knows; dropping it does the same without waiting.
    pub async fn close(mut self) -> Result<(), Error> {
        self.is_closed = true;
        let (outcome, _) = self.pool.cluster().end_watch(self.id).await.map_err(|_| Error::Closed)?;
        Ok(outcome.map(drop)?)
    }

    /// What happens next; `None` once the watch is [lost](WatchEvent::Lost).
    pub async fn next(&mut self) -> Option<WatchEvent> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

/// A view of a [`Watch`].
#[derive(Debug, Clone)]
pub struct WatchMonitor {
    pool: Pool,
    id: WatchId,
}

impl WatchMonitor {
    /// Returns how long ago the watch was known to hold; `None` if it is lost or has ended. The client asks the OSD every few
    /// seconds by itself.
    pub async fn age(&self) -> Result<Option<Duration>, Error> {
        let (done, answer) = oneshot::channel();
        self.pool.cluster().send(CephCommand::WatchAge { watch: self.id, done }).await?;
        Ok(self.pool.cluster().answer(answer).await?)
    }
}

impl Stream for Watch {
    type Item = WatchEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        let this = self.get_mut();
        if this.has_ended {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(match ready!(Pin::new(&mut this.events).poll_next(cx)) {
            Some(Told::Notify { notify_id, notifier, payload }) => WatchEvent::Notify(Notification {
                cluster: this.pool.cluster().clone(),
                watch: this.id,
                notify_id,
                notifier,
                payload,
                reply: List::new(),
            }),
            Some(Told::Lost(_)) | None => {
                this.has_ended = true;
                WatchEvent::Lost
            }
        }))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.is_closed {
            self.pool.cluster().unwatch(self.id);
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("pool", &self.pool)
            .field("has_ended", &self.has_ended)
            .finish_non_exhaustive()
    }
}

/// The watchers' answers to a notification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Notified {
    /// The watchers that acknowledged it, and their replies.
    pub acknowledgements: Vec<Acknowledgement>,
    /// The watchers that did not in time.
    pub missed: Vec<Unanswered>,
}

/// A watcher's acknowledgement of a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Acknowledgement {
    /// Global id of the watching client.
    pub client: u64,
    /// The client's own name for the watch.
    pub cookie: u64,
    /// Its reply.
    pub reply: Vec<u8>,
}

/// A watcher that has not acknowledged a notification in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unanswered {
    /// Global id of the watching client.
    pub client: u64,
    /// The client's own name for the watch.
    pub cookie: u64,
}

impl Pool {
    fn watch_target(&self, object: &str) -> WatchTarget {
        WatchTarget {
            pool: self.id(),
            object: ObjectName::from(object),
            namespace: text::to_bytes(self.namespace()).into_owned(),
        }
    }

    /// Watches an object, which must exist. If the future is dropped, no watch is left behind.
    ///
    /// ```no_run
    /// # async fn f(pool: onego::rados::Pool) -> Result<(), onego::ceph::Error> {
    /// use onego::rados::WatchEvent;
    /// let mut watch = pool.watch("bell").await?;
    /// while let Some(WatchEvent::Notify(notification)) = watch.next().await {
    ///     println!("{:?}", notification.payload().to_vec());
    ///     notification.acknowledge(b"heard".to_vec());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn watch(&self, object: &str) -> Result<Watch, Error> {
        let (events, receiver) = mpsc::channel(BACKLOG);
        let (done, answer) = oneshot::channel();
        self.cluster().send(CephCommand::Watch { target: self.watch_target(object), events, done }).await?;
        let id = self.cluster().answer(answer).await??;
        Ok(Watch { pool: self.clone(), id, events: receiver, has_ended: false, is_closed: false })
    }

    /// Notifies the watchers of an object, and waits until all have acknowledged it, for at most `timeout`, which counts
    /// in whole seconds and is one at least. It is no error if some have not: [`Notified::missed`] names them.
    pub async fn notify(
        &self,
        object: &str,
        payload: impl Into<List>,
        timeout: Duration,
    ) -> Result<Notified, Error> {
        let (done, answer) = oneshot::channel();
        let target = self.watch_target(object);
        let timeout = u32::try_from(timeout.as_millis().div_ceil(1000)).unwrap_or(u32::MAX).max(1);
        let command = CephCommand::Notify { target, payload: payload.into(), timeout, done };
        self.cluster().send(command).await?;
        let Outcome::Notified(notified) = self.cluster().answer(answer).await?.0? else {
            return Err(OTHER_KIND.into());
        };
        let acknowledgement = |(client, cookie, reply)| Acknowledgement { client, cookie, reply };
        let missed = |(client, cookie)| Unanswered { client, cookie };
        Ok(Notified {
            acknowledgements: notified.answers.into_iter().map(acknowledgement).collect(),
            missed: notified.missed.into_iter().map(missed).collect(),
        })
    }

    /// The watches of an object; none if it does not exist.
    pub async fn watchers(&self, object: &str) -> Result<Vec<Watcher>, Error> {
        match self.decoded(object, Op::ListWatchers, super::op::read_watchers).await {
            Err(Error::NotFound { .. }) => Ok(Vec::new()),
            other => other,
        }
    }
}
