//! Imports of images from unchanging sources.

use crate::images::owned::{PIECE, SIZE, bytes, options, with_two_clients, with_two_clients_as};
use onego::ErrorKind;
use onego::ceph::{Errno, Error};
use onego::rados::Pool;
use onego::rbd::migration::{self, MigrationOrigin, SourceSpec};
use onego::rbd::{self, Features, Image, ImageDetails, Layout, clones, snapshots};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Creates an image with different data at its snapshots s1, s2 and s3, and at present.
async fn source(pool: &Pool, name: &str) -> Result<(), Error> {
    rbd::create(pool, name, &options()).await?;
    let image = Image::open(pool, name).await?;
    for time in 1..=4_u8 {
        image.write(u64::from(time) << 20, vec![time; PIECE]).await?;
        image.write(0, vec![time; PIECE]).await?;
        if time < 4 {
            snapshots::create(pool, name, &format!("s{time}")).await?;
        }
    }
    image.close().await
}

async fn snapshot_names(pool: &Pool, name: &str) -> Result<Vec<String>, Error> {
    let details = ImageDetails::of(pool, name).await?;
    Ok(details.snapshots.into_iter().map(|snapshot| snapshot.name).collect())
}

async fn is_as_at_s2(pool: &Pool, name: &str) -> Result<(), Error> {
    let image = Image::open_read_only(pool, name).await?;
    for (offset, byte) in [(0, 2), (1 << 20, 1), (2 << 20, 2), (3 << 20, 0), (4 << 20, 0)] {
        assert_eq!(bytes(&image, offset).await?, vec![byte; PIECE], "at {offset}");
    }
    let first = Image::open_at(pool, name, "s1").await?;
    for (offset, byte) in [(0, 1), (1 << 20, 1), (2 << 20, 0)] {
        assert_eq!(bytes(&first, offset).await?, vec![byte; PIECE], "at {offset} of s1");
    }
    first.close().await
}

#[test]
fn an_import_shows_its_snapshot_whatever_becomes_of_the_source() {
    with_two_clients(async |ours, theirs| {
        source(&ours, "disk").await?;
        rbd::set_metadata(&ours, &rbd::info(&ours, "disk").await?, "owner", b"me").await?;
        let shape = options().with_layout(Layout::plain(19).unwrap());
        let spec = SourceSpec::native(&ours, "disk", "s2")?;
        migration::prepare_import(&spec, (&ours, "copy"), &shape).await?;
        let status = migration::status(&theirs, "copy").await?;
        assert_eq!(status.source, MigrationOrigin::Import(spec.to_string()));
        assert_eq!(status.destination.image, "copy");
        assert_eq!(snapshot_names(&ours, "copy").await?, ["s1", "s2"]);
        let copy = rbd::info(&ours, "copy").await?;
        assert_eq!(rbd::metadata(&ours, &copy, "owner").await?, Some(b"me".to_vec()));
        assert_eq!(migration::source_spec(&theirs, &copy).await?, spec.to_string());
        // The source changes, also in objects that the import has not copied.
        let disk = Image::open(&theirs, "disk").await?;
        disk.write(PIECE as u64, vec![9; PIECE]).await?;
        disk.resize(SIZE / 2, |_, _| {}).await?;
        is_as_at_s2(&ours, "copy").await?;
        let image = Image::open(&ours, "copy").await?;
        image.write(PIECE as u64, vec![5; PIECE]).await?;
        image.write(5 << 20, vec![6; PIECE]).await?;
        is_as_at_s2(&theirs, "copy").await?;
        migration::execute(&theirs, "copy", |_, _| {}).await?;
        image.close().await?;
        is_as_at_s2(&theirs, "copy").await?;
        migration::commit(&theirs, "copy", |_, _| {}).await?;
        // Now it no longer needs the source.
        snapshots::remove(&theirs, "disk", "s2").await?;
        disk.write(0, vec![8; PIECE]).await?;
        is_as_at_s2(&ours, "copy").await?;
        let image = Image::open(&ours, "copy").await?;
        assert_eq!(image.size(), SIZE);
        assert_eq!(bytes(&image, PIECE as u64).await?, vec![5; PIECE]);
        assert_eq!(bytes(&image, 5 << 20).await?, vec![6; PIECE]);
        assert!(rbd::upkeep::check_object_map(&theirs, "copy", None, |_, _| {}).await?);
        assert_eq!(bytes(&disk, PIECE as u64).await?, vec![9; PIECE]);
        assert_eq!(migration::source_spec(&ours, &copy).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        Ok(())
    });
}

#[test]
fn an_image_under_migration_accepts_only_new_snapshots() {
    with_two_clients(async |ours, theirs| {
        source(&ours, "disk").await?;
        let spec = SourceSpec::native(&ours, "disk", "s2")?;
        migration::prepare_import(&spec, (&ours, "copy"), &options()).await?;
        // The image's lock has no owner.
        snapshots::create(&theirs, "copy", "early").await?;
        for refused in [
            rbd::resize(&theirs, "copy", 2 * SIZE, |_, _| {}).await,
            rbd::upkeep::sparsify(&theirs, "copy", 4096, |_, _| {}).await,
            rbd::upkeep::disable_features(&theirs, "copy", Features::OBJECT_MAP).await,
            rbd::pools::rename(&theirs, "copy", "other").await,
            rbd::pools::move_to_trash(&theirs, "copy", Duration::ZERO).await,
            snapshots::remove(&theirs, "copy", "early").await,
            snapshots::rename(&theirs, "copy", "early", "late").await,
            snapshots::protect(&theirs, "copy", "early").await,
            snapshots::rollback(&theirs, "copy", "s1", |_, _| {}).await,
            rbd::remove(&theirs, "copy", |_, _| {}).await,
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.errno(), Errno::BUSY, "{error}");
            assert!(error.to_string().contains("rbd/copy is being migrated: finish with"), "{error}");
        }
        let image = Image::open(&ours, "copy").await?;
        image.write(0, vec![9; PIECE]).await?;
        image.close().await?;
        assert_eq!(bytes(&Image::open_at(&theirs, "copy", "early").await?, 0).await?, vec![2; PIECE]);
        migration::execute(&theirs, "copy", |_, _| {}).await?;
        migration::commit(&theirs, "copy", |_, _| {}).await?;
        assert_eq!(bytes(&Image::open_at(&theirs, "copy", "early").await?, 0).await?, vec![2; PIECE]);
        assert!(rbd::upkeep::check_object_map(&theirs, "copy", Some("early"), |_, _| {}).await?);
        snapshots::remove(&theirs, "copy", "early").await
    });
}

