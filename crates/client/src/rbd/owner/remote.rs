//! Delegation of changes to the client that owns an image's exclusive lock: a notification requests the change, the
//! owner accepts or refuses it, and reports progress and completion.
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

/// Limit on the owner's acceptance of a request (`rbd_request_timed_out_seconds`). Owners before 17.1 complete some
/// operations before they answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval of resending an operation to an owner that has accepted it: an owner that is still working, or whose
/// completion was missed, answers; a dead one does not.
const RESEND: Duration = Duration::from_secs(15);

/// Delay before resending an operation that the owner may have completed before its answer.
const RECHECK: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Heard {
    /// Result of the completed operation: 0 or a negative errno.
    ended: Option<i32>,
    changed_by: Vec<u64>,
    /// Set once the watch has ended, and no further event can arrive.
    is_lost: bool,
}

pub(super) enum Asked {
    Done,
    Unanswered,
}

impl Header {
    /// Requests a change of the image from the owner of the exclusive lock. `operation` creates the request for an
    /// operation id. Calls `progress` with (done, total) in the owner's unit.
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
        // An owner before 17.1 completes a short operation before it answers, and announces the header change first;
        // it reports no completion. A later one answers before it starts, but its first notification may overtake the
        // answer. When the operation is resent, the former finds it already done, and the latter is still working or
        // reports its result.
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
                let reason = "the owner of its lock does not report its progress".into();
                return Err(Error::Busy { what: self.describe(), reason });
            }
            match self.send_to_owner(&operation, id, &mut watch, &mut heard, progress).await {
                Ok(Some(_)) => {}
                // Another client owns the lock now, perhaps one that carries out nothing for others. Its predecessor may have
                // completed the operation.
                Ok(None) | Err(Error::Refused { errno: Errno::OPNOTSUPP, .. }) => {
                    return Err(self.refused(-Errno::RESTART.0));
                }
                Err(error) if is_done_already(&operation, error.errno()) => return Ok(Asked::Done),
                Err(error) => return Err(error),
            }
            is_resent = true;
        };
        if result < 0 && !(is_resent && is_done_already(&operation, Errno(-result))) {
            return Err(self.refused(result));
        }
        Ok(Asked::Done)
    }

    /// Sends an operation to the owner. Returns the owner's global id if it accepts, or `None` if no owner answers.
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
        // Only the owner's answer has a payload.
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
    /// Handles an event of the image's watch. Dropping the event acknowledges a notification.
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

/// Returns whether the operation takes no longer than an answer may.
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

/// Returns whether an error means that the operation was completed before, by an owner that died before it could
/// answer.
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

/// Waits for a future, but not past the end of the operation, while handling the events of a watch.
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

/// Waits for a future while handling the events of a watch: this client is notified as well, and must acknowledge.
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
