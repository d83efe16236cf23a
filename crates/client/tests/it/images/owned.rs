//! Changes that the owner of an image's lock makes for other clients, and migration of open images.

use onego::ErrorKind;
use onego::ceph::{Config, Error};
use onego::rados::{Cluster, Pool};
use onego::rbd::upkeep::CopyKind;
use onego::rbd::{self, CreateOptions, Features, Image, Layout, clones, migration, snapshots};
use onego_ceph::rbd::HEADER_UPDATE;
use std::time::Duration;

pub(super) const SIZE: u64 = 8 << 20;
pub(super) const PIECE: usize = 4096;

pub(super) fn with_two_clients(body: impl AsyncFnOnce(Pool, Pool) -> Result<(), Error>) {
    with_two_clients_as(|config| config, body);
}

pub(super) fn with_two_clients_as(
    configure: impl FnOnce(Config) -> Config,
    body: impl AsyncFnOnce(Pool, Pool) -> Result<(), Error>,
) {
    let server = onego_cluster::Cluster::start(onego_cluster::Config::default()).unwrap();
    let config = configure(Config::from_text(&server.conf()).unwrap());
    let run = async {
        let (one, other) = (Cluster::connect(&config).await?, Cluster::connect(&config).await?);
        body(one.pool("rbd").await?, other.pool("rbd").await?).await
    };
    smol::block_on(run).unwrap();
}

pub(super) fn options() -> CreateOptions {
    CreateOptions::new(SIZE).with_features(Features::DEFAULT).with_layout(Layout::plain(20).unwrap())
}

pub(super) async fn bytes(image: &Image, offset: u64) -> Result<Vec<u8>, Error> {
    Ok(image.read(offset, PIECE as u64).await?.to_vec())
}

#[test]
fn an_owner_that_keeps_the_lock_makes_changes_for_others() {
    with_two_clients(async |ours, theirs| {
        rbd::create(&ours, "disk", &options()).await?;
        let image = Image::open(&ours, "disk").await?;
        image.write(0, vec![1; PIECE]).await?;
        image.lock().await?;
        snapshots::create(&theirs, "disk", "first").await?;
        image.write(0, vec![2; PIECE]).await?;
        snapshots::rename(&theirs, "disk", "first", "one").await?;
        let again = snapshots::create(&theirs, "disk", "one").await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{again}");
        rbd::resize(&theirs, "disk", 2 * SIZE, |_, _| {}).await?;
        assert_eq!(image.size(), 2 * SIZE);
        image.write(2 * SIZE - PIECE as u64, vec![3; PIECE]).await?;
        assert_eq!(bytes(&Image::open_at(&theirs, "disk", "one").await?, 0).await?, vec![1; PIECE]);
        assert_eq!(bytes(&image, 0).await?, vec![2; PIECE]);
        snapshots::remove(&theirs, "disk", "one").await?;
        assert!(image.is_lock_owner());
        image.close().await
    });
}

#[test]
fn an_owner_that_took_the_lock_as_a_write_does_releases_it() {
    with_two_clients(async |ours, theirs| {
        rbd::create(&ours, "disk", &options()).await?;
        let (image, other) = (Image::open(&ours, "disk").await?, Image::open(&theirs, "disk").await?);
        image.own().await?;
        assert!(image.is_lock_owner());
        other.own().await?;
        assert!(other.is_lock_owner() && !image.is_lock_owner());
        other.lock().await?;
        assert!(image.own().await.is_err());
        other.close().await?;
        image.close().await
    });
}

