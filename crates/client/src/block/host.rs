use super::file::{FileDevices, FileOpener};
use super::image::{ImageDevices, ImageOpener};
use super::nbd::{NbdError, NbdUrl};
use crate::ceph::{Config, Error};
use crate::driver::Driver;
use crate::nfs::{self, Mount, Unmounted};
use crate::rados::{ClientFigures, Cluster, Unconnected};
use crate::rbd::Image;
use crate::reactor::{EngineFailed, SHUTDOWN_TIMEOUT};
use onego_block::{Backend, Device, Export};
use onego_engine::zero_copy::Settings;
use onego_engine::{EngineKind, Spin, Stats, Wait, Waker};
use onego_nbd::client::ClientError;
use onego_wire::{Joined, Machine, Members, Time};
use std::rc::Rc;

/// An export and the backends of its devices, driven as one machine by the thread that owns it: no second thread, no
/// wake-ups and no locks on a request's path from the export's connection to the cluster's.
///
/// To use several processors, run one host on each of several threads.
pub struct Host<E: Export> {
    driver: Driver<Joined<Hosted<E>>>,
    clusters: Vec<(Cluster, ImageOpener)>,
    mounts: Vec<(Mount, FileOpener)>,
}

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
    /// Opens an event engine and creates the export. Fails if the system refuses resources to the engine.
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

    /// Adds a machine that executes the requests of devices.
    pub fn add(&mut self, backend: impl Backend + 'static) {
        self.hosted().backends.push(Box::new(backend));
    }

    /// Adds a cluster client, which connects while the host is driven; [`Cluster::ready`] waits for that. The host's
    /// engine, zero-copy rule and spinning override those of the configuration.
    pub fn connect(&mut self, config: &Config) -> Result<Cluster, Error> {
        let unconnected = Unconnected::new(config)?;
        let core = unconnected.core(self.driver.now());
        let cluster = unconnected.cluster(self.driver.waker(), core.figures());
        let devices = ImageDevices::new(core);
        self.clusters.push((cluster.clone(), devices.opener()));
        self.add(devices);
        Ok(cluster)
    }

    /// Returns an image as a device of this host. Dropping the device closes it. Fails unless the image was opened by
    /// a [client of this host](Self::connect).
    pub fn image(&mut self, image: Image) -> Result<Rc<dyn Device>, Error> {
        let of = image.pool().cluster();
        let opener = self.clusters.iter().find(|(cluster, _)| cluster.is_same(of)).map(|(_, opener)| opener);
        let opener = opener.ok_or_else(|| {
            Error::Invalid("the image was opened by a client that this thread does not drive".into())
        })?;
        Ok(Rc::new(opener.device(image)))
    }

    /// Mounts the export of an NFS server that contains a path, with a client that this host drives, and returns the
    /// path within it. The host's engine, zero-copy rule and spinning override those of the configuration.
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

    /// Returns a file as a device of `size` bytes on this host. Reads past the end of the file fail, so that a
    /// truncated file does not read as zeros. Fails unless the file was opened by a [mount of this
    /// host](Self::mount).
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

    /// Returns the export of an NBD server as a device of this host.
    pub fn nbd(&mut self, url: &NbdUrl) -> Result<Rc<dyn Device>, NbdError> {
        let client = url.client()?;
        let (device, opened) = (client.device(), client.opened());
        self.add(client);
        let opened = self.driver.block_on(opened).map_err(|error| ClientError::Failed(error.into()));
        opened.and_then(|opened| opened).map_err(|error| url.failed(error))?;
        Ok(device)
    }

    /// Returns the export, to configure what it serves, and the time to pass to it. Work that this causes is done
    /// with the next [`turn`](Self::turn).
    pub fn export(&mut self) -> (&mut E, Time) {
        let now = self.driver.now();
        (&mut self.hosted().export, now)
    }

    /// Processes all pending work, and sleeps as `wait` allows if there is none. Fails if the event engine fails; the
    /// host is then unusable.
    pub fn turn(&mut self, wait: Wait) -> Result<(), Error> {
        self.driver.turn(wait).map_err(|error| EngineFailed::waiting(error).into())
    }

    /// Runs a future to completion while driving the host. Fails if the event engine fails.
    pub fn block_on<F: Future>(&mut self, future: F) -> Result<F::Output, Error> {
        self.driver.block_on(future).map_err(|error| EngineFailed::waiting(error).into())
    }

    /// Returns a waker of the host's thread for other threads.
    pub fn waker(&self) -> Waker {
        self.driver.waker()
    }

    /// Returns the time of the host's engine.
    pub fn now(&mut self) -> Time {
        self.driver.now()
    }

    /// Returns the counters of the cluster clients, readable from any thread.
    pub fn cluster_figures(&self) -> impl Iterator<Item = ClientFigures> {
        self.clusters.iter().map(|(cluster, _)| cluster.figures())
    }

    /// Returns the counters of the NFS clients, readable from any thread.
    pub fn mount_figures(&self) -> impl Iterator<Item = nfs::CallFigures> {
        self.mounts.iter().map(|(mount, _)| mount.figures())
    }

    /// Returns the engine's counters of system calls and bytes.
    pub fn stats(&self) -> Stats {
        self.driver.stats()
    }

    fn hosted(&mut self) -> &mut Hosted<E> {
        self.driver.machine_mut().members_mut()
    }
}

impl<E: Export> Drop for Host<E> {
    /// Shuts the backends down; waits at most a second to release their peers' state.
    fn drop(&mut self) {
        let now = self.driver.now();
        self.hosted().backends.iter_mut().for_each(|backend| backend.leave(now));
        let until = now + SHUTDOWN_TIMEOUT;
        while self.hosted().backends.iter().any(|backend| backend.is_leaving()) && self.driver.now() < until {
            if self.driver.turn(Wait::Until(until)).is_err() {
                return;
            }
        }
    }
}
