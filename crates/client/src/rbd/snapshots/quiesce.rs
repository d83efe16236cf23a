//! Pausing of writes during the creation of a snapshot by the image's users that support it, so that a snapshot of a
//! file system is consistent.
//!
//! Source: ceph `src/librbd/ImageWatcher.cc`.

use crate::ceph::error::{Error, check, undecodable};
use crate::rbd::header::Header;
use onego_msgr::encoding::{Decode as _, Encode as _};
use onego_rbd::notify::{AsyncRequestId, ClientId, Notification, Operation, Response};
use std::time::Duration;

/// Policy on pausing the users' writes during the creation of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Quiesce {
    /// Fail if a user cannot pause.
    #[default]
    Must,
    /// Ask the users to pause, but ignore failures.
    May,
    /// Do not ask the users.
    Skip,
}

/// Limit on the users' answers (ten times `rbd_request_timed_out_seconds`' share of a notification, as often as
/// librbd asks).
const TIMEOUT: Duration = Duration::from_secs(100);

impl Quiesce {
    /// Returns the flags for other clients (`RBD_SNAP_CREATE_*`).
    pub(in crate::rbd) fn flags(self) -> u64 {
        match self {
            Self::Must => 0,
            Self::Skip => 1,
            Self::May => 2,
        }
    }

    pub(in crate::rbd) fn of_flags(flags: u64) -> Self {
        match flags {
            flags if flags & 1 != 0 => Self::Skip,
            flags if flags & 2 != 0 => Self::May,
            _ => Self::Must,
        }
    }
}

/// Runs an operation while the users of images pause their writes.
pub(in crate::rbd) async fn quiesced<T>(
    headers: &[&Header],
    quiesce: Quiesce,
    body: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    if quiesce == Quiesce::Skip {
        return body.await;
    }
    // Prepare all ids first: every paused user must be resumed at the end.
    let mut ids = Vec::new();
    for header in headers {
        ids.push(request_id(header).await?);
    }
    let mut begun = Vec::new();
    let mut failed = None;
    for (header, id) in headers.iter().zip(ids) {
        let asked = notify(header, Operation::Quiesce { id }).await;
        begun.push((header, id));
        if let (Err(error), Quiesce::Must) = (asked, quiesce) {
            failed = Some(error);
            break;
        }
    }
    let result = match failed {
        Some(error) => Err(error),
        None => body.await,
    };
    for (header, id) in begun {
        // The first error is the one to report.
        let _ = notify(header, Operation::Unquiesce { id }).await;
    }
    result
}

async fn request_id(header: &Header) -> Result<AsyncRequestId, Error> {
    let cluster = header.pool.cluster();
    let client = ClientId { gid: cluster.global_id().await?, handle: 0 };
    Ok(AsyncRequestId { client, request: cluster.random()? })
}

/// Notifies the users of the image. Fails with the first error among their answers.
async fn notify(header: &Header, operation: Operation) -> Result<(), Error> {
    let payload = Notification::Operation(operation).to_bytes();
    let notified = header.pool.notify(&header.object(), payload, TIMEOUT).await?;
    for answer in notified.acknowledgements.iter().filter(|answer| !answer.reply.is_empty()) {
        let Response { result } =
            Response::from_bytes(&answer.reply).map_err(|error| undecodable(header.describe(), error))?;
        check(result, || format!("a user of {}", header.describe()))?;
    }
    Ok(())
}
