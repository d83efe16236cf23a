//! Images by their names and ids.

use super::handle::Header;
use super::info::ImageInfo;
use super::place::{TRASH, describe};
use crate::ceph::error::{Errno, Error};
use crate::rados::Pool;
use onego_ceph::cls::rbd::{DirGetName, GetId, TrashGet};
use onego_ceph::rbd::{DIRECTORY, ImageFormat, id_object, valid_image_name};
use onego_ceph::types::NOSNAP;

impl Header {
    /// The image called `name`, of either format.
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

    /// The image with this id, which may be in the trash.
    pub(crate) async fn with_id(pool: &Pool, id: &str) -> Result<Self, Error> {
        match pool.call(DIRECTORY, &DirGetName { id: id.to_owned() }).await {
            Ok(name) => Ok(Self::v2(pool, id, &name)),
            Err(Error::NotFound { .. }) => Ok(Self::v2(pool, id, id)),
            Err(error) => Err(error),
        }
    }

    /// The same, by the name that it has now, or had before it came into the trash.
    pub(crate) async fn with_id_and_name(pool: &Pool, id: &str) -> Result<Self, Error> {
        Ok(Self::v2(pool, id, &image_name(pool, id).await?))
    }

    /// The same image, by the name that it has now.
    pub(crate) async fn renamed(self) -> Result<Self, Error> {
        match self.format {
            ImageFormat::V1 => Ok(self),
            ImageFormat::V2 => Self::with_id_and_name(&self.pool, &self.id).await,
        }
    }
}

/// What is known of an image, without opening it: also of one that cannot be opened here.
pub async fn info(pool: &Pool, name: &str) -> Result<ImageInfo, Error> {
    Header::named(pool, name).await?.info(NOSNAP).await
}

impl ImageInfo {
    /// What the image is called now: others may have given it another name. One of format 1 would be another image then.
    pub async fn current_name(&self, pool: &Pool) -> Result<String, Error> {
        Ok(Header::of(pool, self).renamed().await?.name)
    }
}

/// The name of the image with this id, or the one that it had before it came into the trash.
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

/// Fails unless a new image of that format may be called `name`: an image of the other format may have the name. One of the same
/// format makes the request fail that takes the name.
pub(crate) async fn check_new_name(pool: &Pool, name: &str, format: ImageFormat) -> Result<(), Error> {
    if !valid_image_name(name) {
        return Err(Error::Invalid(format!(
            "{name:?} is no name for an image: it must have 1 to 96 bytes, and neither / nor @"
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

/// Is there an image of that format called `name`? A user who may not see the object that says so sees no such image.
async fn exists(pool: &Pool, name: &str, format: ImageFormat) -> Result<bool, Error> {
    match pool.stat(&format.name_object(name).to_string()).await {
        Ok(_) => Ok(true),
        Err(error) if [Errno::NOENT, Errno::PERM, Errno::ACCES].contains(&error.errno()) => Ok(false),
        Err(error) => Err(error),
    }
}
