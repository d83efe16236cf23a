//! The image that an operation is about, by its header.

use super::info::ImageInfo;
use super::place::describe;
use crate::ceph::error::{Errno, Error};
use crate::rados::{Pool, WriteOp};
use crate::rbd::snapshot::Snapshot;
use onego_ceph::cls::Method;
use onego_ceph::rbd::{HEADER_UPDATE, ImageFormat};
use std::time::Duration;

/// How long others that have the image open may take to notice that it has changed.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(10);

/// An image that an operation is about.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) pool: Pool,
    pub(crate) format: ImageFormat,
    /// Empty: it is of format 1, whose images are known by their names.
    pub(crate) id: String,
    /// As people know it; its id if it has no name.
    pub(crate) name: String,
}

impl Header {
    /// The image of format 2 with this id.
    pub(crate) fn v2(pool: &Pool, id: &str, name: &str) -> Self {
        Self { pool: pool.clone(), format: ImageFormat::V2, id: id.to_owned(), name: name.to_owned() }
    }

    /// The image of format 1 with this name.
    pub(crate) fn v1(pool: &Pool, name: &str) -> Self {
        Self { pool: pool.clone(), format: ImageFormat::V1, id: String::new(), name: name.to_owned() }
    }

    /// The image that this is known of.
    pub(crate) fn of(pool: &Pool, info: &ImageInfo) -> Self {
        let (id, name) = (info.id.clone(), info.name.clone());
        Self { pool: pool.clone(), format: info.format, id, name }
    }

    /// The name of the object.
    pub(crate) fn object(&self) -> String {
        self.format.header_object(&self.name, &self.id).to_string()
    }

    /// The same image, where requests fail in a full pool instead of waiting for room if they need any.
    pub(crate) fn with_full_try(&self) -> Self {
        Self { pool: self.pool.with_full_try(), ..self.clone() }
    }

    /// The image in messages.
    pub(crate) fn describe(&self) -> String {
        describe(&self.pool, &self.name)
    }

    /// A snapshot of the image in messages.
    pub(crate) fn describe_snapshot(&self, snapshot: &Snapshot) -> String {
        format!("snapshot {}@{}", self.name, snapshot.name)
    }

    /// Fails if the image is of format 1, which lacks something, with the number by which librbd says so.
    pub(crate) fn needs_v2(&self, lacking: &str, errno: Errno) -> Result<(), Error> {
        match self.format {
            ImageFormat::V2 => Ok(()),
            ImageFormat::V1 => Err(Error::Unmet {
                what: format!(
                    "{} is of format 1, which lacks {lacking}: \"rbd deep cp\" makes an image of format 2 of it",
                    self.describe()
                ),
                errno,
            }),
        }
    }

    /// Calls a method that only reads.
    pub(crate) async fn call<M: Method>(&self, method: &M) -> Result<M::Reply, Error> {
        self.pool.call(&self.object(), method).await
    }

    /// Calls a method that changes the header.
    pub(crate) async fn change<M: Method>(&self, method: &M) -> Result<(), Error> {
        self.operate(WriteOp::new().call(method)).await
    }

    /// Changes the header in any way.
    pub(crate) async fn operate(&self, op: WriteOp) -> Result<(), Error> {
        self.pool.operate_write(&self.object(), op).await.map(drop)
    }

    /// Has those that have the image open read its header again.
    pub(crate) async fn notify_changed(&self) -> Result<(), Error> {
        self.pool.notify(&self.object(), HEADER_UPDATE.to_vec(), NOTIFY_TIMEOUT).await.map(drop)
    }

    /// The pool of the image's data.
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
