//! The history of a real cluster: each incremental map that a Ceph monitor made, applied to the map before, must give
//! the whole map that the monitor made, byte for byte.

mod osdmap_support;

use onego_ceph::osdmap::{Incremental, OsdMap};
use onego_msgr::encoding::{Decode, Encode};
use osdmap_support::{missing, output, run};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const FSID: &str = "9a1f7a3e-0f53-4c33-8a5f-5d4d1e3f2b10";
/// Bounds each wait for a daemon.
const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon of the cluster, ended when dropped.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // It is gone already if that fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A monitor and, if wanted, OSDs that keep their data in memory.
struct Cluster {
    dir: TempDir,
    monitor: Option<Daemon>,
}

impl Cluster {
    fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let path = dir.path().display();
        // Nobody else takes a port that was just given back, for a while.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        // By default, a monitor ends where 95 percent of the disk are used, however large that is.
        let config = format!(
            "[global]\nfsid = {FSID}\nmon host = [v2:127.0.0.1:{port}/0]\n\
             public addr = 127.0.0.1\ncluster addr = 127.0.0.1\n\
             auth cluster required = none\nauth service required = none\nauth client required = none\n\
             keyring = {path}/keyring\nrun dir = {path}\nlog file =\nadmin socket =\n\
             osd objectstore = memstore\nosd crush chooseleaf type = 0\nosd crush update on start = false\nosd data = {path}/osd.$id\n\
             mon data = {path}/mon\nmon data avail crit = 0\nmon data avail warn = 0\nmon allow pool delete = true\n\
             paxos propose interval = 0.02\npaxos min wait = 0.01\n"
        );
        fs::write(dir.path().join("ceph.conf"), config).unwrap();
        fs::write(dir.path().join("keyring"), "").unwrap();
        fs::create_dir(dir.path().join("mon")).unwrap();
        let monmap = dir.path().join("monmap");
        let addrs = format!("[v2:127.0.0.1:{port}/0]");
        let create = ["--create", "--fsid", FSID, "--set-min-mon-release", "16", "--addv", "a", &addrs];
        run("monmaptool", &[&create[..], &[monmap.to_str().unwrap()]].concat());
        let mut cluster = Self { dir, monitor: None };
        let mkfs = output(cluster.program("ceph-mon").args(["-i", "a", "--mkfs", "--monmap"]).arg(&monmap));
        assert!(mkfs.status.success(), "{}", String::from_utf8_lossy(&mkfs.stderr));
        cluster.monitor = Some(cluster.spawn("ceph-mon", "a"));
        cluster
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.arg("-c").arg(self.dir.path().join("ceph.conf"));
        command
    }

    fn spawn(&self, program: &str, id: &str) -> Daemon {
        let mut command = self.program(program);
        command.args(["-f", "-i", id]).stdout(Stdio::null()).stderr(Stdio::null());
        Daemon(command.spawn().unwrap_or_else(|error| panic!("{}", missing(&command, &error))))
    }

    /// Starts the OSD of that id, which exists in the map, and waits until it is up.
    fn start_osd(&self, id: &str, uuid: &str) -> Daemon {
        fs::create_dir_all(self.dir.path().join(format!("osd.{id}"))).unwrap();
        let mkfs = output(self.program("ceph-osd").args(["-i", id, "--mkfs", "--osd-uuid", uuid]));
        assert!(mkfs.status.success(), "{}", String::from_utf8_lossy(&mkfs.stderr));
        let daemon = self.spawn("ceph-osd", id);
        let begin = Instant::now();
        while !self.ceph(&["osd stat"]).contains(" 1 up") {
            assert!(begin.elapsed() < PATIENCE, "osd.{id} does not come up");
        }
        daemon
    }

    /// Gives commands to Ceph's own client, one after the other. They may fail: what matters is what they change.
    fn ceph(&self, commands: &[&str]) -> String {
        let seconds = PATIENCE.as_secs().to_string();
        let mut command = Command::new("timeout");
        command.args([&seconds, "ceph", "-c"]).arg(self.dir.path().join("ceph.conf"));
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
        assert!(output.status.success(), "ceph does not end (installed from ceph-common?): {text}");
        text.into_owned()
    }

    /// Ends the monitor and gives what it kept of the maps, by key.
    fn maps(mut self) -> BTreeMap<String, Vec<u8>> {
        self.monitor = None;
        let store = self.dir.path().join("mon/store.db");
        parse_dump(&run(
            "ceph-kvstore-tool",
            &[Path::new("rocksdb"), &store, Path::new("dump"), Path::new("osdmap")],
        ))
    }
}

/// Reads a listing of keys and values, of which lines of nothing but zeros are left out.
fn parse_dump(dump: &str) -> BTreeMap<String, Vec<u8>> {
    let mut values = BTreeMap::new();
    let mut current: &mut Vec<u8> = &mut Vec::new();
    for line in dump.lines() {
        if let Some(key) = line.strip_prefix("osdmap\t") {
            current = values.entry(key.to_owned()).or_default();
            continue;
        }
        let hex = line.split('|').next().unwrap();
        let Some(Ok(offset)) = hex.get(..8).map(|offset| usize::from_str_radix(offset, 16)) else { continue };
        current.resize(offset, 0);
        let bytes = hex[8..].split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap());
        current.extend(bytes);
    }
    values
}

