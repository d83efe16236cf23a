use super::cluster::Cluster;
use super::outputs::Watcher;
use super::pool::Pool;
use crate::ceph::commands::{CephCommand, WatchNotice};
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

/// Most unread notifications; a watch with more is lost.
const BACKLOG: usize = 256;

/// An event of a watch.
#[derive(Debug)]
pub enum WatchEvent {
    /// A client notified the watchers.
    Notify(Notification),
    /// The watch has ended: the object was removed, its OSD has not heard from this client for too long, the client
    /// was closed, or more than 256 notifications were unread. Notifications may have been missed: read the object,
    /// and watch it again.
    Lost,
}

/// A notification. Its sender waits for the acknowledgement, which dropping the notification sends as well.
pub struct Notification {
    cluster: Cluster,
    watch: WatchId,
    notify_id: u64,
    notifier: u64,
    payload: List,
    reply: List,
}

impl Notification {
    /// Returns the global id of the sending client.
    pub fn notifier(&self) -> u64 {
        self.notifier
    }

    /// Returns the notification's number.
    pub fn id(&self) -> u64 {
        self.notify_id
    }

    /// Returns this client's name for the watch.
    pub fn cookie(&self) -> u64 {
        self.watch.cookie()
    }

    /// Returns the notification's payload.
    pub fn payload(&self) -> &List {
        &self.payload
    }

    /// Acknowledges the notification with a reply to its sender. Delivery is not confirmed: the sender waits only for
    /// the timeout that it chose.
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

/// A watch of an object, which receives the notifications sent to the object's watchers. Dropping it ends the watch.
///
/// It is also a stream of [`WatchEvent`]s.
pub struct Watch {
    pool: Pool,
    id: WatchId,
    events: mpsc::Receiver<WatchNotice>,
    has_ended: bool,
    /// Set once the OSD has been informed of the watch's end.
    is_closed: bool,
}

impl Watch {
    /// Returns this client's name for the watch.
    pub fn cookie(&self) -> u64 {
        self.id.cookie()
    }

    /// Returns a monitor of the watch, which does not keep the watch alive.
    pub fn monitor(&self) -> WatchMonitor {
        WatchMonitor { pool: self.pool.clone(), id: self.id }
    }

    /// Ends the watch, and waits until the object's OSD confirms that; dropping it does the same without waiting.
    pub async fn close(mut self) -> Result<(), Error> {
        self.is_closed = true;
        let (outcome, _) = self.pool.cluster().end_watch(self.id).await.map_err(|_| Error::Closed)?;
        Ok(outcome.map(drop)?)
    }

    /// Returns the next event, or `None` once the watch is [lost](WatchEvent::Lost).
    pub async fn next(&mut self) -> Option<WatchEvent> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

/// Liveness monitor of a [`Watch`].
#[derive(Debug, Clone)]
pub struct WatchMonitor {
    pool: Pool,
    id: WatchId,
}

impl WatchMonitor {
    /// Returns the time since the OSD last confirmed the watch; `None` if it is lost or has ended. The client checks
    /// with the OSD every few seconds.
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
            Some(WatchNotice::Notify { notify_id, notifier, payload }) => WatchEvent::Notify(Notification {
                cluster: this.pool.cluster().clone(),
                watch: this.id,
                notify_id,
                notifier,
                payload,
                reply: List::new(),
            }),
            Some(WatchNotice::Lost(_)) | None => {
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

/// Replies to a notification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Notified {
    /// Watchers that acknowledged the notification, with their replies.
    pub acknowledgements: Vec<Acknowledgement>,
    /// Watchers that did not acknowledge it in time.
    pub missed: Vec<Unanswered>,
}

/// A watcher's acknowledgement of a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Acknowledgement {
    /// Global id of the watching client.
    pub client: u64,
    /// Name of the watch, chosen by the client.
    pub cookie: u64,
    /// The client's reply.
    pub reply: Vec<u8>,
}

/// A watcher that did not acknowledge a notification in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unanswered {
    /// Global id of the watching client.
    pub client: u64,
    /// Name of the watch, chosen by the client.
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

    /// Watches an object, which must exist. Dropping the future leaves no watch behind.
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

    /// Notifies the watchers of an object, and waits for all acknowledgements, at most for `timeout` in whole
    /// seconds, at least one. Missing acknowledgements are no error: [`Notified::missed`] lists them.
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

    /// Lists the watches of an object; empty if it does not exist.
    pub async fn watchers(&self, object: &str) -> Result<Vec<Watcher>, Error> {
        match self.decoded(object, Op::ListWatchers, super::op::read_watchers).await {
            Err(Error::NotFound { .. }) => Ok(Vec::new()),
            other => other,
        }
    }
}
