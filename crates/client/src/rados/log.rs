use super::cluster::Cluster;
use crate::ceph::commands::CephCommand;
use crate::ceph::error::Error;
use futures_channel::mpsc;
use futures_core::Stream;
use onego_ceph::messages::{LogEntry, LogLevel};
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Most unread entries; a stream with more ends.
const BACKLOG: usize = 4096;

/// A stream of new cluster log entries ([`LogEntry`]). It ends when it is dropped, when the client is closed, or when
/// more than 4,096 entries are unread.
pub struct ClusterLog {
    cluster: Cluster,
    level: LogLevel,
    entries: mpsc::Receiver<LogEntry>,
}

impl ClusterLog {
    /// Returns the next entry, or `None` at the end.
    pub async fn next(&mut self) -> Option<LogEntry> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for ClusterLog {
    type Item = LogEntry;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<LogEntry>> {
        let this = self.get_mut();
        loop {
            match ready!(Pin::new(&mut this.entries).poll_next(cx)) {
                Some(entry) if entry.level < this.level => {}
                other => return Poll::Ready(other),
            }
        }
    }
}

impl Drop for ClusterLog {
    fn drop(&mut self) {
        self.entries.close();
        self.cluster.sweep();
    }
}

impl fmt::Debug for ClusterLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterLog").field("level", &self.level).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Follows the cluster log: entries of `level` and above. A client's first stream may also deliver the most
    /// recent existing entries; the monitor decides.
    ///
    /// ```no_run
    /// # async fn f(cluster: onego::rados::Cluster) -> Result<(), onego::ceph::Error> {
    /// let mut log = cluster.follow_log(onego::rados::LogLevel::Info).await?;
    /// while let Some(entry) = log.next().await {
    ///     println!("{} {}", entry.level.tag(), entry.text);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn follow_log(&self, level: LogLevel) -> Result<ClusterLog, Error> {
        let (sender, entries) = mpsc::channel(BACKLOG);
        self.send(CephCommand::FollowLog { entries: sender }).await?;
        Ok(ClusterLog { cluster: self.clone(), level, entries })
    }
}
