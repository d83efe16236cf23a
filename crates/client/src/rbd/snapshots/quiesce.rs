//! Those that have an image open let their writes rest while a snapshot of it is made, where they care: so the snapshot of a file
//! system is a whole one.
//!
//! Source: ceph `src/librbd/ImageWatcher.cc`.

use crate::ceph::error::{Error, check, undecodable};
use crate::rbd::header::Header;
use onego_msgr::encoding::{Decode as _, Encode as _};
use onego_rbd::notify::{AsyncRequestId, ClientId, Notification, Operation, Response};
use std::time::Duration;

/// Do the users of an image let their writes rest while a snapshot is made?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Quiesce {
    /// There is no snapshot if one of them cannot.
    #[default]
    Must,
    /// They are asked, and there is a snapshot in any case.
    May,
    /// They are not asked.
    Skip,
}

/// How long they may take (ten times `rbd_request_timed_out_seconds`' share of a notification, as often as librbd asks).
const TIMEOUT: Duration = Duration::from_secs(100);

impl Quiesce {
    /// How another client is told (`RBD_SNAP_CREATE_*`).
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

/// Does something while the writes of images' users rest.
pub(in crate::rbd) async fn quiesced<T>(
    headers: &[&Header],
    quiesce: Quiesce,
    body: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    if quiesce == Quiesce::Skip {
        return body.await;
    }
    // All of them first: nobody may be left asked and not told of the end.
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
        // The first error is the one to tell.
        let _ = notify(header, Operation::Unquiesce { id }).await;
    }
    result
}

async fn request_id(header: &Header) -> Result<AsyncRequestId, Error> {
    let cluster = header.pool.cluster();
    let client = ClientId { gid: cluster.global_id().await?, handle: 0 };
    Ok(AsyncRequestId { client, request: cluster.random()? })
}

/// Fails with the first error that a user of the image answers.
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
