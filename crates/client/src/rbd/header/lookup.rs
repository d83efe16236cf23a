use super::handle::Header;
use super::info::ImageInfo;
use super::place::{TRASH, describe};
use crate::ceph::error::{Errno, Error};
use crate::rados::Pool;
use onego_ceph::cls::rbd::{DirGetName, GetId, TrashGet};
use onego_ceph::rbd::{DIRECTORY, ImageFormat, id_object, valid_image_name};
use onego_ceph::types::NOSNAP;

impl Header {
    pub(crate) async fn named(pool: &Pool, name: &str) -> Result<Self, Error> {
        if let Some(id) = pool.known_image(name) {
            return Ok(Self::v2(pool, id, name));
        }
        match pool.call(&id_object(name).to_string(), &GetId {}).await {
            Ok(id) => Ok(Self::v2(pool, &id, name)),
            Err(Error::NotFound { .. }) => match exists(pool, name, ImageFormat::V1).await? {
                true => Ok(Self::v1(pool, name)),
                false => Err(Error::NotFound { what: describe(pool, name) }),
            },
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn with_id(pool: &Pool, id: &str) -> Result<Self, Error> {
        match pool.call(DIRECTORY, &DirGetName { id: id.to_owned() }).await {
            Ok(name) => Ok(Self::v2(pool, id, &name)),
            Err(Error::NotFound { .. }) => Ok(Self::v2(pool, id, id)),
            Err(error) => Err(error),
        }
    }

    /// Returns the image with this id and its current name, or its former name if it is in the trash.
    pub(crate) async fn with_id_and_name(pool: &Pool, id: &str) -> Result<Self, Error> {
        Ok(Self::v2(pool, id, &image_name(pool, id).await?))
    }

    pub(crate) async fn renamed(self) -> Result<Self, Error> {
        match self.format {
            ImageFormat::V1 => Ok(self),
            ImageFormat::V2 => Self::with_id_and_name(&self.pool, &self.id).await,
        }
    }
}

/// Returns an image's properties without opening it, even if it cannot be opened here.
pub async fn info(pool: &Pool, name: &str) -> Result<ImageInfo, Error> {
    Header::named(pool, name).await?.info(NOSNAP).await
}

impl ImageInfo {
    /// Returns the image's current name, which another client may have changed. An image of format 1 cannot be
    /// tracked through a rename.
    pub async fn current_name(&self, pool: &Pool) -> Result<String, Error> {
        Ok(Header::of(pool, self).renamed().await?.name)
    }
}

/// Returns the name of the image with this id, or its former name if it is in the trash.
pub async fn image_name(pool: &Pool, id: &str) -> Result<String, Error> {
    match pool.call(DIRECTORY, &DirGetName { id: id.to_owned() }).await {
        Err(Error::NotFound { .. }) => {}
        other => return other,
    }
    match pool.call(TRASH, &TrashGet { id: id.to_owned() }).await {
        Ok(spec) => Ok(spec.name),
        Err(Error::NotFound { .. }) => Err(Error::NotFound { what: format!("image {id}") }),
        Err(error) => Err(error),
    }
}

/// Fails unless a new image of that format may be called `name`: an image of the other format may have the name. For
/// the same format, the request that takes the name detects that.
pub(crate) async fn check_new_name(pool: &Pool, name: &str, format: ImageFormat) -> Result<(), Error> {
    if !valid_image_name(name) {
        return Err(Error::Invalid(format!(
            "invalid image name {name:?}: it must have 1 to 96 bytes, without / and @"
        )));
    }
    let other = match format {
        ImageFormat::V1 => ImageFormat::V2,
        ImageFormat::V2 => ImageFormat::V1,
    };
    match exists(pool, name, other).await? {
        true => Err(Error::Exists { what: describe(pool, name) }),
        false => Ok(()),
    }
}

/// Returns whether an image of that format is called `name`; false if the user may not read the object with the
/// answer.
async fn exists(pool: &Pool, name: &str, format: ImageFormat) -> Result<bool, Error> {
    match pool.stat(&format.name_object(name).to_string()).await {
        Ok(_) => Ok(true),
        Err(error) if [Errno::NOENT, Errno::PERM, Errno::ACCES].contains(&error.errno()) => Ok(false),
        Err(error) => Err(error),
    }
}
