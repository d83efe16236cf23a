use super::pool::Pool;
use crate::ceph::commands::Question;
use crate::ceph::done::OTHER_KIND;
use crate::ceph::error::{Error, check};
use onego_ceph::client::Outcome;
use onego_ceph::messages::{PoolOp, PoolOpKind, PoolOpReply};
use onego_ceph::types::Uuid;
use onego_msgr::encoding::Decode as _;
use onego_wire::Reader;

impl Pool {
    /// Allocates an unused snapshot number from the monitors, and waits for the map that contains it.
    pub(crate) async fn new_snap_id(&self) -> Result<u64, Error> {
        let reply = self.snap_id_op(PoolOpKind::CreateUnmanagedSnap, 0).await?;
        let output = reply.output.unwrap_or_default();
        u64::decode(&mut Reader::new(&output))
            .map_err(|error| crate::ceph::error::undecodable(self.snapshots(), error))
    }

    /// Releases a snapshot number: OSDs remove the object clones that only it needs.
    pub(crate) async fn remove_snap_id(&self, snap: u64) -> Result<(), Error> {
        self.snap_id_op(PoolOpKind::DeleteUnmanagedSnap, snap).await.map(drop)
    }

    async fn snap_id_op(&self, op: PoolOpKind, snap: u64) -> Result<PoolOpReply, Error> {
        // Pool numbers start at 1, and no map has more than fit.
        let pool = u32::try_from(self.id()).unwrap_or_default();
        let op = PoolOp { fsid: Uuid::default(), pool, op, snap, name: String::new(), crush_rule: 0 };
        let Outcome::Pool(reply) = self.cluster().ask(Question::Pool(op)).await? else {
            return Err(OTHER_KIND.into());
        };
        check(reply.result, || self.snapshots())?;
        self.cluster().map(reply.epoch).await?;
        Ok(reply)
    }

    fn snapshots(&self) -> String {
        format!("snapshots of pool {}", self.name())
    }
}
