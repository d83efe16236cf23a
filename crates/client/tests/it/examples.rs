//! Runs every example against servers in this process.
#![expect(dead_code, reason = "each example also has its own main")]

use onego::EngineKind;
use onego::ceph::{Config, Error};
use onego_cluster::Cluster;

#[path = "../../examples/cluster_in_a_test.rs"]
mod cluster_in_a_test;
#[path = "../../examples/images.rs"]
mod images;
#[path = "../../examples/nfs.rs"]
mod nfs;
#[path = "../../examples/objects.rs"]
mod objects;
#[path = "../../examples/on_smol.rs"]
mod on_smol;
#[path = "../../examples/on_tokio.rs"]
mod on_tokio;
#[path = "../../examples/polled.rs"]
mod polled;
#[path = "../../examples/watch_and_notify.rs"]
mod watch_and_notify;

fn with_cluster<E: std::fmt::Debug>(example: impl Fn(&Config) -> Result<(), E>) {
    let cluster = Cluster::start(onego_cluster::Config::default()).unwrap();
    example(&Config::from_text(&cluster.conf()).unwrap()).unwrap();
}

#[test]
fn objects_are_changed_atomically_and_listed() {
    with_cluster(objects::run);
}

#[test]
fn a_watcher_replies_to_a_notification() {
    with_cluster(watch_and_notify::run);
}

#[test]
fn an_image_returns_what_was_written() {
    with_cluster(images::run);
}

#[test]
fn a_polled_reactor_completes_submitted_requests() {
    with_cluster(polled::run);
}

#[test]
fn tokio_drives_a_client() {
    with_cluster(on_tokio::run);
}

#[test]
fn smol_drives_a_client() {
    with_cluster(on_smol::run);
}

#[test]
fn driving_a_ring_on_a_runtime_fails() {
    for engine in [EngineKind::Uepoll, EngineKind::Uring] {
        with_cluster(|config| {
            let error = on_smol::run(&config.clone().with_engine(engine)).unwrap_err();
            let Error::Io { source, .. } = &error else { return Err(error) };
            assert_eq!(source.kind(), std::io::ErrorKind::Unsupported);
            Ok(())
        });
    }
}

#[test]
fn a_test_has_its_own_cluster() {
    cluster_in_a_test::run().unwrap();
}

#[test]
fn files_are_streams() {
    use onego_nfs_server::{Config as ServerConfig, Export, Server, Squash};
    let export = Export::default().with_squash(Squash::None).with_secure(false);
    let server = Server::start(ServerConfig::default().with_export(export)).unwrap();
    let addr = server.addr();
    let config = onego::nfs::Config::new(&addr.ip().to_string()).with_port(addr.port());
    nfs::run(&config, "/export").unwrap();
}
