//! Loads on an image of a cluster.

use crate::Error;
use crate::load::session::{Request, Session, Target};
use crate::load::{self, Measured, Plan};
use crate::report::progress::Progress;
use crate::report::table::OURS;
use onego::ceph::{Config, ImageRequest, Outcome, Reactor};
use onego::rados::{Cluster, Pool};
use onego::rbd::clones::{CloneFormat, clone};
use onego::rbd::{self, CreateOptions, Image, snapshots};
use onego::{SegmentMut, Wait};
use onego_metrics::Registry;
use std::sync::atomic::{AtomicBool, Ordering};

/// An image on a cluster, prepared for measurements.
pub struct Bed {
    config: Config,
    pool: String,
    image: String,
    size: u64,
    kind: BedImage,
    server: Option<u32>,
    registry: Registry,
    filled: AtomicBool,
}

/// Kind of image to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BedImage {
    /// A plain image.
    Plain,
    /// A clone of a full image: its first writes copy up the parent's bytes.
    Clone,
}

/// Name of the snapshot that clones are made of.
const SNAPSHOT: &str = "full";

impl Bed {
    /// Creates the image, which must not exist. `server` is the cluster's process, if it is a process of this machine.
    /// The clients add their metrics to the registry.
    pub fn prepare(
        config: &Config,
        pool: &str,
        image: &str,
        options: &CreateOptions,
        kind: BedImage,
        server: Option<u32>,
        registry: &Registry,
    ) -> Result<Self, Error> {
        let (mut reactor, cluster) = Reactor::new(config)?;
        reactor.block_on(async {
            cluster.ready().await?;
            let pool = cluster.pool(pool).await?;
            match kind {
                BedImage::Plain => rbd::create(&pool, image, options).await,
                BedImage::Clone => make_clone(&pool, image, options).await,
            }
        })??;
        // A clone shows the parent's bytes.
        let filled = AtomicBool::new(kind == BedImage::Clone);
        let (pool, image) = (pool.to_owned(), image.to_owned());
        let (config, registry) = (config.clone(), registry.clone());
        Ok(Self { config, pool, image, size: options.size, kind, server, registry, filled })
    }

    /// Uses an existing image, and preserves the bytes that no load writes. The clients add their metrics to the
    /// registry.
    pub fn of_image(
        config: &Config,
        pool: &str,
        image: &str,
        server: Option<u32>,
        registry: &Registry,
    ) -> Result<Self, Error> {
        let (mut reactor, cluster) = Reactor::new(config)?;
        let info = reactor.block_on(async {
            cluster.ready().await?;
            rbd::info(&cluster.pool(pool).await?, image).await
        })??;
        let (pool, image) = (pool.to_owned(), image.to_owned());
        let (config, registry) = (config.clone(), registry.clone());
        let (size, kind, filled) = (info.size, BedImage::Plain, AtomicBool::new(true));
        Ok(Self { config, pool, image, size, kind, server, registry, filled })
    }

    /// Removes the image. Calls `progress` whenever a part of it is gone.
    pub fn remove(self, progress: impl Fn() + Sync) -> Result<(), Error> {
        let (mut reactor, cluster) = Reactor::new(&self.config)?;
        reactor.block_on(async {
            cluster.ready().await?;
            progress();
            let pool = cluster.pool(&self.pool).await?;
            rbd::remove(&pool, &self.image, |_, _| progress()).await?;
            if self.kind == BedImage::Clone {
                let parent = parent_of(&self.image);
                snapshots::purge(&pool, &parent, |_, _| progress()).await?;
                rbd::remove(&pool, &parent, |_, _| progress()).await?;
            }
            Ok::<_, onego::ceph::Error>(())
        })??;
        Ok(())
    }

    /// Measures the loads of a plan. Calls `each` after every load; `stop` ends the measurement early.
    pub fn measure(
        &self,
        plan: &Plan,
        progress: &Progress,
        stop: &AtomicBool,
        each: impl FnMut(&Measured),
    ) -> Result<Vec<Measured>, Error> {
        load::measure(self, plan, progress, stop, each)
    }
}

fn parent_of(image: &str) -> String {
    format!("{image}-parent")
}

async fn make_clone(pool: &Pool, image: &str, options: &CreateOptions) -> Result<(), onego::ceph::Error> {
    let parent = parent_of(image);
    rbd::create(pool, &parent, options).await?;
    let full = Image::open(pool, &parent).await?;
    let piece = options.layout.object_size();
    for offset in (0..options.size).step_by(piece as usize) {
        full.write(offset, vec![0xa5; piece.min(options.size - offset) as usize]).await?;
    }
    full.close().await?;
    snapshots::create(pool, &parent, SNAPSHOT).await?;
    clone((pool, &parent, SNAPSHOT), (pool, image), options, Some(CloneFormat::Counted)).await
}

impl Target for Bed {
    type Session = ImageSession;

    fn bench(&self) -> &str {
        "rbd"
    }

    fn mode(&self) -> &str {
        OURS
    }

    fn engine(&self) -> String {
        self.config.engine.to_string()
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn server(&self) -> Option<u32> {
        self.server
    }

    fn open(&self) -> Result<ImageSession, Error> {
        let session = ImageSession::open(&self.config, &self.pool, &self.image)?;
        self.registry.add(session.cluster.figures());
        Ok(session)
    }

    /// The first load that asks fills it, once.
    fn is_full(&self) -> Result<bool, Error> {
        Ok(self.filled.swap(true, Ordering::Relaxed))
    }
}

pub(crate) struct ImageSession {
    reactor: Reactor,
    image: Image,
    /// The connection ends when its last handle is dropped.
    cluster: Cluster,
}

impl ImageSession {
    fn open(config: &Config, pool: &str, image: &str) -> Result<Self, onego::ceph::Error> {
        let (mut reactor, cluster) = Reactor::new(config)?;
        let image = reactor.block_on(async {
            cluster.ready().await?;
            Image::open(&cluster.pool(pool).await?, image).await
        })??;
        Ok(Self { reactor, image, cluster })
    }
}

impl Session for ImageSession {
    fn has_room(&self) -> bool {
        self.reactor.has_room()
    }

    fn submit(&mut self, request: Request, tag: u64) -> Result<(), Error> {
        let request = match request {
            Request::Read { offset, buffer } => ImageRequest::Read { offset, buffer },
            Request::Write { offset, data } => ImageRequest::Write { offset, data },
        };
        Ok(self.reactor.submit(&self.image, request, tag)?)
    }

    fn completion(&mut self) -> Option<(u64, Result<Option<SegmentMut>, Error>)> {
        let completed = self.reactor.completion()?;
        let result = completed.result.map(|outcome| match outcome {
            Outcome::Buffer(buffer) => Some(buffer),
            _ => None,
        });
        Some((completed.tag, result.map_err(Error::from)))
    }

    fn turn(&mut self) -> Result<(), Error> {
        Ok(self.reactor.turn(Wait::Forever)?)
    }

    fn start_over(&mut self) -> Result<(), Error> {
        // An image has a fixed size.
        Ok(())
    }

    /// Closes the image, so that the cluster does not consider it in use until its watch times out.
    fn close(mut self) -> Result<(), Error> {
        Ok(self.reactor.block_on(self.image.close())??)
    }
}
