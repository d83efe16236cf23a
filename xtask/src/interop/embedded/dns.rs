//! Monitors that only the DNS names.

use crate::cluster::process::Daemon;
use crate::cluster::{ADDRESS, Embedded, Stage};
use crate::interop::steps::{ensure_pool, says};
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The names that the DNS has: SRV records with priority and weight, of which the first are of nobody who answers.
const RECORDS: &str = "\
srv-host=_ceph-mon._tcp.onego.test,gone.onego.test,3300,5,10
srv-host=_ceph-mon._tcp.onego.test,mon.onego.test,3300,10,20
srv-host=_old._tcp.onego.test,mon.onego.test,6789,10,20
srv-host=_empty._tcp.onego.test,nowhere.onego.test,3300,10,20
";

/// How long the server may take to come up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Ceph's programs and ours find our embedded cluster by the same records, in a domain that is searched or named.
pub(crate) fn monitors(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "")?;
    ensure_pool(stage)?;
    stage.ceph("rbd create --size 1M rbd/disk")?;
    let _server = start_server(stage)?;

    let conf = fs::read_to_string(stage.path("ceph.conf"))?;
    let conf: Vec<&str> = conf.lines().filter(|line| !line.starts_with("mon host")).collect();
    ensure!(!conf.join("\n").contains(ADDRESS), "ceph.conf still says where the monitor is: {conf:?}");
    for (name, service) in [("searched", ""), ("named", "ceph-mon_onego.test"), ("old", "old")] {
        let more = if service.is_empty() { String::new() } else { format!("mon dns srv name = {service}\n") };
        let file = format!("{name}.conf");
        fs::write(stage.path(&file), format!("{}\n{more}", conf.join("\n")))?;
        says(&stage.ceph(&format!("rbd -c {file} ls rbd"))?, "disk")?;
        says(&stage.onego(&format!("--conf {file} rbd ls rbd"))?, "disk")?;
    }
    for (service, said) in [("nobody", "no SRV records"), ("empty", "no addresses")] {
        fs::write(stage.path("none.conf"), format!("{}\nmon dns srv name = {service}\n", conf.join("\n")))?;
        stage.ceph_fails("rbd -c none.conf ls rbd")?;
        let refused = stage.onego_fails("--conf none.conf rbd ls rbd")?;
        says(&String::from_utf8_lossy(&refused.stderr), said)?;
    }
    Ok(())
}

/// Starts a DNS server on the stage that everybody there asks.
fn start_server(stage: &Stage) -> Result<Daemon> {
    let conf = format!(
        "no-resolv\nno-hosts\nlisten-address={ADDRESS}\nbind-interfaces\nuser=root\npid-file=\nlog-queries\n\
         local=/onego.test/\nhost-record=mon.onego.test,{ADDRESS}\nhost-record=gone.onego.test,10.20.0.9\n{RECORDS}"
    );
    fs::write(stage.path("dnsmasq.conf"), conf)?;
    fs::write(stage.path("resolv.conf"), format!("nameserver {ADDRESS}\nsearch onego.test\n"))?;
    let mount = format!("mount --bind {} /etc/resolv.conf", stage.path("resolv.conf").display());
    stage.ceph(&mount)?;
    let words = mount.strip_prefix("mount ").context("a mount")?;
    crate::sh::text(&mut stage.program(Path::new("mount"), words))?;
    let log = stage.path("dnsmasq.out");
    let command =
        stage.program(Path::new("dnsmasq"), "--keep-in-foreground --log-facility=- --conf-file=dnsmasq.conf");
    let mut server = Daemon::spawn("dnsmasq", command, &log)?;
    let started = || fs::read_to_string(&log).is_ok_and(|said| said.contains("started"));
    server.wait_until("its word that it has started", PATIENCE, started)?;
    Ok(server)
}
