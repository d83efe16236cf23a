//! Notifications from the image's other users.

use super::lock::encode;
use super::lock_state::LockState;
use super::machine::OpenImage;
use super::refresh_state::Waiter;
use crate::host::Host;
use crate::notify::{Notification, Response};
use onego_buf::List;
use onego_ceph::client::{WatchId, errno};
use onego_msgr::encoding::Decode as _;
use onego_wire::Time;

impl<T> OpenImage<T> {
    /// Handles a notification of the header's watchers. It is acknowledged at once, or after the header is read.
    pub fn notified(
        &mut self,
        now: Time,
        host: &mut impl Host<T>,
        watch: WatchId,
        notify_id: u64,
        payload: &List,
    ) {
        let notification = Notification::from_bytes(&payload.to_segment());
        let answer = match notification {
            Ok(Notification::HeaderUpdate) if self.fatal_error.is_none() => {
                self.refresh_for(host, Waiter::Notifier(watch, notify_id));
                return self.process(now, host);
            }
            Ok(Notification::RequestLock { client, .. }) => self.lock_requested(client, host),
            Ok(Notification::AcquiredLock { client }) => {
                self.lock_acquired_elsewhere(client, host);
                None
            }
            Ok(Notification::ReleasedLock { client }) => {
                self.lock_released_elsewhere(client, host);
                None
            }
            Ok(Notification::Operation(operation)) => {
                self.operation_requested(host, operation, (watch, notify_id));
                return self.process(now, host);
            }
            // An unknown request to the owner. After this answer, the client acquires the lock and does the work
            // itself.
            Ok(Notification::Other { .. }) if self.lock.state == LockState::Held => {
                Some(Response { result: errno::EOPNOTSUPP })
            }
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(image = self.facts.id, %error, "cannot decode a notification");
                None
            }
        };
        host.acknowledge(watch, notify_id, encode(answer));
        self.process(now, host);
    }
}
