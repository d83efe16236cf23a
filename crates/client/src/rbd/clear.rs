//! Gives up the data of an image, many objects at a time.

use super::header::ImageInfo;
use crate::ceph::commands::CephCommand;
use crate::ceph::done::ReplyTo;
use crate::ceph::error::Error;
use crate::ceph::image_io::IoOp;
use crate::pending::Pending;
use crate::rados::{Cluster, Pool};
use futures_channel::oneshot;
use onego_ceph::cls::rbd::{GetFlags, ObjectMap, ObjectMapLoad, image_flag, state as object_state};
use onego_ceph::rbd::{Features, header_object};
use onego_ceph::types::NOSNAP;
use std::collections::VecDeque;
use std::sync::Arc;

/// A request to clear a part, under way.
type Clearing<'a> = Pending<'a, Result<(), Error>, Cluster>;

/// Objects that one request gives up.
const OBJECTS: u64 = 64;

/// Requests in flight: with them 512 objects are, half of what a client may have. Writes go on beside it.
const DEPTH: usize = 8;

/// Gives up all data from byte `start_at` on. `progress` is told (done, all) in bytes.
pub(super) async fn clear(
    pool: &Pool,
    info: &ImageInfo,
    start_at: u64,
    progress: &mut impl FnMut(u64, u64),
) -> Result<(), Error> {
    // To the end of the last objects, so that they are removed too although the image ends within them.
    let set = info.layout.object_size() * info.layout.stripe_count();
    let end = info.size.div_ceil(set).saturating_mul(set);
    let step = set.saturating_mul((OBJECTS / info.layout.stripe_count()).max(1));
    let (shape, map) = (Arc::new(info.shape(pool, end)), object_map(pool, info).await?);
    let mut under_way: VecDeque<(u64, Clearing<'_>)> = VecDeque::with_capacity(DEPTH);
    let mut at = start_at;
    while at < end || !under_way.is_empty() {
        if at < end && under_way.len() < DEPTH {
            let next = (at / step + 1).saturating_mul(step).min(end);
            match there(map.as_ref(), set, at, next) {
                Some((offset, to)) => {
                    let (done, answer) = oneshot::channel();
                    let op = IoOp::zero(offset, to - offset, ReplyTo::Future(done));
                    pool.cluster().send(CephCommand::Image { shape: Arc::clone(&shape), op }).await?;
                    under_way.push_back((next, pool.cluster().answer(answer)));
                }
                None if under_way.is_empty() => progress(next - start_at, end - start_at),
                None => {}
            }
            at = next;
        } else if let Some((done_to, answer)) = under_way.pop_front() {
            answer.await??;
            progress(done_to - start_at, end - start_at);
        }
    }
    if start_at < end {
        progress(end - start_at, end - start_at);
    }
    Ok(())
}

/// The map of the objects that exist, where it can be relied on: nobody has the image open, and the last one who had kept
/// the map true.
async fn object_map(pool: &Pool, info: &ImageInfo) -> Result<Option<ObjectMap>, Error> {
    if !info.features.contains(Features::OBJECT_MAP) || info.layout.is_striped() {
        return Ok(None);
    }
    let flags = pool.call(&header_object(&info.id).to_string(), &GetFlags { snap: NOSNAP }).await?;
    if flags & image_flag::OBJECT_MAP_INVALID != 0 {
        return Ok(None);
    }
    let map = pool.call(&format!("rbd_object_map.{}", info.id), &ObjectMapLoad {}).await;
    // Without it all objects are tried, which is slow and right.
    Ok(map.ok().filter(|map| map.len() >= info.objects()))
}

/// The part of a range, from the first to the last object of it that may exist.
fn there(map: Option<&ObjectMap>, object_size: u64, from: u64, to: u64) -> Option<(u64, u64)> {
    let Some(map) = map else { return Some((from, to)) };
    let exists = |object: &u64| *object >= map.len() || map.get(*object) != object_state::NONEXISTENT;
    let mut objects = from / object_size..to.div_ceil(object_size);
    let first = objects.find(|object| exists(object))?;
    let last = objects.rev().find(|object| exists(object)).unwrap_or(first);
    Some((from.max(first * object_size), to.min((last + 1) * object_size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_exist_is_given_up() {
        let mut map = ObjectMap::new(10);
        assert_eq!(there(None, 4, 0, 40), Some((0, 40)));
        assert_eq!(there(Some(&map), 4, 0, 40), None);
        map.set(3, object_state::EXISTS);
        map.set(5, object_state::EXISTS);
        assert_eq!(there(Some(&map), 4, 0, 40), Some((12, 24)));
        assert_eq!(there(Some(&map), 4, 13, 15), Some((13, 15)));
        assert_eq!(there(Some(&map), 4, 24, 40), None);
        assert_eq!(there(Some(&map), 4, 36, 44), Some((40, 44)), "behind the map nothing is known");
    }
}