#[test]
fn an_aborted_import_leaves_only_its_source() {
    with_two_clients(async |ours, theirs| {
        source(&ours, "disk").await?;
        let disk = Image::open(&ours, "disk").await?;
        let spec = SourceSpec::native(&ours, "disk", "s3")?;
        for is_executed in [false, true] {
            migration::prepare_import(&spec, (&ours, "copy"), &options()).await?;
            let again = migration::prepare_import(&spec, (&ours, "copy"), &options()).await.unwrap_err();
            assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{again}");
            let early = migration::commit(&ours, "copy", |_, _| {}).await.unwrap_err();
            assert_eq!(early.kind(), ErrorKind::InvalidInput, "{early}");
            if is_executed {
                migration::execute(&ours, "copy", |_, _| {}).await?;
            }
            migration::abort(&theirs, "copy", |_, _| {}).await?;
            assert!(Image::open(&ours, "copy").await.is_err());
            disk.write(0, vec![7; PIECE]).await?;
        }
        assert_eq!(snapshot_names(&ours, "disk").await?, ["s1", "s2", "s3"]);
        assert_eq!(bytes(&Image::open_at(&ours, "disk", "s3").await?, 0).await?, vec![3; PIECE]);
        disk.close().await
    });
}

#[test]
fn an_import_of_a_clone_has_no_parent() {
    with_two_clients(async |ours, theirs| {
        source(&ours, "old").await?;
        let format = Some(clones::CloneFormat::Counted);
        clones::clone((&ours, "old", "s2"), (&ours, "disk"), &options(), format).await?;
        let disk = Image::open(&ours, "disk").await?;
        snapshots::create(&ours, "disk", "s1").await?;
        disk.write(PIECE as u64, vec![9; PIECE]).await?;
        snapshots::create(&ours, "disk", "now").await?;
        disk.close().await?;
        let spec = SourceSpec::native(&ours, "disk", "now")?;
        migration::prepare_import(&spec, (&theirs, "copy"), &options()).await?;
        assert!(rbd::info(&ours, "copy").await?.parent.is_none());
        let image = Image::open(&theirs, "copy").await?;
        image.write(2 * PIECE as u64, vec![8; PIECE]).await?;
        migration::execute(&theirs, "copy", |_, _| {}).await?;
        migration::commit(&theirs, "copy", |_, _| {}).await?;
        for (offset, byte) in [(0, 2), (PIECE as u64, 9), (2 * PIECE as u64, 8), (1 << 20, 1), (2 << 20, 2)] {
            assert_eq!(bytes(&image, offset).await?, vec![byte; PIECE], "at {offset}");
        }
        let first = Image::open_at(&ours, "copy", "s1").await?;
        assert_eq!(bytes(&first, 0).await?, vec![2; PIECE]);
        assert_eq!(bytes(&first, PIECE as u64).await?, vec![0; PIECE]);
        image.close().await
    });
}

