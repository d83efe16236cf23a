use futures_core::Stream;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pub(crate) type NextPage<T, E> = Pin<Box<dyn Future<Output = Result<Page<T, E>, E>> + Send>>;

pub(crate) struct Page<T, E> {
    pub(crate) items: VecDeque<T>,
    /// Fetches the next page; `None` on the last one.
    pub(crate) next: Option<NextPage<T, E>>,
}

/// A listing of any length: a [`Stream`] that fetches the next page when the previous one is used up. It ends after
/// an error. Dropping it cancels the listing.
pub struct Listing<T, E> {
    items: VecDeque<T>,
    next: Option<NextPage<T, E>>,
}

impl<T, E> Listing<T, E> {
    pub(crate) fn new(first: NextPage<T, E>) -> Self {
        Self { items: VecDeque::new(), next: Some(first) }
    }

    /// Returns the next entry, or `None` after the last. Equivalent to `TryStreamExt::try_next` of the crate
    /// `futures`.
    pub async fn try_next(&mut self) -> Result<Option<T>, E> {
        poll_fn(|cx| self.poll_entry(cx)).await.transpose()
    }

    /// Collects all remaining entries in memory.
    pub async fn all(mut self) -> Result<Vec<T>, E> {
        let mut all = Vec::new();
        while let Some(entry) = self.try_next().await? {
            all.push(entry);
        }
        Ok(all)
    }

    fn poll_entry(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, E>>> {
        loop {
            if let Some(entry) = self.items.pop_front() {
                return Poll::Ready(Some(Ok(entry)));
            }
            let Some(next) = &mut self.next else { return Poll::Ready(None) };
            let page = ready!(next.as_mut().poll(cx));
            self.next = None;
            match page {
                Ok(Page { items, next }) => (self.items, self.next) = (items, next),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

// The page's future is pinned by itself; entries are only moved out.
impl<T, E> Unpin for Listing<T, E> {}

impl<T, E> Stream for Listing<T, E> {
    type Item = Result<T, E>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_entry(cx)
    }
}

impl<T, E> fmt::Debug for Listing<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing").field("entries_at_hand", &self.items.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    fn page(number: u32, fails: bool) -> NextPage<u32, &'static str> {
        Box::pin(async move {
            let items = match number {
                0 => [1, 2].into(),
                1 => VecDeque::new(),
                _ if fails => return Err("no more"),
                _ => [3].into(),
            };
            Ok(Page { items, next: (number < 2).then(|| page(number + 1, fails)) })
        })
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it waits for nothing"),
        }
    }

    #[test]
    fn a_listing_continues_after_an_empty_page_and_ends_after_the_last() {
        let mut listing = Listing::new(page(0, false));
        for number in [Some(1), Some(2), Some(3), None, None] {
            assert_eq!(now(listing.try_next()), Ok(number));
        }
        assert_eq!(now(Listing::new(page(0, false)).all()), Ok(vec![1, 2, 3]));
    }

    #[test]
    fn an_error_ends_a_listing() {
        let mut listing = Listing::new(page(0, true));
        for number in [Ok(Some(1)), Ok(Some(2)), Err("no more"), Ok(None)] {
            assert_eq!(now(listing.try_next()), number);
        }
    }
}
