//! Embedded servers in processes of their own, so that their CPU time is told apart.

use crate::Error;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The line that a server of `onego` prints when it serves starts with this.
pub const READY: &str = "ready:";

/// The option of a server of `onego` that makes it end when the process that started it ends, in whatever way.
pub const DIE_WITH_PARENT: &str = "--die-with-parent";

/// A server that runs. It ends with this.
struct Running(Child);

impl Running {
    /// Starts `program` with these arguments, waits until it serves, and gives what it says then, as `ready` finds it in a
    /// line.
    fn start<T>(
        program: &Path,
        arguments: &[&str],
        options: &[String],
        ready: impl Fn(&str) -> Option<T>,
    ) -> Result<(Self, T), Error> {
        let failed = || format!("starting {} {}", program.display(), arguments.join(" "));
        let mut child = Command::new(program)
            .args(arguments)
            .arg(DIE_WITH_PARENT)
            .args(options)
            // A pipe that is closed at once, where /dev/null would be needed: containers may have no such device.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // An interrupt at the terminal is for the process that uses the server, and still needs it to clean up.
            .process_group(0)
            .spawn()
            .map_err(Error::io(failed()))?;
        drop(child.stdin.take());
        let stdout = child.stdout.take();
        let running = Self(child);
        let stdout = stdout.ok_or(io::ErrorKind::BrokenPipe).map_err(|e| Error::io(failed())(e.into()))?;
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let said = lines.find_map(|line| ready(&line));
        let early =
            || Error::Unfit("the embedded server ended before it was ready; it says why above".into());
        Ok((running, said.ok_or_else(early)?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It keeps nothing, so there is nothing that it would have to end in order for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running cluster. It ends with this.
pub struct EmbeddedCluster {
    running: Running,
    directory: tempfile::TempDir,
}

impl EmbeddedCluster {
    /// Starts `program cluster start` with these options, and waits until it serves.
    pub fn start(program: &Path, options: &[String]) -> Result<Self, Error> {
        let directory =
            tempfile::Builder::new().prefix("onego-").tempdir().map_err(Error::io("making a directory"))?;
        let place = directory.path().to_string_lossy();
        let arguments = ["cluster", "start", "--listen", "127.0.0.1:0", "--conf-dir", &place];
        let ready = |line: &str| line.strip_prefix(READY).map(drop);
        let (running, ()) = Running::start(program, &arguments, options, ready)?;
        Ok(Self { running, directory })
    }

    /// Its `ceph.conf`.
    pub fn conf(&self) -> PathBuf {
        self.directory.path().join("ceph.conf")
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.running.0.id()
    }
}

/// A running server of files in memory, over TCP and over RDMA. It ends with this.
pub struct EmbeddedFiles {
    running: Running,
    said: Files,
}

/// What the server says of itself.
#[derive(serde::Deserialize)]
struct Files {
    url: String,
    rdma_port: u16,
}

impl EmbeddedFiles {
    /// Starts `program nfs serve --mem` with these options, and waits until it serves.
    pub fn start(program: &Path, options: &[String]) -> Result<Self, Error> {
        let arguments =
            ["nfs", "serve", "--mem", "--insecure", "--tcp", "0", "--rdma", "0", "--format", "json"];
        let ready = |line: &str| serde_json::from_str(line).ok();
        let (running, said) = Running::start(program, &arguments, options, ready)?;
        Ok(Self { running, said })
    }

    /// What it serves.
    pub fn url(&self) -> &str {
        &self.said.url
    }

    /// Where it serves it over RDMA.
    pub fn rdma_port(&self) -> u16 {
        self.said.rdma_port
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.running.0.id()
    }
}