#[test]
fn an_image_in_the_trash_is_imported_by_its_id() {
    with_two_clients(async |ours, _| {
        source(&ours, "disk").await?;
        let id = rbd::info(&ours, "disk").await?.id;
        rbd::pools::move_to_trash(&ours, "disk", Duration::ZERO).await?;
        let by_name = SourceSpec::native(&ours, "disk", "s2")?;
        let missing = migration::prepare_import(&by_name, (&ours, "copy"), &options()).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
        let json = format!(
            r#"{{"type":"native","pool_name":"rbd","image_name":"disk","image_id":"{id}","snap_name":"s2"}}"#
        );
        migration::prepare_import(&json.parse()?, (&ours, "copy"), &options()).await?;
        migration::execute(&ours, "copy", |_, _| {}).await?;
        migration::commit(&ours, "copy", |_, _| {}).await?;
        is_as_at_s2(&ours, "copy").await
    });
}

#[test]
fn an_import_from_a_missing_source_creates_no_image() {
    with_two_clients(async |ours, _| {
        source(&ours, "disk").await?;
        for (pool, image, snapshot) in [("rbd", "disk", "s9"), ("rbd", "none", "s1"), ("none", "disk", "s1")]
        {
            let json = format!(
                r#"{{"type":"native","pool_name":"{pool}","image_name":"{image}","snap_name":"{snapshot}"}}"#
            );
            let missing =
                migration::prepare_import(&json.parse()?, (&ours, "copy"), &options()).await.unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::NotFound, "{json}: {missing}");
        }
        let number = r#"{"type":"native","pool_name":"rbd","image_name":"disk","snap_id":999}"#;
        let missing =
            migration::prepare_import(&number.parse()?, (&ours, "copy"), &options()).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
        assert_eq!(rbd::list(&ours).try_next().await?, Some("disk".to_owned()));
        assert!(Image::open(&ours, "copy").await.is_err());
        Ok(())
    });
}

