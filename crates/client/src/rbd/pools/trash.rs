use super::names::take_name;
use crate::ceph::error::{Errno, Error};
use crate::rados::{Pool, WriteOp};
use crate::rbd::admin::remove_but_for_name;
use crate::rbd::header::{Header, TRASH, describe, time};
use crate::rbd::release::ignore_missing;
use onego_ceph::cls::rbd::{
    DirAddImage, DirRemoveImage, TrashAdd, TrashGet, TrashImageSpec, TrashList, TrashRemove, TrashStateSet,
};
use onego_ceph::rbd::{DIRECTORY, id_object};
use onego_ceph::types::{EntityName, Utime};
use std::time::{Duration, SystemTime};

/// Images asked for at a time.
const PAGE: u64 = 1024;

/// States of an image in the trash (`cls::rbd::TrashImageState`).
mod state {
    pub(super) const NORMAL: u8 = 0;
    pub(super) const MOVING: u8 = 1;
    pub(super) const REMOVING: u8 = 2;
    pub(super) const RESTORING: u8 = 3;
}

/// Numbers of sources.
const USER: u8 = 0;
pub(in crate::rbd) const MIGRATION: u8 = 2;

/// What put an image into the trash (`cls::rbd::TrashImageSource`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrashSource {
    /// A user.
    User,
    /// The end of its mirroring.
    Mirroring,
    /// Its move elsewhere.
    Migration,
    /// A removal that has not ended.
    Removing,
    /// A user who wants clones to keep it.
    UserParent,
    /// Something that came later.
    Other(u8),
}

impl TrashSource {
    fn of(number: u8) -> Self {
        match number {
            0 => Self::User,
            1 => Self::Mirroring,
            2 => Self::Migration,
            3 => Self::Removing,
            4 => Self::UserParent,
            other => Self::Other(other),
        }
    }
}

/// An image in the trash.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TrashEntry {
    /// Its id, by which it is named there.
    pub id: String,
    /// Its name before.
    pub name: String,
    /// What put it there.
    pub source: TrashSource,
    /// When it was put there.
    pub deleted: SystemTime,
    /// Until when it is kept.
    pub kept_until: SystemTime,
}

impl TrashEntry {
    fn of(id: String, spec: TrashImageSpec) -> Self {
        Self {
            id,
            name: spec.name,
            source: TrashSource::of(spec.source),
            deleted: time(spec.deletion_time),
            kept_until: time(spec.deferment_end_time),
        }
    }
}

/// The images in the trash, by their ids.
pub async fn trash(pool: &Pool) -> Result<Vec<TrashEntry>, Error> {
    let mut all: Vec<TrashEntry> = Vec::new();
    loop {
        let after = all.last().map(|entry| entry.id.clone()).unwrap_or_default();
        let page = match pool.call(TRASH, &TrashList { after, max: PAGE }).await {
            Err(Error::NotFound { .. }) => return Ok(all),
            other => other?,
        };
        let is_last = (page.len() as u64) < PAGE;
        all.extend(page.into_iter().map(|(id, spec)| TrashEntry::of(id, spec)));
        if is_last {
            return Ok(all);
        }
    }
}

/// Moves an image to the trash, where it is kept for `delay` at least. Clones of it go on working. Fails with [`Error::Busy`] if
/// another client has it open. Handles of this client stay open. A full pool lets it go.
///
/// Source: ceph `src/librbd/api/Trash.cc`, `src/librbd/trash/MoveRequest.cc`.
pub async fn move_to_trash(pool: &Pool, name: &str, delay: Duration) -> Result<(), Error> {
    let pool = &pool.with_full_try();
    let header = Header::named(pool, name).await?;
    header.needs_v2("an id, by which the trash knows images", Errno::OPNOTSUPP)?;
    let own = EntityName::client(pool.cluster().global_id().await?);
    if let Some(watcher) = pool.watchers(&header.object()).await?.iter().find(|watcher| watcher.name != own) {
        return Err(Error::Busy { what: header.describe(), reason: format!("{watcher} has it open") });
    }
    header.owned(|_| hide(&header, USER, delay)).await
}

/// Moves an image to the trash. `source`: see [`TrashSource`], by its number.
pub(in crate::rbd) async fn hide(header: &Header, source: u8, delay: Duration) -> Result<(), Error> {
    let Header { pool, id, name, .. } = header;
    let now = SystemTime::now();
    let spec = TrashImageSpec {
        source,
        name: name.clone(),
        deletion_time: utime(now),
        deferment_end_time: utime(now + delay),
        state: state::MOVING,
    };
    change(pool, WriteOp::new().call(&TrashAdd { id: id.clone(), spec })).await?;
    ignore_missing(pool.remove(&id_object(name).to_string()).await)?;
    let entry = DirRemoveImage { name: name.clone(), id: id.clone() };
    ignore_missing(pool.operate_write(DIRECTORY, WriteOp::new().call(&entry)).await.map(drop))?;
    set_state(pool, id, state::NORMAL, state::MOVING).await
}

