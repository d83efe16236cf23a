//! One thread's export, and all that is under it.

use super::file::{FileDevices, FileOpener};
use super::image::{ImageDevices, ImageOpener};
use super::nbd::{NbdError, NbdUrl};
use crate::ceph::{Config, Error};
use crate::driver::Driver;
use crate::nfs::{self, Mount, Unmounted};
use crate::rados::{ClientFigures, Cluster, Unconnected};
use crate::rbd::Image;
use crate::reactor::{EngineFailed, FAREWELL};
use onego_block::{Backend, Device, Export};
use onego_engine::zero_copy::Settings;
use onego_engine::{EngineKind, Spin, Stats, Wait, Waker};
use onego_nbd::client::ClientError;
use onego_wire::{Joined, Machine, Members, Time};
use std::rc::Rc;

/// An export and the backends of the devices that it serves, driven as one machine by the thread that owns it: no other
/// thread, no wake-ups and no locks on the way of a request from the export's connection to the cluster's.
///
/// A process that wants more than one processor has as many hosts, each on a thread of its own.
pub struct Host<E: Export> {
    driver: Driver<Joined<Hosted<E>>>,
    /// The clients of clusters among the backends.
    clusters: Vec<(Cluster, ImageOpener)>,
    /// The clients of servers of files among them.
    mounts: Vec<(Mount, FileOpener)>,
}

/// The machines of a host.
struct Hosted<E> {
    export: E,
    backends: Vec<Box<dyn Backend>>,
}

impl<E: Export> Members for Hosted<E> {
    fn count(&self) -> usize {
        1 + self.backends.len()
    }

    fn member(&self, index: usize) -> &dyn Machine {
        match index {
            0 => &self.export,
            _ => &*self.backends[index - 1],
        }
    }

    fn member_mut(&mut self, index: usize) -> &mut dyn Machine {
        match index {
            0 => &mut self.export,
            _ => &mut *self.backends[index - 1],
        }
    }

    fn passed_work(&mut self) -> bool {
        self.export.has_completions() || self.backends.iter().any(|backend| backend.has_work())
    }
}

impl<E: Export> Host<E> {
    /// Opens an event engine, and makes the export. Fails if the machine refuses what the engine needs.
    pub fn open(
        engine: EngineKind,
        zero_copy: Settings,
        spin: Spin,
        export: impl FnOnce(Time) -> E,
    ) -> Result<Self, Error> {
        let hosted = |now| Joined::new(Hosted { export: export(now), backends: Vec::new() });
        let driver = Driver::open(engine, zero_copy, spin, hosted).map_err(EngineFailed::opening)?;
        Ok(Self { driver, clusters: Vec::new(), mounts: Vec::new() })
    }

    /// Adds a machine that carries out the requests of devices.
    pub fn add(&mut self, backend: impl Backend + 'static) {
        self.hosted().backends.push(Box::new(backend));
    }

    /// Adds a client of a cluster. Connecting goes on while the host is driven: [`Cluster::ready`] waits for it. Of the
    /// configuration, the engine, the copies and the spinning are those of the host.
    pub fn connect(&mut self, config: &Config) -> Result<Cluster, Error> {
        let unconnected = Unconnected::new(config)?;
        let core = unconnected.core(self.driver.now());
        let cluster = unconnected.cluster(self.driver.waker(), core.figures());
        let devices = ImageDevices::new(core);
        self.clusters.push((cluster.clone(), devices.opener()));
        self.add(devices);
        Ok(cluster)
    }

    /// An image as a device of this host. It is closed when the device is dropped. Fails unless the image was opened by a
    /// [client of this host](Self::connect).
    pub fn image(&mut self, image: Image) -> Result<Rc<dyn Device>, Error> {
        let of = image.pool().cluster();
        let opener = self.clusters.iter().find(|(cluster, _)| cluster.is_same(of)).map(|(_, opener)| opener);
        let opener = opener.ok_or_else(|| {
            Error::Invalid("the image was opened by a client that this thread does not drive".into())
        })?;
        Ok(Rc::new(opener.device(image)))
    }

