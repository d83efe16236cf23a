//! A device under test, with its event loop.

use crate::Error;
use onego::Wait;
use onego::block::{Completions, Device, Geometry, Host, Memory, Null, Op, Request};
use onego::ceph::Config;
use onego::rbd::{self, CreateOptions, Image};
use onego_engine::now;
use onego_wire::{NoConnections, Time};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const FILL: u64 = 1 << 20;

/// Maximum length of a turn without an event: a measurement may have been interrupted.
const LONGEST_TURN: Duration = Duration::from_millis(100);

/// Kind of device to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// Discards everything: measures the cost of the layers above a device.
    Null,
    /// Memory of this process.
    Memory,
    /// An image of a cluster in another process.
    Image,
}

impl DeviceKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Null, Self::Memory, Self::Image];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Memory => "memory",
            Self::Image => "rbd",
        }
    }
}

impl std::str::FromStr for DeviceKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|kind| kind.name() == text);
        named.ok_or_else(|| format!("{text:?} is none of null, memory, rbd"))
    }
}

/// Cluster for images.
#[derive(Debug, Clone)]
pub struct ImageCluster {
    /// Configuration of its clients.
    pub config: Config,
    /// The pool; the image is created in it.
    pub pool: String,
    /// Name of the image.
    pub image: String,
    /// The cluster's process id.
    pub server: u32,
}

pub(super) struct Tallied {
    device: Rc<dyn Device>,
    requests: Cell<u64>,
}

impl Tallied {
    pub(super) fn new(device: Rc<dyn Device>) -> Self {
        Self { device, requests: Cell::new(0) }
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.get()
    }
}

impl Device for Tallied {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn submit(&self, now: Time, request: Request) {
        self.requests.set(self.requests.get() + 1);
        self.device.submit(now, request);
    }
}

pub(super) struct Bed {
    pub(super) device: Tallied,
    /// `None` for a device that completes requests immediately.
    host: Option<Host<NoConnections>>,
    pub(super) server: Option<u32>,
    pub(super) engine: String,
}

impl Bed {
    /// Creates a device of `size` bytes, and writes all of it: reads of unwritten bytes are cheap and meaningless.
    /// `cluster` is the place of an image.
    pub(super) fn prepare(
        kind: DeviceKind,
        size: u64,
        cluster: Option<&ImageCluster>,
    ) -> Result<Self, Error> {
        let inline = |device: Rc<dyn Device>| Self {
            device: Tallied::new(device),
            host: None,
            server: None,
            engine: "none".into(),
        };
        let mut bed = match (kind, cluster) {
            (DeviceKind::Null, _) => inline(Rc::new(Null::new(Geometry::new(size)))),
            (DeviceKind::Memory, _) => inline(Rc::new(Memory::new(Geometry::new(size)))),
            (DeviceKind::Image, Some(cluster)) => Self::on_image(size, cluster)?,
            (DeviceKind::Image, None) => return Err(Error::Unfit("there is no cluster for images".into())),
        };
        bed.fill(size)?;
        Ok(bed)
    }

    fn on_image(size: u64, cluster: &ImageCluster) -> Result<Self, Error> {
        let ImageCluster { config, pool, image, server } = cluster;
        let mut host = Host::open(config.engine, config.zero_copy, config.spin, |_| NoConnections)?;
        let client = host.connect(config)?;
        let image: Image = host.block_on(async {
            client.ready().await?;
            let pool = client.pool(pool).await?;
            rbd::create(&pool, image, &CreateOptions::new(size)).await?;
            Image::open(&pool, image).await
        })??;
        let device = Tallied::new(host.image(image)?);
        Ok(Self { device, host: Some(host), server: Some(*server), engine: config.engine.to_string() })
    }

    fn fill(&mut self, size: u64) -> Result<(), Error> {
        let completions = Completions::default();
        for offset in (0..size).step_by(FILL as usize) {
            let bytes = vec![offset as u8; FILL.min(size - offset) as usize];
            let write = Op::Write { data: bytes.into() };
            self.device.submit(now(), Request::new(completions.caller(offset), offset, write));
            let completion = loop {
                match completions.take() {
                    Some(completion) => break completion,
                    None => self.turn(None)?,
                }
            };
            completion.result.map_err(|error| Error::Failed(format!("filling the device: {error}")))?;
        }
        Ok(())
    }

    /// Waits for the device, or until that time, but not for long.
    pub(super) fn turn(&mut self, until: Option<Time>) -> Result<(), Error> {
        match (&mut self.host, until) {
            (Some(host), until) => host.turn(Wait::Until(until.unwrap_or(now() + LONGEST_TURN)))?,
            (None, Some(until)) => std::thread::sleep(until.since(now())),
            (None, None) => {}
        }
        Ok(())
    }
}
