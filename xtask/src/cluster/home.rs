//! Where everything that clusters need lies.

use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs::{self, File};
use std::path::PathBuf;

/// The folder of all stages, for one run of xtask at a time.
///
/// Stages have fixed folders in it, so that the logs of a failure are easily found; two runs would share them.
pub(crate) struct Home {
    folder: PathBuf,
    _lock: File,
}

impl Home {
    /// Waits until no other run has the folder.
    pub(crate) fn enter(workspace: &Workspace) -> Result<Self> {
        let folder = workspace.target_directory.join("interop");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let lock = File::create(folder.join("lock"))?;
        lock.lock().context("cannot lock the folder of the interop tests")?;
        Ok(Self { folder, _lock: lock })
    }

    /// The folder of one stage or of what they share.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}
