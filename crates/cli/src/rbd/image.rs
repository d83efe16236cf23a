//! How commands name an image.

use crate::spec::{ImageSpec, SnapSpec};
use onego::rados::{Cluster, Pool};

/// The image that a command is about.
#[derive(clap::Args)]
pub(crate) struct ImageArg {
    /// The image: [POOL/[NAMESPACE/]]IMAGE
    #[arg(value_name = "IMAGE")]
    pub(super) spec: ImageSpec,
    /// The pool, if the image's name has none [default: rbd]
    #[arg(short, long)]
    pub(super) pool: Option<String>,
}

impl ImageArg {
    pub(super) fn name(&self) -> &str {
        &self.spec.image
    }

    pub(super) async fn open_pool(&self, cluster: &Cluster) -> Result<Pool, onego::ceph::Error> {
        self.spec.place(self.pool.as_deref()).open(cluster).await
    }
}

/// The image that a command is about, or a snapshot of it.
#[derive(clap::Args)]
pub(crate) struct SnapArg {
    /// The image, or a snapshot of it: [POOL/[NAMESPACE/]]IMAGE[@SNAPSHOT]
    #[arg(value_name = "IMAGE")]
    spec: SnapSpec,
    /// The pool, if the image's name has none [default: rbd]
    #[arg(short, long)]
    pool: Option<String>,
    /// The snapshot, if the image's name has none
    #[arg(long, value_name = "SNAPSHOT")]
    snap: Option<String>,
}

impl SnapArg {
    pub(super) fn name(&self) -> &str {
        &self.spec.image.image
    }

    pub(super) fn snapshot(&self) -> Option<&str> {
        self.spec.snapshot.as_deref().or(self.snap.as_deref())
    }

    pub(super) async fn open_pool(&self, cluster: &Cluster) -> Result<Pool, onego::ceph::Error> {
        self.spec.image.place(self.pool.as_deref()).open(cluster).await
    }
}
