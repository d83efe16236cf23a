//! Operations that other users of the image request from the owner of its lock.
//!
//! The owner answers at once whether it accepts the operation, and notifies of its progress and its end. The layer that
//! drives the machine carries it out ([`Host::operate`]).
//!
//! Source: ceph `src/librbd/ImageWatcher.cc`.

use crate::host::{Host, Purpose, Ticket};
use crate::image::lock::encode;
use crate::image::lock_state::LockState;
use crate::image::machine::OpenImage;
use crate::image::state::under_way::{Progress, UnderWay};
use crate::notify::{AsyncRequestId, Notification, Operation, Response};
use onego_ceph::client::{WatchId, errno};
use onego_msgr::encoding::Encode as _;
use onego_wire::Time;

/// Maximum number of operations for others in progress. The client that requests one more must acquire the lock and do it itself.
const MAX_OPERATIONS: usize = 8;

/// Number of results that are kept for clients that missed the end of their operation and request it again.
const MAX_ENDED: usize = 32;

/// Number of notifications of an operation's end while a watcher misses them.
const END_ATTEMPTS: u32 = 3;

const NOTIFY_TIMEOUT: u32 = 5;

/// The requester must ask the next owner (ERESTART).
const RESTART: i32 = -85;

impl<T> OpenImage<T> {
    /// Enables operations for others: the layer that drives the machine carries them out.
    pub fn serve_others(&mut self) {
        self.operations.is_served = true;
    }

    /// Handles another user's request for an operation. Answers it now, or at the operation's end.
    pub(in crate::image) fn operation_requested(
        &mut self,
        host: &mut impl Host<T>,
        operation: Operation,
        notification: (WatchId, u64),
    ) {
        let (watch, notify_id) = notification;
        let answer = |host: &mut _, result: Option<i32>| {
            let response = result.map(|result| Response { result });
            Host::acknowledge(host, watch, notify_id, encode(response));
        };
        let is_leaving = matches!(self.lock.state, LockState::Draining | LockState::UnlockingMap);
        let is_silent = matches!(operation, Operation::Quiesce { .. } | Operation::Unquiesce { .. });
        if !self.lock.state.is_owned() || is_leaving || is_silent || self.is_closing() {
            return answer(host, None);
        }
        let id = operation.id();
        if self.operations.under_way.iter().any(|other| other.has_id(&id)) {
            return answer(host, Some(0));
        }
        if let Some(result) = self.operations.result_of(&id) {
            answer(host, Some(0));
            return self.tell_end(host, id, result, END_ATTEMPTS);
        }
        if !self.operations.is_served || self.operations.under_way.len() >= MAX_OPERATIONS {
            return answer(host, Some(errno::EOPNOTSUPP));
        }
        tracing::debug!(image = self.facts.id, ?operation, "another client requests an operation");
        self.operations.last_number = self.operations.last_number.wrapping_add(1);
        let number = self.operations.last_number;
        let has_id = id != AsyncRequestId::default();
        self.operations.under_way.push(UnderWay {
            number,
            id,
            answer: (!has_id).then_some(notification),
            progress: Progress::Known,
            is_committed: false,
        });
        if has_id {
            answer(host, Some(0));
        }
        host.operate(number, operation);
    }

    /// Notifies of an operation's progress: `done` of `all` steps, in any unit.
    pub fn operation_progress(&mut self, host: &mut impl Host<T>, number: u32, done: u64, all: u64) {
        let Some(operation) = self.operations.under_way.iter_mut().find(|other| other.number == number)
        else {
            return;
        };
        if operation.answer.is_some() {
            return;
        }
        if operation.progress != Progress::Known {
            operation.progress = Progress::Newer(done, all);
            return;
        }
        operation.progress = Progress::Telling;
        let progress = Notification::AsyncProgress { id: operation.id, offset: done, total: all };
        let ticket = Ticket(Purpose::Progress { number });
        host.notify(self.facts.header.clone(), progress.to_bytes().into(), NOTIFY_TIMEOUT, ticket);
    }

    pub(in crate::image) fn progress_told(&mut self, host: &mut impl Host<T>, number: u32) {
        let mut under_way = self.operations.under_way.iter_mut();
        let Some(operation) = under_way.find(|other| other.number == number) else { return };
        if let Progress::Newer(done, all) = std::mem::replace(&mut operation.progress, Progress::Known) {
            self.operation_progress(host, number, done, all);
        }
    }

    /// Ends an operation; `result` is 0 or a negative errno.
    pub fn operation_ended(&mut self, now: Time, host: &mut impl Host<T>, number: u32, result: i32) {
        self.end_operation(host, number, result);
        self.process(now, host);
    }

    fn end_operation(&mut self, host: &mut impl Host<T>, number: u32, result: i32) {
        let place = self.operations.under_way.iter().position(|other| other.number == number);
        let Some(place) = place else { return };
        let UnderWay { id, answer, .. } = self.operations.under_way.swap_remove(place);
        if let Some((watch, notify_id)) = answer {
            return host.acknowledge(watch, notify_id, encode(Some(Response { result })));
        }
        // A repeated request for an aborted operation starts it again.
        if result != RESTART {
            self.operations.ended.truncate(MAX_ENDED - 1);
            self.operations.ended.push_front((id, result));
        }
        self.tell_end(host, id, result, END_ATTEMPTS);
    }

    fn tell_end(&mut self, host: &mut impl Host<T>, id: AsyncRequestId, result: i32, attempts: u32) {
        let end = Notification::AsyncComplete { id, result };
        let ticket = Ticket(Purpose::OperationEnd { id, result, attempts: attempts - 1 });
        host.notify(self.facts.header.clone(), end.to_bytes().into(), NOTIFY_TIMEOUT, ticket);
    }

    /// Handles the end of the notification of an operation's end. Repeats it if a watcher missed it.
    pub(in crate::image) fn end_told(
        &mut self,
        host: &mut impl Host<T>,
        (id, result, attempts): (AsyncRequestId, i32, u32),
        is_known: bool,
    ) {
        if !is_known && attempts > 0 && self.fatal_error.is_none() {
            self.tell_end(host, id, result, attempts);
        }
    }

    /// Aborts operations where possible: a client that wants the lock, or a close, must not wait for long ones.
    pub(in crate::image) fn break_operations_off(&mut self, host: &mut impl Host<T>) {
        let is_lost = self.fatal_error.is_some() || self.is_leaving;
        let under_way = self.operations.under_way.iter();
        let numbers: Vec<u32> =
            under_way.filter(|other| is_lost || !other.is_committed).map(|other| other.number).collect();
        for number in numbers {
            self.pauses.forget(number);
            host.break_off(number);
            self.end_operation(host, number, RESTART);
        }
    }
}
