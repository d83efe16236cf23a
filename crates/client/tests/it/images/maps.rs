//! Object maps: their limit, and their content after changes of whole images.

use super::owned::{options, with_two_clients};
use onego::rados::Pool;
use onego::rbd::{self, CreateOptions, Features, Image, snapshots, upkeep};

/// Exceeds the limit of an object map, with objects of 4 MiB.
const PIB: u64 = 1 << 50;

async fn objects(pool: &Pool) -> Result<Vec<String>, onego::ceph::Error> {
    let all = pool.all_objects().all().await?;
    Ok(all.into_iter().map(|entry| entry.name).collect())
}

#[test]
fn an_image_with_too_many_objects_for_its_map_is_refused_and_leaves_nothing() {
    with_two_clients(async |ours, _| {
        rbd::create(&ours, "disk", &options()).await?;
        let before = objects(&ours).await?;
        let large = CreateOptions::new(PIB).with_features(Features::DEFAULT);
        let refused = rbd::create(&ours, "large", &large).await.unwrap_err().to_string();
        assert!(refused.contains("268435456") && refused.contains("256000000"), "{refused}");
        let refused = rbd::resize(&ours, "disk", PIB, |_, _| {}).await.unwrap_err().to_string();
        assert!(refused.contains("object-map"), "{refused}");
        assert_eq!(objects(&ours).await?, before);
        assert_eq!(rbd::info(&ours, "disk").await?.size, options().size);
        let plain = CreateOptions::new(PIB).with_features(Features::LAYERING.with(Features::EXCLUSIVE_LOCK));
        rbd::create(&ours, "plain", &plain).await?;
        let refused = rbd::upkeep::enable_features(&ours, "plain", Features::OBJECT_MAP).await.unwrap_err();
        assert!(refused.to_string().contains("256000000"), "{refused}");
        Ok(())
    });
}

#[test]
fn an_object_counts_as_changed_after_a_rollback() {
    with_two_clients(async |ours, _| {
        rbd::create(&ours, "disk", &options()).await?;
        let image = Image::open(&ours, "disk").await?;
        for (snapshot, object) in [("one", 0), ("two", 1), ("three", 2)] {
            image.write(object << 20, vec![7; 4096]).await?;
            snapshots::create(&ours, "disk", snapshot).await?;
        }
        image.write(3 << 20, vec![7; 4096]).await?;
        image.close().await?;
        assert!(upkeep::check_object_map(&ours, "disk", None, |_, _| {}).await?);
        snapshots::rollback(&ours, "disk", "two", |_, _| {}).await?;
        assert!(upkeep::check_object_map(&ours, "disk", None, |_, _| {}).await?, "the map claims too little");
        upkeep::rebuild_object_map(&ours, "disk", None, |_, _| {}).await?;
        assert!(upkeep::check_object_map(&ours, "disk", None, |_, _| {}).await?);
        Ok(())
    });
}
