//! The life of an image: created, listed, resized, removed.

use super::clear::clear;
use super::details::{Header, ImageDetails};
use super::header::{check_namespace, describe, image_id};
use super::image::Image;
use super::maps::map_object;
use super::release::{detach_from_parent, ignore_missing};
use super::view::CopyDown;
use crate::ceph::error::{Errno, Error};
use crate::listing::{Listing, NextPage, Page};
use crate::rados::{Pool, WriteOp};
use onego_ceph::cls::rbd::{
    Create, DirAddImage, DirList, DirRemoveImage, MetadataSet, ObjectMapResize, SetId, SetStripeUnitCount,
    state,
};
use onego_ceph::rbd::{DIRECTORY, Features, Layout, header_object, id_object, valid_image_name};
use onego_ceph::types::NOSNAP;
use onego_rbd::notify::Operation;
use std::collections::BTreeMap;

/// Images asked for at a time when they are listed.
const LIST_PAGE: u64 = 1024;

/// What a new image is to be.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CreateOptions {
    /// Bytes.
    pub size: u64,
    /// How its bytes lie in objects.
    pub layout: Layout,
    /// Its features; those that follow from the rest are added.
    pub features: Features,
    /// Where its data goes, if not into the image's own pool.
    pub data_pool: Option<Pool>,
    /// What is noted at it from the start, by key; see [`metadata`](super::metadata).
    pub metadata: BTreeMap<String, Vec<u8>>,
}

impl CreateOptions {
    /// An image of `size` bytes with objects of 4 MiB and layering alone.
    pub fn new(size: u64) -> Self {
        let layout = Layout::plain(22).expect("4 MiB is an object size");
        Self { size, layout, features: Features::LAYERING, data_pool: None, metadata: BTreeMap::new() }
    }

    /// The same, with its bytes in objects like this.
    pub fn with_layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// The same, with these features instead of layering.
    pub fn with_features(self, features: Features) -> Self {
        Self { features, ..self }
    }

    /// The same, with its data in another pool.
    pub fn with_data_pool(self, pool: Pool) -> Self {
        Self { data_pool: Some(pool), ..self }
    }

    /// The same, with a key noted at it.
    pub fn with_metadata(mut self, key: &str, value: impl Into<Vec<u8>>) -> Self {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }

    fn all_features(&self) -> Features {
        // Each of the two is of no use without the other (`RBD_FEATURES_IMPLICIT_ENABLE`).
        let has_map = self.features.contains(Features::OBJECT_MAP);
        let fast_diff = if has_map { Features::FAST_DIFF } else { Features::NONE };
        let striping = if self.layout.is_striped() { Features::STRIPING } else { Features::NONE };
        let data_pool = if self.data_pool.is_some() { Features::DATA_POOL } else { Features::NONE };
        self.features.with(fast_diff).with(striping).with(data_pool)
    }
}

impl CreateOptions {
    pub(super) fn check_features(&self, name: &str) -> Result<(), Error> {
        let features = self.all_features();
        let unknown = features.without(Features::WRITABLE.without(Features::OPERATIONS));
        if !unknown.is_empty() {
            let advice = "; leave them out";
            return Err(Error::Features {
                image: name.to_owned(),
                action: "created",
                features: unknown,
                advice,
            });
        }
        for (feature, needed) in
            [(Features::OBJECT_MAP, Features::EXCLUSIVE_LOCK), (Features::FAST_DIFF, Features::OBJECT_MAP)]
        {
            if features.contains(feature) && !features.contains(needed) {
                return Err(Error::Invalid(format!("the feature {feature} needs {needed}")));
            }
        }
        Ok(())
    }
}

