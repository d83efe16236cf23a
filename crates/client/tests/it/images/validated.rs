//! Validation of pools before their first image.

use super::owned::{options, with_two_clients};
use onego::List;
use onego::ceph::Errno;
use onego::rbd::clones::{self, CloneFormat};
use onego::rbd::migration::{self, SourceSpec};
use onego::rbd::upkeep::{self, CopyKind};
use onego::rbd::{self, pools, snapshots};
use serde_json::json;

#[test]
fn a_pool_has_snapshots_of_images_or_of_the_whole_pool_but_not_both() {
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
        assert!(other.all_objects().all().await?.is_empty(), "objects were left behind");
        // All other ways to create an image are refused as well.
        let spec = SourceSpec::native(&ours, "disk", "one")?;
        let to = (&other, "disk");
        for refused in [
            migration::prepare_import(&spec, to, &options()).await.unwrap_err(),
            clones::clone((&ours, "disk", "one"), to, &options(), Some(CloneFormat::Counted))
                .await
                .unwrap_err(),
            upkeep::copy((&ours, "disk", None), to, &options(), |_, _| {}).await.unwrap_err(),
            upkeep::deep_copy((&ours, "disk", None), to, &options(), CopyKind::Flat, |_, _| {})
                .await
                .unwrap_err(),
            migration::prepare((&ours, "disk"), to, &options(), CopyKind::Flat).await.unwrap_err(),
            pools::init(&other, false).await.unwrap_err(),
        ] {
            assert_eq!(refused.errno(), Errno::INVAL, "{refused}");
            assert!(refused.to_string().contains("rmsnap"), "{refused}");
        }
        assert!(other.all_objects().all().await?.is_empty(), "objects were left behind");
        assert_eq!(snapshots::list(&ours, "disk").await?.len(), 1, "the source was changed");
        Ok(())
    });
}

#[test]
fn a_pool_is_initialized_before_the_first_image() {
    with_two_clients(async |ours, _| {
        let cluster = ours.cluster();
        let command =
            async |command: serde_json::Value| cluster.command(&command.to_string(), List::new()).await;
        command(json!({"prefix": "osd pool create", "pool": "images"})).await?;
        let images = cluster.pool("images").await?;
        pools::init(&images, false).await?;
        pools::init(&images, false).await?;
        assert_eq!(images.read("rbd_info", 0, 0).await?.to_vec(), b"overwrite validated");
        let known = command(json!({"prefix": "osd pool application get", "format": "json"})).await?;
        let known: serde_json::Value = serde_json::from_slice(&known.output).unwrap();
        assert_eq!(known["images"], json!({"rbd": {}}));
        let mksnap = json!({"prefix": "osd pool mksnap", "pool": "images", "snap": "all"});
        assert_eq!(command(mksnap).await.unwrap_err().errno(), Errno::INVAL);
        // A pool with another application is left alone.
        command(json!({"prefix": "osd pool create", "pool": "files"})).await?;
        command(json!({"prefix": "osd pool application enable", "pool": "files", "app": "cephfs"})).await?;
        let files = cluster.pool("files").await?;
        assert_eq!(pools::init(&files, false).await.unwrap_err().errno(), Errno::PERM);
        pools::init(&files, true).await
    });
}
