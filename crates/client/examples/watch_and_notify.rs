//! Two clients: one watches an object, the other notifies its watchers and gets their replies.
//!
//! `cargo run -p onego --example watch_and_notify -- CEPH_CONF`

use onego::ceph::{self, Config};
use onego::rados::{Cluster, WatchEvent};
use std::time::Duration;

pub(crate) fn main() -> Result<(), ceph::Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/etc/ceph/ceph.conf".into());
    run(&Config::from_file(path)?)
}

pub(crate) fn run(config: &Config) -> Result<(), ceph::Error> {
    smol::block_on(async {
        let watching = Cluster::connect(config).await?.pool("rbd").await?;
        watching.create("bell", false).await?;
        let mut watch = watching.watch("bell").await?;
        let watcher = smol::spawn(async move {
            // Take the first notification; the watch ends with this function.
            let Some(WatchEvent::Notify(notification)) = watch.next().await else { return };
            assert!(*notification.payload() == b"ding");
            notification.acknowledge(b"heard");
        });

        let pool = Cluster::connect(config).await?.pool("rbd").await?;
        for watcher in pool.watchers("bell").await? {
            println!("watched by {watcher}");
        }
        let notified = pool.notify("bell", b"ding", Duration::from_secs(10)).await?;
        watcher.await;
        assert!(notified.missed.is_empty());
        assert_eq!(notified.acknowledgements[0].reply, b"heard");
        pool.remove("bell").await
    })
}
