//! Images of format 1: their objects are those of Ceph, and they support every operation that needs no feature.

use onego::ErrorKind;
use onego::ceph::{Config, Errno, Error};
use onego::rados::{Cluster, LockKind, Pool};
use onego::rbd::snapshots::{self, Snapshot};
use onego::rbd::upkeep::{self, CopyKind};
use onego::rbd::{self, CreateOptions, Diff, DiffOptions, Features, Image, ImageError, Layout};
use onego::rbd::{clones, migration, pools};
use onego_ceph::cls::rbd::Format1Header;
use onego_msgr::encoding::{Decode as _, Encode as _};
use std::collections::BTreeSet;
use std::time::Duration;

const SIZE: u64 = 8 << 20;
const OBJECT: u64 = 1 << 20;
const PIECE: usize = 4096;

const PATIENCE: Duration = Duration::from_secs(60);

fn options() -> CreateOptions {
    CreateOptions::new(SIZE).with_layout(Layout::plain(20).unwrap()).with_old_format()
}

/// Runs `body` with two clients of a pool that contains an image called `disk`.
fn with_image(body: impl AsyncFnOnce(Pool, Pool) -> Result<(), Error>) {
    let server = onego_cluster::Cluster::start(onego_cluster::Config::default()).unwrap();
    let config = Config::from_text(&server.conf()).unwrap();
    let run = async {
        let (one, other) = (Cluster::connect(&config).await?, Cluster::connect(&config).await?);
        let pool = one.pool("rbd").await?;
        rbd::create(&pool, "disk", &options()).await?;
        body(pool, other.pool("rbd").await?).await
    };
    let late = async {
        smol::Timer::after(PATIENCE).await;
        panic!("the test does not end");
    };
    smol::block_on(smol::future::or(run, late)).unwrap();
}

async fn header(pool: &Pool, name: &str) -> Result<Format1Header, Error> {
    let bytes = pool.read(&format!("{name}.rbd"), 0, 0).await?;
    Ok(Format1Header::from_bytes(&bytes.to_vec()).unwrap())
}

async fn objects(pool: &Pool) -> Result<BTreeSet<String>, Error> {
    let all = pool.objects().all().await?;
    Ok(all.into_iter().map(|entry| entry.name).collect())
}

async fn filled(pool: &Pool, byte: u8) -> Result<(), Error> {
    let image = Image::open(pool, "disk").await?;
    image.write(0, vec![byte; PIECE]).await?;
    image.write(3 * OBJECT + 100, vec![byte; PIECE]).await?;
    image.close().await
}

async fn first_byte(image: &Image) -> Result<u8, Error> {
    Ok(image.read(0, 1).await?.to_vec()[0])
}

fn names(snapshots: &[Snapshot]) -> Vec<&str> {
    snapshots.iter().map(|snapshot| snapshot.name.as_str()).collect()
}

#[test]
fn an_image_matches_its_header_and_its_objects_have_the_names_of_ceph() {
    with_image(async |pool, _| {
        let header = header(&pool, "disk").await?;
        let prefix = header.object_prefix().unwrap();
        assert_eq!(header, Format1Header::new(prefix, 20, SIZE));
        assert!(prefix.starts_with("rb.0."), "{prefix}");
        let info = rbd::info(&pool, "disk").await?;
        assert!(info.is_old_format() && info.id.is_empty() && info.features == Features::NONE);
        assert_eq!((info.size, info.layout, info.objects()), (SIZE, Layout::plain(20).unwrap(), 8));
        assert_eq!((info.object_prefix.as_str(), info.created, info.data_pool), (prefix, None, None));
        filled(&pool, 7).await?;
        let expected = [0, 3].map(|object| format!("{prefix}.{object:012x}"));
        let all = objects(&pool).await?;
        assert!(expected.iter().all(|name| all.contains(name)), "{all:?}");
        assert_eq!(
            pool.read("rbd_directory", 0, 0).await?.to_vec(),
            b"\0\0\0\0\x01\0\0\0\x04\0\0\0disk\0\0\0\0"
        );
        Ok(())
    });
}

