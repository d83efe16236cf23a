//! A real Ceph cluster, as small as can be: one monitor and one OSD, without authentication or with cephx.

use super::process::Daemon;
use super::stage::{ADDRESS, Stage};
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::env::consts::ARCH;
use std::fs;
use std::time::Duration;

/// How long the cluster may take to come up. It takes about ten seconds on two idle cores.
const PATIENCE: Duration = Duration::from_secs(90);

/// Everybody is believed.
const NO_AUTH: &str = "\
auth cluster required = none
auth service required = none
auth client required = none
";

/// Nobody is believed without a ticket, and tickets are good for seconds.
const CEPHX: &str = "\
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth mon ticket ttl = 15
auth service ticket ttl = 10
";

/// What everybody with a key may do.
const CAPS: &str = "\
[global]
mon = \"allow *\"
mgr = \"allow *\"
osd = \"allow *\"
";

/// Where the OSD keeps its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    /// In memory; they are written down when it is stopped in order.
    Memory,
    /// In a file, so that what it acknowledged outlives its sudden death.
    File,
}

/// A monitor and an OSD. Both are gone when this value goes.
pub(crate) struct RealCeph<'a> {
    stage: &'a Stage,
    _monitor: Daemon,
    osd: Option<Daemon>,
    /// The epoch in which the OSD came up last.
    up_from: u64,
}

impl<'a> RealCeph<'a> {
    /// Makes and starts a cluster with a pool `rbd` on the stage.
    pub(crate) fn start(stage: &'a Stage, store: Store) -> Result<Self> {
        Self::make(stage, store, NO_AUTH, "")
    }

    /// The same with more lines in the OSD's section of `ceph.conf`.
    pub(crate) fn start_with(stage: &'a Stage, store: Store, osd: &str) -> Result<Self> {
        Self::make(stage, store, NO_AUTH, osd)
    }

    /// The same with one that wants keys and gives tickets for a few seconds.
    pub(crate) fn start_with_cephx(stage: &'a Stage, osd: &str) -> Result<Self> {
        Self::make(stage, Store::Memory, CEPHX, osd)
    }

    fn make(stage: &'a Stage, store: Store, auth: &str, osd: &str) -> Result<Self> {
        let fsid = uuid()?;
        fs::write(stage.path("ceph.conf"), conf(&fsid, store, auth) + osd)?;
        fs::create_dir(stage.path("mon"))?;
        fs::create_dir(stage.path("osd"))?;
        let mut monitor = Self::start_monitor(stage, &fsid)?;
        monitor.wait_until("an answer to `ceph mon stat`", PATIENCE, || {
            stage.ceph("ceph --connect-timeout 5 mon stat").is_ok()
        })?;
        let uuid = uuid()?;
        stage.ceph(&format!("ceph osd new {uuid}"))?;
        if auth == CEPHX {
            stage.ceph("ceph-authtool --create-keyring osd/keyring --gen-key --name osd.0 --caps caps")?;
            stage.ceph("ceph auth import -i osd/keyring")?;
        }
        stage.ceph(&format!("ceph-osd --id 0 --mkfs --osd-uuid {uuid}"))?;
        let mut ceph = Self { stage, _monitor: monitor, osd: None, up_from: 0 };
        ceph.start_osd()?;
        stage.ceph("ceph osd pool create rbd 32")?;
        stage.ceph("ceph osd pool application enable rbd rbd")?;
        Ok(ceph)
    }

    fn start_monitor(stage: &Stage, fsid: &str) -> Result<Daemon> {
        let address = format!("[v2:{ADDRESS}:3300,v1:{ADDRESS}:6789]");
        fs::write(stage.path("caps"), CAPS)?;
        stage.ceph("ceph-authtool --create-keyring keyring --gen-key --name mon. --caps caps")?;
        stage.ceph("ceph-authtool keyring --gen-key --name client.admin --caps caps")?;
        stage.ceph(&format!("monmaptool --create --fsid {fsid} --addv a {address} monmap"))?;
        stage.ceph("ceph-mon --mkfs --id a --monmap monmap --keyring keyring")?;
        Daemon::spawn("ceph-mon", stage.ceph_daemon("ceph-mon --foreground --id a"), &stage.path("mon.out"))
    }

    /// Starts the OSD and waits until the monitor has it up.
    pub(crate) fn start_osd(&mut self) -> Result<()> {
        let command = self.stage.ceph_daemon("ceph-osd --foreground --id 0");
        let mut osd = Daemon::spawn("ceph-osd", command, &self.stage.path("osd.out"))?;
        // The monitor may take an OSD that was killed for one that is up.
        let mut up_from = None;
        osd.wait_until("an OSD that is up", PATIENCE, || {
            up_from = up_since(self.stage).filter(|epoch| *epoch > self.up_from);
            up_from.is_some()
        })?;
        self.up_from = up_from.unwrap_or_default();
        self.osd = Some(osd);
        Ok(())
    }

    /// Stops the OSD in order.
    pub(crate) fn stop_osd(&mut self) -> Result<()> {
        self.osd.take().context("the OSD is not running")?.stop()
    }

    /// Kills the OSD at once.
    pub(crate) fn kill_osd(&mut self) -> Result<()> {
        drop(self.osd.take().context("the OSD is not running")?);
        Ok(())
    }

    /// CPU time that the OSD has used so far.
    pub(crate) fn osd_cpu_seconds(&self) -> Result<f64> {
        self.osd.as_ref().context("the OSD is not running")?.cpu_seconds()
    }
}

/// The epoch since which the OSD is up, if it is.
fn up_since(stage: &Stage) -> Option<u64> {
    let dump: Value = serde_json::from_str(&stage.ceph("ceph osd dump --format json").ok()?).ok()?;
    let osd = &dump["osds"][0];
    (osd["up"] == 1).then(|| osd["up_from"].as_u64()).flatten()
}

fn uuid() -> Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}

/// Relative paths, because every program here runs in the stage's folder; the default for object classes is relative
/// to the root, and so is named in full.
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
# Commands to a daemon itself go through its socket, wherever they come from.
[mon]
admin socket = $name.asok
[osd]
admin socket = $name.asok
[mon.a]
mon data = mon
# By default it gathers changes of its maps for a second. Each snapshot is one.
paxos propose interval = 0.05
# Its default ends a monitor where 95 percent of the disk are used, however large that is.
mon data avail crit = 0
mon data avail warn = 0
[osd.0]
osd data = osd
keyring = osd/keyring
osd class dir = /usr/lib/{ARCH}-linux-gnu/rados-classes
osd objectstore = {store}
bluestore block size = 4294967296
memstore device bytes = 4294967296
# By default it waits for seconds after each object of which it removes what a snapshot kept.
osd snap trim sleep hdd = 0
osd snap trim sleep ssd = 0
# A stop in order writes the objects down only when it is not made fast.
osd fast shutdown = false
"
    )
}
