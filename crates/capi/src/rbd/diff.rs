//! Which parts of an image hold data.

use super::image::RbdImage;
use crate::border::{Errno, Handle, Opaque, Text, call};
use crate::runtime::block_on;
use onego::ceph::Error;
use onego::rbd::Features;
use onego_ceph::client::{Request, errno};
use onego_ceph::cls::rbd::{GetFlags, ObjectMap, ObjectMapLoad, image_flag, state};
use onego_ceph::ops::Op;
use onego_ceph::rbd::{DataNames, header_object};
use onego_ceph::types::NOSNAP;
use std::ffi::c_int;

/// A program's function that is called for each part: first byte, bytes, whether it holds data, its own argument. What it returns
/// below 0 ends the walk.
type Visit = Option<extern "C" fn(u64, usize, c_int, Opaque) -> c_int>;

/// The objects that exist.
enum Existing {
    /// As the image's map of its objects says.
    Map(ObjectMap),
    /// There is no map that can be relied on: each is asked for.
    Unknown,
}

impl Existing {
    async fn of(image: &RbdImage) -> Result<Self, Error> {
        let (info, pool) = (image.image.info(), image.pool());
        if !info.features.contains(Features::OBJECT_MAP) {
            return Ok(Self::Unknown);
        }
        let header = header_object(&info.id).to_string();
        if pool.call(&header, &GetFlags { snap: NOSNAP }).await? & image_flag::OBJECT_MAP_INVALID != 0 {
            return Ok(Self::Unknown);
        }
        let map = pool.call(&format!("rbd_object_map.{}", info.id), &ObjectMapLoad {}).await;
        Ok(map.map_or(Self::Unknown, Self::Map))
    }

    async fn has(&self, image: &RbdImage, object: u64) -> Result<bool, Error> {
        let info = image.image.info();
        match self {
            Self::Map(map) if object < map.len() => Ok(map.get(object) != state::NONEXISTENT),
            _ => {
                let pool = info.data_pool.unwrap_or_else(|| image.pool().id());
                let request = Request::one(pool, DataNames::new(&info.object_prefix).name(object), Op::Stat);
                let request = request.in_namespace(image.pool().namespace());
                let (reply, _) = image.client().cluster().request(request).await;
                Ok(reply?.result != errno::ENOENT)
            }
        }
    }
}

/// Walks over the parts that hold data, object by object. Of a clone, what its parent shows counts as data.
fn walk(
    image: Handle<RbdImage>,
    from: Text,
    (offset, length): (u64, u64),
    include_parent: bool,
    visit: impl Fn(u64, usize) -> c_int,
) -> Result<c_int, Errno> {
    let image = image.get()?;
    let info = image.image.info();
    // What has changed since a snapshot takes the snapshots of each object.
    if !from.is_null() || image.is_at_snapshot || info.layout.is_striped() {
        return Err(Errno::NOTSUP);
    }
    let shown = info.parent.as_ref().filter(|_| include_parent).map_or(0, |parent| parent.overlap);
    let (size, existing) = (info.layout.object_size(), block_on(Existing::of(image))?);
    let end = offset.saturating_add(length).min(image.image.size());
    let mut at = offset;
    while at < end {
        let next = ((at / size + 1) * size).min(end);
        if at < shown || block_on(existing.has(image, at / size))? {
            let answer = visit(at, (next - at) as usize);
            if answer < 0 {
                return Ok(answer);
            }
        }
        at = next;
    }
    Ok(0)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_diff_iterate(
    image: Handle<RbdImage>,
    from: Text,
    offset: u64,
    length: u64,
    visit: Visit,
    argument: Opaque,
) -> c_int {
    rbd_diff_iterate2(image, from, offset, length, 1, 0, visit, argument)
}

#[unsafe(no_mangle)]
extern "C" fn rbd_diff_iterate2(
    image: Handle<RbdImage>,
    from: Text,
    offset: u64,
    length: u64,
    include_parent: u8,
    _whole_object: u8,
    visit: Visit,
    argument: Opaque,
) -> c_int {
    call(|| {
        let visit = visit.ok_or(Errno::INVAL)?;
        walk(image, from, (offset, length), include_parent != 0, |at, len| visit(at, len, 1, argument))
    })
}
