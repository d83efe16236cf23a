//! A real Ceph cluster, as small as can be: one monitor and one OSD, without authentication.

use super::process::Daemon;
use super::stage::{ADDRESS, Stage};
use anyhow::{Context as _, Result};
use std::env::consts::ARCH;
use std::fs;
use std::time::Duration;

/// How long the cluster may take to come up. It takes about ten seconds on two idle cores.
const PATIENCE: Duration = Duration::from_secs(90);

/// A monitor and an OSD that keeps its objects in memory and writes them down when it is stopped in order. Both are
/// gone when this value goes.
pub(crate) struct RealCeph<'a> {
    stage: &'a Stage,
    _monitor: Daemon,
    osd: Option<Daemon>,
}

impl<'a> RealCeph<'a> {
    /// Makes and starts a cluster with a pool `rbd` on the stage.
    pub(crate) fn start(stage: &'a Stage) -> Result<Self> {
        let fsid = uuid()?;
        fs::write(stage.path("ceph.conf"), conf(&fsid))?;
        fs::create_dir(stage.path("mon"))?;
        fs::create_dir(stage.path("osd"))?;
        let mut monitor = Self::start_monitor(stage, &fsid)?;
        monitor.wait_until("an answer to `ceph mon stat`", PATIENCE, || {
            stage.ceph("ceph --connect-timeout 5 mon stat").is_ok()
        })?;
        let uuid = uuid()?;
        stage.ceph(&format!("ceph osd new {uuid}"))?;
        stage.ceph(&format!("ceph-osd --id 0 --mkfs --osd-uuid {uuid}"))?;
        let mut ceph = Self { stage, _monitor: monitor, osd: None };
        ceph.start_osd()?;
        stage.ceph("ceph osd pool create rbd 32")?;
        stage.ceph("ceph osd pool application enable rbd rbd")?;
        Ok(ceph)
    }

    fn start_monitor(stage: &Stage, fsid: &str) -> Result<Daemon> {
        let address = format!("[v2:{ADDRESS}:3300,v1:{ADDRESS}:6789]");
        stage.ceph("ceph-authtool --create-keyring keyring --gen-key --name mon.")?;
        stage.ceph(&format!("monmaptool --create --fsid {fsid} --addv a {address} monmap"))?;
        stage.ceph("ceph-mon --mkfs --id a --monmap monmap --keyring keyring")?;
        Daemon::spawn("ceph-mon", stage.ceph_daemon("ceph-mon --foreground --id a"), &stage.path("mon.out"))
    }

    /// Starts the OSD and waits until the monitor has it up.
    pub(crate) fn start_osd(&mut self) -> Result<()> {
        let command = self.stage.ceph_daemon("ceph-osd --foreground --id 0");
        let mut osd = Daemon::spawn("ceph-osd", command, &self.stage.path("osd.out"))?;
        let stage = self.stage;
        osd.wait_until("an OSD that is up", PATIENCE, || {
            stage.ceph("ceph osd stat").is_ok_and(|said| said.contains(" 1 up"))
        })?;
        self.osd = Some(osd);
        Ok(())
    }

    /// Stops the OSD in order.
    pub(crate) fn stop_osd(&mut self) -> Result<()> {
        self.osd.take().context("the OSD is not running")?.stop()
    }

    /// CPU time that the OSD has used so far.
    pub(crate) fn osd_cpu_seconds(&self) -> Result<f64> {
        self.osd.as_ref().context("the OSD is not running")?.cpu_seconds()
    }
}

fn uuid() -> Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}

/// Relative paths, because every program here runs in the stage's folder; the default for object classes is relative
/// to the root, and so is named in full.
fn conf(fsid: &str) -> String {
    format!(
        "[global]
fsid = {fsid}
mon host = [v2:{ADDRESS}:3300,v1:{ADDRESS}:6789]
public addr = {ADDRESS}
auth cluster required = none
auth service required = none
auth client required = none
auth allow insecure global id reclaim = false
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
[mon.a]
mon data = mon
[osd.0]
osd data = osd
osd class dir = /usr/lib/{ARCH}-linux-gnu/rados-classes
osd objectstore = memstore
memstore device bytes = 4294967296
# A stop in order writes the objects down only when it is not made fast.
osd fast shutdown = false
"
    )
}
