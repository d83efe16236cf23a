//! What the other users of an image say.

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
    /// Somebody notifies the watchers of the header. It is answered, at once or when the header was read.
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
            Ok(Notification::HeaderUpdate) if self.death.is_none() => {
                self.refresh_for(host, Waiter::Notifier(watch, notify_id));
                return self.settle(now, host);
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
                return self.settle(now, host);
            }
            // The owner is asked for something that it does not do for others. They take the lock, then, and do it
            // themselves.
            Ok(Notification::Other { .. }) if self.lock.state == LockState::Held => {
                Some(Response { result: errno::EOPNOTSUPP })
            }
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(image = self.facts.id, %error, "a notification cannot be read");
                None
            }
        };
        host.acknowledge(watch, notify_id, encode(answer));
        self.settle(now, host);
    }
}