/// Takes an image out of the trash; without a new name it has that of before.
pub async fn restore(pool: &Pool, id: &str, name: Option<&str>) -> Result<(), Error> {
    let spec = spec(pool, id).await?;
    let name = name.unwrap_or(&spec.name);
    set_state(pool, id, state::RESTORING, spec.state).await?;
    let restored = async {
        take_name(pool, name, id).await?;
        let entry = DirAddImage { name: name.to_owned(), id: id.to_owned() };
        pool.operate_write(DIRECTORY, WriteOp::new().call(&entry)).await
    };
    if let Err(error) = restored.await {
        // It stays in the trash. The first error is the one to tell.
        let _ = set_state(pool, id, spec.state, state::RESTORING).await;
        return Err(error);
    }
    change(pool, WriteOp::new().call(&TrashRemove { id: id.to_owned() })).await
}

/// Removes an image from the trash, with all its data. Before its time is over, only with `force`. `progress` is told
/// (done, all) in bytes.
pub async fn remove_from_trash(
    pool: &Pool,
    id: &str,
    force: bool,
    progress: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    let pool = &pool.with_full_try();
    let spec = spec(pool, id).await?;
    if !force && time(spec.deferment_end_time) > SystemTime::now() {
        return Err(Error::Unmet {
            what: format!(
                "{} is still kept in the trash; \"--force\" removes it all the same",
                describe(pool, &spec.name)
            ),
            errno: Errno::PERM,
        });
    }
    set_state(pool, id, state::REMOVING, spec.state).await?;
    let removed = remove_but_for_name(&Header::v2(pool, id, &spec.name), progress).await;
    if let Err(error) = removed {
        let _ = set_state(pool, id, state::NORMAL, state::REMOVING).await;
        return Err(error);
    }
    change(pool, WriteOp::new().call(&TrashRemove { id: id.to_owned() })).await
}

/// Which images a [purge](purge_trash) of the trash removes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TrashPurge {
    /// Those that were to be kept until this time, in whole seconds, or not so long.
    KeptUntil(SystemTime),
    /// Those that were to be kept the shortest, until the pool uses no more than this part of the room that it could use: 0 to 1.
    Room(f64),
}

/// Removes images that users have put into the trash, with all their data: those that can be, clones before their parents.
/// `progress` gets (done, all) in images. Fails with [`Error::Invalid`] for a part of the room outside 0 to 1, and with
/// [`Error::Unmet`] if images stay that are in use or have snapshots.
pub async fn purge_trash(
    pool: &Pool,
    which: TrashPurge,
    mut progress: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    let pool = &pool.with_full_try();
    if let TrashPurge::Room(part) = which
        && !(0.0..=1.0).contains(&part)
    {
        return Err(Error::Invalid(format!("{part} is no part of a pool's room: 0 to 1 are")));
    }
    let mut entries = trash(pool).await?;
    entries.retain(|entry| matches!(entry.source, TrashSource::User | TrashSource::UserParent));
    entries.sort_by_key(|entry| entry.kept_until);
    if let TrashPurge::KeptUntil(time) = which {
        entries.retain(|entry| since_epoch(entry.kept_until).as_secs() <= since_epoch(time).as_secs());
    }
    let all = entries.len();
    loop {
        let (before, mut first) = (entries.len(), None);
        for entry in std::mem::take(&mut entries) {
            if let TrashPurge::Room(part) = which
                && !is_fuller_than(pool, part).await?
            {
                return Ok(());
            }
            match remove_from_trash(pool, &entry.id, true, |_, _| {}).await {
                Ok(()) => progress((all - entries.len()) as u64, all as u64),
                Err(error) if keeps_in_trash(&error) => {
                    first = first.or(Some((entry.name.clone(), error)));
                    entries.push(entry);
                }
                Err(error) => return Err(error),
            }
        }
        let Some((name, error)) = first else { return Ok(()) };
        // What was removed may have been a clone of what is left.
        if entries.len() == before {
            let what = format!("{before} of {all} images stay in the trash, {name} for one: {error}");
            return Err(Error::Unmet { what, errno: error.errno() });
        }
    }
}

/// Returns whether a removal failed because of the image: it is in use, or has snapshots or clones.
fn keeps_in_trash(error: &Error) -> bool {
    [Errno::NOTEMPTY, Errno::BUSY, Errno::MLINK].contains(&error.errno())
}

/// Does a pool use more than a part of the room that it could use?
async fn is_fuller_than(pool: &Pool, part: f64) -> Result<bool, Error> {
    let cluster = pool.cluster();
    let used = cluster.pool_usage(vec![pool.name().to_owned()]).await?;
    let used = used.get(pool.name()).map_or(0, |usage| usage.used);
    let room = used + cluster.usage().await?.available;
    Ok(used as f64 > part * room as f64)
}

async fn spec(pool: &Pool, id: &str) -> Result<TrashImageSpec, Error> {
    match pool.call(TRASH, &TrashGet { id: id.to_owned() }).await {
        Err(Error::NotFound { .. }) => Err(Error::NotFound { what: format!("image {id} in the trash") }),
        other => other,
    }
}

async fn set_state(pool: &Pool, id: &str, state: u8, expected: u8) -> Result<(), Error> {
    change(pool, WriteOp::new().call(&TrashStateSet { id: id.to_owned(), state, expected })).await
}

async fn change(pool: &Pool, op: WriteOp) -> Result<(), Error> {
    pool.operate_write(TRASH, op).await.map(drop)
}

fn since_epoch(at: SystemTime) -> Duration {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn utime(at: SystemTime) -> Utime {
    let since = since_epoch(at);
    Utime { sec: since.as_secs() as u32, nsec: since.subsec_nanos() }
}
