//! Images with damaged or missing objects: operations fail with a clear error or invalidate the object map. They
//! never return wrong data, and never wait forever.

use onego::ceph::{Config, Error};
use onego::rados::{Cluster, Pool};
use onego::rbd::clones::{CloneFormat, clone};
use onego::rbd::{self, CreateOptions, Features, Image, ImageError, Layout, snapshots, upkeep};
use onego_ceph::cls::rbd::{GetFlags, ObjectMapResize, image_flag};
use onego_ceph::rbd::header_object;
use onego_ceph::types::NOSNAP;
use std::collections::BTreeSet;
use std::time::Duration;

const SIZE: u64 = 8 << 20;
const OBJECT: u64 = 1 << 20;

const PATIENCE: Duration = Duration::from_secs(60);

fn options() -> CreateOptions {
    CreateOptions::new(SIZE).with_layout(Layout::plain(20).unwrap()).with_features(Features::DEFAULT)
}

/// Runs `body` with a pool that contains an image called `disk`, whose first object is filled with sevens.
fn with_image(body: impl AsyncFnOnce(Pool) -> Result<(), Error>) {
    let server = onego_cluster::Cluster::start(onego_cluster::Config::default()).unwrap();
    let config = Config::from_text(&server.conf()).unwrap();
    let run = async {
        let cluster = Cluster::connect(&config).await?;
        let pool = cluster.pool("rbd").await?;
        rbd::create(&pool, "disk", &options()).await?;
        let image = Image::open(&pool, "disk").await?;
        image.write(0, vec![7; OBJECT as usize]).await?;
        image.close().await?;
        body(pool).await
    };
    let late = async {
        smol::Timer::after(PATIENCE).await;
        panic!("the test does not end");
    };
    smol::block_on(smol::future::or(run, late)).unwrap();
}

async fn header(pool: &Pool) -> Result<String, Error> {
    Ok(header_object(&rbd::info(pool, "disk").await?.id).to_string())
}

async fn check(image: &Image) -> Result<(), Error> {
    assert_eq!(image.read(0, OBJECT).await?.to_vec(), vec![7; OBJECT as usize]);
    Ok(())
}

#[test]
fn a_damaged_header_fails_what_needs_it() {
    let garbage: [&[u8]; 4] = [&[], &[1, 2, 3], &[0xff; 40], &[0; 40]];
    for key in ["size", "features", "object_prefix", "order", "snap_seq", "parent", "flags"] {
        with_image(async |pool| {
            let header = header(&pool).await?;
            for value in garbage {
                pool.set_omap(&header, [(key.into(), value.to_vec().into())].into()).await?;
                // Zeros may be a valid value; an image that opens shows its data.
                if let Ok(image) = Image::open(&pool, "disk").await {
                    let read = image.read(0, OBJECT.min(image.size())).await;
                    assert!(
                        read.is_ok_and(|bytes| bytes.to_vec().iter().all(|byte| *byte == 7 || *byte == 0))
                    );
                    image.close().await?;
                }
                let _ = snapshots::create(&pool, "disk", &format!("of-{key}")).await;
                // Discarding the data past the end of an image of 16 EiB takes long.
                if key != "size" {
                    let _ = rbd::resize(&pool, "disk", SIZE, |_, _| {}).await;
                }
            }
            pool.remove_omap(&header, BTreeSet::from([key.into()])).await?;
            let opened = Image::open(&pool, "disk").await;
            let may_be_missing = ["snap_seq", "parent", "flags"].contains(&key);
            assert!(may_be_missing || opened.is_err(), "{key} is missing");
            Ok(())
        });
    }
}

#[test]
fn an_id_of_garbage_is_not_an_image() {
    with_image(async |pool| {
        let long = [&u32::MAX.to_le_bytes()[..], b"abc"].concat();
        let no_text = [&2_u32.to_le_bytes()[..], &[0xff, 0xfe]].concat();
        let elsewhere = [&6_u32.to_le_bytes()[..], b"../../"].concat();
        let empty = 0_u32.to_le_bytes().to_vec();
        for id in [Vec::new(), vec![9], long, no_text, elsewhere, empty, vec![0x41; 1 << 20]] {
            pool.write_full("rbd_id.disk", id).await?;
            let error = Image::open(&pool, "disk").await.map(drop).unwrap_err();
            assert!(!error.is_retryable(), "{error}");
            assert!(
                rbd::remove(&pool, "disk", |_, _| {}).await.is_err()
                    || rbd::info(&pool, "disk").await.is_err()
            );
        }
        Ok(())
    });
}

