//! Sources of events that programs give up while they are waited for.

use super::lock::lock;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Mutex;
use std::task::Poll;

/// The next event of a source, as `next` asks for it; `None`: there are no more, or the source is given up.
///
/// The lock is held only while the source is asked, so that it can be taken away at any time. `next` is begun anew each time: it
/// must lose nothing when it is dropped.
pub(crate) async fn next_of<S, E>(
    source: &Mutex<Option<S>>,
    next: impl AsyncFn(&mut S) -> Option<E>,
) -> Option<E> {
    poll_fn(|cx| match lock(source).as_mut() {
        Some(source) => pin!(next(source)).poll(cx),
        None => Poll::Ready(None),
    })
    .await
}
