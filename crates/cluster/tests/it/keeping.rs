//! Clusters that are there again at the next start.

use onego_cluster::journal::DataError;
use onego_cluster::{Cluster, Config, Error, NewPool};
use onego_msgr::addr::Versions;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

fn config(folder: &Path) -> Config {
    Config::default().with_data(folder.join("data")).with_versions(Versions::Two)
}

fn pools(cluster: &Cluster) -> Vec<String> {
    cluster.with(|machine, _| machine.osdmap().unwrap().pool_names.values().cloned().collect()).unwrap()
}

fn epoch(cluster: &Cluster) -> u32 {
    cluster.with(|machine, _| machine.osdmap().unwrap().epoch).unwrap()
}

/// Waits until everything that was done is in the log.
fn settle(cluster: &Cluster) {
    while cluster.with(|machine, _| machine.has_job()).unwrap() {
        std::thread::yield_now();
    }
}

#[test]
fn a_cluster_is_the_same_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let first = config(folder.path()).with_osds(3).with_cephx(true);
    let cluster = Cluster::start(first).unwrap();
    let (fsid, keyring) = (cluster.fsid(), cluster.keyring().unwrap().clone());
    let old = cluster.mon_addr().clone();
    assert!(cluster.old_mon_addr().is_none());
    cluster.create_pool(NewPool::new("more")).unwrap();
    cluster.stop_osd(1).unwrap();
    cluster.with(|machine, now| machine.mark_osd(now, 2, false)).unwrap();
    let before = epoch(&cluster);
    settle(&cluster);
    drop(cluster);

    let cluster = Cluster::start(config(folder.path())).unwrap();
    assert_eq!((cluster.fsid(), cluster.keyring()), (fsid, Some(&keyring)));
    assert_eq!(cluster.osd_addrs().len(), 3);
    assert_eq!(pools(&cluster), ["rbd", "more"]);
    assert!(epoch(&cluster) > before);
    let (up, weight) = cluster
        .with(|machine, _| {
            let map = machine.osdmap().unwrap();
            ([0, 1, 2].map(|osd| map.is_up(osd)), map.osd_weight[2])
        })
        .unwrap();
    assert_eq!((up, weight), ([true; 3], 0), "all run, and who was out is out");
    let moved = (*cluster.mon_addr() != old).then_some(&old);
    assert_eq!(cluster.old_mon_addr(), moved);
}

#[test]
fn a_cluster_stays_where_it_is_told_to_be_and_what_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(config(folder.path())).unwrap();
    let port = cluster.mon_addr().msgr2().unwrap().sock.unwrap().port();
    let in_use = Cluster::start(config(folder.path())).unwrap_err();
    assert!(matches!(in_use, Error::Data(DataError::InUse { .. })), "{in_use}");
    settle(&cluster);
    drop(cluster);
    for (other, what) in [
        (config(folder.path()).with_osds(2), "with a number of OSDs of 1, not 2"),
        (config(folder.path()).with_cephx(true), "by none, not cephx"),
        (config(folder.path()).with_fsid(Default::default()), "with the id"),
        (config(folder.path()).with_null_writes(true), "no use"),
    ] {
        let error = Cluster::start(other).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    let cluster = Cluster::start(config(folder.path()).with_mon_port(port)).unwrap();
    assert!(cluster.old_mon_addr().is_none());
}

#[test]
fn daemons_stay_where_they_were_and_osds_are_said_to_have_been_down() {
    let folder = tempfile::tempdir().unwrap();
    let both = |folder: &Path| config(folder).with_osds(2).with_versions(Versions::Any);
    let memory_limit = 32 << 20;
    let ports = |cluster: &Cluster| -> Vec<u16> {
        let addrs = std::iter::once(cluster.mon_addr()).chain(cluster.osd_addrs());
        addrs.flat_map(|addrs| &addrs.0).map(|addr| addr.sock.unwrap().port()).collect()
    };
    let cluster = Cluster::start(both(folder.path()).with_memory_limit(memory_limit)).unwrap();
    let (before, last) = (ports(&cluster), epoch(&cluster));
    settle(&cluster);
    drop(cluster);

    let cluster = Cluster::start(both(folder.path())).unwrap();
    assert_eq!(ports(&cluster), before);
    let limit = cluster.stats().unwrap().usage.osds.values().map(|osd| osd.total).max();
    assert_eq!((cluster.memory_limit(), limit), (memory_limit, Some(memory_limit)));
    let map = cluster.with(|machine, _| machine.osdmap().unwrap().clone()).unwrap();
    for info in &map.osd_info {
        assert!(last < info.down_at && info.down_at < info.up_from, "{info:?} after epoch {last}");
    }
    settle(&cluster);
    drop(cluster);

    // Somebody else has one of the ports now.
    let _other = TcpListener::bind(("127.0.0.1", before[3])).unwrap();
    let cluster = Cluster::start(both(folder.path())).unwrap();
    let now = ports(&cluster);
    assert_eq!((&now[..3], &now[4..]), (&before[..3], &before[4..]));
    assert_ne!(now[3], before[3]);
}

#[test]
fn a_cluster_insists_on_encryption_by_the_keys_that_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let secure = config(folder.path()).with_secure_only(true);
    let error = Cluster::start(secure.clone()).unwrap_err();
    assert!(matches!(error, Error::CannotEncrypt), "{error}");
    let cluster = Cluster::start(config(folder.path()).with_cephx(true)).unwrap();
    let keyring = cluster.keyring().unwrap().clone();
    settle(&cluster);
    drop(cluster);
    let error = Cluster::start(secure.clone().with_versions(Versions::Any)).unwrap_err();
    assert!(matches!(error, Error::CannotEncrypt), "{error}");
    assert_eq!(Cluster::start(secure).unwrap().keyring(), Some(&keyring));
}

#[test]
fn a_cluster_whose_disk_fails_ends_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(config(folder.path()).with_log_limit(20_000)).unwrap();
    let failure = cluster.failure().unwrap();
    settle(&cluster);
    // The next file cannot be made.
    std::fs::rename(folder.path().join("data"), folder.path().join("elsewhere")).unwrap();
    let mut pools = 0;
    while cluster.create_pool(NewPool::new(format!("pool{pools}"))).is_ok() {
        pools += 1;
        assert!(pools < 1_000_000, "the cluster goes on");
    }
    let error = failure.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(matches!(error, Error::Data(_)), "{error:?}");
    assert_eq!(error.to_string(), "beginning a log failed: No such file or directory (os error 2)");
}

#[test]
fn short_lives_leave_few_logs() {
    let folder = tempfile::tempdir().unwrap();
    let logs = || {
        let names = std::fs::read_dir(folder.path().join("data")).unwrap();
        names.filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().starts_with("log.")).count()
    };
    for _ in 0..30 {
        let cluster = Cluster::start(config(folder.path())).unwrap();
        settle(&cluster);
    }
    assert!((1..=12).contains(&logs()), "{} logs", logs());
}