async fn use_without_map(
    pool: &Pool,
    damage: impl AsyncFnOnce(&Pool, &str) -> Result<(), Error>,
) -> Result<(), Error> {
    let header = header(pool).await?;
    let map = header.replace("rbd_header", "rbd_object_map");
    damage(pool, &map).await?;
    let image = Image::open(pool, "disk").await?;
    image.write(3 * OBJECT, vec![3; 4096]).await?;
    image.discard(5 * OBJECT, OBJECT).await?;
    check(&image).await?;
    image.close().await?;
    let flags = pool.call(&header, &GetFlags { snap: NOSNAP }).await?;
    let lost = image_flag::OBJECT_MAP_INVALID | image_flag::FAST_DIFF_INVALID;
    assert_eq!(flags & lost, lost, "the map is marked as invalid");
    // After a rebuild it is used again.
    upkeep::rebuild_object_map(pool, "disk", None, |_, _| {}).await?;
    assert_eq!(pool.call(&header, &GetFlags { snap: NOSNAP }).await? & lost, 0);
    assert!(upkeep::check_object_map(pool, "disk", None, |_, _| {}).await?);
    check(&Image::open(pool, "disk").await?).await
}

#[test]
fn a_missing_object_map_is_invalidated() {
    with_image(async |pool| use_without_map(&pool, async |pool, map| pool.remove(map).await).await);
}

#[test]
fn an_object_map_of_garbage_is_invalidated() {
    with_image(async |pool| {
        use_without_map(&pool, async |pool, map| pool.write_full(map, vec![0xa5; 100]).await).await?;
        use_without_map(&pool, async |pool, map| pool.write_full(map, Vec::new()).await).await
    });
}

#[test]
fn an_object_map_with_a_wrong_checksum_is_invalidated() {
    with_image(async |pool| {
        let flip = async |pool: &Pool, map: &str| {
            let mut bytes = pool.read(map, 0, 0).await?.to_vec();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            pool.write_full(map, bytes).await
        };
        use_without_map(&pool, flip).await
    });
}

#[test]
fn an_object_map_of_too_few_objects_is_invalidated() {
    with_image(async |pool| {
        let shorten = async |pool: &Pool, map: &str| {
            let resize = onego::rados::WriteOp::new().call(&ObjectMapResize { objects: 2, state: 0 });
            pool.operate_write(map, resize).await.map(drop)
        };
        use_without_map(&pool, shorten).await
    });
}

async fn make_clone(pool: &Pool) -> Result<(), Error> {
    snapshots::create(pool, "disk", "base").await?;
    clone((pool, "disk", "base"), (pool, "child"), &options(), Some(CloneFormat::Counted)).await
}

#[test]
fn a_clone_without_its_parent_cannot_be_opened() {
    with_image(async |pool| {
        make_clone(&pool).await?;
        pool.remove(&header(&pool).await?).await?;
        let error = Image::open(&pool, "child").await.map(drop).unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
        assert!(rbd::info(&pool, "child").await?.parent.is_some());
        rbd::remove(&pool, "child", |_, _| {}).await
    });
}

#[test]
fn an_open_snapshot_returns_no_data_after_its_removal() {
    with_image(async |pool| {
        snapshots::create(&pool, "disk", "old").await?;
        let old = Image::open_at(&pool, "disk", "old").await?;
        check(&old).await?;
        assert!(old.write(0, vec![1; 4096]).await.is_err(), "a snapshot is read-only");
        snapshots::remove(&pool, "disk", "old").await?;
        let error = old.read(0, 4096).await.unwrap_err();
        assert!(matches!(error, Error::Image(ImageError::Removed)), "{error}");
        check(&Image::open(&pool, "disk").await?).await
    });
}

/// Creates a clone with a snapshot, then shrinks and grows it, which hides the rest of the parent.
async fn make_cut_clone(pool: &Pool) -> Result<(), Error> {
    make_clone(pool).await?;
    snapshots::create(pool, "child", "whole").await?;
    rbd::resize(pool, "child", OBJECT / 2, |_, _| {}).await?;
    rbd::resize(pool, "child", SIZE, |_, _| {}).await
}

async fn is_cut(image: &Image) -> Result<(), Error> {
    let half = OBJECT as usize / 2;
    assert_eq!(image.read(0, OBJECT).await?.to_vec(), [vec![7; half], vec![0; half]].concat());
    Ok(())
}

#[test]
fn a_snapshot_of_a_shrunk_clone_shows_the_parent_after_writes_and_a_flatten() {
    with_image(async |pool| {
        make_cut_clone(&pool).await?;
        let child = Image::open(&pool, "child").await?;
        is_cut(&child).await?;
        child.write(OBJECT - 512, vec![1; 512]).await?;
        child.discard(0, OBJECT).await?;
        check(&Image::open_at(&pool, "child", "whole").await?).await?;
        rbd::clones::flatten(&pool, "child", |_, _| {}).await?;
        check(&Image::open_at(&pool, "child", "whole").await?).await?;
        assert_eq!(child.read(0, OBJECT).await?.to_vec(), vec![0; OBJECT as usize]);
        Ok(())
    });
}

#[test]
fn a_shrunk_clone_shows_the_parent_again_after_a_rollback() {
    with_image(async |pool| {
        make_cut_clone(&pool).await?;
        snapshots::rollback(&pool, "child", "whole", |_, _| {}).await?;
        check(&Image::open(&pool, "child").await?).await?;
        assert!(upkeep::check_object_map(&pool, "child", None, |_, _| {}).await?);
        Ok(())
    });
}
