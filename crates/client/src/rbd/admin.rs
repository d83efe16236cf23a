//! The life of an image: created, listed, resized, removed.

use super::clear::clear;
use super::header::{check_namespace, describe, image_id, info};
use super::image::Image;
use crate::ceph::error::Error;
use crate::listing::{Listing, NextPage, Page};
use crate::rados::{Pool, WriteOp};
use onego_ceph::cls::rbd::{
    Create, DirAddImage, DirList, DirRemoveImage, MetadataSet, SetId, SetStripeUnitCount,
};
use onego_ceph::rbd::{DIRECTORY, Features, Layout, header_object, id_object, valid_image_name};
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
        let striping = if self.layout.is_striped() { Features::STRIPING } else { Features::NONE };
        let data_pool = if self.data_pool.is_some() { Features::DATA_POOL } else { Features::NONE };
        self.features.with(striping).with(data_pool)
    }
}

/// Creates an image.
pub async fn create(pool: &Pool, name: &str, options: &CreateOptions) -> Result<(), Error> {
    if !valid_image_name(name) {
        return Err(Error::Invalid(format!(
            "{name:?} is no name for an image: it must have 1 to 96 bytes, and neither / nor @"
        )));
    }
    let features = options.all_features().without(Features::WRITABLE.without(Features::OPERATIONS));
    if !features.is_empty() {
        let advice = "; leave them out";
        return Err(Error::Features { image: name.to_owned(), action: "created", features, advice });
    }
    check_namespace(pool).await?;
    let id = new_id()?;
    let what = || describe(pool, name);
    // A reader of the name must find a whole image, or be able to tell that it is not: the name is taken first,
    // then the directory lists it, then the header makes it an image, as librbd does it.
    let named = WriteOp::new().create(true).call(&SetId { id: id.clone() });
    pool.operate_write(&id_object(name).to_string(), named).await.map_err(|error| match error {
        Error::Exists { .. } => Error::Exists { what: what() },
        error => error,
    })?;
    let built = build(pool, name, &id, options).await;
    if built.is_err() {
        // What is left behind would keep the name taken for ever. The first error is the one to tell.
        let entry = DirRemoveImage { name: name.to_owned(), id: id.clone() };
        let _ = pool.operate_write(DIRECTORY, WriteOp::new().call(&entry)).await;
        let _ = pool.remove(&id_object(name).to_string()).await;
    }
    built
}

async fn build(pool: &Pool, name: &str, id: &str, options: &CreateOptions) -> Result<(), Error> {
    let entry = DirAddImage { name: name.to_owned(), id: id.to_owned() };
    pool.operate_write(DIRECTORY, WriteOp::new().call(&entry)).await?;
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
    if layout.is_striped() {
        let striping = SetStripeUnitCount { unit: layout.stripe_unit(), count: layout.stripe_count() };
        op = op.call(&striping);
    }
    if !options.metadata.is_empty() {
        op = op.call(&MetadataSet { entries: options.metadata.clone() });
    }
    pool.operate_write(&header_object(id).to_string(), op).await.map(drop)
}

/// An id that no other image has: 56 random bits, in the form of those that librbd gives.
fn new_id() -> Result<String, Error> {
    let mut random = [0; 8];
    getrandom::fill(&mut random[..7])
        .map_err(|error| Error::Io { what: "asking for randomness", source: error.into() })?;
    Ok(format!("{:x}", u64::from_le_bytes(random) | 1 << 55))
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
pub async fn remove(pool: &Pool, name: &str, mut progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    let pool = &pool.with_full_try();
    let info = match info(pool, name).await {
        // The header went in an earlier removal that did not end: remove what is left.
        Err(Error::NotFound { what }) => {
            let id = image_id(pool, name).await.map_err(|_| Error::NotFound { what })?;
            return forget(pool, name, &id).await;
        }
        other => other?,
    };
    let busy = |reason: String| Err(Error::Busy { what: describe(pool, name), reason });
    if !info.snapshots.is_empty() {
        return Err(Error::Snapshots { image: describe(pool, name), count: info.snapshots.len() });
    }
    if info.parent.is_some() {
        return Err(Error::Clone { image: name.to_owned(), action: "removed" });
    }
    // What an image keeps elsewhere for other features would stay behind.
    let features = info.features.without(Features::WRITABLE);
    if !features.is_empty() {
        return Err(Error::Features { image: name.to_owned(), action: "removed", features, advice: "" });
    }
    let watchers = pool.watchers(&header_object(&info.id).to_string()).await?;
    if let Some(watcher) = watchers.first() {
        return busy(format!("{watcher} has it open"));
    }
    let image = Image::open_bare(pool, info.clone()).await?;
    image.lock().await?;
    clear(&image, 0, &mut progress).await?;
    image.close().await?;
    if info.features.contains(Features::OBJECT_MAP) {
        ignore_missing(pool.remove(&format!("rbd_object_map.{}", info.id)).await)?;
    }
    ignore_missing(pool.remove(&header_object(&info.id).to_string()).await)?;
    forget(pool, name, &info.id).await
}

/// Takes a name back.
async fn forget(pool: &Pool, name: &str, id: &str) -> Result<(), Error> {
    let entry = DirRemoveImage { name: name.to_owned(), id: id.to_owned() };
    ignore_missing(pool.operate_write(DIRECTORY, WriteOp::new().call(&entry)).await.map(drop))?;
    ignore_missing(pool.remove(&id_object(name).to_string()).await)
}

fn ignore_missing(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::NotFound { .. }) => Ok(()),
        other => other,
    }
}

/// Changes the size of an image. What is cut off is lost. `progress` is told (done, all) in bytes.
pub async fn resize(
    pool: &Pool,
    name: &str,
    size: u64,
    mut progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    let image = Image::open(pool, name).await?;
    image.lock().await?;
    if size < image.size() {
        clear(&image, size, &mut progress).await?;
    }
    image.set_size(size).await?;
    image.close().await
}
