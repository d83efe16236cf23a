//! The trash of a pool, on a cluster of this process.

use crate::images::owned::{PIECE, options, with_two_clients};
use onego::ErrorKind;
use onego::ceph::Error;
use onego::rbd::pools::{TrashPurge, move_to_trash, purge_trash, trash};
use onego::rbd::{self, Image};
use std::time::{Duration, SystemTime};

#[test]
fn the_trash_is_emptied_by_time_or_by_room() {
    with_two_clients(async |ours, _| {
        for (name, minutes) in [("later", 2), ("over", 0), ("soon", 1)] {
            rbd::create(&ours, name, &options()).await?;
            let image = Image::open(&ours, name).await?;
            image.write(0, vec![1; PIECE]).await?;
            image.close().await?;
            move_to_trash(&ours, name, Duration::from_secs(60 * minutes)).await?;
        }
        let left = async |which, names: &[&str]| {
            purge_trash(&ours, which, |done, all| assert!(done <= all && all <= 3)).await?;
            let mut left: Vec<_> = trash(&ours).await?.into_iter().map(|entry| entry.name).collect();
            left.sort();
            assert_eq!(left, names, "{which:?}");
            Ok::<_, Error>(())
        };
        let now = SystemTime::now();
        left(TrashPurge::KeptUntil(now - Duration::from_secs(10)), &["later", "over", "soon"]).await?;
        left(TrashPurge::KeptUntil(now), &["later", "soon"]).await?;
        left(TrashPurge::KeptUntil(SystemTime::UNIX_EPOCH), &["later", "soon"]).await?;
        left(TrashPurge::Room(1.0), &["later", "soon"]).await?;
        left(TrashPurge::KeptUntil(now + Duration::from_secs(70)), &["later"]).await?;
        left(TrashPurge::Room(0.0), &[]).await?;
        rbd::create(&ours, "other", &options()).await?;
        move_to_trash(&ours, "other", Duration::from_secs(60)).await?;
        // Behind what 32 bits of seconds have.
        left(TrashPurge::KeptUntil(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 32)), &[]).await?;
        for part in [-0.1, 1.1, f64::NAN] {
            let wrong = purge_trash(&ours, TrashPurge::Room(part), |_, _| {}).await.unwrap_err();
            assert_eq!(wrong.kind(), ErrorKind::InvalidInput, "{part}: {wrong}");
        }
        Ok(())
    });
}