/// Creates a file of `size` bytes, in which each MiB starts with bytes of the value `byte`. Returns its source-spec.
fn file(folder: &Path, name: &str, size: u64, byte: u8) -> String {
    let mut bytes = vec![0; size as usize];
    for mib in bytes.chunks_mut(1 << 20) {
        let filled = PIECE.min(mib.len());
        mib[..filled].fill(byte);
    }
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    format!(r#""type":"raw","name":"{name}","stream":{{"type":"file","file_path":{path:?}}}"#)
}

async fn has(image: &Image, expected: &[u8]) -> Result<(), Error> {
    for (index, byte) in expected.iter().enumerate() {
        let length = (image.size() - ((index as u64) << 20)).min(PIECE as u64);
        let there = image.read((index as u64) << 20, length).await?.to_vec();
        assert_eq!(there, vec![*byte; length as usize], "in MiB {index}");
    }
    Ok(())
}

#[test]
fn an_image_is_imported_from_files_with_its_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    let files_of = folder.path().to_owned();
    with_two_clients_as(
        |config| config.with_source_folder(files_of),
        async |ours, theirs| {
            let (first, second, now) = ((3 << 20) + 512, 6 << 20, 4 << 20);
            let snapshots = [file(folder.path(), "s1", first, 1), file(folder.path(), "s2", second, 2)]
                .map(|it| format!("{{{it}}}"));
            let head = file(folder.path(), "now", now, 3);
            let spec: SourceSpec = format!(r#"{{{head},"snapshots":[{}]}}"#, snapshots.join(",")).parse()?;
            migration::prepare_import(&spec, (&ours, "copy"), &options()).await?;
            assert_eq!(snapshot_names(&ours, "copy").await?, ["s1", "s2"]);
            let is_right = async |first_mib: u8| {
                let image = Image::open_read_only(&theirs, "copy").await?;
                assert_eq!(image.size(), now);
                has(&image, &[first_mib, 3, 3, 3]).await?;
                has(&Image::open_at(&theirs, "copy", "s1").await?, &[1, 1, 1, 1]).await?;
                has(&Image::open_at(&theirs, "copy", "s2").await?, &[2, 2, 2, 2, 2, 2]).await
            };
            is_right(3).await?;
            let image = Image::open(&ours, "copy").await?;
            has(&image, &[3, 3, 3, 3]).await?;
            image.write(0, vec![9; PIECE]).await?;
            image.write(PIECE as u64, vec![8; PIECE]).await?;
            is_right(9).await?;
            migration::execute(&theirs, "copy", |_, _| {}).await?;
            migration::commit(&theirs, "copy", |_, _| {}).await?;
            image.close().await?;
            folder.close().unwrap();
            is_right(9).await?;
            let image = Image::open_read_only(&ours, "copy").await?;
            assert_eq!(bytes(&image, PIECE as u64).await?, vec![8; PIECE]);
            for snapshot in [None, Some("s1"), Some("s2")] {
                assert!(rbd::upkeep::check_object_map(&theirs, "copy", snapshot, |_, _| {}).await?);
            }
            Ok(())
        },
    );
}

#[test]
fn an_image_header_cannot_make_a_client_read_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let configured = elsewhere.path().to_owned();
    with_two_clients_as(
        |config| config.with_source_folder(configured),
        async |ours, theirs| {
            let spec: SourceSpec = format!("{{{}}}", file(folder.path(), "secret", 4 << 20, 3)).parse()?;
            migration::prepare_import(&spec, (&ours, "copy"), &options()).await?;
            for error in [
                Image::open(&theirs, "copy").await.unwrap_err(),
                Image::open_read_only(&theirs, "copy").await.unwrap_err(),
                migration::execute(&theirs, "copy", |_, _| {}).await.unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
                assert!(error.to_string().contains("secret"), "{error}");
            }
            // The client that named the file reads it, and any client may abort the import.
            Image::open(&ours, "copy").await?.close().await?;
            migration::abort(&theirs, "copy", |_, _| {}).await
        },
    );
}

#[test]
fn a_clone_of_an_image_under_import_shows_the_file() {
    with_two_clients(async |ours, _| {
        let folder = tempfile::tempdir().unwrap();
        let (base, now) = (file(folder.path(), "base", 4 << 20, 3), file(folder.path(), "now", 4 << 20, 4));
        let spec = format!(r#"{{{now},"snapshots":[{{{base}}}]}}"#);
        migration::prepare_import(&spec.parse()?, (&ours, "copy"), &options()).await?;
        let format = Some(clones::CloneFormat::Counted);
        clones::clone((&ours, "copy", "base"), (&ours, "child"), &options(), format).await?;
        let child = Image::open(&ours, "child").await?;
        has(&child, &[3, 3, 3, 3]).await?;
        child.write(PIECE as u64, vec![5; PIECE]).await?;
        has(&child, &[3, 3, 3, 3]).await?;
        assert_eq!(bytes(&child, PIECE as u64).await?, vec![5; PIECE]);
        child.close().await
    });
}

#[test]
fn a_missing_or_truncated_file_is_an_error_and_creates_no_image() {
    with_two_clients(async |ours, _| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("now");
        let spec: SourceSpec = format!("{{{}}}", file(folder.path(), "now", 4 << 20, 3)).parse()?;
        fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        let missing = migration::prepare_import(&spec, (&ours, "copy"), &options()).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
        assert!(missing.to_string().contains("now"), "{missing}");
        assert!(rbd::list(&ours).try_next().await?.is_none());
        fs::rename(folder.path().join("elsewhere"), &path).unwrap();
        migration::prepare_import(&spec, (&ours, "copy"), &options()).await?;
        let image = Image::open(&ours, "copy").await?;
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
        has(&image, &[3]).await?;
        assert!(image.read(2 << 20, PIECE as u64).await.is_err());
        assert!(image.write(3 << 20, vec![1; PIECE]).await.is_err());
        image.close().await?;
        fs::remove_file(&path).unwrap();
        assert_eq!(Image::open(&ours, "copy").await.unwrap_err().kind(), ErrorKind::NotFound);
        migration::abort(&ours, "copy", |_, _| {}).await
    });
}