#[test]
fn a_fenced_image_fails_and_leaves_other_users_of_its_client_alone() {
    with_two_clients(async |ours, _| {
        rbd::create(&ours, "disk", &options()).await?;
        let (image, other) = (Image::open(&ours, "disk").await?, Image::open(&ours, "disk").await?);
        image.lock().await?;
        // The write either completes before the fence, or never starts.
        let (write, fence) = smol::future::zip(image.write(0, vec![1; PIECE]), image.fence()).await;
        fence?;
        let is_shut_out = |error: &Error| matches!(error, Error::Image(onego_rbd::Error::Blocklisted));
        assert!(write.as_ref().is_ok() || write.as_ref().is_err_and(is_shut_out), "{write:?}");
        for result in [image.write(0, vec![2; PIECE]).await, image.own().await, image.refresh().await] {
            assert!(result.as_ref().is_err_and(is_shut_out), "{result:?}");
        }
        let header = onego_ceph::rbd::header_object(&image.info().id).to_string();
        let found = ours.lock_info(&header, "rbd_lock").await?;
        ours.break_lock(&header, "rbd_lock", found.holders[0].client, &found.holders[0].cookie).await?;
        let kept = bytes(&other, 0).await?;
        other.write(PIECE as u64, vec![3; PIECE]).await?;
        assert_eq!(bytes(&other, 0).await?, kept, "a write of a fenced user arrived later");
        // The first error of a lost image is the one to report.
        let _ = image.close().await;
        other.close().await
    });
}

#[test]
fn an_image_moves_to_the_trash_while_open_in_its_own_client_but_not_in_another() {
    with_two_clients(async |ours, theirs| {
        rbd::create(&ours, "disk", &options()).await?;
        let image = Image::open(&ours, "disk").await?;
        let busy = rbd::pools::move_to_trash(&theirs, "disk", Duration::ZERO).await.unwrap_err();
        assert!(matches!(busy, Error::Busy { .. }), "{busy}");
        rbd::pools::create_group(&ours, "group").await?;
        rbd::pools::add_to_group((&ours, "group"), (&ours, "disk")).await?;
        assert_eq!(rbd::pools::group_images(&ours, "group").await?.len(), 1);
        rbd::pools::move_to_trash(&ours, "disk", Duration::ZERO).await?;
        assert_eq!(rbd::pools::group_images(&ours, "group").await?, [], "an image in the trash has no name");
        image.write(0, vec![1; PIECE]).await?;
        image.close().await
    });
}

#[test]
fn a_clone_is_flattened_by_its_owner_during_writes() {
    with_two_clients(async |ours, theirs| {
        rbd::create(&ours, "old", &options()).await?;
        let old = Image::open(&ours, "old").await?;
        for object in 0..8_u64 {
            old.write(object << 20, vec![object as u8 + 1; PIECE]).await?;
        }
        old.close().await?;
        snapshots::create(&ours, "old", "base").await?;
        let format = Some(clones::CloneFormat::Counted);
        clones::clone((&ours, "old", "base"), (&ours, "new"), &options(), format).await?;
        let image = Image::open(&ours, "new").await?;
        image.lock().await?;
        image.write(PIECE as u64, vec![9; PIECE]).await?;
        let mut steps = 0;
        clones::flatten(&theirs, "new", |_, _| steps += 1).await?;
        assert!(steps > 0, "no progress was reported");
        assert!(rbd::info(&theirs, "new").await?.parent.is_none());
        for object in 0..8_u64 {
            assert_eq!(bytes(&image, object << 20).await?, vec![object as u8 + 1; PIECE]);
        }
        assert_eq!(bytes(&image, PIECE as u64).await?, vec![9; PIECE]);
        image.close().await
    });
}

