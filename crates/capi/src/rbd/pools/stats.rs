//! Sums of what a pool's images are.

use super::list::images;
use crate::border::{Errno, Handle, Out, call, done};
use crate::rados::IoCtx;
use crate::rbd::image::pool_of;
use crate::runtime::{block_on, lock};
use onego::ceph::Error;
use onego::rados::Pool;
use onego::rbd::ImageDetails;
use onego::rbd::pools::trash;
use std::ffi::c_int;
use std::sync::{Arc, Mutex};

/// What a program wants to know, and where it is to be (`rbd_pool_stats_t`).
#[derive(Default)]
struct PoolStats {
    wanted: Mutex<Vec<(c_int, Out<u64>)>>,
}

/// The last that can be wanted (`RBD_POOL_STAT_OPTION_TRASH_SNAPSHOTS`).
const LAST: c_int = 7;

/// The first that is about the trash.
const TRASH: c_int = 4;

/// Sums of some images.
#[derive(Default)]
struct Sums {
    images: u64,
    /// Bytes of the images as they are.
    provisioned: u64,
    /// Bytes of each where it was largest.
    most_provisioned: u64,
    snapshots: u64,
}

impl Sums {
    async fn of(pool: &Pool, ids: impl IntoIterator<Item = String>) -> Result<Self, Error> {
        let mut sums = Self::default();
        for id in ids {
            let details = match ImageDetails::of_id(pool, &id).await {
                Err(Error::NotFound { .. }) => continue, // it went meanwhile
                other => other?,
            };
            let size = details.info.size;
            let largest = details.snapshots.iter().map(|snapshot| snapshot.size).max().unwrap_or(0);
            sums.images += 1;
            sums.provisioned += size;
            sums.most_provisioned += size.max(largest);
            sums.snapshots += details.snapshots.len() as u64;
        }
        Ok(sums)
    }

    /// One of them, by its place among the options.
    fn get(&self, place: c_int) -> u64 {
        match place {
            0 => self.images,
            1 => self.provisioned,
            2 => self.most_provisioned,
            _ => self.snapshots,
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn rbd_pool_stats_create(stats: Out<Handle<PoolStats>>) {
    call(|| stats.give(Arc::default()));
}

#[unsafe(no_mangle)]
extern "C" fn rbd_pool_stats_destroy(stats: Handle<PoolStats>) {
    call(|| stats.take().map(drop));
}

#[unsafe(no_mangle)]
extern "C" fn rbd_pool_stats_option_add_uint64(
    stats: Handle<PoolStats>,
    option: c_int,
    value: Out<u64>,
) -> c_int {
    done(|| {
        let mut wanted = lock(&stats.get()?.wanted);
        if !(0..=LAST).contains(&option) {
            return Err(Errno(libc::ENOENT));
        }
        wanted.push((option, value));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rbd_pool_stats_get(ioctx: Handle<IoCtx>, stats: Handle<PoolStats>) -> c_int {
    done(|| {
        let (pool, wanted) = (pool_of(ioctx)?, lock(&stats.get()?.wanted).clone());
        let of_images = wanted.iter().any(|(option, _)| *option < TRASH);
        let of_trash = wanted.iter().any(|(option, _)| *option >= TRASH);
        let (mut sums, mut trashed) = (Sums::default(), Sums::default());
        if of_images {
            // Those of format 1 have no ids, and Ceph's library leaves them out, too.
            let ids = block_on(images(&pool))?.into_iter().map(|image| image.id).filter(|id| !id.is_empty());
            sums = block_on(Sums::of(&pool, ids))?;
        }
        if of_trash {
            let ids = block_on(trash(&pool))?.into_iter().map(|entry| entry.id);
            trashed = block_on(Sums::of(&pool, ids))?;
        }
        for (option, value) in wanted {
            value.set(if option < TRASH { sums.get(option) } else { trashed.get(option - TRASH) })?;
        }
        Ok(())
    })
}
