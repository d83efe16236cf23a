//! Files on servers, as command lines name them.

use crate::access::Access;
use crate::failure::Failure;
use onego::nfs::{Config, Mount, Reactor};
use std::str::FromStr;

/// A file on a server: `nfs://HOST[:PORT]/EXPORT/PATH[?OPTION=VALUE&...]`.
#[derive(Debug, Clone)]
pub(crate) struct Url {
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
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The path on the server, with that of the export.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// How its server is reached.
    pub(crate) fn config(&self, access: &Access) -> Result<Config, Failure> {
        access.complete_nfs(self.config.clone())
    }

    /// Mounts the export that the file is in, and gives its path in that.
    pub(super) fn mount(&self, access: &Access) -> Result<Target, Failure> {
        let config = self.config(access)?;
        let (reactor, mount, path) = Reactor::mount_path(&config, &self.path)?;
        Ok(Target { reactor, mount, path })
    }
}

/// A file on a server that is connected to.
pub(super) struct Target {
    pub(super) reactor: Reactor,
    pub(super) mount: Mount,
    /// Within the export.
    pub(super) path: String,
}

impl Target {
    /// Does something with it.
    pub(super) fn run<T>(
        mut self,
        body: impl AsyncFnOnce(&Mount, &str) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Self { reactor, mount, path } = &mut self;
        reactor.block_on(body(mount, path))?
    }
}