#[test]
fn an_image_with_snapshots_is_migrated_during_writes() {
    with_two_clients(async |ours, theirs| {
        rbd::create(&ours, "from", &options()).await?;
        let from = Image::open(&ours, "from").await?;
        for time in 1..=3_u8 {
            from.write(u64::from(time) << 20, vec![time; PIECE]).await?;
            from.write(0, vec![time; PIECE]).await?;
            if time < 3 {
                from.flush().await?;
                snapshots::create(&theirs, "from", &format!("s{time}")).await?;
            }
        }
        from.close().await?;
        let shape = options().with_layout(Layout::plain(19).unwrap());
        migration::prepare((&ours, "from"), (&ours, "to"), &shape, CopyKind::AsSource).await?;
        assert!(Image::open(&theirs, "from").await.is_err());
        let image = Image::open(&ours, "to").await?;
        image.lock().await?;
        image.write(5 << 20, vec![5; PIECE]).await?;
        image.write(PIECE as u64, vec![6; PIECE]).await?;
        migration::execute(&theirs, "to", |_, _| {}).await?;
        assert!(image.is_lock_owner());
        image.write(6 << 20, vec![7; PIECE]).await?;
        image.close().await?;
        migration::commit(&theirs, "to", |_, _| {}).await?;
        let image = Image::open(&theirs, "to").await?;
        for (offset, byte) in
            [(0, 3), (1 << 20, 1), (3 << 20, 3), (5 << 20, 5), (PIECE as u64, 6), (6 << 20, 7)]
        {
            assert_eq!(bytes(&image, offset).await?, vec![byte; PIECE], "at {offset}");
        }
        for time in 1..=2_u8 {
            let at = Image::open_at(&theirs, "to", &format!("s{time}")).await?;
            assert_eq!(bytes(&at, 0).await?, vec![time; PIECE]);
            assert_eq!(bytes(&at, 5 << 20).await?, vec![0; PIECE]);
        }
        assert!(rbd::upkeep::check_object_map(&theirs, "to", None, |_, _| {}).await?);
        Ok(())
    });
}

#[test]
fn readers_see_data_that_is_not_copied_yet_after_a_header_change() {
    with_two_clients(async |ours, theirs| {
        rbd::create(&ours, "from", &options()).await?;
        let from = Image::open(&ours, "from").await?;
        from.write(1 << 20, vec![1; PIECE]).await?;
        from.close().await?;
        snapshots::create(&ours, "from", "one").await?;
        migration::prepare((&ours, "from"), (&ours, "to"), &options(), CopyKind::AsSource).await?;
        let readers = [Image::open_at(&ours, "to", "one").await?, Image::open_read_only(&ours, "to").await?];
        // The call returns after all watchers of the header have reread it.
        let header = format!("rbd_header.{}", rbd::info(&theirs, "to").await?.id);
        theirs.notify(&header, HEADER_UPDATE.to_vec(), Duration::from_secs(10)).await?;
        for reader in &readers {
            assert!(bytes(reader, 1 << 20).await? == vec![1; PIECE]);
        }
        migration::execute(&theirs, "to", |_, _| {}).await?;
        for reader in &readers {
            assert!(bytes(reader, 1 << 20).await? == vec![1; PIECE]);
        }
        Ok(())
    });
}

#[test]
fn an_aborted_migration_leaves_the_image_unchanged() {
    with_two_clients(async |ours, _| {
        rbd::create(&ours, "stays", &options()).await?;
        let image = Image::open(&ours, "stays").await?;
        image.write(0, vec![1; PIECE]).await?;
        image.close().await?;
        migration::prepare((&ours, "stays"), (&ours, "goes"), &options(), CopyKind::AsSource).await?;
        let image = Image::open(&ours, "goes").await?;
        image.write(0, vec![2; PIECE]).await?;
        let in_use = migration::abort(&ours, "goes", |_, _| {}).await.unwrap_err();
        assert_eq!(in_use.kind(), ErrorKind::Busy, "{in_use}");
        image.close().await?;
        migration::abort(&ours, "stays", |_, _| {}).await?;
        assert_eq!(bytes(&Image::open(&ours, "stays").await?, 0).await?, vec![1; PIECE]);
        assert!(Image::open(&ours, "goes").await.is_err());
        Ok(())
    });
}

#[test]
fn an_image_of_a_blocklisted_user_can_be_removed_at_once() {
    with_two_clients(async |ours, theirs| {
        rbd::create(&ours, "disk", &options()).await?;
        let image = Image::open(&theirs, "disk").await?;
        image.write(0, vec![1; PIECE]).await?;
        let busy = rbd::remove(&ours, "disk", |_, _| {}).await.unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
        let watchers = ours.watchers(&image.info().header_object()).await?;
        let addr = watchers[0].addr.to_string();
        assert!(busy.to_string().contains(&addr), "{busy} does not name {addr}");
        let add = format!(r#"{{"prefix": "osd blocklist", "blocklistop": "add", "addr": "{addr}"}}"#);
        ours.cluster().command(&add, onego::List::new()).await?;
        rbd::remove(&ours, "disk", |_, _| {}).await
    });
}
