//! Metrics match the client's operations to the byte.

use onego::nfs::{self, Mount, SetAttributes};
use onego::{ceph, rados};
use smol::block_on;

const WRITES: u64 = 100;
const READS: u64 = 50;
const BYTES: u64 = 4096;

#[test]
fn a_cluster_client_counts_its_operations_by_pool_and_kind() {
    let cluster = onego_cluster::Cluster::start(onego_cluster::Config::default()).unwrap();
    let config = ceph::Config::from_text(&cluster.conf_with_key()).unwrap();
    let pool_name = "rbd";
    let (seen, figures) = block_on(async {
        let client = rados::Cluster::connect(&config).await.unwrap();
        assert_eq!(client.metrics().pools.len(), 0);
        let pool = client.pool(pool_name).await.unwrap();
        for number in 0..WRITES {
            pool.write(&format!("object.{number}"), 0, vec![7; BYTES as usize]).await.unwrap();
        }
        for number in 0..READS {
            pool.read(&format!("object.{number}"), 0, BYTES).await.unwrap();
        }
        // A missing object is an answer and no error.
        assert!(pool.read("nothing", 0, BYTES).await.is_err());
        (client.metrics(), client.figures())
    });
    let operations = &seen.pools[pool_name];
    let (write, read) = (operations.kind("write").unwrap(), operations.kind("read").unwrap());
    assert_eq!((write.operations(), write.bytes, write.errors), (WRITES, WRITES * BYTES, 0));
    assert_eq!((read.operations(), read.bytes, read.errors), (READS + 1, READS * BYTES, 0));
    assert!(write.latency.quantile(0.5) <= write.latency.quantile(0.99));
    assert!(write.latency.mean().is_some_and(|mean| !mean.is_zero()));
    assert_eq!((operations.in_flight, seen.retries, seen.reconnects), (0, 0, 0));
    assert_eq!(seen.map_epoch, cluster.stats().unwrap().epoch);
    // The cluster counts the same, and the metrics outlive the client.
    let of_cluster = &cluster.stats().unwrap().operations[pool_name];
    let written = of_cluster.kind("write").unwrap();
    assert_eq!((written.operations(), written.bytes), (WRITES, WRITES * BYTES));
    assert_eq!(of_cluster.kind("read").unwrap().bytes, READS * BYTES);
    assert_eq!(figures.snapshot().pools, seen.pools);
}

#[test]
fn a_restarted_osd_shows_as_reopened_connections() {
    let cluster = onego_cluster::Cluster::start(onego_cluster::Config::default()).unwrap();
    let config = ceph::Config::from_text(&cluster.conf_with_key()).unwrap();
    block_on(async {
        let client = rados::Cluster::connect(&config).await.unwrap();
        let pool = client.pool("rbd").await.unwrap();
        pool.write("object", 0, vec![7; 10]).await.unwrap();
        let before = client.metrics();
        cluster.restart_osd(0).unwrap();
        pool.write("object", 0, vec![8; 10]).await.unwrap();
        let after = client.metrics();
        assert!(after.map_epoch > before.map_epoch, "{after:?}");
        assert_eq!(after.pools["rbd"].kind("write").unwrap().operations(), 2);
    });
}

#[test]
fn an_nfs_client_and_its_server_count_the_same_calls() {
    let export = onego_nfs_server::Export::default().with_secure(false);
    let config = onego_nfs_server::Config::default().with_export(export);
    let server = onego_nfs_server::Server::start(config).unwrap();
    let addr = server.addr();
    let config = nfs::Config::new(&addr.ip().to_string()).with_port(addr.port());
    let seen = block_on(async {
        let mount = Mount::connect(&config, "/export").await.unwrap();
        let file = mount.create("file", SetAttributes::default(), true).await.unwrap();
        for number in 0..WRITES {
            file.write(number * BYTES, vec![7; BYTES as usize]).await.unwrap();
        }
        file.sync().await.unwrap();
        for number in 0..READS {
            file.read(number * BYTES, BYTES as usize).await.unwrap();
        }
        mount.metrics()
    });
    let of_server = server.stats().unwrap().operations;
    for (calls, side) in [(&seen.calls, "client"), (&of_server, "server")] {
        let (write, read) = (calls.kind("write").unwrap(), calls.kind("read").unwrap());
        assert_eq!((write.operations(), write.bytes), (WRITES, WRITES * BYTES), "{side}");
        assert_eq!((read.operations(), read.bytes), (READS, READS * BYTES), "{side}");
        assert_eq!(calls.kind("create").unwrap().operations(), 1, "{side}");
        assert_eq!((calls.in_flight, write.errors), (0, 0), "{side}");
    }
    assert_eq!((seen.retries, seen.reconnects), (0, 0));
}
