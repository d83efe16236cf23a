//! Two clients of one image: the exclusive lock moves between them, and no write is lost.

use onego::ceph::{Config, Errno, Error};
use onego::rados::Cluster;
use onego::rbd::{self, CreateOptions, Features, Image, ImageError, clones, snapshots, upkeep};
use std::cell::Cell;

const SIZE: u64 = 8 << 20;

const PIECE: usize = 4096;

fn with_two_clients(body: impl AsyncFnOnce(Cluster, Cluster) -> Result<(), Error>) {
    let server = onego_cluster::Cluster::start(onego_cluster::Config::default()).unwrap();
    let config = Config::from_text(&server.conf()).unwrap();
    let run = async {
        let (one, other) = (Cluster::connect(&config).await?, Cluster::connect(&config).await?);
        body(one, other).await
    };
    smol::block_on(run).unwrap();
}

/// Opens an image with the features of `rbd create` twice.
async fn open_twice(one: &Cluster, other: &Cluster) -> Result<(Image, Image), Error> {
    let pool = one.pool("rbd").await?;
    rbd::create(&pool, "disk", &CreateOptions::new(SIZE).with_features(Features::DEFAULT)).await?;
    Ok((Image::open(&pool, "disk").await?, Image::open(&other.pool("rbd").await?, "disk").await?))
}

#[test]
fn two_clients_write_in_turns_and_each_sees_the_writes_of_the_other() {
    with_two_clients(async |one, other| {
        let (ours, theirs) = open_twice(&one, &other).await?;
        for turn in 0..6_u8 {
            let (writer, reader) = if turn % 2 == 0 { (&ours, &theirs) } else { (&theirs, &ours) };
            let offset = u64::from(turn) * (1 << 20) + 100;
            writer.write(offset, vec![turn + 1; PIECE]).await?;
            assert_eq!(reader.read(offset, PIECE as u64).await?.to_vec(), vec![turn + 1; PIECE]);
            assert!(!(ours.is_lock_owner() && theirs.is_lock_owner()), "both own the lock");
        }
        ours.close().await?;
        theirs.close().await
    });
}

#[test]
fn a_kept_lock_is_refused_to_others_until_it_is_released() {
    with_two_clients(async |one, other| {
        let (ours, theirs) = open_twice(&one, &other).await?;
        ours.lock().await?;
        assert!(ours.is_lock_owner());
        let refused = theirs.write(0, vec![1; PIECE]).await.unwrap_err();
        assert!(matches!(refused, Error::Image(ImageError::LockRefused { .. })), "{refused}");
        ours.unlock().await?;
        theirs.write(0, vec![1; PIECE]).await?;
        assert!(theirs.is_lock_owner() && !ours.is_lock_owner());
        Ok(())
    });
}

async fn administer(cluster: &Cluster, turn: u8) -> Result<(), Error> {
    let pool = cluster.pool("rbd").await?;
    let name = format!("snap{turn}");
    rbd::resize(&pool, "disk", SIZE + (u64::from(turn) << 22), |_, _| {}).await?;
    snapshots::create(&pool, "disk", &name).await?;
    snapshots::protect(&pool, "disk", &name).await?;
    snapshots::unprotect(&pool, "disk", &name).await?;
    snapshots::remove(&pool, "disk", &name).await?;
    upkeep::sparsify(&pool, "disk", PIECE as u64, |_, _| {}).await?;
    rbd::resize(&pool, "disk", SIZE, |_, _| {}).await
}

async fn write_meanwhile<T>(image: &Image, until: impl Future<Output = T>) -> Result<T, Error> {
    let is_over = Cell::new(false);
    let writes = async {
        while !is_over.get() {
            image.write(0, vec![1; PIECE]).await?;
        }
        Ok(())
    };
    let until = async {
        let value = until.await;
        is_over.set(true);
        value
    };
    let (written, value) = smol::future::zip(writes, until).await;
    written.map(|()| value)
}

#[test]
fn a_client_keeps_writing_while_another_changes_the_image() {
    with_two_clients(async |one, other| {
        let (ours, theirs) = open_twice(&one, &other).await?;
        ours.close().await?;
        theirs.write(0, vec![1; PIECE]).await?;
        for turn in 1..4 {
            write_meanwhile(&theirs, administer(&one, turn)).await??;
        }
        let pool = one.pool("rbd").await?;
        theirs.write(0, vec![1; PIECE]).await?;
        rbd::resize(&pool, "disk", 2 * SIZE, |_, _| {}).await?;
        snapshots::create(&pool, "disk", "base").await?;
        assert!(theirs.is_lock_owner(), "the owner had to release the lock");
        Ok(())
    });
}

#[test]
fn an_owner_that_keeps_the_lock_unprotects_no_snapshot_with_clones() {
    with_two_clients(async |one, other| {
        let (ours, theirs) = open_twice(&one, &other).await?;
        let pool = one.pool("rbd").await?;
        snapshots::create(&pool, "disk", "base").await?;
        snapshots::protect(&pool, "disk", "base").await?;
        let options = CreateOptions::new(SIZE).with_features(Features::DEFAULT);
        clones::clone((&pool, "disk", "base"), (&pool, "child"), &options, Some(clones::CloneFormat::Listed))
            .await?;
        theirs.lock().await?;
        for _ in 0..10 {
            let busy = snapshots::unprotect(&pool, "disk", "base").await.unwrap_err();
            assert_eq!(busy.errno(), Errno::BUSY, "{busy}");
        }
        ours.close().await
    });
}

#[test]
fn a_client_starts_to_write_while_another_changes_the_image() {
    with_two_clients(async |one, other| {
        let (ours, theirs) = open_twice(&one, &other).await?;
        ours.close().await?;
        for turn in 1..4 {
            theirs.unlock().await?;
            write_meanwhile(&theirs, administer(&one, turn)).await??;
        }
        Ok(())
    });
}

#[test]
fn a_kept_lock_survives_a_resize() {
    with_two_clients(async |one, other| {
        let (ours, theirs) = open_twice(&one, &other).await?;
        ours.lock().await?;
        ours.resize(2 * SIZE, |_, _| {}).await?;
        assert!(ours.is_lock_owner());
        let refused = theirs.write(0, vec![1; PIECE]).await.unwrap_err();
        assert!(matches!(refused, Error::Image(ImageError::LockRefused { .. })), "{refused}");
        Ok(())
    });
}

#[test]
fn a_client_sees_a_resize_by_another_at_once() {
    with_two_clients(async |one, other| {
        let (ours, theirs) = open_twice(&one, &other).await?;
        theirs.write(SIZE - PIECE as u64, vec![7; PIECE]).await?;
        rbd::resize(&one.pool("rbd").await?, "disk", 2 * SIZE, |_, _| {}).await?;
        theirs.write(SIZE, vec![8; PIECE]).await?;
        assert_eq!((ours.size(), theirs.size()), (2 * SIZE, 2 * SIZE));
        let read = ours.read(SIZE - PIECE as u64, 2 * PIECE as u64).await?;
        assert_eq!(read.to_vec(), [[7; PIECE], [8; PIECE]].concat());
        Ok(())
    });
}
