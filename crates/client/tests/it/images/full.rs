//! Removals in a full pool.

use super::owned::{options, with_two_clients};
use onego::List;
use onego::ceph::{Awaited, Error, Waiting};
use onego::rados::Pool;
use onego::rbd::pools::mirroring::{self, MirrorMode};
use onego::rbd::{self, Image, pools, snapshots};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

async fn set_quota(pool: &Pool, bytes: u64) -> Result<(), Error> {
    let quota = format!(
        r#"{{"prefix": "osd pool set-quota", "pool": "rbd", "field": "max_bytes", "val": "{bytes}"}}"#
    );
    pool.cluster().command(&quota, List::new()).await.map(drop)
}

/// Sets the pool's quota, and waits until clients know that the pool is full.
async fn fill(pool: &Pool, bytes: u64) -> Result<(), Error> {
    set_quota(pool, bytes).await?;
    let mut probe = 0;
    while pool.with_full_try().write_full(&format!("probe{probe}"), vec![1; 4096]).await.is_ok() {
        probe += 1;
        smol::Timer::after(Duration::from_millis(20)).await;
    }
    Ok(())
}

#[test]
fn operations_that_free_space_in_a_full_pool_do_not_wait_for_space() {
    let late = async {
        smol::Timer::after(PATIENCE).await;
        panic!("an operation waits for space");
    };
    with_two_clients(async |ours, theirs| {
        rbd::create(&ours, "disk", &options()).await?;
        rbd::create(&ours, "old", &options()).await?;
        let image = Image::open(&ours, "disk").await?;
        for snapshot in ["one", "two", "three", "four"] {
            image.write(0, vec![7; 1 << 20]).await?;
            snapshots::create(&ours, "disk", snapshot).await?;
        }
        snapshots::protect(&ours, "disk", "one").await?;
        rbd::set_metadata(&ours, &rbd::info(&ours, "disk").await?, "note", b"text").await?;
        pools::set_pool_setting(&ours, "conf_rbd_cache", b"false").await?;
        rbd::create(&ours, "other", &options()).await?;
        pools::create_group(&ours, "group").await?;
        pools::add_to_group((&ours, "group"), (&ours, "other")).await?;
        pools::move_to_trash(&ours, "old", Duration::ZERO).await?;
        let entry = pools::trash(&ours).await?.remove(0);
        rbd::create(&ours, "locked", &options()).await?;
        let locked = Image::open(&ours, "locked").await?;
        locked.write(0, vec![0; 1 << 20]).await?;
        locked.close().await?;
        rbd::upkeep::add_lock(&ours, "locked", "id", None).await?;
        mirroring::set_mode(&ours, MirrorMode::Image).await?;
        let freed = async {
            fill(&ours, 1 << 20).await?;
            rbd::remove_metadata(&ours, &rbd::info(&ours, "disk").await?, "note").await?;
            pools::remove_pool_setting(&ours, "conf_rbd_cache").await?;
            pools::remove_from_group((&ours, "group"), (&ours, "other")).await?;
            pools::remove_group(&ours, "group").await?;
            pools::move_to_trash(&ours, "other", Duration::ZERO).await?;
            mirroring::set_mode(&ours, MirrorMode::Disabled).await?;
            let holder = rbd::upkeep::locks(&ours, "locked").await?.holders.remove(0).client.to_string();
            rbd::upkeep::remove_lock(&ours, "locked", "id", &holder).await?;
            rbd::upkeep::disable_features(&ours, "locked", rbd::Features::OBJECT_MAP).await?;
            rbd::upkeep::sparsify(&ours, "locked", 4096, |_, _| {}).await?;
            // The owner of the lock does this for another client, and for itself.
            snapshots::unprotect(&theirs, "disk", "one").await?;
            snapshots::remove(&theirs, "disk", "one").await?;
            snapshots::remove(&ours, "disk", "two").await?;
            image.close().await?;
            snapshots::purge(&ours, "disk", |_, _| {}).await?;
            pools::remove_from_trash(&ours, &entry.id, true, |_, _| {}).await?;
            rbd::resize(&ours, "disk", 1 << 19, |_, _| {}).await
        };
        smol::future::or(freed, late).await?;
        assert!(snapshots::list(&ours, "disk").await?.is_empty());
        Ok(())
    });
}

#[test]
fn a_client_reports_the_owner_of_the_lock_that_it_waits_for() {
    with_two_clients(async |ours, theirs| {
        rbd::create(&ours, "disk", &options()).await?;
        let owner = Image::open(&ours, "disk").await?;
        owner.write(0, vec![7; 1 << 19]).await?;
        let other = Image::open(&theirs, "disk").await?;
        fill(&ours, 1 << 20).await?;
        // The owner cannot release the lock while its write waits for space.
        let writes = smol::future::zip(owner.write(0, vec![1; 1 << 19]), other.write(0, vec![2; 1 << 19]));
        let seen = async {
            loop {
                smol::Timer::after(Duration::from_millis(100)).await;
                if let Some(Waiting { target: Awaited::ImageLock { image, owner, .. }, .. }) =
                    theirs.cluster().waiting()
                {
                    return Some((image, owner.num));
                }
            }
        };
        let late = async {
            smol::future::or(async { drop(writes.await) }, async {
                smol::Timer::after(PATIENCE).await;
            })
            .await;
            None
        };
        let (image, client) =
            smol::future::or(seen, late).await.expect("the client reports its wait for the lock");
        assert_eq!(image, rbd::info(&ours, "disk").await?.id);
        assert_eq!(client, i64::try_from(ours.cluster().global_id().await?).unwrap());
        set_quota(&ours, 0).await
    });
}
