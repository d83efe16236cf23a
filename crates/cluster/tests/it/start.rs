//! A cluster on a thread of its own: how fast it is up, what its conf says, how it ends.

use onego_cluster::{Cluster, Config, Error, NewPool};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::{Duration, Instant};

/// Connects to a daemon and reads the banner that it greets with.
fn greeting(sock: std::net::SocketAddr) -> Vec<u8> {
    let mut stream = TcpStream::connect(sock).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut banner = [0; 8];
    stream.read_exact(&mut banner).unwrap();
    banner.to_vec()
}

#[test]
fn a_cluster_is_up_in_under_50_ms() {
    // On a busy machine a single start may be interrupted for longer than that, but hardly each.
    let mut times = (0..100).map(|_| {
        let before = Instant::now();
        let cluster = Cluster::start(Config::default()).unwrap();
        let time = before.elapsed();
        let mon = cluster.mon_addr().msgr2().unwrap().sock.unwrap();
        assert_eq!(greeting(mon), b"ceph v2\n");
        let mon = cluster.mon_addr().legacy().unwrap().sock.unwrap();
        assert_eq!(greeting(mon), b"ceph v02");
        time
    });
    assert!(times.any(|time| time < Duration::from_millis(50)), "a hundred starts took longer, each of them");
}

#[test]
fn the_conf_is_written_where_it_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let conf_dir = dir.path().join("made/for/it");
    let config = Config::default().with_conf_dir(&conf_dir);
    let cluster = Cluster::start(config).unwrap();
    let text = std::fs::read_to_string(conf_dir.join("ceph.conf")).unwrap();
    assert_eq!(text, cluster.conf());
    for line in [
        "[global]".to_owned(),
        format!("fsid = {}", cluster.fsid()),
        format!("mon host = {}", cluster.mon_addr()),
        "auth client required = none".into(),
        "osd pool default size = 1".into(),
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in:\n{text}");
    }
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = cluster.write_conf(&file).unwrap_err();
    assert!(matches!(&error, Error::Conf { path, .. } if path.starts_with(&file)), "{error}");
}

#[test]
fn the_keyring_is_new_whatever_lies_in_its_place() {
    let cluster = Cluster::start(Config::default().with_cephx(true)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let keyring = dir.path().join("ceph.client.admin.keyring");
    let victim = dir.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, &keyring).unwrap();
    symlink(&victim, dir.path().join("ceph.conf")).unwrap();
    symlink(&victim, dir.path().join(".ceph.conf.part")).unwrap();
    let mode = |path: &std::path::Path| {
        let about = fs::symlink_metadata(path).unwrap();
        assert!(about.is_file(), "{} is a link", path.display());
        about.permissions().mode() & 0o777
    };
    let conf = cluster.write_conf(dir.path()).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!((mode(&keyring), mode(&conf) & 0o022), (0o600, 0));
    assert!(fs::read_to_string(&keyring).unwrap().contains("[client.admin]"));

    // A file that everybody may read, and that somebody has open.
    fs::write(&keyring, "theirs").unwrap();
    fs::set_permissions(&keyring, fs::Permissions::from_mode(0o666)).unwrap();
    let reader = fs::File::open(&keyring).unwrap();
    cluster.write_conf(dir.path()).unwrap();
    assert_eq!(mode(&keyring), 0o600);
    assert_eq!(std::io::read_to_string(reader).unwrap(), "theirs");

    let open_to_all = dir.path().join("open-to-all");
    fs::create_dir(&open_to_all).unwrap();
    fs::set_permissions(&open_to_all, fs::Permissions::from_mode(0o777)).unwrap();
    let error = cluster.write_conf(&open_to_all).unwrap_err().to_string();
    assert!(error.contains("chmod o-w"), "{error}");
    assert_eq!(fs::read_dir(&open_to_all).unwrap().count(), 0);
}

#[test]
fn a_port_that_is_taken_is_an_error_that_names_it() {
    let cluster = Cluster::start(Config::default()).unwrap();
    let taken = cluster.mon_addr().msgr2().unwrap().sock.unwrap();
    let error = Cluster::start(Config::default().with_mon_port(taken.port())).unwrap_err();
    assert!(matches!(error, Error::Listen(_)) && error.to_string().contains(&taken.to_string()), "{error}");
}

#[test]
fn an_address_that_clients_cannot_be_told_is_refused() {
    let config = Config::default().with_listen("0.0.0.0".parse().unwrap());
    assert!(matches!(Cluster::start(config).unwrap_err(), Error::Unspecified(_)));
}

#[test]
fn a_cluster_that_is_dropped_is_gone() {
    let cluster = Cluster::start(Config::default()).unwrap();
    let mon = cluster.mon_addr().msgr2().unwrap().sock.unwrap();
    let mut idle = TcpStream::connect(mon).unwrap();
    idle.write_all(b"ceph").unwrap();
    drop(cluster);
    assert!(TcpStream::connect(mon).is_err());
    let config = Config::default().with_mon_port(mon.port());
    assert!(Cluster::start(config).is_ok(), "the port is free again");
}

#[test]
fn pools_and_restarts_are_made_from_outside_and_cost_is_told() {
    let cluster = Cluster::start(Config::default()).unwrap();
    assert_eq!(cluster.create_pool(NewPool::new("more")).unwrap(), Some(2));
    let epoch = cluster.with(|machine, _| machine.osdmap().unwrap().epoch).unwrap();
    cluster.restart_osd(0).unwrap();
    assert_eq!(cluster.with(|machine, _| machine.osdmap().unwrap().epoch).unwrap(), epoch + 2);
    let stats = cluster.stats().unwrap();
    assert!(stats.cpu > Duration::ZERO && stats.cpu < Duration::from_secs(10), "{stats:?}");
    assert_eq!(stats.usage.total, 1 << 30);
}

#[test]
fn osds_are_stopped_and_started_from_outside() {
    let cluster = Cluster::start(Config::default().with_osds(3)).unwrap();
    assert_eq!(cluster.osd_addrs().len(), 3);
    let is_up = || cluster.with(|machine, _| machine.osdmap().unwrap().is_up(1)).unwrap();
    cluster.stop_osd(1).unwrap();
    assert!(!is_up());
    cluster.start_osd(1).unwrap();
    assert!(is_up());
    for none in [0, onego_cluster::MAX_OSDS + 1] {
        let error = Cluster::start(Config::default().with_osds(none)).unwrap_err();
        assert!(matches!(error, Error::Osds(_)), "{error}");
    }
}
