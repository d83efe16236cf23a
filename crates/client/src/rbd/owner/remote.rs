//! Changes of an image by the client that owns its exclusive lock and keeps it: it is asked for them by a notification,
//! answers whether it takes the work on, and says how far it is and when it has ended.
//!
//! Source: ceph `src/librbd/ImageWatcher.cc`.

use super::Progress;
use crate::ceph::error::{Errno, Error, undecodable};
use crate::rados::{Watch, WatchEvent};
use crate::rbd::header::Header;
use onego_msgr::encoding::{Decode, Encode};
use onego_rbd::notify::{AsyncRequestId, ClientId, Notification, Operation, Response};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

/// How long the owner may take to say whether it takes the work on (`rbd_request_timed_out_seconds`). One of before 17.1 has
/// ended some kinds of work by then.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval at which an owner that has accepted an operation is sent it again: one that is still at work, or has ended the work
/// unheard, says so; one that is gone does not answer.
const RESEND: Duration = Duration::from_secs(15);

/// Time until an operation is sent again to an owner that may have ended it before its answer.
const RECHECK: Duration = Duration::from_millis(100);

/// How far the owner is, as far as it has said so.
#[derive(Default)]
struct Heard {
    /// It has ended, with 0 or a negative errno.
    ended: Option<i32>,
    /// Clients that have said that the header has changed.
    changed_by: Vec<u64>,
    /// The watch has ended, and with it what can be heard.
    is_lost: bool,
}

/// The end of a request to the owner.
pub(super) enum Asked {
    /// The owner has carried out the operation.
    Done,
    /// No owner has accepted the operation.
    Unanswered,
}

impl Header {
    /// Has the owner of the exclusive lock change the image. `operation` is made with the id that the work has.
    /// `progress` is told (done, all), in whatever the owner counts.
    pub(super) async fn ask_owner(
        &self,
        operation: &impl Fn(AsyncRequestId) -> Operation,
        progress: &Progress<'_>,
    ) -> Result<Asked, Error> {
        let mut watch = self.pool.watch(&self.object()).await?;
        let client = ClientId { gid: self.pool.cluster().global_id().await?, handle: watch.cookie() };
        let id = AsyncRequestId { client, request: 1 };
        let operation = operation(id);
        let is_short = is_short(&operation);
        let mut heard = Heard::default();
        let Some(owner) = self.send_to_owner(&operation, id, &mut watch, &mut heard, progress).await? else {
            return Ok(Asked::Unanswered);
        };
        // An owner before 17.1 answers short work when it is done, after the notification that the header has changed, and reports
        // no end. A later one answers before it begins, but its first notification may overtake the answer. Sent the operation
        // again, the former finds it done, and the latter has it at work or tells its result.
        let may_be_done = is_short && heard.changed_by.contains(&owner);
        let mut pause = if may_be_done { RECHECK } else { RESEND };
        let mut is_resent = false;
        let result = loop {
            let cluster = self.pool.cluster().clone();
            while_running(pin!(cluster.sleep(pause)), &mut watch, id, &mut heard, progress).await?;
            pause = RESEND;
            if let Some(result) = heard.ended {
                break result;
            }
            if heard.is_lost {
                let reason = "the owner of its lock does not say how far it is".into();
                return Err(Error::Busy { what: self.describe(), reason });
            }
            match self.send_to_owner(&operation, id, &mut watch, &mut heard, progress).await {
                Ok(Some(_)) => {}
                Ok(None) => return Err(self.refused(-Errno::RESTART.0)),
                Err(error) if may_be_done && is_done_already(&operation, error.errno()) => {
                    return Ok(Asked::Done);
                }
                Err(error) => return Err(error),
            }
            is_resent = true;
        };
        if result < 0 && !(is_resent && is_done_already(&operation, Errno(-result))) {
            return Err(self.refused(result));
        }
        Ok(Asked::Done)
    }

