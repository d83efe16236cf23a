//! Pools that are validated before their first image.

use super::owned::{options, with_two_clients};
use onego::List;
use onego::ceph::Errno;
use onego::rbd::{self, snapshots};

#[test]
fn a_pool_has_snapshots_of_images_or_of_the_whole_pool() {
    with_two_clients(async |ours, _| {
        let cluster = ours.cluster();
        let mksnap =
            |pool: &str| format!(r#"{{"prefix": "osd pool mksnap", "pool": "{pool}", "snap": "all"}}"#);
        rbd::create(&ours, "disk", &options()).await?;
        assert_eq!(ours.read("rbd_info", 0, 0).await?.to_vec(), b"overwrite validated");
        let refused = cluster.command(&mksnap("rbd"), List::new()).await.unwrap_err();
        assert_eq!(refused.errno(), Errno::INVAL, "{refused}");
        snapshots::create(&ours, "disk", "one").await?;
        let create = r#"{"prefix": "osd pool create", "pool": "other"}"#;
        cluster.command(create, List::new()).await?;
        cluster.command(&mksnap("other"), List::new()).await?;
        let other = cluster.pool("other").await?;
        let refused = rbd::create(&other, "disk", &options()).await.unwrap_err();
        assert_eq!(refused.errno(), Errno::INVAL);
        assert!(refused.to_string().contains("rmsnap"), "{refused}");
        assert!(other.all_objects().all().await?.is_empty(), "something is left");
        Ok(())
    });
}