/// Applies all incremental maps one after the other. Gives how many those were.
fn replay(maps: &BTreeMap<String, Vec<u8>>) -> u32 {
    let mut map = OsdMap::default();
    for epoch in 1.. {
        let Some(incremental) = maps.get(&epoch.to_string()) else { break };
        let whole = &maps[&format!("full_{epoch}")];
        let change = Incremental::from_bytes(incremental).unwrap();
        assert_eq!(&change.to_bytes(), incremental, "incremental map {epoch}");
        assert_ne!(change.full_crc, 0, "the monitor gives a checksum");
        map.apply(&change).unwrap_or_else(|error| panic!("incremental map {epoch}: {error}"));
        assert_eq!(&map.to_bytes(), whole, "map {epoch}");
        assert_eq!(OsdMap::from_bytes(whole).as_ref(), Ok(&map));
    }
    map.epoch
}

#[test]
fn each_change_that_a_monitor_made_gives_the_map_that_it_made() {
    let cluster = Cluster::start();
    let uuid = "11111111-2222-3333-4444-000000000000";
    cluster.ceph(&[&format!("osd new {uuid}")]);
    drop(cluster.start_osd("0", uuid));
    cluster.ceph(&COMMANDS);
    let places = OBJECTS.map(|(name, space)| cluster.ceph(&[&format!("osd map one {name} {space}")]));
    let maps = cluster.maps();
    let epoch = replay(&maps);
    assert!(epoch > 40, "the commands made {epoch} epochs");

    let map = OsdMap::from_bytes(&maps[&format!("full_{epoch}")]).unwrap();
    let id = map.pool_id("one").unwrap();
    let pool = &map.pools[&id];
    for ((name, space), place) in OBJECTS.iter().zip(places) {
        let raw = pool.object_pg(id, name.as_bytes(), "", space, -1);
        let expected = format!("-> pg {raw} ({})", pool.pg(raw));
        assert!(place.contains(&expected), "{expected} for {name} in {space:?}: {place}");
    }

    // The last of them, with a wrong checksum.
    let mut map = OsdMap::from_bytes(&maps[&format!("full_{}", epoch - 1)]).unwrap();
    let mut change = Incremental::from_bytes(&maps[&epoch.to_string()]).unwrap();
    change.full_crc ^= 1;
    assert!(map.apply(&change).unwrap_err().to_string().contains("checksum"));
}

/// Objects by name and namespace.
const OBJECTS: [(&str, &str); 4] = [
    ("rbd_directory", ""),
    ("rbd_directory", "space"),
    ("a", "b"),
    ("rbd_data.1.0000000000000007", "tenant-1"),
];

/// Every kind of change that a monitor makes of its own or when it is told to.
const COMMANDS: [&str; 56] = [
    "osd down 0",
    "osd new 11111111-2222-3333-4444-000000000001",
    "osd new 11111111-2222-3333-4444-000000000002",
    // A monitor of 16.2 dies of OSDs that are in without ever having been marked so.
    "osd out 1 2",
    "osd in 1 2",
    "osd crush add osd.0 1.0 root=default host=h0",
    "osd crush add osd.1 2.0 root=default host=h1",
    "osd crush add osd.2 2.0 root=default host=h1",
    "osd crush set-device-class ssd osd.1",
    "osd crush rule create-replicated fast default osd ssd",
    "osd set-group noout ssd",
    "osd set-group noup,noin osd.1",
    "osd unset-group noin osd.1",
    "osd pool create one 8",
    "osd pool create two 16 16 replicated fast",
    "osd erasure-code-profile set small k=2 m=1 crush-failure-domain=osd",
    "osd erasure-code-profile set other k=3 m=1 crush-failure-domain=osd",
    "osd pool create three 8 8 erasure small",
    "osd pool set one pg_num 12",
    "osd pool application enable one rbd",
    "osd pool rename two deux",
    "osd pool mksnap one snap1",
    "osd pool mksnap one snap2",
    "osd pool rmsnap one snap1",
    "osd pool set-quota one max_objects 1000",
    "osd pool set one compression_mode aggressive",
    "osd pool set one compression_required_ratio 0.5",
    "osd set pause",
    "osd unset pause",
    "osd reweight 1 0.5",
    "osd primary-affinity 1 0.25",
    "osd out 0",
    "osd in 0",
    "osd set-nearfull-ratio 0.8",
    "osd blocklist add 10.0.0.1:0/5",
    "osd blocklist add 10.0.0.2:123/7",
    "osd blocklist add [2001:db8::1]:123/7",
    "osd blocklist range add 10.1.0.0/16",
    "osd blocklist rm 10.0.0.1:0/5",
    "osd blocklist range rm 10.1.0.0/16",
    "osd crush weight-set create-compat",
    "osd crush weight-set reweight-compat osd.1 1.5",
    "osd set-require-min-compat-client luminous",
    "osd pg-upmap 1.1 2 1 0",
    "osd pg-upmap-items 1.2 0 1",
    "osd rm-pg-upmap 1.1",
    "osd pg-temp 1.0 1 0",
    "osd primary-temp 1.0 1",
    "osd pg-temp 1.0",
    "osd lost 2 --yes-i-really-mean-it",
    "osd crush rm osd.2",
    "osd rm 2",
    "osd setmaxosd 5",
    "osd pool rm deux deux --yes-i-really-really-mean-it",
    "osd erasure-code-profile rm other",
    "osd crush tunables hammer",
];