#[test]
fn every_client_reads_writes_and_discarded_data_reads_as_zeros() {
    with_image(async |pool, theirs| {
        let (image, other) = (Image::open(&pool, "disk").await?, Image::open(&theirs, "disk").await?);
        image.write(OBJECT - 100, vec![5; 200]).await?;
        image.flush().await?;
        assert_eq!(other.read(OBJECT - 101, 202).await?.to_vec(), [&[0][..], &[5; 200], &[0]].concat());
        other.write(OBJECT, vec![6; 10]).await?;
        assert_eq!(image.read(OBJECT, 11).await?.to_vec(), [&[6; 10][..], &[5]].concat());
        assert_eq!(image.compare_and_write(OBJECT, vec![6; 10], vec![8; 10]).await?, None);
        image.discard(0, OBJECT).await?;
        assert_eq!(other.read(OBJECT - 100, 101).await?.to_vec(), [&[0; 100][..], &[8]].concat());
        assert!(image.write(SIZE, vec![1]).await.is_err());
        assert!(!image.is_lock_owner() && image.is_writable());
        image.lock().await?;
        image.close().await?;
        other.close().await
    });
}

#[test]
fn snapshots_preserve_data_and_other_clients_learn_of_them_at_once() {
    with_image(async |pool, theirs| {
        filled(&pool, 1).await?;
        let image = Image::open(&pool, "disk").await?;
        snapshots::create(&theirs, "disk", "one").await?;
        image.write(0, vec![2; PIECE]).await?;
        snapshots::create(&pool, "disk", "two").await?;
        image.write(0, vec![3; PIECE]).await?;
        let again = snapshots::create(&theirs, "disk", "one").await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{again}");
        for (name, byte) in [("one", 1), ("two", 2)] {
            let at = Image::open_at(&theirs, "disk", name).await?;
            assert_eq!((first_byte(&at).await?, at.size()), (byte, SIZE));
            assert!(at.write(0, vec![9]).await.is_err());
            at.close().await?;
        }
        assert_eq!(first_byte(&image).await?, 3);
        snapshots::rename(&pool, "disk", "one", "first").await?;
        let all = snapshots::list(&theirs, "disk").await?;
        assert_eq!(names(&all), ["first", "two"]);
        assert!(all.iter().all(|snapshot| snapshot.is_users() && snapshot.created.is_none()));
        let ids: Vec<u64> = all.iter().rev().map(|snapshot| snapshot.id).collect();
        assert_eq!(rbd::info(&pool, "disk").await?.snapshots, ids);
        snapshots::rollback(&pool, "disk", "first", |_, _| {}).await?;
        assert_eq!(first_byte(&image).await?, 1);
        image.close().await
    });
}

