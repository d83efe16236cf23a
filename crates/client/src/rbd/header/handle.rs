use super::info::ImageInfo;
use super::place::describe;
use crate::ceph::error::{Errno, Error};
use crate::rados::{Pool, WriteOp};
use crate::rbd::snapshot::Snapshot;
use onego_ceph::cls::Method;
use onego_ceph::rbd::{HEADER_UPDATE, ImageFormat};
use std::time::Duration;

/// Limit on the time in which other users of the image must acknowledge a change.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) pool: Pool,
    pub(crate) format: ImageFormat,
    /// Empty for format 1, whose images are identified by name.
    pub(crate) id: String,
    /// Name for display; the id if the image has no name.
    pub(crate) name: String,
}

impl Header {
    pub(crate) fn v2(pool: &Pool, id: &str, name: &str) -> Self {
        Self { pool: pool.clone(), format: ImageFormat::V2, id: id.to_owned(), name: name.to_owned() }
    }

    pub(crate) fn v1(pool: &Pool, name: &str) -> Self {
        Self { pool: pool.clone(), format: ImageFormat::V1, id: String::new(), name: name.to_owned() }
    }

    pub(crate) fn of(pool: &Pool, info: &ImageInfo) -> Self {
        let (id, name) = (info.id.clone(), info.name.clone());
        Self { pool: pool.clone(), format: info.format, id, name }
    }

    pub(crate) fn object(&self) -> String {
        self.format.header_object(&self.name, &self.id).to_string()
    }

    /// Returns the same image with requests that fail in a full pool instead of waiting for space.
    pub(crate) fn with_full_try(&self) -> Self {
        Self { pool: self.pool.with_full_try(), ..self.clone() }
    }

    pub(crate) fn describe(&self) -> String {
        describe(&self.pool, &self.name)
    }

    pub(crate) fn describe_snapshot(&self, snapshot: &Snapshot) -> String {
        format!("snapshot {}@{}", self.name, snapshot.name)
    }

    /// Fails with librbd's error number if the image has format 1, which lacks a capability.
    pub(crate) fn needs_v2(&self, lacking: &str, errno: Errno) -> Result<(), Error> {
        match self.format {
            ImageFormat::V2 => Ok(()),
            ImageFormat::V1 => Err(Error::Unmet {
                what: format!(
                    "{} has format 1, which lacks {lacking}: \"rbd deep cp\" copies it to an image of format 2",
                    self.describe()
                ),
                errno,
            }),
        }
    }

    pub(crate) async fn call<M: Method>(&self, method: &M) -> Result<M::Reply, Error> {
        self.pool.call(&self.object(), method).await
    }

    pub(crate) async fn change<M: Method>(&self, method: &M) -> Result<(), Error> {
        self.operate(WriteOp::new().call(method)).await
    }

    pub(crate) async fn operate(&self, op: WriteOp) -> Result<(), Error> {
        self.pool.operate_write(&self.object(), op).await.map(drop)
    }

    /// Makes other users of the image reread the header.
    pub(crate) async fn notify_changed(&self) -> Result<(), Error> {
        self.pool.notify(&self.object(), HEADER_UPDATE.to_vec(), NOTIFY_TIMEOUT).await.map(drop)
    }

    pub(crate) async fn data_pool(&self, info: &ImageInfo) -> Result<Pool, Error> {
        match info.data_pool {
            Some(id) => {
                let pool = self.pool.cluster().pool_by_id(id).await?;
                Ok(pool.in_namespace(self.pool.namespace()).with_flags_of(&self.pool))
            }
            None => Ok(self.pool.clone()),
        }
    }
}
