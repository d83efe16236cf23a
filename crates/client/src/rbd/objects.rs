use crate::ceph::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Objects processed concurrently: enough to hide the round trips; each may hold an object's data in memory.
const DEPTH: usize = 16;

/// Processes the first `count` objects concurrently, in any order. Stops at the first error. Calls `progress` with
/// (done, total) in objects.
pub(super) async fn for_each_object<F: Future<Output = Result<(), Error>>>(
    count: u64,
    mut progress: impl FnMut(u64, u64) + Send,
    mut start: impl FnMut(u64) -> F,
) -> Result<(), Error> {
    let (mut next, mut done) = (0, 0);
    let mut running: Vec<Pin<Box<F>>> = Vec::with_capacity(DEPTH);
    poll_fn(|cx| {
        loop {
            while running.len() < DEPTH && next < count {
                running.push(Box::pin(start(next)));
                next += 1;
            }
            let mut ended = 0;
            let mut place = 0;
            while place < running.len() {
                match running[place].as_mut().poll(cx) {
                    Poll::Ready(Ok(())) => {
                        drop(running.swap_remove(place));
                        ended += 1;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => place += 1,
                }
            }
            if ended > 0 {
                done += ended;
                progress(done, count);
            }
            if running.is_empty() && next == count {
                return Poll::Ready(Ok(()));
            }
            // Newly started futures must be polled once to register their wakers.
            if ended == 0 {
                return Poll::Pending;
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::task::{Context, Waker};

    fn now<T>(future: impl Future<Output = T>) -> Poll<T> {
        std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn every_object_is_processed_once_and_progress_ends_with_the_last() {
        let (seen, mut last) = (RefCell::new(Vec::new()), (0, 0));
        let work = for_each_object(
            40,
            |done, all| last = (done, all),
            |object| {
                seen.borrow_mut().push(object);
                async { Ok(()) }
            },
        );
        assert!(matches!(now(work), Poll::Ready(Ok(()))));
        assert_eq!(seen.into_inner(), (0..40).collect::<Vec<_>>());
        assert_eq!(last, (40, 40));
    }

    #[test]
    fn the_number_of_concurrent_objects_is_limited() {
        let begun = Cell::new(0);
        let work = for_each_object(
            1000,
            |_, _| {},
            |_| {
                begun.set(begun.get() + 1);
                std::future::pending()
            },
        );
        assert!(now(work).is_pending());
        assert_eq!(begun.get(), DEPTH);
    }

    #[test]
    fn the_first_error_ends_the_work() {
        let work = for_each_object(
            3,
            |_, _| {},
            |object| async move { if object == 1 { Err(Error::Closed) } else { Ok(()) } },
        );
        assert!(matches!(now(work), Poll::Ready(Err(Error::Closed))));
    }
}
