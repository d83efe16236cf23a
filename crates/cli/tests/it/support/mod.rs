//! Running the program as people do.

pub(crate) mod other_server;

use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const ONEGO: &str = env!("CARGO_BIN_EXE_onego");

/// A folder that commands run in, gone at the end.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    cluster: Option<Child>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), cluster: None }
    }

    /// A place with a cluster that the commands find by themselves, as they find any `ceph.conf` where they run.
    pub(crate) fn with_cluster(options: &str) -> Self {
        let mut place = Self::new();
        let line = format!("cluster start --die-with-parent --conf-dir . {options}");
        let mut child = place.command(&line).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        place.cluster = Some(child);
        assert!(
            lines.map_while(Result::ok).any(|line| line.starts_with("ready: ")),
            "the cluster does not start"
        );
        let conf = place.path("ceph.conf");
        if let Ok(mut text) = fs::read_to_string(&conf) {
            // Images of programs that were killed are free sooner.
            text += "osd_client_watch_timeout = 10\n";
            fs::write(&conf, text).unwrap();
        }
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with the words of a line as its arguments.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(ONEGO);
        command.args(line.split_whitespace()).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env_remove("CEPH_CONF").env_remove("RUST_LOG");
        command
    }

    /// Runs a line that is to succeed, and returns what it prints.
    pub(crate) fn onego(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        assert!(output.status.success(), "onego {line}: {}\n{}", output.status, text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs a line with bytes as its standard input, and returns what it prints.
    pub(crate) fn onego_with_input(&self, line: &str, input: &[u8]) -> Output {
        let mut command = self.command(line);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }

    /// Runs a line that is to fail, and returns its code and what it says.
    pub(crate) fn onego_fails(&self, line: &str) -> (i32, String) {
        let output = self.command(line).output().unwrap();
        assert!(!output.status.success(), "onego {line} was to fail, and printed\n{}", text(&output.stdout));
        (output.status.code().expect("it was killed"), text(&output.stderr))
    }

    /// Lets the cluster stand still, or go on.
    pub(crate) fn signal_cluster(&self, name: Signal) {
        signal(self.cluster.as_ref().unwrap(), name);
    }

    /// Bytes of memory that the cluster has.
    pub(crate) fn cluster_memory(&self) -> u64 {
        let pid = self.cluster.as_ref().unwrap().id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Ends the cluster as an interrupt at the terminal does, and says how it ended.
    pub(crate) fn stop_cluster(&mut self) -> Option<i32> {
        let mut child = self.cluster.take().unwrap();
        interrupt(&child);
        child.wait().unwrap().code()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(mut cluster) = self.cluster.take() {
            let _ = cluster.kill();
            let _ = cluster.wait();
        }
    }
}

/// An NFS server in the background.
pub(crate) struct FileServer {
    child: Child,
    said: serde_json::Value,
}

impl FileServer {
    /// Serves memory at a port that the system chooses, unless the options say more.
    pub(crate) fn start(place: &Place, options: &str) -> Self {
        Self::serve(place, &format!("--mem {options}"))
    }

    /// Serves a directory of the place, whose files then have a name here, too.
    pub(crate) fn of_directory(place: &Place, name: &str) -> Self {
        Self::serve(place, &format!("{name} --squash none"))
    }

    fn serve(place: &Place, what: &str) -> Self {
        let line = format!("nfs serve {what} --insecure --tcp 0 --format json --die-with-parent");
        let mut child = place.command(&line).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        Self { child, said: serde_json::from_str(&said).unwrap() }
    }

    /// The port that it has printed under that name.
    pub(crate) fn port(&self, name: &str) -> u16 {
        let port = self.said[name].as_u64().unwrap_or_else(|| panic!("no {name}: {}", self.said));
        port.try_into().unwrap()
    }

    /// URL of a file by its path in the export.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("nfs://127.0.0.1:{}/export/{path}", self.port("port"))
    }

    pub(crate) fn signal(&self, name: Signal) {
        signal(&self.child, name);
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints UTF-8")
}

/// Asks a process to end, as an interrupt at the terminal does.
pub(crate) fn interrupt(child: &Child) {
    signal(child, Signal::INT);
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
}

/// Blocks of a file that take room.
pub(crate) fn allocated(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).unwrap().blocks() * 512
}
