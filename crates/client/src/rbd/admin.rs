use super::clear::clear;
use super::clones::{Child, children_at};
use super::header::{Header, ImageDetails, check_namespace, v1};
use super::image::Image;
use super::maps::map_object;
use super::release::{detach_from_parent, ignore_missing};
use super::snapshot::{Snapshot, SnapshotKind};
use crate::ceph::error::{Errno, Error};
use crate::listing::{Listing, NextPage, Page};
use crate::rados::{Pool, WriteOp};
use onego_ceph::cls::rbd::{DirList, DirRemoveImage};
use onego_ceph::rbd::{DIRECTORY, Features, ImageFormat, id_object};
use onego_ceph::types::NOSNAP;
use std::collections::BTreeMap;

const LIST_PAGE: u64 = 1024;

/// Lists the names of all images in the pool and its namespace: first those of format 1, in order, then the others.
/// Fails with [`Error::NotFound`] if the namespace does not exist.
///
/// ```no_run
/// # async fn f(pool: onego::rados::Pool) -> Result<(), onego::ceph::Error> {
/// let mut names = onego::rbd::list(&pool);
/// while let Some(name) = names.try_next().await? {
///     println!("{name}");
/// }
/// # Ok(()) }
/// ```
pub fn list(pool: &Pool) -> Listing<String, Error> {
    Listing::new(entries(pool, |entry| entry.name))
}

/// An image in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageEntry {
    /// Name of the image.
    pub name: String,
    /// Id of the image; empty for format 1.
    pub id: String,
}

/// Lists the names and ids of all images, as [`list`] does.
pub fn list_with_ids(pool: &Pool) -> Listing<ImageEntry, Error> {
    Listing::new(entries(pool, |entry| entry))
}

/// Returns the first page of a listing: images of format 1 come first, as in Ceph's `rbd`.
fn entries<T: Send + 'static>(pool: &Pool, shown: fn(ImageEntry) -> T) -> NextPage<T, Error> {
    let pool = pool.clone();
    Box::pin(async move {
        check_namespace(&pool).await?;
        let names = v1::names(&pool).await?;
        let items = names.into_iter().map(|name| shown(ImageEntry { name, id: String::new() })).collect();
        Ok(Page { items, next: Some(page(pool, String::new(), shown)) })
    })
}

fn page<T: Send + 'static>(pool: Pool, after: String, shown: fn(ImageEntry) -> T) -> NextPage<T, Error> {
    Box::pin(async move {
        let names = match pool.call(DIRECTORY, &DirList { after, max: LIST_PAGE }).await {
            Err(Error::NotFound { .. }) => BTreeMap::new(), // no image was ever created here
            other => other?,
        };
        let last = names.last_key_value().map(|(name, _)| name.clone());
        let last = last.filter(|_| names.len() as u64 == LIST_PAGE);
        let items = names.into_iter().map(|(name, id)| shown(ImageEntry { name, id })).collect();
        Ok(Page { items, next: last.map(|last| page(pool, last, shown)) })
    })
}

/// Removes an image with all its data, even if the pool is full. Calls `progress` with (done, total) in bytes.
pub async fn remove(pool: &Pool, name: &str, progress: impl FnMut(u64, u64) + Send) -> Result<(), Error> {
    let pool = &pool.with_full_try();
    let header = match Header::named(pool, name).await {
        Err(error @ Error::NotFound { .. }) => {
            // A removal of an image of format 1 may have been interrupted.
            return v1::forget_lost_name(pool, name).await.map_err(|_| error);
        }
        other => other?,
    };
    remove_but_for_name(&header, progress).await?;
    if header.format == ImageFormat::V1 {
        return Ok(()); // the name went with the header
    }
    let entry = DirRemoveImage { name: name.to_owned(), id: header.id };
    ignore_missing(pool.operate_write(DIRECTORY, WriteOp::new().call(&entry)).await.map(drop))?;
    ignore_missing(pool.remove(&id_object(name).to_string()).await)
}

