//! The smallest real Ceph cluster: one monitor and one OSD, without authentication or with cephx.

use crate::{ADDRESS, Daemon, Sandbox};
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::env::consts::ARCH;
use std::fs;
use std::time::Duration;

/// Time the cluster gets to start. It takes about ten seconds on two idle cores.
const PATIENCE: Duration = Duration::from_secs(90);

const NO_AUTH: &str = "\
auth cluster required = none
auth service required = none
auth client required = none
";

/// Authentication by tickets that expire within seconds.
const CEPHX: &str = "\
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth mon ticket ttl = 15
auth service ticket ttl = 10
";

/// Capabilities of every key.
const CAPS: &str = "\
[global]
mon = \"allow *\"
mgr = \"allow *\"
osd = \"allow *\"
";

/// The OSD's object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// Memory, saved to files when the OSD is stopped by a signal that it handles.
    Memory,
    /// A file: acknowledged writes survive SIGKILL.
    File,
}

/// A monitor and an OSD. Dropping it kills both.
pub struct RealCeph<'a> {
    sandbox: &'a Sandbox,
    _monitor: Daemon,
    osd: Option<Daemon>,
    /// Epoch of the OSD's last start.
    up_from: u64,
}

impl<'a> RealCeph<'a> {
    /// Makes and starts a cluster with a pool `rbd`.
    pub fn start(sandbox: &'a Sandbox, store: Store) -> Result<Self> {
        Self::make(sandbox, store, NO_AUTH, "")
    }

    /// Starts a cluster with more lines in the OSD's section of `ceph.conf`.
    pub fn start_with(sandbox: &'a Sandbox, store: Store, osd: &str) -> Result<Self> {
        Self::make(sandbox, store, NO_AUTH, osd)
    }

    /// Starts a cluster with cephx and tickets that expire within seconds.
    pub fn start_with_cephx(sandbox: &'a Sandbox, osd: &str) -> Result<Self> {
        Self::make(sandbox, Store::Memory, CEPHX, osd)
    }

    fn make(sandbox: &'a Sandbox, store: Store, auth: &str, osd: &str) -> Result<Self> {
        let fsid = uuid()?;
        fs::write(sandbox.path("ceph.conf"), conf(&fsid, store, auth) + osd)?;
        fs::create_dir(sandbox.path("mon"))?;
        fs::create_dir(sandbox.path("osd"))?;
        let mut monitor = Self::start_monitor(sandbox, &fsid)?;
        monitor.wait_until("answer to `ceph mon stat`", PATIENCE, || {
            sandbox.ceph("ceph --connect-timeout 5 mon stat").is_ok()
        })?;
        let uuid = uuid()?;
        sandbox.ceph(&format!("ceph osd new {uuid}"))?;
        if auth == CEPHX {
            sandbox.ceph("ceph-authtool --create-keyring osd/keyring --gen-key --name osd.0 --caps caps")?;
            sandbox.ceph("ceph auth import -i osd/keyring")?;
        }
        sandbox.ceph(&format!("ceph-osd --id 0 --mkfs --osd-uuid {uuid}"))?;
        let mut ceph = Self { sandbox, _monitor: monitor, osd: None, up_from: 0 };
        ceph.start_osd()?;
        sandbox.ceph("ceph osd pool create rbd 32")?;
        sandbox.ceph("ceph osd pool application enable rbd rbd")?;
        Ok(ceph)
    }

    fn start_monitor(sandbox: &Sandbox, fsid: &str) -> Result<Daemon> {
        let address = format!("[v2:{ADDRESS}:3300,v1:{ADDRESS}:6789]");
        fs::write(sandbox.path("caps"), CAPS)?;
        sandbox.ceph("ceph-authtool --create-keyring keyring --gen-key --name mon. --caps caps")?;
        sandbox.ceph("ceph-authtool keyring --gen-key --name client.admin --caps caps")?;
        sandbox.ceph(&format!("monmaptool --create --fsid {fsid} --addv a {address} monmap"))?;
        sandbox.ceph("ceph-mon --mkfs --id a --monmap monmap --keyring keyring")?;
        Daemon::spawn(
            "ceph-mon",
            sandbox.ceph_daemon("ceph-mon --foreground --id a"),
            &sandbox.path("mon.out"),
        )
    }

    /// Starts the OSD and waits until the monitor has it up.
    pub fn start_osd(&mut self) -> Result<()> {
        let command = self.sandbox.ceph_daemon("ceph-osd --foreground --id 0");
        let mut osd = Daemon::spawn("ceph-osd", command, &self.sandbox.path("osd.out"))?;
        // The monitor may still count an OSD as up that was killed.
        let mut up_from = None;
        osd.wait_until("OSD that is up", PATIENCE, || {
            up_from = up_since(self.sandbox).filter(|epoch| *epoch > self.up_from);
            up_from.is_some()
        })?;
        self.up_from = up_from.unwrap_or_default();
        self.osd = Some(osd);
        Ok(())
    }

    /// Stops the OSD with SIGTERM.
    pub fn stop_osd(&mut self) -> Result<()> {
        self.osd.take().context("the OSD is not running")?.stop()
    }

    /// Kills the OSD with SIGKILL.
    pub fn kill_osd(&mut self) -> Result<()> {
        drop(self.osd.take().context("the OSD is not running")?);
        Ok(())
    }

    /// Returns the CPU time of the OSD so far, in seconds.
    pub fn osd_cpu_seconds(&self) -> Result<f64> {
        self.osd.as_ref().context("the OSD is not running")?.cpu_seconds()
    }
}

/// Returns the epoch in which the OSD started, if it is up.
fn up_since(sandbox: &Sandbox) -> Option<u64> {
    let dump: Value = serde_json::from_str(&sandbox.ceph("ceph osd dump --format json").ok()?).ok()?;
    let osd = &dump["osds"][0];
    (osd["up"] == 1).then(|| osd["up_from"].as_u64()).flatten()
}

fn uuid() -> Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}

/// Paths are relative because every program runs in the sandbox's folder; the default for object classes is relative
/// to the root and therefore spelled out.
fn conf(fsid: &str, store: Store, auth: &str) -> String {
    let store = match store {
        Store::Memory => "memstore",
        Store::File => "bluestore",
    };
    format!(
        "[global]
fsid = {fsid}
mon host = [v2:{ADDRESS}:3300,v1:{ADDRESS}:6789]
public addr = {ADDRESS}
{auth}auth allow insecure global id reclaim = false
osd pool default size = 1
osd pool default min size = 1
osd crush chooseleaf type = 0
mon allow pool size one = true
mon allow pool delete = true
mon warn on pool no redundancy = false
log file = $name.log
admin socket =
pid file =
run dir = .
keyring = keyring
# Commands to a daemon itself go through its socket.
[mon]
admin socket = $name.asok
[osd]
admin socket = $name.asok
[mon.a]
mon data = mon
# The default coalesces changes of its maps for a second. Each snapshot is one.
paxos propose interval = 0.05
# The default ends a monitor when 95% of the disk are used, whatever its size.
mon data avail crit = 0
mon data avail warn = 0
[osd.0]
osd data = osd
keyring = osd/keyring
osd class dir = /usr/lib/{ARCH}-linux-gnu/rados-classes
osd objectstore = {store}
bluestore block size = 4294967296
memstore device bytes = 4294967296
# The default waits for seconds after trimming each object.
osd snap trim sleep hdd = 0
osd snap trim sleep ssd = 0
# A fast shutdown does not save the objects.
osd fast shutdown = false
"
    )
}