#[test]
fn removing_a_snapshot_frees_its_objects_and_fails_its_readers() {
    with_image(async |pool, theirs| {
        filled(&pool, 1).await?;
        snapshots::create(&pool, "disk", "one").await?;
        filled(&pool, 2).await?;
        let at = Image::open_at(&theirs, "disk", "one").await?;
        snapshots::remove(&pool, "disk", "one").await?;
        let lost = at.read(0, 1).await.unwrap_err();
        assert!(matches!(lost, Error::Image(ImageError::Removed)), "{lost}");
        assert_eq!(snapshots::remove(&pool, "disk", "one").await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(Image::open_at(&pool, "disk", "one").await.unwrap_err().kind(), ErrorKind::NotFound);
        snapshots::create(&pool, "disk", "two").await?;
        snapshots::create(&pool, "disk", "three").await?;
        let full = rbd::remove(&pool, "disk", |_, _| {}).await.unwrap_err();
        assert!(matches!(full, Error::Snapshots { count: 2, .. }), "{full}");
        assert!(snapshots::purge(&pool, "disk", |_, _| {}).await?.is_empty());
        assert!(snapshots::list(&pool, "disk").await?.is_empty());
        // The highest number is not used again.
        let left = header(&pool, "disk").await?;
        assert!(left.snap_seq > 0 && left.snapshots.is_empty());
        Ok(())
    });
}

#[test]
fn an_image_has_no_more_snapshots_than_its_limit() {
    with_image(async |pool, _| {
        snapshots::set_limit(&pool, "disk", Some(1)).await?;
        assert_eq!(snapshots::limit(&pool, "disk").await?, Some(1));
        snapshots::create(&pool, "disk", "one").await?;
        assert_eq!(snapshots::create(&pool, "disk", "two").await.unwrap_err().errno(), Errno::DQUOT);
        snapshots::set_limit(&pool, "disk", None).await?;
        snapshots::create(&pool, "disk", "two").await
    });
}

#[test]
fn an_image_is_resized_while_open_elsewhere() {
    with_image(async |pool, theirs| {
        filled(&pool, 1).await?;
        snapshots::create(&pool, "disk", "one").await?;
        let image = Image::open(&pool, "disk").await?;
        rbd::resize(&theirs, "disk", 2 * SIZE, |_, _| {}).await?;
        image.write(2 * SIZE - 1, vec![4]).await?;
        assert_eq!((image.size(), header(&pool, "disk").await?.image_size), (2 * SIZE, 2 * SIZE));
        image.resize(PIECE as u64 / 2, |_, _| {}).await?;
        image.resize(SIZE, |_, _| {}).await?;
        assert_eq!(image.read(0, PIECE as u64).await?.to_vec(), [[1; PIECE / 2], [0; PIECE / 2]].concat());
        assert!(image.read(3 * OBJECT, OBJECT).await?.to_vec().iter().all(|byte| *byte == 0));
        let at = Image::open_at(&theirs, "disk", "one").await?;
        assert_eq!(at.read(3 * OBJECT + 100, 1).await?.to_vec(), [1]);
        snapshots::rollback(&pool, "disk", "one", |_, _| {}).await?;
        assert_eq!((image.size(), image.read(3 * OBJECT + 100, 1).await?.to_vec()), (SIZE, vec![1]));
        Ok(())
    });
}

#[test]
fn resizing_a_removed_image_leaves_no_partial_header() {
    with_image(async |pool, _| {
        let image = Image::open(&pool, "disk").await?;
        pool.remove("disk.rbd").await?;
        assert!(image.resize(2 * SIZE, |_, _| {}).await.is_err());
        assert_eq!(pool.stat("disk.rbd").await.unwrap_err().kind(), ErrorKind::NotFound);
        Ok(())
    });
}

#[test]
fn renaming_an_image_keeps_everything_but_its_users() {
    with_image(async |pool, theirs| {
        filled(&pool, 1).await?;
        snapshots::create(&pool, "disk", "one").await?;
        let info = rbd::info(&pool, "disk").await?;
        rbd::set_metadata(&pool, &info, "colour", b"red").await?;
        let image = Image::open(&theirs, "disk").await?;
        pools::rename(&pool, "disk", "other").await?;
        assert_eq!(rbd::list(&pool).all().await?, ["other"]);
        assert_eq!(rbd::info(&pool, "disk").await.unwrap_err().kind(), ErrorKind::NotFound);
        let renamed = rbd::info(&pool, "other").await?;
        assert_eq!((renamed.object_prefix.as_str(), renamed.size), (info.object_prefix.as_str(), SIZE));
        assert_eq!(rbd::metadata(&pool, &renamed, "colour").await?, Some(b"red".to_vec()));
        assert_eq!(first_byte(&Image::open_at(&pool, "other", "one").await?).await?, 1);
        // Its header was removed with the name.
        assert!(image.refresh().await.is_err());
        Ok(())
    });
}

#[test]
fn an_image_is_removed_with_all_its_objects() {
    with_image(async |pool, theirs| {
        filled(&pool, 1).await?;
        let image = Image::open(&theirs, "disk").await?;
        let used = rbd::remove(&pool, "disk", |_, _| {}).await.unwrap_err();
        assert_eq!(used.kind(), ErrorKind::Busy, "{used}");
        image.close().await?;
        rbd::remove(&pool, "disk", |_, _| {}).await?;
        assert_eq!(objects(&pool).await?, ["rbd_directory".to_owned()].into());
        assert!(rbd::list(&pool).all().await?.is_empty());
        let gone = rbd::remove(&pool, "disk", |_, _| {}).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");
        Ok(())
    });
}

#[test]
fn an_interrupted_removal_by_another_program_is_completed() {
    with_image(async |pool, _| {
        pool.remove("disk.rbd").await?;
        assert_eq!(rbd::list(&pool).all().await?, ["disk"]);
        rbd::remove(&pool, "disk", |_, _| {}).await?;
        assert!(rbd::list(&pool).all().await?.is_empty());
        Ok(())
    });
}

#[test]
fn a_name_is_taken_by_an_image_of_either_format() {
    with_image(async |pool, _| {
        let new = CreateOptions::new(SIZE);
        rbd::create(&pool, "new", &new).await?;
        let taken = [
            rbd::create(&pool, "disk", &new).await,
            rbd::create(&pool, "disk", &options()).await,
            rbd::create(&pool, "new", &options()).await,
            pools::rename(&pool, "disk", "new").await,
            pools::rename(&pool, "new", "disk").await,
            pools::rename(&pool, "disk", "disk").await,
        ];
        for result in taken {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        }
        rbd::create(&pool, "a", &new).await?;
        rbd::create(&pool, "z", &options()).await?;
        assert_eq!(rbd::list(&pool).all().await?, ["disk", "z", "a", "new"]);
        let ids = rbd::list_with_ids(&pool).all().await?;
        assert_eq!(
            ids.iter().map(|entry| entry.id.is_empty()).collect::<Vec<_>>(),
            [true, true, false, false]
        );
        Ok(())
    });
}

#[test]
fn what_format_1_lacks_is_refused_with_the_error_number_of_ceph_and_advice() {
    with_image(async |pool, _| {
        let new = CreateOptions::new(SIZE);
        snapshots::create(&pool, "disk", "one").await?;
        rbd::create(&pool, "new", &new).await?;
        snapshots::create(&pool, "new", "one").await?;
        pools::create_group(&pool, "group").await?;
        pools::create_namespace(&pool, "apart").await?;
        let disk = (&pool, "disk", "one");
        let counted = Some(clones::CloneFormat::Counted);
        let import = |image: &str| migration::SourceSpec::native(&pool, image, "one");
        let refused = [
            (clones::clone(disk, (&pool, "child"), &new, counted).await, Errno::NOENT),
            (clones::clone((&pool, "new", "one"), (&pool, "child"), &options(), counted).await, Errno::INVAL),
            (clones::flatten(&pool, "disk", |_, _| {}).await, Errno::INVAL),
            (snapshots::protect(&pool, "disk", "one").await, Errno::NOSYS),
            (upkeep::enable_features(&pool, "disk", Features::EXCLUSIVE_LOCK).await, Errno::INVAL),
            (upkeep::disable_features(&pool, "disk", Features::LAYERING).await, Errno::INVAL),
            (upkeep::rebuild_object_map(&pool, "disk", None, |_, _| {}).await, Errno::INVAL),
            (pools::add_to_group((&pool, "group"), (&pool, "disk")).await, Errno::NOENT),
            (pools::remove_from_group((&pool, "group"), (&pool, "disk")).await, Errno::NOENT),
            (pools::move_to_trash(&pool, "disk", Duration::ZERO).await, Errno::OPNOTSUPP),
            (
                migration::prepare((&pool, "disk"), (&pool, "to"), &new, CopyKind::AsSource).await,
                Errno::OPNOTSUPP,
            ),
            (
                migration::prepare((&pool, "new"), (&pool, "to"), &options(), CopyKind::AsSource).await,
                Errno::INVAL,
            ),
            (migration::prepare_import(&import("disk")?, (&pool, "to"), &new).await, Errno::OPNOTSUPP),
            (migration::prepare_import(&import("new")?, (&pool, "to"), &options()).await, Errno::INVAL),
            (rbd::create(&pool.in_namespace("apart"), "x", &options()).await, Errno::INVAL),
            (rbd::create(&pool, "x", &options().with_features(Features::LAYERING)).await, Errno::INVAL),
            (rbd::create(&pool, "x", &options().with_data_pool(pool.clone())).await, Errno::INVAL),
            (
                rbd::create(&pool, "x", &options().with_layout(Layout::striped(20, 4096, 3)?)).await,
                Errno::INVAL,
            ),
        ];
        for (result, errno) in refused {
            let error = result.unwrap_err();
            assert_eq!(error.errno(), errno, "{error}");
        }
        assert!(clones::children(&pool, "disk", None).await?.is_empty());
        assert_eq!(rbd::list(&pool).all().await?, ["disk", "new"]);
        Ok(())
    });
}

#[test]
fn the_advisory_lock_is_in_the_header() {
    with_image(async |pool, theirs| {
        upkeep::add_lock(&pool, "disk", "mine", None).await?;
        let other = upkeep::add_lock(&theirs, "disk", "theirs", None).await.unwrap_err();
        assert_eq!(other.kind(), ErrorKind::Busy, "{other}");
        let held = upkeep::locks(&theirs, "disk").await?;
        assert_eq!((held.kind, held.holders.len()), (Some(LockKind::Exclusive), 1));
        assert_eq!(pool.locks("disk.rbd").await?, ["rbd_lock"]);
        let holder = held.holders[0].client.to_string();
        upkeep::remove_lock(&theirs, "disk", "mine", &holder).await?;
        assert!(upkeep::locks(&pool, "disk").await?.holders.is_empty());
        let image = Image::open(&pool, "disk").await?;
        assert_eq!(upkeep::watchers(&theirs, "disk").await?.len(), 1);
        image.close().await
    });
}

#[test]
fn copies_and_diffs_work_as_for_other_images() {
    with_image(async |pool, _| {
        filled(&pool, 1).await?;
        snapshots::create(&pool, "disk", "one").await?;
        let image = Image::open(&pool, "disk").await?;
        image.write(5 * OBJECT, vec![2; PIECE]).await?;
        image.close().await?;
        let mut diff = Diff::open(&pool, "disk", &DiffOptions::new().from("one")).await?;
        let range = diff.next().await?.unwrap();
        assert_eq!((range.offset, range.length, range.exists), (5 * OBJECT, PIECE as u64, true));
        assert!(diff.next().await?.is_none());
        let new = CreateOptions::new(0).with_layout(Layout::plain(20).unwrap());
        let disk = (&pool, "disk", None);
        upkeep::copy(disk, (&pool, "copy"), &new, |_, _| {}).await?;
        upkeep::copy(disk, (&pool, "old"), &options(), |_, _| {}).await?;
        upkeep::deep_copy(disk, (&pool, "deep"), &new, CopyKind::AsSource, |_, _| {}).await?;
        let expected = Image::open(&pool, "disk").await?.read(0, SIZE).await?.to_vec();
        for (name, is_old) in [("copy", false), ("old", true), ("deep", false)] {
            let copy = Image::open(&pool, name).await?;
            assert_eq!(copy.info().is_old_format(), is_old);
            assert!(copy.read(0, SIZE).await?.to_vec() == expected, "{name} has other data");
        }
        let at = Image::open_at(&pool, "deep", "one").await?;
        assert_eq!((first_byte(&at).await?, at.read(5 * OBJECT, 1).await?.to_vec()), (1, vec![0]));
        Ok(())
    });
}

#[test]
fn a_damaged_header_or_directory_fails_what_needs_it() {
    with_image(async |pool, _| {
        snapshots::create(&pool, "disk", "one").await?;
        let whole = pool.read("disk.rbd", 0, 0).await?.to_vec();
        let changed = |at: usize, to: u8| {
            let mut bytes = whole.clone();
            bytes[at] = to;
            bytes
        };
        let unordered = Format1Header { snap_seq: 0, ..Format1Header::from_bytes(&whole).unwrap() };
        let damaged = [
            Vec::new(),
            whole[..50].to_vec(),
            whole[..whole.len() - 1].to_vec(),
            changed(0, b'x'),
            changed(40, 0xff),
            changed(76, 64),
            changed(99, 0xff),
            unordered.to_bytes(),
        ];
        for bytes in damaged {
            pool.write_full("disk.rbd", bytes).await?;
            assert!(Image::open(&pool, "disk").await.is_err());
            assert!(rbd::ImageDetails::of(&pool, "disk").await.is_err());
        }
        // Trailing bytes are ignored.
        pool.write_full("disk.rbd", [&whole[..], b"old"].concat()).await?;
        let image = Image::open(&pool, "disk").await?;
        pool.write_full("disk.rbd", vec![0; 200]).await?;
        assert!(image.refresh().await.is_err());
        pool.write_full("rbd_directory", b"\xff\xff\xff\xff".to_vec()).await?;
        assert!(rbd::list(&pool).all().await.is_err());
        Ok(())
    });
}

#[test]
fn an_image_under_migration_is_shown_but_cannot_be_opened() {
    with_image(async |pool, _| {
        let mut bytes = pool.read("disk.rbd", 0, 0).await?.to_vec();
        bytes[..34].copy_from_slice(Format1Header::MIGRATING_TEXT);
        pool.write_full("disk.rbd", bytes).await?;
        assert_eq!(rbd::info(&pool, "disk").await?.features, Features::MIGRATING);
        assert!(Image::open(&pool, "disk").await.is_err());
        Ok(())
    });
}
