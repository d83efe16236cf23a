//! An embedded cluster in a process of its own, so that its CPU time is told apart.

use crate::Error;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The line that `onego cluster start` prints when the cluster serves starts with this.
pub const READY: &str = "ready:";

/// The option of `onego cluster start` that makes it end when whoever started it does, in whatever way that is.
pub const DIE_WITH_PARENT: &str = "--die-with-parent";

/// A running cluster. It ends with this.
pub struct EmbeddedCluster {
    child: Child,
    directory: tempfile::TempDir,
}

impl EmbeddedCluster {
    /// Starts `program cluster start` with these options, and waits until it serves.
    pub fn start(program: &Path, options: &[String]) -> Result<Self, Error> {
        let directory =
            tempfile::Builder::new().prefix("onego-").tempdir().map_err(Error::io("making a directory"))?;
        let failed = || format!("starting {} cluster start", program.display());
        let mut child = Command::new(program)
            .args(["cluster", "start", DIE_WITH_PARENT, "--listen", "127.0.0.1:0", "--conf-dir"])
            .arg(directory.path())
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // An interrupt at the terminal is for whoever uses the cluster, and still needs it to clean up.
            .process_group(0)
            .spawn()
            .map_err(Error::io(failed()))?;
        let stdout = child.stdout.take();
        let cluster = Self { child, directory };
        let ready = BufReader::new(
            stdout.ok_or(io::ErrorKind::BrokenPipe).map_err(|e| Error::io(failed())(e.into()))?,
        )
        .lines()
        .map_while(Result::ok)
        .any(|line| line.starts_with(READY));
        match ready {
            true => Ok(cluster),
            false => {
                Err(Error::Unfit("the embedded cluster ended before it was ready; it says why above".into()))
            }
        }
    }

    /// Its `ceph.conf`.
    pub fn conf(&self) -> PathBuf {
        self.directory.path().join("ceph.conf")
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for EmbeddedCluster {
    fn drop(&mut self) {
        // It keeps nothing, so there is nothing that it would have to end in order for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
