//! Embedded servers in their own processes, so that their CPU time is measured separately.

use crate::Error;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Prefix of the line that a server of `onego` prints when it is ready.
pub const READY: &str = "ready:";

/// Option of an `onego` server that ends it with the process that started it, however that ends.
pub const DIE_WITH_PARENT: &str = "--die-with-parent";

struct Running(Child);

impl Running {
    /// Starts `program` with these arguments and waits until it is ready. Returns the value that `ready` finds in a
    /// line of its output.
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
            // A pipe that is closed at once instead of /dev/null: containers may lack that device.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // An interrupt at the terminal is for the parent process, which still needs the server to clean up.
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
            || Error::Unfit("the embedded server ended before it was ready; see its messages above".into());
        Ok((running, said.ok_or_else(early)?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It is stateless, so there is nothing to shut down.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running cluster, killed when this is dropped.
pub struct EmbeddedCluster {
    running: Running,
    directory: tempfile::TempDir,
}

impl EmbeddedCluster {
    /// Starts `program cluster start` with these options, and waits until it is ready.
    pub fn start(program: &Path, options: &[String]) -> Result<Self, Error> {
        let directory =
            tempfile::Builder::new().prefix("onego-").tempdir().map_err(Error::io("making a directory"))?;
        let place = directory.path().to_string_lossy();
        let arguments = ["cluster", "start", "--listen", "127.0.0.1:0", "--conf-dir", &place];
        let ready = |line: &str| line.strip_prefix(READY).map(drop);
        let (running, ()) = Running::start(program, &arguments, options, ready)?;
        Ok(Self { running, directory })
    }

    /// Returns the path of its `ceph.conf`.
    pub fn conf(&self) -> PathBuf {
        self.directory.path().join("ceph.conf")
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.running.0.id()
    }
}

/// A running in-memory file server, over TCP and RDMA, killed when this is dropped.
pub struct EmbeddedFiles {
    running: Running,
    said: Files,
}

#[derive(serde::Deserialize)]
struct Files {
    url: String,
    rdma_port: u16,
}

impl EmbeddedFiles {
    /// Starts `program nfs serve --mem` with these options, and waits until it is ready.
    pub fn start(program: &Path, options: &[String]) -> Result<Self, Error> {
        let arguments =
            ["nfs", "serve", "--mem", "--insecure", "--tcp", "0", "--rdma", "0", "--format", "json"];
        let ready = |line: &str| serde_json::from_str(line).ok();
        let (running, said) = Running::start(program, &arguments, options, ready)?;
        Ok(Self { running, said })
    }

    /// Returns the export's URL.
    pub fn url(&self) -> &str {
        &self.said.url
    }

    /// Returns the port for RDMA.
    pub fn rdma_port(&self) -> u16 {
        self.said.rdma_port
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.running.0.id()
    }
}
