use super::Pool;
use crate::Error;
use crate::core::Command;
use futures_channel::{mpsc, oneshot};
use onego_buf::List;
use onego_ceph::client::{Notified, Outcome, WatchId, WatchTarget};
use onego_ceph::encoding::Decode;
use onego_ceph::messages::ObjectName;
use onego_ceph::ops::Op;
use onego_wire::Reader;

/// Notifications that may wait to be looked at; what comes beyond is lost, and the watch says so.
const BACKLOG: usize = 256;

/// What a watcher is told.
#[derive(Debug)]
pub enum WatchEvent {
    /// Somebody notifies the watchers. The notification is acknowledged already.
    Notify {
        /// Global id of who notifies.
        notifier: u64,
        /// What it says.
        payload: List,
    },
    /// The watch is lost: notifications may have been missed.
    Lost,
}

/// A watch of an object: it is told when somebody notifies the object's watchers.
pub struct Watch {
    pool: Pool,
    id: WatchId,
    events: mpsc::Receiver<WatchEvent>,
}

impl Watch {
    /// What happens next; `None` once the connection to the cluster is closed.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        self.events.recv().await.ok()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.pool.cluster().unwatch(self.id);
    }
}

impl Pool {
    fn watch_target(&self, object: &str) -> WatchTarget {
        WatchTarget {
            pool: self.id(),
            object: ObjectName::from(object),
            namespace: self.namespace().to_owned(),
        }
    }

    /// Watches an object.
    pub async fn watch(&self, object: &str) -> Result<Watch, Error> {
        let (events, receiver) = mpsc::channel(BACKLOG);
        let (done, answer) = oneshot::channel();
        self.cluster().send(Command::Watch { target: self.watch_target(object), events, done }).await?;
        let id = self.cluster().answer(answer).await??;
        Ok(Watch { pool: self.clone(), id, events: receiver })
    }

    /// Notifies the watchers of an object and waits for them to acknowledge, at most `timeout` seconds.
    pub async fn notify(
        &self,
        object: &str,
        payload: impl Into<List>,
        timeout: u32,
    ) -> Result<Notified, Error> {
        let (done, answer) = oneshot::channel();
        let command =
            Command::Notify { target: self.watch_target(object), payload: payload.into(), timeout, done };
        self.cluster().send(command).await?;
        match self.cluster().answer(answer).await?.0? {
            Outcome::Notified(notified) => Ok(notified),
            _ => Err(Error::Closed),
        }
    }

    /// Who watches an object: names and addresses.
    pub async fn watchers(&self, object: &str) -> Result<Vec<String>, Error> {
        let reply = match self.operate(object, [Op::ListWatchers]).await {
            Err(Error::NotFound { .. }) => return Ok(Vec::new()),
            other => other?,
        };
        let output = reply.ops[0].1.to_segment();
        let watchers = onego_ceph::outputs::Watchers::decode(&mut Reader::new(&output));
        let watchers = watchers.map_err(|error| Error::Answer {
            what: format!("watchers of {object}"),
            reason: error.to_string(),
        })?;
        Ok(watchers.0.into_iter().map(|w| format!("{} at {}", w.name, w.addr)).collect())
    }
}
