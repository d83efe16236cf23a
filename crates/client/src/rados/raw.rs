//! Requests in the protocol's own terms, for crates that offer another interface on top of the client.

use super::cluster::Cluster;
use crate::ceph::commands::{CephCommand, Question};
use crate::ceph::done::OTHER_KIND;
use crate::ceph::error::Error;
use futures_channel::oneshot;
use onego_buf::SegmentMut;
use onego_ceph::client::{OpReply, Outcome, Request};
use onego_ceph::messages::{PoolOp, PoolOpReply, StatfsReply};
use onego_ceph::osdmap::OsdMap;
use std::sync::Arc;

impl Cluster {
    /// Makes a request, and gives the reply, which may say that it failed, and the buffer that the request had, if it was
    /// sent at all.
    pub async fn request(&self, request: Request) -> (Result<OpReply, Error>, Option<SegmentMut>) {
        let (done, answer) = oneshot::channel();
        if let Err(error) = self.send(CephCommand::Request { request: Box::new(request), done }).await {
            return (Err(error), None);
        }
        match self.answer(answer).await {
            Ok((Ok(Outcome::Reply(reply)), buffer)) => (Ok(reply), buffer),
            Ok((Ok(_), buffer)) => (Err(OTHER_KIND.into()), buffer),
            Ok((Err(error), buffer)) => (Err(error.into()), buffer),
            Err(closed) => (Err(closed.into()), None),
        }
    }

    /// The newest map that this client has.
    pub async fn osd_map(&self) -> Result<Arc<OsdMap>, Error> {
        self.map(1).await
    }

    /// The newest map that the monitors have.
    pub async fn newest_osd_map(&self) -> Result<Arc<OsdMap>, Error> {
        self.newest_map().await
    }

    /// Has the monitors change a pool, and waits for the map that shows it.
    pub async fn pool_op(&self, op: PoolOp) -> Result<PoolOpReply, Error> {
        let Outcome::Pool(reply) = self.ask(Question::Pool(op)).await? else { return Err(OTHER_KIND.into()) };
        if reply.result >= 0 {
            self.map(reply.epoch).await?;
        }
        Ok(reply)
    }

    /// The number by which the cluster knows this client.
    pub async fn global_id(&self) -> Result<u64, Error> {
        let (done, answer) = oneshot::channel();
        self.send(CephCommand::GlobalId { done }).await?;
        Ok(self.answer(answer).await?)
    }

    /// How full the cluster is; of one pool, by its number, or of all.
    pub async fn statfs(&self, pool: Option<i64>) -> Result<StatfsReply, Error> {
        match self.ask(Question::Statfs(pool)).await? {
            Outcome::Statfs(reply) => Ok(reply),
            _ => Err(OTHER_KIND.into()),
        }
    }
}
