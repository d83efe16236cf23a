//! Loads on a file of a server.

use crate::Error;
use crate::load::session::{Request, Session, Target};
use crate::load::{self, Measured, Plan};
use crate::report::progress::Progress;
use onego::nfs::{
    Completed, Config, File, FileOutcome, FileRequest, Mount, Reactor, SetAttributes, Stability,
};
use onego::{SegmentMut, Wait};
use onego_metrics::Registry;
use std::sync::atomic::AtomicBool;

/// A file on a server, prepared for measurements.
pub struct Bed {
    config: Config,
    /// Path including that of the export.
    path: Vec<u8>,
    mode: String,
    size: u64,
    server: Option<u32>,
    registry: Registry,
}

impl Bed {
    /// Creates the file, which must not exist. `mode` is the access path's name in tables; `server` is the server's
    /// process, if it is a process of this machine. The clients add their metrics to the registry.
    pub fn prepare(
        config: &Config,
        path: &[u8],
        mode: &str,
        size: u64,
        server: Option<u32>,
        registry: &Registry,
    ) -> Result<Self, Error> {
        let (mut reactor, mount, below) = Reactor::mount_path(config, path)?;
        reactor.block_on(mount.create(&below, SetAttributes::default(), true))??;
        let (path, mode) = (path.to_owned(), mode.to_owned());
        let (config, registry) = (config.clone(), registry.clone());
        Ok(Self { config, path, mode, size, server, registry })
    }

    /// Removes the file.
    pub fn remove(self) -> Result<(), Error> {
        let (mut reactor, mount, below) = Reactor::mount_path(&self.config, &self.path)?;
        Ok(reactor.block_on(mount.remove(&below))??)
    }

    /// Measures the loads of a plan. Calls `each` after every load; `stop` ends the measurement early.
    pub fn measure(
        &self,
        plan: &Plan,
        progress: &Progress,
        stop: &AtomicBool,
        each: impl FnMut(&Measured),
    ) -> Result<Vec<Measured>, Error> {
        load::measure(&Measuring { bed: self, verify: plan.verify }, plan, progress, stop, each)
    }
}

struct Measuring<'a> {
    bed: &'a Bed,
    /// Read data is checked. If so, reads fill given buffers; otherwise they use memory that the client takes as bytes
    /// arrive, as libnfs does.
    verify: bool,
}

impl Target for Measuring<'_> {
    type Session = FileSession;

    fn bench(&self) -> &str {
        "nfs"
    }

    fn mode(&self) -> &str {
        &self.bed.mode
    }

    fn engine(&self) -> String {
        self.bed.config.engine.to_string()
    }

    fn size(&self) -> u64 {
        self.bed.size
    }

    fn server(&self) -> Option<u32> {
        self.bed.server
    }

    fn open(&self) -> Result<FileSession, Error> {
        let (mut reactor, mount, below) = Reactor::mount_path(&self.bed.config, &self.bed.path)?;
        let file = reactor.block_on(mount.open(&below))??;
        self.bed.registry.add(mount.figures());
        Ok(FileSession { reactor, _mount: mount, file, to_buffers: self.verify, spare: Vec::new() })
    }

    fn is_full(&self) -> Result<bool, Error> {
        Ok(self.open()?.file.opened().size == self.bed.size)
    }
}

pub(crate) struct FileSession {
    reactor: Reactor,
    /// The connection ends when its last handle is dropped.
    _mount: Mount,
    file: File,
    to_buffers: bool,
    /// Buffers of reads that do not fill them.
    spare: Vec<SegmentMut>,
}

impl Session for FileSession {
    fn has_room(&self) -> bool {
        self.reactor.has_room()
    }

    fn submit(&mut self, request: Request, tag: u64) -> Result<(), Error> {
        let request = match request {
            Request::Read { offset, buffer } if self.to_buffers => FileRequest::Read { offset, buffer },
            Request::Read { offset, buffer } => {
                let len = buffer.len();
                self.spare.push(buffer);
                FileRequest::ReadBytes { offset, len }
            }
            Request::Write { offset, data } => {
                FileRequest::Write { offset, data, stable: Stability::Unstable }
            }
        };
        self.reactor.submit(&self.file, request, tag);
        Ok(())
    }

    fn completion(&mut self) -> Option<(u64, Result<Option<SegmentMut>, Error>)> {
        let Completed { tag, outcome } = self.reactor.completion()?;
        let (result, buffer) = match outcome {
            FileOutcome::Read { result, buffer } => (result.map(|filled| filled.bytes), buffer),
            FileOutcome::Bytes(result) => (
                result.map(|(_, filled)| filled.bytes),
                self.spare.pop().unwrap_or_else(|| SegmentMut::zeroed(0)),
            ),
            FileOutcome::Done(result) => {
                return Some((tag, result.map(|()| None).map_err(|error| Error::Failed(error.to_string()))));
            }
        };
        let result = match result {
            Ok(read) if read < buffer.len() => {
                Err(Error::Failed(format!("{read} of {} bytes were read", buffer.len())))
            }
            Ok(_) => Ok(Some(buffer)),
            Err(error) => Err(Error::Failed(error.to_string())),
        };
        Some((tag, result))
    }

    fn turn(&mut self) -> Result<(), Error> {
        Ok(self.reactor.turn(Wait::Forever)?)
    }

    /// Syncs earlier writes, and truncates the file.
    fn start_over(&mut self) -> Result<(), Error> {
        let empty = SetAttributes { size: Some(0), ..SetAttributes::default() };
        Ok(self.reactor.block_on(async {
            self.file.sync().await?;
            self.file.set_attributes(empty).await
        })??)
    }

    /// Syncs earlier writes: until then the client must keep them.
    fn close(mut self) -> Result<(), Error> {
        Ok(self.reactor.block_on(self.file.sync())??)
    }
}
