use onego::rados::Cluster;
use onego::rbd::Image;
use onego::{Config, Error, Reactor};

/// An open image, and the connection that it is reached by.
pub(crate) struct Session {
    pub(crate) reactor: Reactor,
    pub(crate) image: Image,
    /// The connection ends when its last handle does.
    _cluster: Cluster,
}

impl Session {
    pub(crate) fn open(config: &Config, pool: &str, image: &str) -> Result<Self, Error> {
        let (mut reactor, cluster) = Reactor::new(config)?;
        let image = reactor.block_on(async {
            cluster.ready().await?;
            Image::open(&cluster.pool(pool).await?, image).await
        })??;
        Ok(Self { reactor, image, _cluster: cluster })
    }

    /// Closes the image, so that the cluster does not take it for used until its watch has timed out.
    pub(crate) fn close(mut self) -> Result<(), Error> {
        self.reactor.block_on(self.image.close())?
    }
}