/// Creates an image.
pub async fn create(pool: &Pool, name: &str, options: &CreateOptions) -> Result<(), Error> {
    if !valid_image_name(name) {
        return Err(Error::Invalid(format!(
            "{name:?} is no name for an image: it must have 1 to 96 bytes, and neither / nor @"
        )));
    }
    options.check_features(name)?;
    check_namespace(pool).await?;
    let id = new_id(pool)?;
    let what = || describe(pool, name);
    // A reader of the name must find a whole image, or be able to tell that it is not: the name is taken first,
    // then the directory lists it, then the header makes it an image, as librbd does it.
    let named = WriteOp::new().create(true).call(&SetId { id: id.clone() });
    pool.operate_write(&id_object(name).to_string(), named).await.map_err(|error| match error {
        Error::Exists { .. } => Error::Exists { what: what() },
        error => error,
    })?;
    let listed = DirAddImage { name: name.to_owned(), id: id.clone() };
    let built = async {
        pool.operate_write(DIRECTORY, WriteOp::new().call(&listed)).await?;
        build(pool, &id, options).await
    };
    let built = built.await;
    if built.is_err() {
        // What is left behind would keep the name taken for ever. The first error is the one to tell.
        let entry = DirRemoveImage { name: name.to_owned(), id: id.clone() };
        let _ = pool.operate_write(DIRECTORY, WriteOp::new().call(&entry)).await;
        let _ = pool.remove(&id_object(name).to_string()).await;
    }
    built
}

/// Makes an image that has no name.
pub(super) async fn build(pool: &Pool, id: &str, options: &CreateOptions) -> Result<(), Error> {
    let object_prefix = match &options.data_pool {
        Some(_) => format!("rbd_data.{}.{id}", pool.id()),
        None => format!("rbd_data.{id}"),
    };
    let layout = options.layout;
    let create = Create {
        size: options.size,
        order: layout.order(),
        features: options.all_features().0,
        object_prefix,
        data_pool: options.data_pool.as_ref().map_or(-1, Pool::id),
    };
    let mut op = WriteOp::new().create(true).call(&create);
    if !options.metadata.is_empty() {
        op = op.call(&MetadataSet { entries: options.metadata.clone() });
    }
    let header = header_object(id).to_string();
    pool.operate_write(&header, op).await?;
    if layout.is_striped() {
        // Ceph's class does not see features that the same request gives the image.
        let striping = SetStripeUnitCount { unit: layout.stripe_unit(), count: layout.stripe_count() };
        pool.operate_write(&header, WriteOp::new().call(&striping)).await?;
    }
    if options.all_features().contains(Features::OBJECT_MAP) {
        let resize = ObjectMapResize { objects: layout.objects(options.size), state: state::NONEXISTENT };
        pool.operate_write(&map_object(id, NOSNAP), WriteOp::new().call(&resize)).await?;
    }
    Ok(())
}

/// An id that no other image has: 56 random bits, in the form of those that librbd gives.
pub(super) fn new_id(pool: &Pool) -> Result<String, Error> {
    let random = pool.cluster().random()? & ((1 << 56) - 1);
    Ok(format!("{:x}", random | 1 << 55))
}

/// Lists the names of all images in the pool and its namespace, in order. Fails with [`Error::NotFound`] if there is no such
/// namespace.
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
    let pool = pool.clone();
    Listing::new(Box::pin(async move {
        check_namespace(&pool).await?;
        page(pool, String::new()).await
    }))
}

/// The names of images behind `after`.
fn page(pool: Pool, after: String) -> NextPage<String, Error> {
    Box::pin(async move {
        let names = match pool.call(DIRECTORY, &DirList { after, max: LIST_PAGE }).await {
            Err(Error::NotFound { .. }) => BTreeMap::new(), // no image was ever created here
            other => other?,
        };
        let last = names.last_key_value().map(|(name, _)| name.clone());
        let last = last.filter(|_| names.len() as u64 == LIST_PAGE);
        Ok(Page { items: names.into_keys().collect(), next: last.map(|last| page(pool, last)) })
    })
}

