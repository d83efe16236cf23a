//! Gives up the data of an image, many objects at a time.

use super::image::Image;
use crate::ceph::error::Error;
use crate::reactor::yield_now;
use futures_core::future::BoxFuture;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;

/// Objects that one request gives up.
const OBJECTS: u64 = 64;

/// Requests in flight: with them 512 objects are, half of what a client may have. Writes go on beside it.
const DEPTH: usize = 8;

/// Gives up all data from byte `start_at` on. Under its lock, the image's map of objects says what need not be looked at.
/// `progress` is told (done, all) in bytes; nothing more is done before the future is polled again, so that a caller that wants to
/// stop can drop it in time.
pub(super) async fn clear(
    image: &Image,
    start_at: u64,
    progress: &mut (impl FnMut(u64, u64) + Send),
) -> Result<(), Error> {
    let layout = image.info().layout;
    // To the end of the last objects, so that they are removed too although the image ends within them.
    let set = layout.object_size() * layout.stripe_count();
    let end = image.header_size().div_ceil(set).saturating_mul(set);
    let step = set.saturating_mul((OBJECTS / layout.stripe_count()).max(1));
    let mut under_way: VecDeque<(u64, BoxFuture<'_, Result<(), Error>>)> = VecDeque::with_capacity(DEPTH);
    let mut at = start_at;
    while at < end || !under_way.is_empty() {
        if at < end && under_way.len() < DEPTH {
            let next = (at / step + 1).saturating_mul(step).min(end);
            let mut trim: BoxFuture<'_, _> = Box::pin(image.trim(at, next - at));
            // It is submitted when it is polled first.
            let early = poll_fn(|cx| Poll::Ready(trim.as_mut().poll(cx))).await;
            match early {
                Poll::Ready(result) => result?,
                Poll::Pending => under_way.push_back((next, trim)),
            }
            at = next;
        } else if let Some((done_to, trim)) = under_way.pop_front() {
            trim.await?;
            progress(done_to - start_at, end - start_at);
            yield_now().await;
        }
    }
    if start_at < end {
        progress(end - start_at, end - start_at);
        yield_now().await;
    }
    Ok(())
}
