//! What must hold in the end, when all is quiet.

use super::model::BLOCK;
use super::user::{Job, layout};
use super::world::SharedWorld;
use onego::ceph::Error;
use onego::rados::Pool;
use onego::rbd::{ImageError, snapshots, upkeep};
use onego_ceph::cls::rbd::{GetFlags, GetSize, GetSnapContext, ObjectMapLoad, image_flag, state};
use onego_ceph::rbd::{DataNames, header_object};
use onego_ceph::types::NOSNAP;
use std::time::Duration;

/// Longer than an OSD waits for a watcher that is gone.
const WATCH_TIMEOUT: Duration = Duration::from_secs(60);

/// Objects that stay when all images are gone: they say which images there are.
const KEPT: [&str; 5] = ["rbd_directory", "rbd_children", "rbd_info", "rbd_trash", "rbd_namespace"];

/// An object map, and what it says wrongly.
struct MapCheck {
    is_lost: bool,
    has_right_length: bool,
    unknown: Vec<u64>,
}

impl SharedWorld {
    /// Looks at everything, and removes it.
    pub(super) fn check_all(&mut self) {
        for index in 0..self.users.len() {
            self.begin(index, Job::Close);
        }
        self.wait_for_all();
        for image in 0..self.images.len() {
            self.read_all(image);
        }
        self.sim.stop_at(self.sim.now() + WATCH_TIMEOUT);
        let quiet = self.sim.now() + WATCH_TIMEOUT;
        while self.sim.now() < quiet {
            self.step();
        }
        for image in 0..self.images.len() {
            self.check_free(image);
            self.check_maps(image);
        }
        self.remove_all();
    }

    /// A new user reads an image and its snapshots, and writes, for which it takes the lock from a client that died with it.
    fn read_all(&mut self, image: usize) {
        self.open_image(image);
        self.wait_for_all();
        let index = self.users.len() - 1;
        self.begin(index, Job::List);
        self.wait_for_all();
        let size = self.users[index].open.as_ref().map_or(0, onego::rbd::Image::size);
        let (seed, history) = (self.seed, &self.images[image].size);
        assert!(
            history.may_show(size, self.moment, self.moment + 1),
            "seed {seed}: {size} bytes: {history:?}"
        );
        let blocks = (size / BLOCK) as usize;
        self.begin(index, Job::Read(0..blocks));
        for snapshot in 0..self.images[image].snapshots.len() {
            if self.images[image].snapshots[snapshot].is_there() {
                self.begin(index, Job::ReadSnapshot(snapshot));
            }
        }
        self.wait_for_all();
        self.begin(index, Job::Change(0..blocks.min(1), self.moment << 8 | 1));
        self.wait_for_all();
        self.begin(index, Job::Read(0..blocks));
        self.wait_for_all();
        self.begin(index, Job::Close);
        self.wait_for_all();
    }

    /// Nobody holds or watches an image.
    fn check_free(&mut self, image: usize) {
        let name = self.images[image].name.clone();
        let (watchers, holders) = self.ask_pool(|pool| async move {
            let header = header_object(&onego::rbd::info(&pool, &name).await?.id).to_string();
            let holders = pool.lock_info(&header, "rbd_lock").await?.holders;
            Ok((pool.watchers(&header).await?, holders))
        });
        let (seed, name) = (self.seed, &self.images[image].name);
        assert!(watchers.is_empty(), "seed {seed}: {name} is watched by {watchers:?}");
        assert!(holders.is_empty(), "seed {seed}: {name} is locked by {holders:?}");
    }

