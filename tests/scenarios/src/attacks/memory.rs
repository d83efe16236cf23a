//! Attacks on the memory of servers with their default bounds.

use crate::steps::json;
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{ADDRESS, Daemon, Memory, Sandbox, Server};
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// Memory in MiB that the allocator keeps, and pages and tables besides the counted buffers.
const SLACK: u64 = 32;

/// Longest wait of an honest client on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time an attack gets until it holds the memory.
const START: Duration = Duration::from_secs(120);

/// A function of `memory.py`, and the memory in MiB that the server may gain, by the table "What clients may hold"
/// (docs/design/admission.md): parts for large messages, for unfinished ones, and for data received ahead.
type Attack = (&'static str, u64);

const ON_NFS: [Attack; 5] = [
    ("fragments", 64),
    ("half_records", 68 + 64),
    ("nfs_replies", 256),
    ("nfs_idle", 64),
    ("slow_writes", 68 + 64),
];

const ON_CLUSTER: [Attack; 8] = [
    ("announced", 64),
    ("half_sent", 64 + 128),
    ("slow_payloads", 64 + 128),
    ("single_bytes", 128),
    ("too_large", 64),
    ("osd_replies", 256),
    ("osd_idle", 256),
    ("notified", 64 + 64),
];

/// Attacks servers of a directory and of memory.
pub(super) fn of_nfs_servers(sandbox: &Sandbox) -> Result<()> {
    super::prepare(sandbox)?;
    fs::create_dir(sandbox.path("export"))?;
    for served in ["export", "--mem"] {
        // The attackers have more connections than there are privileged ports.
        let mut server = Server::nfs(sandbox, &format!("{served} --squash none --insecure"))?;
        let line = format!("python3 memory.py serve_honest {ADDRESS} 2049");
        let log = sandbox.path(format!("honest {served}.out"));
        let mut honest = Daemon::spawn_with_input("honest client", sandbox.tool_daemon(&line), &log)?;
        let mut served_before = 0;
        let mut serve = || {
            honest.write("\n")?;
            served_before += 1;
            let served = || fs::read_to_string(&log).is_ok_and(|said| said.lines().count() == served_before);
            honest.wait_until("reply", PATIENCE * 6, served)
        };
        // The memory that serves this client is allocated before anything is measured.
        (0..8).try_for_each(|_| serve())?;
        let target = format!("{ADDRESS} 2049");
        ON_NFS.iter().try_for_each(|attack| measure(sandbox, &mut server, &target, *attack, &mut serve))?;
        server.stop()?;
    }
    Ok(())
}

/// Attacks an OSD of the embedded cluster.
pub(super) fn of_cluster(sandbox: &Sandbox) -> Result<()> {
    super::prepare(sandbox)?;
    let mut cluster = Server::cluster(sandbox, "")?;
    let map = json(&sandbox.ceph("ceph osd dump --format json")?)?;
    let addresses =
        map["osds"][0]["public_addrs"]["addrvec"].as_array().context("the OSD has no addresses")?;
    let address = addresses.iter().find(|address| address["type"] == "v1");
    let address =
        address.and_then(|address| address["addr"].as_str()).context("the OSD has no v1 address")?;
    let target = format!("{} {}", address.replace(':', " "), map["epoch"]);
    let content = vec![7; MIB as usize];
    sandbox.write("file", &content)?;
    // Writes a file to an image, reads it back and removes it, each by a process.
    let mut serve = || {
        sandbox.onego("-c ceph.conf rbd import --no-progress file image")?;
        sandbox.onego("-c ceph.conf rbd export --no-progress image copy")?;
        sandbox.onego("-c ceph.conf rbd rm --no-progress image")?;
        ensure!(fs::read(sandbox.path("copy"))? == content, "the honest client reads other bytes");
        Ok(fs::remove_file(sandbox.path("copy"))?)
    };
    serve()?;
    ON_CLUSTER.iter().try_for_each(|attack| measure(sandbox, &mut cluster, &target, *attack, &mut serve))?;
    cluster.stop()
}

/// Attacks a server and checks its memory, while the honest client is served.
fn measure(
    sandbox: &Sandbox,
    server: &mut Server,
    target: &str,
    (name, bound): Attack,
    serve: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let memory = server.daemon().memory();
    let before = settled(&memory)?;
    memory.reset_peak()?;
    let line = format!("prlimit --nofile=12000 python3 memory.py {name} {target}");
    let log = sandbox.path("attack.out");
    fs::write(&log, "")?;
    let mut attacker = Daemon::spawn(name, sandbox.tool_daemon(&line), &log)?;
    attacker.wait_until("line `holding`", START, || {
        fs::read_to_string(&log).is_ok_and(|said| said.starts_with("holding"))
    })?;
    // Slow attacks last 6 s.
    let time = Duration::from_secs(if name.starts_with("slow") { 6 } else { 1 });
    let (start, mut longest) = (Instant::now(), Duration::ZERO);
    while start.elapsed() < time {
        let start = Instant::now();
        serve().with_context(|| format!("{name}: the honest client is not served"))?;
        longest = longest.max(start.elapsed());
    }
    attacker.check_alive()?;
    server.daemon().check_alive()?;
    let [before, now, peak] = [before, memory.now()?, memory.peak()?].map(|bytes| bytes / MIB);
    println!(
        "{name}: {before} MiB before, {now} at the end, {peak} at most; an honest client waited {longest:?}"
    );
    ensure!(longest < PATIENCE, "{name}: the honest client waited {longest:?}");
    let (gained, most) = (peak.saturating_sub(before), bound + SLACK);
    ensure!(gained <= most, "{name}: the server gained {gained} MiB, more than {most} MiB");
    Ok(())
}

/// Returns the memory once the server has freed what earlier connections held.
fn settled(memory: &Memory) -> Result<u64> {
    let (start, mut before) = (Instant::now(), memory.now()?);
    loop {
        sleep(Duration::from_millis(300));
        let now = memory.now()?;
        if now.abs_diff(before) < MIB || start.elapsed() > PATIENCE {
            return Ok(now);
        }
        before = now;
    }
}
