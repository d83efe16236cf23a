//! A small cluster of Ceph's daemons.

use super::{missing, output, run};
use onego_testkit::loopback::own_address;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const FSID: &str = "9a1f7a3e-0f53-4c33-8a5f-5d4d1e3f2b10";
const PORT: u16 = 3300;
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout of one request to the monitor: a client that connected during its start is replaced.
const ONE_TRY: Duration = Duration::from_secs(10);
const LOG_LINES: usize = 60;

pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    fn spawn(mut command: Command, log: PathBuf) -> Self {
        let file = File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let child = command.spawn().unwrap_or_else(|error| panic!("{}", missing(&command, &error)));
        Self { child, log }
    }

    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns whether it is running, and the end of its log, for a failure message.
    fn report(&mut self) -> String {
        let state = match self.child.try_wait() {
            Ok(None) => "runs".to_owned(),
            Ok(Some(status)) => format!("ended by itself ({status})"),
            Err(error) => format!("is in an unknown state ({error})"),
        };
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        format!("the daemon {state}; the end of {}:\n{end}", self.log.display())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // A failure means that it has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct Cluster {
    dir: TempDir,
    monitor: Daemon,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let path = dir.path().display();
        let address = own_address();
        // By default, a monitor exits when 95 percent of the disk are used, regardless of its size.
        let config = format!(
            "[global]\nfsid = {FSID}\nmon host = [v2:{address}:{PORT}/0]\n\
             public addr = {address}\ncluster addr = {address}\n\
             auth cluster required = none\nauth service required = none\nauth client required = none\n\
             keyring = {path}/keyring\nrun dir = {path}\nlog file =\nadmin socket =\n\
             osd objectstore = memstore\nosd crush chooseleaf type = 0\nosd crush update on start = false\nosd data = {path}/osd.$id\n\
             mon data = {path}/mon\nmon data avail crit = 0\nmon data avail warn = 0\nmon allow pool delete = true\n\
             paxos propose interval = 0.02\npaxos min wait = 0.01\n\
             [mon]\nlog to stderr = true\ndebug mon = 5\ndebug ms = 1\n\
             [osd]\nlog to stderr = true\n"
        );
        fs::write(dir.path().join("ceph.conf"), config).unwrap();
        fs::write(dir.path().join("keyring"), "").unwrap();
        fs::create_dir(dir.path().join("mon")).unwrap();
        let monmap = dir.path().join("monmap");
        let addrs = format!("[v2:{address}:{PORT}/0]");
        let create = ["--create", "--fsid", FSID, "--set-min-mon-release", "16", "--addv", "a", &addrs];
        run("monmaptool", &[&create[..], &[monmap.to_str().unwrap()]].concat());
        let mkfs = output(program(&dir, "ceph-mon").args(["-i", "a", "--mkfs", "--monmap"]).arg(&monmap));
        assert!(mkfs.status.success(), "{}", String::from_utf8_lossy(&mkfs.stderr));
        let monitor = daemon(&dir, "ceph-mon", "a");
        let mut cluster = Self { dir, monitor };
        cluster.wait_for_monitor();
        cluster
    }

    fn wait_for_monitor(&mut self) {
        let begin = Instant::now();
        loop {
            let tried = output(ceph(&self.dir, ONE_TRY).args(["mon", "stat"]));
            if tried.status.success() {
                return;
            }
            let may_wait = begin.elapsed() < PATIENCE && self.monitor.is_running();
            let said = String::from_utf8_lossy(&tried.stderr);
            assert!(may_wait, "the monitor does not answer: {said}\n{}", self.monitor.report());
        }
    }

    pub(crate) fn start_osd(&mut self, id: &str, uuid: &str) -> Daemon {
        fs::create_dir_all(self.dir.path().join(format!("osd.{id}"))).unwrap();
        let mkfs = output(program(&self.dir, "ceph-osd").args(["-i", id, "--mkfs", "--osd-uuid", uuid]));
        assert!(mkfs.status.success(), "{}", String::from_utf8_lossy(&mkfs.stderr));
        let mut daemon = daemon(&self.dir, "ceph-osd", id);
        let begin = Instant::now();
        while !self.ceph(&["osd stat"]).contains(" 1 up") {
            let may_wait = begin.elapsed() < PATIENCE && daemon.is_running();
            assert!(may_wait, "osd.{id} does not come up: {}", daemon.report());
        }
        daemon
    }

    /// Runs commands with Ceph's client. They may fail: only their changes matter.
    pub(crate) fn ceph(&mut self, commands: &[&str]) -> String {
        let mut command = ceph(&self.dir, PATIENCE);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}", missing(&command, &error)));
        let lines = commands.join("\n") + "\n";
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "ceph does not end (installed from ceph-common?): {}: {text}\n{}",
            output.status,
            self.monitor.report()
        );
        text.into_owned()
    }

    /// Stops the monitor and returns the directory of its store, which lives as long as this value.
    pub(crate) fn stop_monitor(&mut self) -> PathBuf {
        // Acknowledged changes are in the store.
        let _ = self.monitor.child.kill();
        let _ = self.monitor.child.wait();
        self.dir.path().join("mon/store.db")
    }
}

fn program(dir: &TempDir, name: &str) -> Command {
    let mut command = Command::new(name);
    command.arg("-c").arg(dir.path().join("ceph.conf"));
    command
}

fn daemon(dir: &TempDir, name: &str, id: &str) -> Daemon {
    let mut command = program(dir, name);
    command.args(["-f", "-i", id]);
    Daemon::spawn(command, dir.path().join(format!("{name}.{id}.log")))
}

/// Ceph's client, which is killed after that time.
fn ceph(dir: &TempDir, limit: Duration) -> Command {
    let mut command = Command::new("timeout");
    command.arg(limit.as_secs().to_string()).args(["ceph", "-c"]).arg(dir.path().join("ceph.conf"));
    command
}
