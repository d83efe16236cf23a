use crate::ceph::error::Error;
use futures_channel::oneshot;
use std::thread;

/// Runs work on a separate thread, so that the caller's threads stay responsive.
pub(super) async fn on_thread<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Error> {
    let (done, answer) = oneshot::channel();
    let run = move || {
        // The caller may have stopped waiting.
        let _ = done.send(work());
    };
    thread::Builder::new()
        .name("onego-passphrase".into())
        .spawn(run)
        .map_err(|source| Error::Io { what: "starting a thread", source })?;
    answer.await.map_err(|_| Error::Closed)
}
