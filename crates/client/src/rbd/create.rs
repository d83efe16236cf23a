use super::header::{check_namespace, check_new_name, describe, v1};
use super::maps::map_object;
use super::pools::validate;
use crate::ceph::error::{Errno, Error};
use crate::rados::{Pool, WriteOp};
use onego_ceph::cls::rbd::{
    Create, DirAddImage, DirRemoveImage, MAX_OBJECTS, MetadataSet, ObjectMapResize, SetId,
    SetStripeUnitCount, state,
};
use onego_ceph::rbd::{DIRECTORY, Features, ImageFormat, Layout, header_object, id_object};
use onego_ceph::types::NOSNAP;
use std::collections::BTreeMap;

/// Parameters of a new image.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CreateOptions {
    /// Size in bytes.
    pub size: u64,
    /// Layout of the data in objects.
    pub layout: Layout,
    /// Features; those that they imply are added.
    pub features: Features,
    /// Pool of the data, if not the image's own.
    pub data_pool: Option<Pool>,
    /// Initial metadata by key; see [`metadata`](super::metadata).
    pub metadata: BTreeMap<String, Vec<u8>>,
    /// Format of the header. Format 1 has no features, no striping and no separate data pool.
    pub format: ImageFormat,
}

impl CreateOptions {
    /// Creates the parameters of an image of `size` bytes, with objects of 4 MiB and only the feature layering.
    pub fn new(size: u64) -> Self {
        let layout = Layout::plain(22).expect("4 MiB is an object size");
        let (features, format) = (Features::LAYERING, ImageFormat::V2);
        Self { size, layout, features, data_pool: None, metadata: BTreeMap::new(), format }
    }

    /// Sets the layout of the data in objects.
    pub fn with_layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// Sets the features, instead of layering.
    pub fn with_features(self, features: Features) -> Self {
        Self { features, ..self }
    }

    /// Stores the data in another pool.
    pub fn with_data_pool(self, pool: Pool) -> Self {
        Self { data_pool: Some(pool), ..self }
    }

    /// Adds an initial metadata entry.
    pub fn with_metadata(mut self, key: &str, value: impl Into<Vec<u8>>) -> Self {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }

    /// Selects format 1 without features. Ceph's programs read and write such images, but deprecate creating them.
    pub fn with_old_format(self) -> Self {
        Self { format: ImageFormat::V1, features: Features::NONE, ..self }
    }

    fn all_features(&self) -> Features {
        // The two features are only useful together (`RBD_FEATURES_IMPLICIT_ENABLE`).
        let has_map = self.features.contains(Features::OBJECT_MAP);
        let fast_diff = if has_map { Features::FAST_DIFF } else { Features::NONE };
        let striping = if self.layout.is_striped() { Features::STRIPING } else { Features::NONE };
        let data_pool = if self.data_pool.is_some() { Features::DATA_POOL } else { Features::NONE };
        self.features.with(fast_diff).with(striping).with(data_pool)
    }
}

impl CreateOptions {
    /// Fails if format 1 is requested for an image that requires format 2. `what` describes such images.
    pub(super) fn needs_v2(&self, what: &str) -> Result<(), Error> {
        match self.format {
            ImageFormat::V1 => Err(Error::Invalid(format!("{what} require format 2"))),
            ImageFormat::V2 => Ok(()),
        }
    }

    pub(super) async fn check_pool(&self, pool: &Pool) -> Result<(), Error> {
        match validate(self.data_pool.as_ref().unwrap_or(pool)).await {
            // A user confined to a namespace may rely on others to have validated the pool.
            Err(error) if matches!(error.errno(), Errno::PERM | Errno::ACCES) => Ok(()),
            other => other,
        }
    }

    pub(super) fn check_features(&self, name: &str) -> Result<(), Error> {
        let features = self.all_features();
        if !features.is_empty() {
            self.needs_v2(&format!("images with {features}"))?;
        }
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
                return Err(Error::Invalid(format!("the feature {feature} requires {needed}")));
            }
        }
        Ok(())
    }
}

/// Fails if an image with these features has more objects than an object map can hold.
pub(super) fn check_map(features: Features, objects: u64) -> Result<(), Error> {
    if features.contains(Features::OBJECT_MAP) && objects > MAX_OBJECTS {
        return Err(onego_rbd::Error::MapLimit { objects }.into());
    }
    Ok(())
}

/// Creates an image.
pub async fn create(pool: &Pool, name: &str, options: &CreateOptions) -> Result<(), Error> {
    options.check_features(name)?;
    check_map(options.features, options.layout.objects(options.size))?;
    if !pool.namespace().is_empty() {
        // Removing the namespace would overlook an image of format 1 in it.
        options.needs_v2("images in namespaces")?;
    }
    check_namespace(pool).await?;
    check_new_name(pool, name, options.format).await?;
    match options.format {
        ImageFormat::V1 => {
            let shape = (options.layout.order(), options.size);
            v1::create(pool, name, shape, &options.metadata).await
        }
        ImageFormat::V2 => create_v2(pool, name, options).await,
    }
}

async fn create_v2(pool: &Pool, name: &str, options: &CreateOptions) -> Result<(), Error> {
    options.check_pool(pool).await?;
    let id = new_id(pool)?;
    let what = || describe(pool, name);
    // A reader of the name must find a complete image, or detect that it is incomplete. As in librbd, the name is
    // taken first, then the directory lists it, then the header completes the image.
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
        // Leftovers would block the name forever. The first error is the one to report.
        let entry = DirRemoveImage { name: name.to_owned(), id: id.clone() };
        let _ = pool.operate_write(DIRECTORY, WriteOp::new().call(&entry)).await;
        let _ = pool.remove(&id_object(name).to_string()).await;
    }
    built
}

/// Creates an image without a name. Leaves nothing behind if it fails.
pub(super) async fn build(pool: &Pool, id: &str, options: &CreateOptions) -> Result<(), Error> {
    check_map(options.features, options.layout.objects(options.size))?;
    let built = build_parts(pool, id, options).await;
    if built.is_err() {
        // The first error is the one to report.
        let _ = pool.remove(&map_object(id, NOSNAP)).await;
        let _ = pool.remove(&header_object(id).to_string()).await;
    }
    built
}

async fn build_parts(pool: &Pool, id: &str, options: &CreateOptions) -> Result<(), Error> {
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
        // Ceph's class ignores features that the same request sets.
        let striping = SetStripeUnitCount { unit: layout.stripe_unit(), count: layout.stripe_count() };
        pool.operate_write(&header, WriteOp::new().call(&striping)).await?;
    }
    if options.all_features().contains(Features::OBJECT_MAP) {
        let resize = ObjectMapResize { objects: layout.objects(options.size), state: state::NONEXISTENT };
        pool.operate_write(&map_object(id, NOSNAP), WriteOp::new().call(&resize)).await?;
    }
    Ok(())
}

/// Returns a unique image id: 56 random bits, in librbd's notation.
pub(super) fn new_id(pool: &Pool) -> Result<String, Error> {
    let random = pool.cluster().random()? & ((1 << 56) - 1);
    Ok(format!("{:x}", random | 1 << 55))
}