    /// Mounts the export of a server of NFS that a path lies in, by a client that this host drives, and gives the path in it.
    /// Of the configuration, the engine, the copies and the spinning are those of the host.
    pub fn mount(
        &mut self,
        config: &nfs::Config,
        path: impl AsRef<[u8]>,
    ) -> Result<(Mount, Vec<u8>), nfs::Error> {
        let (core, requests) = Unmounted::new(config)?.driven_by(self.driver.waker());
        let devices = FileDevices::new(core);
        let opener = devices.opener();
        self.add(devices);
        let found = self.driver.block_on(Mount::find(requests, config, path.as_ref()));
        let (mount, path) = found.map_err(EngineFailed::waiting)??;
        self.mounts.push((mount.clone(), opener));
        Ok((mount, path))
    }

    /// A file as a device of this host, of `size` bytes. Reads beyond the end of the file fail, so that a file that becomes
    /// shorter does not read as zeros. Fails unless the file was opened by a [mount of this host](Self::mount).
    pub fn file(
        &mut self,
        file: nfs::File,
        size: u64,
        read_only: bool,
    ) -> Result<Rc<dyn Device>, nfs::Error> {
        let opener =
            self.mounts.iter().find(|(mount, _)| mount.is_same(file.mount())).map(|(_, opener)| opener);
        let opener = opener.ok_or_else(|| {
            nfs::Error::Invalid("the file was opened by a client that this thread does not drive".into())
        })?;
        Ok(opener.device(file, size, read_only))
    }

    /// The export of a server of NBD as a device of this host.
    pub fn nbd(&mut self, url: &NbdUrl) -> Result<Rc<dyn Device>, NbdError> {
        let client = url.client()?;
        let (device, opened) = (client.device(), client.opened());
        self.add(client);
        let opened = self.driver.block_on(opened).map_err(|error| ClientError::Failed(error.into()));
        opened.and_then(|opened| opened).map_err(|error| url.failed(error))?;
        Ok(device)
    }

    /// The export, to be told what to serve, and the time for it. What it has to do is done with the next
    /// [`turn`](Self::turn).
    pub fn export(&mut self) -> (&mut E, Time) {
        let now = self.driver.now();
        (&mut self.hosted().export, now)
    }

    /// Moves what can be moved, and sleeps as `wait` allows if there is nothing to do. An error is one of the event
    /// engine; the host is of no use after it.
    pub fn turn(&mut self, wait: Wait) -> Result<(), Error> {
        self.driver.turn(wait).map_err(|error| EngineFailed::waiting(error).into())
    }

    /// Runs a future to its end, driving everything meanwhile. An error is one of the event engine.
    pub fn block_on<F: Future>(&mut self, future: F) -> Result<F::Output, Error> {
        self.driver.block_on(future).map_err(|error| EngineFailed::waiting(error).into())
    }

    /// Wakes the host's thread from another one.
    pub fn waker(&self) -> Waker {
        self.driver.waker()
    }

    /// The time of the host's engine.
    pub fn now(&mut self) -> Time {
        self.driver.now()
    }

    /// What its clients of clusters count, for any thread to read.
    pub fn cluster_figures(&self) -> impl Iterator<Item = ClientFigures> {
        self.clusters.iter().map(|(cluster, _)| cluster.figures())
    }

    /// What its clients of servers of files count, for any thread to read.
    pub fn mount_figures(&self) -> impl Iterator<Item = nfs::CallFigures> {
        self.mounts.iter().map(|(mount, _)| mount.figures())
    }

    /// What the engine has done so far: system calls and bytes.
    pub fn stats(&self) -> Stats {
        self.driver.stats()
    }

    fn hosted(&mut self) -> &mut Hosted<E> {
        self.driver.machine_mut().members_mut()
    }
}

impl<E: Export> Drop for Host<E> {
    /// Ends the backends. What their peers would keep of them is given up, for which at most a second is waited.
    fn drop(&mut self) {
        let now = self.driver.now();
        self.hosted().backends.iter_mut().for_each(|backend| backend.leave(now));
        let until = now + FAREWELL;
        while self.hosted().backends.iter().any(|backend| backend.is_leaving()) && self.driver.now() < until {
            if self.driver.turn(Wait::Until(until)).is_err() {
                return;
            }
        }
    }
}
