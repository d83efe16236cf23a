//! How commands name an image.

use crate::spec::ImageSpec;
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