/// Removes an image with all its data, also while the pool is full. `progress` is told (done, all) in bytes.
pub async fn remove(pool: &Pool, name: &str, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    let pool = &pool.with_full_try();
    let id = image_id(pool, name).await?;
    remove_with_id(pool, name, &id, progress).await?;
    let entry = DirRemoveImage { name: name.to_owned(), id };
    ignore_missing(pool.operate_write(DIRECTORY, WriteOp::new().call(&entry)).await.map(drop))?;
    ignore_missing(pool.remove(&id_object(name).to_string()).await)
}

/// Removes an image but for its name. `name` is for messages alone.
///
/// Source: ceph `src/librbd/image/RemoveRequest.cc`.
pub(super) async fn remove_with_id(
    pool: &Pool,
    name: &str,
    id: &str,
    mut progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    let header = Header { pool: pool.with_full_try(), id: id.to_owned(), name: name.to_owned() };
    let details = match header.details().await {
        // The header went in an earlier removal that did not end.
        Err(Error::NotFound { .. }) => return Ok(()),
        other => other?,
    };
    check_removable(&header, &details).await?;
    let (pool, info) = (&header.pool, &details.info);
    let image = Image::open_bare(pool, info.clone()).await?;
    image.lock().await?;
    clear(&image, 0, &mut progress).await?;
    image.close().await?;
    detach_from_parent(&header, &details).await?;
    if info.features.contains(Features::OBJECT_MAP) {
        ignore_missing(pool.remove(&map_object(id, NOSNAP)).await)?;
    }
    ignore_missing(pool.remove(&header.object()).await)
}

/// Fails if something would be left behind, or if somebody uses the image.
async fn check_removable(header: &Header, details: &ImageDetails) -> Result<(), Error> {
    if !details.snapshots.is_empty() {
        return Err(Error::Snapshots { image: header.describe(), count: details.snapshots.len() });
    }
    let features = details.info.features.without(Features::WRITABLE);
    if !features.is_empty() {
        return Err(Error::Features { image: header.name.clone(), action: "removed", features, advice: "" });
    }
    if details.group.is_some() {
        return Err(Error::Unmet {
            what: format!("{} is in a group, from which \"rbd group image rm\" takes it", header.describe()),
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

/// Changes the size of an image. What is cut off is lost. `progress` is told (done, all) in bytes.
pub async fn resize(
    pool: &Pool,
    name: &str,
    size: u64,
    mut progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    let header = Header::named(pool, name).await?;
    let ask = |id| Operation::Resize { size, id, allow_shrink: true };
    header
        .done_or_asked(ask, &mut progress, async |progress| {
            let info = header.details().await?.info;
            info.check_writable()?;
            if size < info.size {
                header.owned(async |details| keep_what_is_cut(&header, details, size).await).await?;
            }
            let image = Image::open_bare(pool, info).await?;
            let resized = image.resize(size, progress).await;
            // The first error is the one to tell.
            let closed = image.close().await;
            resized.and(closed)
        })
        .await
}

impl Image {
    /// Changes the size of an image, as its owner: of an encrypted one, the size of its data. What is cut off is lost. `progress` is
    /// told (done, all) in bytes.
    pub async fn resize(&self, size: u64, mut progress: impl FnMut(u64, u64)) -> Result<(), Error> {
        self.lock().await?;
        let resized = self.resize_locked(size, &mut progress).await;
        // The first error is the one to tell.
        let unlocked = self.unlock().await;
        resized.and(unlocked)
    }

    async fn resize_locked(&self, size: u64, progress: &mut impl FnMut(u64, u64)) -> Result<(), Error> {
        if size < self.size() {
            clear(self, size, progress).await?;
        }
        self.set_size(size).await
    }
}

/// Has snapshots of a clone keep what they show of the parent behind a new end.
async fn keep_what_is_cut(header: &Header, details: &ImageDetails, size: u64) -> Result<(), Error> {
    if details.snapshots.iter().all(|snapshot| snapshot.overlap.is_none()) {
        return Ok(());
    }
    CopyDown::new(header, details).await?.cut_objects(size).await
}
