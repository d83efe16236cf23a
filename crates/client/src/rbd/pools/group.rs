use crate::ceph::error::Error;
use crate::rados::{Pool, WriteOp};
use crate::rbd::header::{GROUP_DIRECTORY, place};
use onego_ceph::cls::Method;
use onego_ceph::cls::rbd::{DirGetId, GroupSpec};

pub(super) struct Group {
    pub(super) pool: Pool,
    pub(super) id: String,
}

impl Group {
    pub(super) async fn named(pool: &Pool, name: &str) -> Result<Self, Error> {
        match pool.call(GROUP_DIRECTORY, &DirGetId { name: name.to_owned() }).await {
            Ok(id) => Ok(Self { pool: pool.clone(), id }),
            Err(Error::NotFound { .. }) => Err(Error::NotFound { what: describe(pool, name) }),
            Err(error) => Err(error),
        }
    }

    pub(super) fn object_of(id: &str) -> String {
        format!("rbd_group_header.{id}")
    }

    pub(super) fn object(&self) -> String {
        Self::object_of(&self.id)
    }

    pub(super) fn spec(&self) -> GroupSpec {
        GroupSpec { pool: self.pool.id(), group_id: self.id.clone() }
    }

    pub(super) async fn call<M: Method>(&self, method: &M) -> Result<M::Reply, Error> {
        self.pool.call(&self.object(), method).await
    }

    pub(super) async fn change<M: Method>(&self, method: &M) -> Result<(), Error> {
        self.pool.operate_write(&self.object(), WriteOp::new().call(method)).await.map(drop)
    }

    pub(super) async fn pool_of(&self, pool: i64) -> Result<Pool, Error> {
        let pool = self.pool.cluster().pool_by_id(pool).await?;
        Ok(pool.in_namespace(self.pool.namespace()).with_flags_of(&self.pool))
    }
}

pub(super) fn describe(pool: &Pool, name: &str) -> String {
    format!("group {}/{name}", place(pool))
}
