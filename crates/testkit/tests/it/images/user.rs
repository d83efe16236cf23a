//! A client with one open image, and what it does with it.

use super::history::Moment;
use super::model::{BLOCK, MAX_BLOCKS};
use super::server::SimCluster;
use super::tasks::Tasks;
use onego::ceph::Error;
use onego::rados::{ClientMachine, Cluster, Pool, machine};
use onego::rbd::clones::CloneFormat;
use onego::rbd::{CreateOptions, Features, Image, Layout, clones, snapshots};
use onego_buf::Pool as Memory;
use onego_ceph::client::Config;
use onego_engine::{Engine as _, Pump};
use onego_msgr::auth::Secret;
use onego_testkit::{Sim, SimEngine};
use onego_wire::Time;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::time::Duration;

/// The pool of all images.
pub(crate) const POOL: &str = "rbd";

/// How long a client waits for its first map: longer than any link is cut.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3600);

/// What a client does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Job {
    Open,
    Close,
    Read(Range<usize>),
    /// The blocks show this stamp then.
    Change(Range<usize>, u64),
    List,
    /// These are about the image's snapshot with that index.
    MakeSnapshot(usize),
    ReadSnapshot(usize),
    RemoveSnapshot(usize),
    RollBack(usize),
    /// Makes an image of that name.
    Clone(usize, String),
    Flatten,
    /// Bytes.
    Resize(u64),
    /// Resizes through the open image, next to its reads and writes.
    ResizeOpen(u64),
}