    /// Sends an operation to the owner. Returns the owner's global id if it accepts; `None`: no owner answers.
    async fn send_to_owner(
        &self,
        operation: &Operation,
        id: AsyncRequestId,
        watch: &mut Watch,
        heard: &mut Heard,
        progress: &Progress<'_>,
    ) -> Result<Option<u64>, Error> {
        let payload = Notification::Operation(operation.clone()).to_bytes();
        let object = self.object();
        let notify = pin!(self.pool.notify(&object, payload, ANSWER_TIMEOUT));
        let notified = while_listening(notify, watch, id, heard, progress).await?;
        // Only the owner answers with something.
        let Some(answer) = notified.acknowledgements.iter().find(|answer| !answer.reply.is_empty()) else {
            return Ok(None);
        };
        let Response { result } =
            Response::from_bytes(&answer.reply).map_err(|error| undecodable(self.describe(), error))?;
        if result < 0 { Err(self.refused(result)) } else { Ok(Some(answer.client)) }
    }

    fn refused(&self, errno: i32) -> Error {
        crate::ceph::error::check(errno, || format!("the owner of the lock of {}", self.describe()))
            .err()
            .unwrap_or_else(|| Error::Unmet { what: self.describe(), errno: Errno::INVAL })
    }
}

impl Heard {
    /// Takes what a watcher of the image is told. Every notification is acknowledged by that.
    fn take(&mut self, event: WatchEvent, id: AsyncRequestId, progress: &Progress<'_>) {
        let WatchEvent::Notify(notification) = event else { return };
        match Notification::from_bytes(&notification.payload().to_vec()) {
            Ok(Notification::AsyncProgress { id: of, offset, total }) if of == id => {
                progress.report(offset, total);
            }
            Ok(Notification::AsyncComplete { id: of, result }) if of == id => self.ended = Some(result),
            Ok(Notification::HeaderUpdate) => self.changed_by.push(notification.notifier()),
            _ => {}
        }
    }
}

/// Returns whether the work takes no longer than an answer may.
pub(super) fn is_short(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::SnapRemove { .. }
            | Operation::SnapRename { .. }
            | Operation::SnapProtect { .. }
            | Operation::SnapUnprotect { .. }
            | Operation::Rename { .. }
            | Operation::UpdateFeatures { .. }
    )
}

/// Returns whether an error says that the operation was carried out before: by an owner that died before it could say so.
pub(super) fn is_done_already(operation: &Operation, errno: Errno) -> bool {
    match operation {
        Operation::SnapCreate { .. } | Operation::SnapRename { .. } | Operation::Rename { .. } => {
            errno == Errno::EXIST
        }
        Operation::SnapRemove { .. } => errno == Errno::NOENT,
        Operation::SnapProtect { .. } => errno == Errno::BUSY,
        Operation::SnapUnprotect { .. } | Operation::UpdateFeatures { .. } | Operation::Flatten { .. } => {
            errno == Errno::INVAL
        }
        _ => false,
    }
}

/// Waits for something, but not past the end of the operation. Takes meanwhile what a watch is told.
async fn while_running(
    mut future: Pin<&mut impl Future<Output = Result<(), Error>>>,
    watch: &mut Watch,
    id: AsyncRequestId,
    heard: &mut Heard,
    progress: &Progress<'_>,
) -> Result<(), Error> {
    poll_fn(|cx| {
        while heard.ended.is_none()
            && !heard.is_lost
            && let Poll::Ready(event) = pin!(watch.next()).poll(cx)
        {
            match event {
                Some(event) => heard.take(event, id, progress),
                None => heard.is_lost = true,
            }
        }
        if heard.ended.is_some() || heard.is_lost { Poll::Ready(Ok(())) } else { future.as_mut().poll(cx) }
    })
    .await
}

/// Waits for something, and takes meanwhile what a watch is told: this client is notified, too, and must acknowledge it.
async fn while_listening<T>(
    mut future: Pin<&mut impl Future<Output = T>>,
    watch: &mut Watch,
    id: AsyncRequestId,
    heard: &mut Heard,
    progress: &Progress<'_>,
) -> T {
    poll_fn(|cx| {
        while let Poll::Ready(Some(event)) = pin!(watch.next()).poll(cx) {
            heard.take(event, id, progress);
        }
        future.as_mut().poll(cx)
    })
    .await
}
