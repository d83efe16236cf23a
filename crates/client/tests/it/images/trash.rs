use crate::images::owned::{PIECE, options, with_two_clients};
use onego::ErrorKind;
use onego::ceph::{Errno, Error};
use onego::rbd::pools::{TrashPurge, move_to_trash, purge_trash, remove_from_trash, trash};
use onego::rbd::{self, Image, clones, snapshots};
use std::time::{Duration, SystemTime};

#[test]
fn the_trash_is_purged_by_time_or_by_space() {
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
        // Exceeds 32 bits of seconds.
        left(TrashPurge::KeptUntil(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 32)), &[]).await?;
        for part in [-0.1, 1.1, f64::NAN] {
            let wrong = purge_trash(&ours, TrashPurge::Room(part), |_, _| {}).await.unwrap_err();
            assert_eq!(wrong.kind(), ErrorKind::InvalidInput, "{part}: {wrong}");
        }
        Ok(())
    });
}

#[test]
fn a_purge_removes_what_it_can_with_clones_before_parents() {
    with_two_clients(async |ours, theirs| {
        let discard = async |name: &str| move_to_trash(&ours, name, Duration::ZERO).await;
        for name in ["used", "parent", "single"] {
            rbd::create(&ours, name, &options()).await?;
        }
        snapshots::create(&ours, "parent", "s").await?;
        let format = Some(clones::CloneFormat::Counted);
        clones::clone((&ours, "parent", "s"), (&ours, "clone"), &options(), format).await?;
        snapshots::remove(&ours, "parent", "s").await?;
        // A purge of snapshots does not remove hidden ones.
        let kept = rbd::remove(&ours, "parent", |_, _| {}).await.unwrap_err();
        assert_eq!(kept.errno(), Errno::NOTEMPTY);
        assert!(kept.to_string().contains("\"rbd flatten rbd/clone\""), "{kept}");
        assert!(!kept.to_string().contains("purge"), "{kept}");
        // The parent goes to the trash before the clone, and the image in use before both.
        discard("used").await?;
        discard("parent").await?;
        discard("clone").await?;
        let in_trash = trash(&ours).await?;
        let id_of = |name: &str| &in_trash.iter().find(|entry| entry.name == name).unwrap().id;
        let kept = remove_from_trash(&ours, id_of("parent"), true, |_, _| {}).await.unwrap_err();
        assert!(kept.to_string().contains(&format!("\"rbd trash rm rbd/{}\"", id_of("clone"))), "{kept}");
        assert!(kept.to_string().contains("\"rbd trash restore rbd/"), "{kept}");
        discard("single").await?;
        let id = &trash(&ours).await?.into_iter().find(|entry| entry.name == "used").unwrap().id;
        let used = Image::open_by_id(&theirs, id).await?;
        let error =
            purge_trash(&ours, TrashPurge::KeptUntil(SystemTime::now()), |_, _| {}).await.unwrap_err();
        assert!(error.to_string().contains("1 of 4 images stay in the trash, for example used"), "{error}");
        assert_eq!(trash(&ours).await?.len(), 1);
        used.close().await?;
        purge_trash(&ours, TrashPurge::KeptUntil(SystemTime::now()), |_, _| {}).await?;
        assert!(trash(&ours).await?.is_empty());
        Ok(())
    });
}
