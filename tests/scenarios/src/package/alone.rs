//! The static program in a root without any other file, and its start time.

use super::{pack, program};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{ADDRESS, Daemon, Sandbox, disk, sh};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time a server gets to start.
const START: Duration = Duration::from_secs(10);

/// Most CPU time of `onego --version`. Elapsed time would include the load of other scenarios.
const VERSION: Duration = Duration::from_millis(5);

/// Longest time until a cluster serves.
const CLUSTER: Duration = Duration::from_millis(50);

/// Measurements, of which the shortest counts: other load only makes them longer.
const TRIES: usize = 40;

/// Uses the program alone as a cluster and as an NFS server.
pub(super) fn runs(sandbox: &Sandbox) -> Result<()> {
    let program = program(sandbox, &pack(sandbox)?)?;
    fs::create_dir(sandbox.path("root"))?;
    fs::copy(&program, sandbox.path("root/onego"))?;
    let in_root = |line: &str| sandbox.host_command("chroot", &format!("root /onego {line}"));
    let version = sh::text(&mut in_root("--version"))?;
    ensure!(version.starts_with("onego "), "`onego --version` prints {version}");
    disk::make(&sandbox.path("disk.raw"), 1)?;

    let line = format!("cluster start --listen {ADDRESS}:3300 --conf-dir /");
    let mut cluster = Daemon::spawn("cluster", in_root(&line), &sandbox.path("cluster.log"))?;
    let conf = sandbox.path("root/ceph.conf");
    cluster.wait_until("ceph.conf", START, || conf.exists())?;
    sandbox.onego("-c root/ceph.conf rbd import disk.raw rbd/disk")?;
    sandbox.onego("-c root/ceph.conf rbd export rbd/disk back.raw")?;
    disk::compare(&sandbox.path("disk.raw"), &sandbox.path("back.raw"))?;

    let line = format!("nfs serve --mem --listen {ADDRESS} --allow {ADDRESS}/32");
    let mut nfs = Daemon::spawn("nfs", in_root(&line), &sandbox.path("nfs.log"))?;
    nfs.wait_until("line `ready:`", START, || {
        sandbox.read("nfs.log").is_ok_and(|said| said.contains("ready:"))
    })?;
    sandbox.onego(&format!("nfs cp disk.raw nfs://{ADDRESS}/export/disk.raw"))?;
    sandbox.onego(&format!("nfs cp nfs://{ADDRESS}/export/disk.raw again.raw"))?;
    disk::compare(&sandbox.path("disk.raw"), &sandbox.path("again.raw"))?;

    let version = shortest(|| version_time(&program))?;
    let cluster = shortest(|| cluster_time(&program))?;
    eprintln!("version after {version:?}, cluster after {cluster:?}");
    ensure!(version <= VERSION, "`onego --version` takes {version:?} of CPU time, more than {VERSION:?}");
    ensure!(cluster <= CLUSTER, "a cluster serves after {cluster:?}, later than {CLUSTER:?}");
    Ok(())
}

fn shortest(measure: impl Fn() -> Result<Duration>) -> Result<Duration> {
    (0..TRIES).try_fold(Duration::MAX, |shortest, _| Ok(shortest.min(measure()?)))
}

/// Returns the CPU time of `onego --version` as the scheduler counts it for its one thread.
fn version_time(program: &Path) -> Result<Duration> {
    let mut child = Command::new(program).arg("--version").stdout(Stdio::null()).spawn()?;
    // The counters can be read until the process has been waited for.
    waitid(WaitId::Pid(Pid::from_child(&child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let counters = fs::read_to_string(format!("/proc/{}/schedstat", child.id()))?;
    ensure!(child.wait()?.success(), "`onego --version` fails");
    let nanos = counters.split_whitespace().next().context("the scheduler has counted nothing")?;
    Ok(Duration::from_nanos(nanos.parse()?))
}

/// Returns the time until a cluster serves, which is then ended by a signal that lets it remove its files.
fn cluster_time(program: &Path) -> Result<Duration> {
    let start = Instant::now();
    let mut command = Command::new(program);
    command.args(["cluster", "start", "--die-with-parent"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("the cluster has no output")?).lines();
    ensure!(lines.any(|line| line.is_ok_and(|line| line.starts_with("ready:"))), "no cluster serves");
    let time = start.elapsed();
    kill_process(Pid::from_child(&child), Signal::TERM)?;
    child.wait()?;
    Ok(time)
}