    /// Every object that there is must be in the map, unless the header says that the map is lost: of an image, and of its
    /// snapshots.
    fn check_maps(&mut self, image: usize) {
        let name = self.images[image].name.clone();
        let maps = self.ask_pool(|pool| async move {
            let info = onego::rbd::info(&pool, &name).await?;
            let header = header_object(&info.id).to_string();
            let snaps = pool.call(&header, &GetSnapContext {}).await?.snaps;
            let mut maps = Vec::new();
            for snap in snaps.into_iter().chain([NOSNAP]) {
                maps.push((snap, check_map(&pool, &info.id, &header, snap).await?));
            }
            Ok(maps)
        });
        // A client that died between two steps leaves a map that is missing or longer than its image.
        if maps.iter().all(|(_, map)| !map.is_lost && map.has_right_length) {
            self.summary.checked_maps += maps.len() as u64;
            let name = self.images[image].name.clone();
            let claims_all =
                self.ask_pool(
                    |pool| async move { upkeep::check_object_map(&pool, &name, None, |_, _| {}).await },
                );
            let (seed, name) = (self.seed, &self.images[image].name);
            assert!(claims_all, "seed {seed}: a map of {name} calls objects clean that have changed");
        }
        for (snap, map) in maps {
            self.summary.maps += 1;
            self.summary.lost_maps += u64::from(map.is_lost);
            let (seed, name, unknown) = (self.seed, &self.images[image].name, &map.unknown);
            assert!(
                map.is_lost || unknown.is_empty(),
                "seed {seed}: objects {unknown:?} of {name} are not in its map at {snap:#x}"
            );
        }
    }

    /// Removes all images, also those of which a client made only a part. Then nothing is left.
    fn remove_all(&mut self) {
        let left = self.ask_pool(|pool| async move {
            loop {
                let names = onego::rbd::list(&pool).all().await?;
                let mut removed = 0;
                for name in &names {
                    removed += usize::from(remove(&pool, name).await?);
                }
                if names.is_empty() {
                    break;
                }
                assert!(removed > 0, "none of {names:?} can be removed");
            }
            let all = pool.all_objects().all().await?;
            // Whoever made a clone may have died when it had a name and no more.
            for name in all.iter().filter_map(|entry| entry.name.strip_prefix("rbd_id.")) {
                onego::rbd::remove(&pool, name, |_, _| {}).await?;
            }
            let all = pool.all_objects().all().await?;
            Ok(all.into_iter().map(|entry| entry.name).collect::<Vec<_>>())
        });
        let left: Vec<_> = left.iter().filter(|name| !KEPT.contains(&name.as_str())).collect();
        assert!(left.is_empty(), "seed {}: {left:?} is left", self.seed);
    }
}

/// Removes an image, if it has no clones.
async fn remove(pool: &Pool, name: &str) -> Result<bool, Error> {
    match snapshots::purge(pool, name, |_, _| {}).await {
        Ok(_) | Err(Error::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    match onego::rbd::remove(pool, name, |_, _| {}).await {
        Ok(()) => Ok(true),
        Err(Error::Snapshots { .. } | Error::Image(ImageError::LockRefused { .. })) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn check_map(pool: &Pool, id: &str, header: &str, snap: u64) -> Result<MapCheck, Error> {
    let flags = pool.call(header, &GetFlags { snap }).await?;
    let size = pool.call(header, &GetSize { snap }).await?.size;
    let is_lost = flags & image_flag::OBJECT_MAP_INVALID != 0;
    if is_lost {
        return Ok(MapCheck { is_lost, has_right_length: false, unknown: Vec::new() });
    }
    let object = match snap {
        NOSNAP => format!("rbd_object_map.{id}"),
        snap => format!("rbd_object_map.{id}.{snap:016x}"),
    };
    let map = match pool.call(&object, &ObjectMapLoad {}).await {
        // Whoever made the snapshot died before it had a map.
        Err(Error::NotFound { .. }) if snap != NOSNAP => {
            return Ok(MapCheck { is_lost: true, has_right_length: false, unknown: Vec::new() });
        }
        other => other?,
    };
    // It grows before the image.
    assert!(map.len() >= layout().objects(size), "{object} is smaller than its image");
    let names = DataNames::new(&format!("rbd_data.{id}"));
    let data = pool.at_snapshot(snap);
    let mut unknown = Vec::new();
    for number in 0..map.len() {
        let is_there = match data.stat(&names.name(number).to_string()).await {
            Ok(_) => true,
            Err(Error::NotFound { .. }) => false,
            Err(error) => return Err(error),
        };
        // What somebody was about to remove, and died, may be there: no client takes it for absent.
        if is_there && map.get(number) == state::NONEXISTENT {
            unknown.push(number);
        }
    }
    Ok(MapCheck { is_lost, has_right_length: map.len() == layout().objects(size), unknown })
}
