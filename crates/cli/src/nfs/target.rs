//! Files on servers, as command lines name them.

use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt::say;
use onego::nfs::{Config, Mount, Reactor};
use std::future::poll_fn;
use std::pin::pin;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// A file on a server: `nfs://HOST[:PORT]/EXPORT/PATH[?OPTION=VALUE&...]`.
#[derive(Debug, Clone)]
pub(super) struct Url {
    text: String,
    config: Config,
    path: String,
}

impl FromStr for Url {
    type Err = onego::nfs::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (config, path) = Config::from_url(text)?;
        Ok(Self { text: text.to_owned(), config, path })
    }
}

impl Url {
    /// As it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The path on the server, with that of the export.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Mounts the export that the file is in, and gives its path in that.
    pub(super) fn mount(&self, access: &Access) -> Result<Target, Failure> {
        let config = access.complete_nfs(self.config.clone())?;
        let patience = self.patience();
        let (reactor, mount, path) = patience.run(|| Reactor::mount_path(&config, &self.path))?;
        Ok(Target { reactor, mount, path, patience })
    }

    /// Says that the server is waited for.
    pub(super) fn patience(&self) -> Patience {
        Patience::new(self.server())
    }

    /// The server, with its port if there is one.
    fn server(&self) -> &str {
        let behind = self.text.split_once("://").map_or(self.text.as_str(), |(_, behind)| behind);
        behind.split(['/', '?']).next().unwrap_or(behind)
    }
}

/// Waiting that takes less is not worth a word.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often it is looked at how long something takes.
const LOOK: Duration = Duration::from_millis(250);

/// Says that a server is waited for, once it has not answered for [`PATIENCE`].
pub(super) struct Patience {
    clock: Arc<WaitClock>,
    /// Ends the thread that looks.
    _end: mpsc::Sender<()>,
}

/// Since when an answer is waited for.
struct WaitClock {
    start: Instant,
    /// Milliseconds from `start`, and one more; 0: nothing is waited for.
    since: AtomicU64,
}

impl WaitClock {
    fn millis(&self) -> u64 {
        self.start.elapsed().as_millis() as u64 + 1
    }

    fn begin(&self) {
        self.since.store(self.millis(), Ordering::Relaxed);
    }

    fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// Speaks once of each wait that is too long, until nobody is left who waits.
    fn look(&self, server: &str, end: &mpsc::Receiver<()>) {
        let mut told = 0;
        while end.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            let since = self.since.load(Ordering::Relaxed);
            if since > told && self.millis().saturating_sub(since) >= PATIENCE.as_millis() as u64 {
                told = since;
                say(&format!("waiting for the server {server}, which has not answered for 2 s"));
            }
        }
    }
}

impl Patience {
    fn new(server: &str) -> Self {
        let clock = Arc::new(WaitClock { start: Instant::now(), since: AtomicU64::new(0) });
        let (end, ended) = mpsc::channel();
        let (looking, server) = (Arc::clone(&clock), server.to_owned());
        // Without a thread nothing is said, which is not worth failing for.
        drop(thread::Builder::new().spawn(move || looking.look(&server, &ended)));
        Self { clock, _end: end }
    }

    /// Does something that waits for the server.
    fn run<T>(&self, body: impl FnOnce() -> T) -> T {
        self.clock.begin();
        let result = body();
        self.clock.end();
        result
    }

    /// Waits for something that the server does. Each answer begins another wait.
    pub(super) async fn heed<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let output = poll_fn(|context| {
            self.clock.begin();
            future.as_mut().poll(context)
        });
        let output = output.await;
        self.clock.end();
        output
    }
}

/// A file on a server that is connected to.
pub(super) struct Target {
    pub(super) reactor: Reactor,
    pub(super) mount: Mount,
    /// Within the export.
    pub(super) path: String,
    patience: Patience,
}

impl Target {
    /// Does something with it.
    pub(super) fn run<T>(
        mut self,
        body: impl AsyncFnOnce(&Mount, &str) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Self { reactor, mount, path, patience } = &mut self;
        reactor.block_on(patience.heed(body(mount, path)))?
    }
}