impl Job {
    /// Is it more than a read or a write?
    pub(crate) fn is_maintenance(&self) -> bool {
        !matches!(self, Self::Open | Self::Close | Self::Read(_) | Self::Change(..))
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum JobAnswer {
    Done,
    Opened(Image),
    Bytes(Vec<u8>),
    Names(Vec<String>),
}

/// A client, as long as it lives.
pub(crate) struct User {
    pub(crate) number: u32,
    /// The image's place in the world's list.
    pub(crate) image: usize,
    pub(crate) pump: Pump<SimEngine, ClientMachine>,
    pub(crate) cluster: Cluster,
    pub(crate) open: Option<Image>,
    pub(crate) tasks: Tasks<(Job, Moment), Result<JobAnswer, Error>>,
    pub(crate) was_owner: bool,
    pub(crate) next_request: Time,
    pub(crate) cut_until: Option<Time>,
}

impl User {
    pub(crate) fn new(sim: &Sim, seed: u64, number: u32, image: usize) -> Self {
        let mut config = Config::new(vec![SimCluster::monitor()], "admin", Memory::new(1 << 20));
        config.seed = seed ^ u64::from(number) << 32;
        config.secret_seed = Secret::new(number.to_le_bytes().repeat(8));
        config.nonce = number + 1;
        let engine = sim.engine(address(number));
        let (machine, cluster) = machine(&config, CONNECT_TIMEOUT, engine.waker(), sim.now());
        Self {
            number,
            image,
            pump: Pump::new(engine, machine),
            cluster,
            open: None,
            tasks: Tasks::default(),
            was_owner: false,
            next_request: sim.now(),
            cut_until: None,
        }
    }

    pub(crate) fn is_owner(&self) -> bool {
        self.open.as_ref().is_some_and(Image::is_lock_owner)
    }

    /// Has no more than reads and writes under way?
    pub(crate) fn may_maintain(&self) -> bool {
        !self.tasks.jobs().any(|(job, _)| job.is_maintenance())
    }

    /// Returns whether it resizes its open image: what it writes meanwhile matters most.
    pub(crate) fn is_resizing(&self) -> bool {
        self.tasks.jobs().any(|(job, _)| matches!(job, Job::ResizeOpen(_)))
    }

    /// Begins something. `image` is the image's name, and `snapshot` that of the snapshot it is about.
    pub(crate) fn start(&mut self, job: Job, begun: Moment, image: &str, snapshot: &str) {
        let (cluster, image, snapshot) = (self.cluster.clone(), image.to_owned(), snapshot.to_owned());
        let open = if job == Job::Close { self.open.take() } else { self.open.clone() };
        let what = job.clone();
        self.tasks.start((job, begun), async move {
            let pool = cluster.pool(POOL).await?;
            match what {
                Job::Open => return Ok(JobAnswer::Opened(Image::open(&pool, &image).await?)),
                Job::Read(blocks) => return read(open.as_ref(), blocks).await,
                Job::List => return names(&pool, &image).await,
                Job::ReadSnapshot(_) => return read_snapshot(&pool, &image, &snapshot).await,
                Job::Close => close(open).await?,
                Job::Change(blocks, stamp) => change(open.as_ref(), blocks, stamp).await?,
                Job::MakeSnapshot(_) => snapshots::create(&pool, &image, &snapshot).await?,
                Job::RemoveSnapshot(_) => snapshots::remove(&pool, &image, &snapshot).await?,
                Job::RollBack(_) => snapshots::rollback(&pool, &image, &snapshot, |_, _| {}).await?,
                Job::Clone(_, name) => clone(&pool, &image, &snapshot, &name).await?,
                Job::Flatten => clones::flatten(&pool, &image, |_, _| {}).await?,
                Job::Resize(size) => onego::rbd::resize(&pool, &image, size, |_, _| {}).await?,
                Job::ResizeOpen(size) => open.ok_or(Error::Closed)?.resize(size, |_, _| {}).await?,
            }
            Ok(JobAnswer::Done)
        });
    }
}

/// How all images lie in objects: of 64 KiB, as 2^16.
pub(crate) fn layout() -> Layout {
    Layout::plain(16).expect("64 KiB is a size of objects")
}

pub(crate) fn options(blocks: usize) -> CreateOptions {
    let options = CreateOptions::new(blocks as u64 * BLOCK).with_layout(layout());
    options.with_features(Features::DEFAULT)
}

async fn clone(pool: &Pool, image: &str, snapshot: &str, name: &str) -> Result<(), Error> {
    // Its size is the snapshot's.
    let options = options(MAX_BLOCKS);
    clones::clone((pool, image, snapshot), (pool, name), &options, Some(CloneFormat::Counted)).await
}

async fn read(image: Option<&Image>, blocks: Range<usize>) -> Result<JobAnswer, Error> {
    let image = image.ok_or(Error::Closed)?;
    let bytes = image.read(blocks.start as u64 * BLOCK, blocks.len() as u64 * BLOCK).await?;
    Ok(JobAnswer::Bytes(bytes.to_vec()))
}

async fn change(image: Option<&Image>, blocks: Range<usize>, stamp: u64) -> Result<(), Error> {
    let image = image.ok_or(Error::Closed)?;
    let (offset, length) = (blocks.start as u64 * BLOCK, blocks.len() as u64 * BLOCK);
    if stamp == super::history::ZEROS {
        return image.write_zeroes(offset, length).await;
    }
    image.write(offset, stamp.to_le_bytes().repeat((length / 8) as usize)).await
}

async fn names(pool: &Pool, image: &str) -> Result<JobAnswer, Error> {
    let all = snapshots::list(pool, image).await?;
    let users = all.into_iter().filter(snapshots::Snapshot::is_users);
    Ok(JobAnswer::Names(users.map(|snapshot| snapshot.name).collect()))
}

async fn read_snapshot(pool: &Pool, image: &str, snapshot: &str) -> Result<JobAnswer, Error> {
    let image = Image::open_at(pool, image, snapshot).await?;
    let bytes = image.read(0, image.size()).await?.to_vec();
    image.close().await?;
    Ok(JobAnswer::Bytes(bytes))
}

async fn close(image: Option<Image>) -> Result<(), Error> {
    match image {
        Some(image) => image.close().await,
        None => Ok(()),
    }
}

/// Where client `number` is.
pub(crate) fn address(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0x0a01_0000 + number))
}
