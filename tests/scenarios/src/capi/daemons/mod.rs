//! Daemons and helpers of Debian that were built for Ceph's libraries. Each does the same on Ceph's library and then on
//! ours, and Ceph's programs and `onego` check the results.

mod helpers;
mod libvirt;
mod rbd_fuse;
mod tgt;

use super::library::{self, environment};
use crate::scenario::Run;
use crate::steps::ensure_pool;
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{Daemon, Sandbox, disk};
use std::process::Output;
use std::time::Duration;

/// Time a daemon gets for one thing. It takes a second.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) const CHECKS: &[(&str, Run)] = &[
    ("tgt", |sandbox| on_both(sandbox, tgt::exports)),
    ("libvirt", |sandbox| on_both(sandbox, libvirt::manages)),
    ("rbd-fuse", |sandbox| on_both(sandbox, rbd_fuse::mounts)),
    ("ganesha-rados-grace", |sandbox| on_both(sandbox, helpers::ganesha_keeps_grace)),
    ("ctdb", |sandbox| on_both(sandbox, helpers::ctdb_locks)),
];

fn on_both(sandbox: &Sandbox, check: fn(On<'_>) -> Result<()>) -> Result<()> {
    library::prepare(sandbox)?;
    ensure_pool(sandbox)?;
    disk::make(&sandbox.path("disk.raw"), 17)?;
    for library in [Library::Ceph, Library::Ours] {
        check(On { sandbox, library }).with_context(|| format!("on library {library:?}"))?;
        let left = sandbox.ceph("rbd ls")?;
        ensure!(left.is_empty(), "images are left: {left}");
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Library {
    Ceph,
    Ours,
}

/// Runs programs on one library.
#[derive(Clone, Copy)]
struct On<'a> {
    sandbox: &'a Sandbox,
    library: Library,
}

impl On<'_> {
    fn line(&self, line: &str) -> String {
        match self.library {
            Library::Ceph => line.to_owned(),
            Library::Ours => format!("env {} {line}", environment(self.sandbox)),
        }
    }

    fn run(&self, line: &str) -> Result<String> {
        self.sandbox.ceph(&self.line(line))
    }

    fn fails(&self, line: &str) -> Result<Output> {
        self.sandbox.ceph_fails(&self.line(line))
    }

    /// Starts a daemon with its output in the file [`output_of`](Self::output_of).
    fn daemon(&self, name: &str, line: &str) -> Result<Daemon> {
        let log = self.sandbox.path(self.output_of(name));
        Daemon::spawn(name, self.sandbox.ceph_daemon(&self.line(line)), &log)
    }

    fn output_of(&self, name: &str) -> String {
        format!("{name}.{:?}.out", self.library)
    }

    /// Fails unless a daemon has loaded this library and not the other.
    fn has_loaded(&self, daemon: &Daemon) -> Result<()> {
        let maps = daemon.mapped()?;
        let loaded = (maps.contains("onego/lib/lib"), maps.contains("/librados.so.2."));
        let expected = (self.library == Library::Ours, self.library == Library::Ceph);
        ensure!(loaded == expected, "ours is loaded: {}, Ceph's: {}:\n{maps}", loaded.0, loaded.1);
        Ok(())
    }
}