/// Removes an image except for its name and id.
///
/// Source: ceph `src/librbd/image/RemoveRequest.cc`.
pub(super) async fn remove_but_for_name(
    header: &Header,
    mut progress: impl FnMut(u64, u64) + Send,
) -> Result<(), Error> {
    let header = header.with_full_try();
    let details = match header.details().await {
        // An interrupted removal has already removed the header.
        Err(Error::NotFound { .. }) => return Ok(()),
        other => other?,
    };
    check_removable(&header, &details).await?;
    let (pool, info) = (&header.pool, &details.info);
    let image = Image::open_bare(pool, info.clone()).await?;
    let hold = image.hold_lock().await?;
    clear(&image, 0, &mut progress).await?;
    drop(hold);
    image.close().await?;
    detach_from_parent(&header, &details).await?;
    if info.features.contains(Features::OBJECT_MAP) {
        ignore_missing(pool.remove(&map_object(&header.id, NOSNAP)).await)?;
    }
    ignore_missing(header.remove().await)
}

/// Fails if the removal would leave something behind, or if the image is in use.
async fn check_removable(header: &Header, details: &ImageDetails) -> Result<(), Error> {
    header.refuse_migrating(&details.info)?;
    if !details.snapshots.is_empty() {
        let (image, count) = (header.describe(), details.snapshots.len());
        return Err(Error::Snapshots { image, count, advice: advice_on_snapshots(header, details).await });
    }
    let features = details.info.features.without(Features::WRITABLE);
    if !features.is_empty() {
        return Err(Error::Features { image: header.name.clone(), action: "removed", features, advice: "" });
    }
    if details.group.is_some() {
        return Err(Error::Unmet {
            what: format!("{} is in a group: remove it with \"rbd group image rm\" first", header.describe()),
            errno: Errno::MLINK,
        });
    }
    let watchers = header.pool.watchers(&header.object()).await?;
    match watchers.first() {
        Some(watcher) => {
            Err(Error::Busy { what: header.describe(), reason: format!("{watcher} has it open") })
        }
        None => Ok(()),
    }
}

/// Returns advice on removing an image's snapshots. Snapshots that a user removed stay hidden while clones need them,
/// and "rbd snap purge" does not remove those.
async fn advice_on_snapshots(header: &Header, details: &ImageDetails) -> String {
    if details.snapshots.iter().any(Snapshot::is_users) {
        return match details.snapshots.iter().any(|snapshot| snapshot.is_users() && snapshot.is_protected()) {
            true => "remove them with \"rbd snap unprotect\" and then \"rbd snap purge\"".into(),
            false => "remove them with \"rbd snap purge\"".into(),
        };
    }
    let hidden =
        details.snapshots.iter().filter(|snapshot| matches!(snapshot.kind, SnapshotKind::Trash { .. }));
    let hidden: Vec<u64> = hidden.map(|snapshot| snapshot.id).collect();
    if hidden.is_empty() {
        return "they belong to snapshots of a group: remove those with \"rbd group snap rm\"".into();
    }
    match children_at(header, &hidden).await {
        Ok(children) => match children.as_slice() {
            // Their clones are gone, but were not recorded as such; a purge checks for that.
            [] => "remove them with \"rbd snap purge\"".into(),
            [child] => format!("they were removed, but a clone needs them: {}", advice_on(child)),
            [child, ..] => format!(
                "they were removed, but {} clones need them (listed by \"rbd children --all\"): {}",
                children.len(),
                advice_on(child)
            ),
        },
        // The clones may be in places that this user may not read.
        Err(_) => "they were removed, but clones need them: flatten or remove these".into(),
    }
}

fn advice_on(clone: &Child) -> String {
    let namespace = if clone.namespace.is_empty() { String::new() } else { format!("/{}", clone.namespace) };
    let place = format!("{}{namespace}", clone.pool);
    match clone.in_trash {
        true => format!(
            "\"rbd trash rm {place}/{0}\" removes {1} from the trash, \"rbd trash restore {place}/{0}\" restores it",
            clone.id, clone.image
        ),
        false => {
            format!(
                "\"rbd flatten {place}/{0}\" makes it independent, \"rbd rm {place}/{0}\" removes it",
                clone.image
            )
        }
    }
}
