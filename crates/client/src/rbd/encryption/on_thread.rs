//! Work that takes a processor for seconds.

use crate::ceph::error::Error;
use futures_channel::oneshot;
use std::thread;

/// Does work on a thread of its own, so that the caller's threads go on.
pub(super) async fn on_thread<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Error> {
    let (done, answer) = oneshot::channel();
    let run = move || {
        // A caller that does not wait any more needs no answer.
        let _ = done.send(work());
    };
    thread::Builder::new()
        .name("onego-passphrase".into())
        .spawn(run)
        .map_err(|source| Error::Io { what: "starting a thread", source })?;
    answer.await.map_err(|_| Error::Closed)
}
