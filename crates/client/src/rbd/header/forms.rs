use super::details::ImageDetails;
use super::handle::Header;
use super::info::ImageInfo;
use super::{v1, v2};
use crate::ceph::error::Error;
use crate::rados::WriteOp;
use crate::rbd::snapshot::{Snapshot, SnapshotKind};
use onego_ceph::rbd::ImageFormat;
use onego_rbd::ImageState;

impl Header {
    pub(crate) async fn info(&self, snap: u64) -> Result<ImageInfo, Error> {
        match self.format {
            ImageFormat::V1 => v1::info(self, snap).await,
            ImageFormat::V2 => v2::info(self, snap).await,
        }
    }

    pub(crate) async fn details(&self) -> Result<ImageDetails, Error> {
        match self.format {
            ImageFormat::V1 => v1::details(self).await,
            ImageFormat::V2 => v2::details(self).await,
        }
    }

    pub(crate) async fn snapshot_id(&self, snapshot: &str) -> Result<u64, Error> {
        match self.format {
            ImageFormat::V1 => Ok(v1::details(self).await?.snapshot(snapshot)?.id),
            ImageFormat::V2 => v2::snapshot_id(self, snapshot).await,
        }
    }

    /// Records a snapshot. Fails with ESTALE if a newer one is already recorded, and with EDQUOT at the limit.
    pub(crate) async fn add_snapshot(&self, name: &str, snap: u64, kind: &SnapshotKind) -> Result<(), Error> {
        match self.format {
            ImageFormat::V1 => v1::add_snapshot(self, name, snap, kind).await,
            ImageFormat::V2 => v2::add_snapshot(self, name, snap, kind).await,
        }
    }

    pub(crate) async fn remove_snapshot(&self, snapshot: &Snapshot) -> Result<(), Error> {
        match self.format {
            ImageFormat::V1 => v1::remove_snapshot(self, snapshot).await,
            ImageFormat::V2 => v2::remove_snapshot(self, snapshot).await,
        }
    }

    pub(crate) async fn rename_snapshot(&self, snap: u64, to: &str) -> Result<(), Error> {
        match self.format {
            ImageFormat::V1 => v1::rename_snapshot(self, snap, to).await,
            ImageFormat::V2 => v2::rename_snapshot(self, snap, to).await,
        }
    }

    pub(crate) async fn set_size(&self, size: u64) -> Result<(), Error> {
        let ops = ImageState::set_size(self.format, size);
        self.operate(ops.into_iter().fold(WriteOp::new(), WriteOp::and)).await
    }

    /// Removes the header, the last part of an image. In format 1 this also removes the name.
    pub(crate) async fn remove(&self) -> Result<(), Error> {
        if self.format == ImageFormat::V1 {
            v1::forget_name(&self.pool, &self.name).await?;
        }
        self.pool.remove(&self.object()).await
    }
}
