//! Programs that find one library or the other.

use super::super::library::environment;
use crate::cluster::Stage;
use crate::cluster::process::Daemon;
use anyhow::{Result, ensure};
use std::process::Output;
use std::time::Duration;

/// How long a daemon may take to do what it is asked. It takes a second.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Whose library programs find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Library {
    Ceph,
    Ours,
}

/// A run of programs on one library.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) stage: &'a Stage,
    /// What its programs find.
    pub(super) on: Library,
}

impl Run<'_> {
    /// A line with the library that it is to find.
    pub(super) fn line(&self, line: &str) -> String {
        match self.on {
            Library::Ceph => line.to_owned(),
            Library::Ours => format!("env {} {line}", environment(self.stage)),
        }
    }

    /// Runs a line that is to succeed, and returns what it printed.
    pub(super) fn run(&self, line: &str) -> Result<String> {
        self.stage.ceph(&self.line(line))
    }

    /// Runs a line that is to fail.
    pub(super) fn fails(&self, line: &str) -> Result<Output> {
        self.stage.ceph_fails(&self.line(line))
    }

    /// Starts a daemon, with what it says in a file with its name and the library's.
    pub(super) fn daemon(&self, name: &str, line: &str) -> Result<Daemon> {
        Daemon::spawn(
            name,
            self.stage.ceph_daemon(&self.line(line)),
            &self.stage.path(&format!("{name}.{:?}.out", self.on)),
        )
    }

    /// An error unless a daemon has loaded the library that it is to use, and no other.
    pub(super) fn has_loaded(&self, daemon: &Daemon) -> Result<()> {
        let maps = daemon.mapped()?;
        let (ours, theirs) = (maps.contains("onego/lib/lib"), maps.contains("/librados.so.2."));
        let expected = (self.on == Library::Ours, self.on == Library::Ceph);
        ensure!((ours, theirs) == expected, "ours is loaded: {ours}, Ceph's: {theirs}:\n{maps}");
        Ok(())
    }
}
