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

const PAGE: u64 = 1024;

/// States of an image in the trash (`cls::rbd::TrashImageState`).
mod state {
    pub(super) const NORMAL: u8 = 0;
    pub(super) const MOVING: u8 = 1;
    pub(super) const REMOVING: u8 = 2;
    pub(super) const RESTORING: u8 = 3;
}

const USER: u8 = 0;
pub(in crate::rbd) const MIGRATION: u8 = 2;

/// Cause of an image's move to the trash (`cls::rbd::TrashImageSource`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrashSource {
    /// A user's request.
    User,
    /// End of mirroring.
    Mirroring,
    /// Migration to another place.
    Migration,
    /// An unfinished removal.
    Removing,
    /// A user's request for an image that has clones.
    UserParent,
    /// A source that this version does not know.
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
    /// Id, which identifies the image in the trash.
    pub id: String,
    /// Former name.
    pub name: String,
    /// Cause of the move to the trash.
    pub source: TrashSource,
    /// Time of the move to the trash.
    pub deleted: SystemTime,
    /// End of the retention period.
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

/// Lists the images in the trash, ordered by id.
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

/// Moves an image to the trash, where it is kept for at least `delay`. Its clones keep working. Fails with
/// [`Error::Busy`] if another client has it open; handles of this client stay open. Works even if the pool is full.
///
/// Source: ceph `src/librbd/api/Trash.cc`, `src/librbd/trash/MoveRequest.cc`.
pub async fn move_to_trash(pool: &Pool, name: &str, delay: Duration) -> Result<(), Error> {
    let pool = &pool.with_full_try();
    let header = Header::named(pool, name).await?;
    header.needs_v2("the id that the trash requires", Errno::OPNOTSUPP)?;
    let own = EntityName::client(pool.cluster().global_id().await?);
    if let Some(watcher) = pool.watchers(&header.object()).await?.iter().find(|watcher| watcher.name != own) {
        return Err(Error::Busy { what: header.describe(), reason: format!("{watcher} has it open") });
    }
    header.owned(|_| hide(&header, USER, delay)).await
}

/// Moves an image to the trash. `source` is the number of a [`TrashSource`].
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

/// Restores an image from the trash, under `name` or its former name.
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
        // The image stays in the trash. The first error is the one to report.
        let _ = set_state(pool, id, spec.state, state::RESTORING).await;
        return Err(error);
    }
    change(pool, WriteOp::new().call(&TrashRemove { id: id.to_owned() })).await
}

/// Removes an image from the trash with all its data. Before the end of its retention period this requires `force`.
/// Calls `progress` with (done, total) in bytes.
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
                "{} is still within its retention period; use \"--force\" to remove it",
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

/// Selection of images that [`purge_trash`] removes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TrashPurge {
    /// Images with a retention period that ends at this time or earlier, in whole seconds.
    KeptUntil(SystemTime),
    /// Images in order of the ends of their retention periods, until the pool uses at most this fraction of its
    /// capacity: 0 to 1.
    Room(f64),
}

/// Removes images that users moved to the trash, with all their data, as far as possible, and clones before their
/// parents. Calls `progress` with (done, total) in images. Fails with [`Error::Invalid`] for a fraction outside 0 to
/// 1, and with [`Error::Unmet`] if some images remain because they are in use or have snapshots.
pub async fn purge_trash(
    pool: &Pool,
    which: TrashPurge,
    mut progress: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    let pool = &pool.with_full_try();
    if let TrashPurge::Room(part) = which
        && !(0.0..=1.0).contains(&part)
    {
        return Err(Error::Invalid(format!("{part} is not a fraction of a pool's capacity: use 0 to 1")));
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
        // Removed images may have been clones of remaining ones.
        if entries.len() == before {
            let what = format!("{before} of {all} images stay in the trash, for example {name}: {error}");
            return Err(Error::Unmet { what, errno: error.errno() });
        }
    }
}

fn keeps_in_trash(error: &Error) -> bool {
    [Errno::NOTEMPTY, Errno::BUSY, Errno::MLINK].contains(&error.errno())
}

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
