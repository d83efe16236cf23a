use super::commands::WatchNotice;
use super::done::{ReplyTo, tell};
use super::error::Error;
use super::image_key::{ImageControl, ImageKey};
use super::operations::{Job, JobEvent, Operations};
use super::operator::{OpenedImage, OperationProgress, Operator, Watched};
use super::tickets::{MapWaiter, Purpose, Ticket, submit_or_park};
use onego_buf::{List, SegmentMut};
use onego_ceph::client::{self, Client, Completion, Request, WatchId, WatchTarget};
use onego_rbd::notify::Operation;
use onego_rbd::{ExternalBytes, Host, ImageFacts, ImageView, Io, OpenImage, Outcome};
use onego_wire::Time;
use slab::Slab;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Limit on the wait of an image for a cluster map that is known to exist.
const MAP_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct Images {
    slab: Slab<OpenEntry>,
    last_generation: u32,
    /// Number of images that wait for a lock held by another client.
    locks_awaited: usize,
    /// Lower bound on the earliest deadline of all images.
    due: Option<Time>,
}

struct OpenEntry {
    generation: u32,
    image: OpenImage<ReplyTo>,
    operator: Option<Box<dyn Operator>>,
}

pub(super) struct CoreParts<'a> {
    pub(super) client: &'a mut Client<Ticket>,
    pub(super) parked: &'a mut VecDeque<(Request, Ticket)>,
    pub(super) completed: &'a mut VecDeque<(u64, Result<Outcome, Error>)>,
    pub(super) map_waiters: &'a mut Vec<MapWaiter>,
    pub(super) operations: &'a mut Operations,
    /// Requests that failed at once and must be completed after the call.
    pub(super) failed: Vec<Completion<Ticket>>,
}

struct ImageHost<'a, 'b> {
    parts: &'a mut CoreParts<'b>,
    due: &'a mut Option<Time>,
    now: Time,
    key: ImageKey,
    operator: Option<(&'a dyn Operator, Arc<ImageView>)>,
}

impl ImageHost<'_, '_> {
    fn ticket(&self, ticket: onego_rbd::Ticket) -> Ticket {
        Ticket(Purpose::Image { key: self.key, ticket })
    }
}

impl Host<ReplyTo> for ImageHost<'_, '_> {
    #[inline]
    fn request(&mut self, request: Request, ticket: onego_rbd::Ticket) {
        let ticket = self.ticket(ticket);
        let CoreParts { client, parked, failed, .. } = &mut *self.parts;
        failed.extend(submit_or_park(client, parked, self.now, request, ticket));
    }

    fn watch(&mut self, target: WatchTarget, ticket: onego_rbd::Ticket) {
        let ticket = self.ticket(ticket);
        self.parts.client.watch(self.now, target, ticket);
    }

    fn unwatch(&mut self, watch: WatchId, ticket: onego_rbd::Ticket) {
        let ticket = self.ticket(ticket);
        self.parts.client.unwatch(self.now, watch, ticket);
    }

    fn notify(&mut self, target: WatchTarget, payload: List, timeout: u32, ticket: onego_rbd::Ticket) {
        let ticket = self.ticket(ticket);
        self.parts.client.notify(self.now, target, payload, Some(timeout), ticket);
    }

    fn acknowledge(&mut self, watch: WatchId, notify_id: u64, reply: List) {
        self.parts.client.acknowledge(self.now, watch, notify_id, reply);
    }

    fn command(&mut self, json: &str, ticket: onego_rbd::Ticket) {
        let ticket = self.ticket(ticket);
        self.parts.client.command(self.now, json, List::new(), ticket);
    }

    fn newest_map(&mut self, ticket: onego_rbd::Ticket) {
        let ticket = self.ticket(ticket);
        self.parts.client.newest_version(self.now, "osdmap", ticket);
    }

    fn wait_for_map(&mut self, epoch: u32, ticket: onego_rbd::Ticket) {
        let ticket = self.ticket(ticket);
        self.parts.map_waiters.push(MapWaiter::image(self.now, epoch, MAP_TIMEOUT, ticket));
        self.parts.client.want_newer_map(self.now);
    }

    fn wake_at(&mut self, time: Time) {
        *self.due = Some(self.due.map_or(time, |due| due.min(time)));
    }

    fn operate(&mut self, number: u32, operation: Operation) {
        let Some((operator, view)) = &self.operator else { return };
        let opened = OpenedImage { key: self.key, view: Arc::clone(view) };
        let progress = OperationProgress::default();
        let work = operator.operate(opened, number, operation, progress.clone());
        self.parts.operations.begin(self.key, Job::Operation(number, work, progress));
    }

    fn break_off(&mut self, number: u32) {
        self.parts.operations.break_off(self.key, number);
    }

    fn copy_object(&mut self, object: u64, is_whole: bool, snaps: &[u64]) {
        let Some((operator, _)) = &self.operator else { return };
        let work = operator.copy_object(object, is_whole, snaps);
        self.parts.operations.begin(self.key, Job::Copy(object, work));
    }

    fn read_external(&mut self, bytes: &dyn ExternalBytes, range: Range<u64>, ticket: onego_rbd::Ticket) {
        self.parts.operations.begin(self.key, Job::Read(ticket, bytes.read(range)));
    }

    #[inline]
    fn finished(&mut self, token: ReplyTo, result: Result<Outcome, onego_rbd::Error>) {
        tell(self.parts.completed, token, result.map_err(Error::from));
    }

    fn epoch(&self) -> u32 {
        self.parts.client.osdmap().map_or(0, |map| map.epoch)
    }

    fn global_id(&self) -> u64 {
        self.parts.client.global_id()
    }
}

impl Images {
    /// Opens an image. `done` is completed once the image is usable.
    pub(super) fn open(
        &mut self,
        now: Time,
        parts: &mut CoreParts<'_>,
        facts: ImageFacts,
        watched: Option<Watched>,
        done: ReplyTo,
    ) -> OpenedImage {
        self.last_generation += 1;
        let generation = self.last_generation;
        let entry = self.slab.vacant_entry();
        let key = ImageKey { index: entry.key() as u32, generation };
        let mut host = ImageHost { parts, due: &mut self.due, now, key, operator: None };
        let mut image = if watched.is_some() {
            OpenImage::watched(&mut host, facts, done)
        } else {
            host.finished(done, Ok(Outcome::Done));
            OpenImage::read_only(facts)
        };
        let Watched { operator, migration } = watched.unwrap_or_default();
        if operator.is_some() {
            image.serve_others();
        }
        if let Some(migration) = migration {
            image.moves_here(migration);
        }
        let view = Arc::clone(image.view());
        entry.insert(OpenEntry { generation, image, operator });
        OpenedImage { key, view }
    }

    /// Calls the machine of an image, and removes the image if that closes it.
    #[inline]
    fn with<R>(
        &mut self,
        now: Time,
        parts: &mut CoreParts<'_>,
        key: ImageKey,
        give: impl FnOnce(&mut OpenImage<ReplyTo>, &mut ImageHost<'_, '_>) -> R,
    ) -> Option<R> {
        let OpenEntry { generation, image, operator } = self.slab.get_mut(key.index as usize)?;
        if *generation != key.generation {
            return None;
        }
        let operator = operator.as_ref().map(|operator| (&**operator, Arc::clone(image.view())));
        let was_waiting = image.lock_wait().is_some();
        let given = give(image, &mut ImageHost { parts, due: &mut self.due, now, key, operator });
        let is_over = image.is_over();
        let is_waiting = !is_over && image.lock_wait().is_some();
        self.locks_awaited = self.locks_awaited + usize::from(is_waiting) - usize::from(was_waiting);
        if is_over {
            self.slab.remove(key.index as usize);
            parts.operations.forget(key);
        }
        Some(given)
    }

    #[inline]
    pub(super) fn submit(
        &mut self,
        now: Time,
        parts: &mut CoreParts<'_>,
        key: ImageKey,
        io: Io,
        done: ReplyTo,
    ) {
        self.with(now, parts, key, |image, host| image.submit(now, host, io, done));
    }

    #[inline]
    pub(super) fn completed(
        &mut self,
        now: Time,
        parts: &mut CoreParts<'_>,
        key: ImageKey,
        ticket: onego_rbd::Ticket,
        outcome: Result<client::Outcome, client::Error>,
        buffer: Option<SegmentMut>,
    ) {
        self.with(now, parts, key, |image, host| image.completed(now, host, ticket, outcome, buffer));
    }

    pub(super) fn control(
        &mut self,
        now: Time,
        parts: &mut CoreParts<'_>,
        key: ImageKey,
        control: ImageControl,
    ) {
        self.with(now, parts, key, |image, host| match control {
            ImageControl::Lock(done) => image.lock(now, host, done),
            ImageControl::HoldLock(done) => image.hold_lock(now, host, done),
            ImageControl::ReleaseHold => image.release_hold(now, host),
            ImageControl::Own(done) => image.own(now, host, done),
            ImageControl::Fence(done) => image.fence(now, host, done),
            ImageControl::Unlock(done) => image.unlock(now, host, done),
            ImageControl::Refresh(done) => image.refresh(host, done),
            ImageControl::BeginResize { size, id, done } => image.begin_resize(now, host, size, id, done),
            ImageControl::FinishResize(id, done) => image.finish_resize(now, host, id, done),
            ImageControl::CancelResize(id) => image.cancel_resize(now, host, id),
            ImageControl::Pause(number, kind, done) => image.pause(now, host, number, kind, done),
            ImageControl::Resume(done) => image.resume(now, host, done),
            ImageControl::Close(done) => image.close(now, host, done),
        });
    }

    pub(super) fn notified(
        &mut self,
        now: Time,
        parts: &mut CoreParts<'_>,
        key: ImageKey,
        watch: WatchId,
        notice: &WatchNotice,
    ) {
        self.with(now, parts, key, |image, host| match notice {
            WatchNotice::Notify { notify_id, payload, .. } => {
                image.notified(now, host, watch, *notify_id, payload);
            }
            WatchNotice::Lost(error) => image.watch_lost(now, host, watch, error),
        });
    }

    pub(super) fn worked(
        &mut self,
        now: Time,
        parts: &mut CoreParts<'_>,
        (key, event): (ImageKey, JobEvent),
    ) {
        self.with(now, parts, key, |image, host| match event {
            JobEvent::Progress(number, done, all) => image.operation_progress(host, number, done, all),
            JobEvent::Ended(number, result) => {
                let result = result.err().map_or(0, |error| {
                    tracing::info!(%error, "an operation requested by another client failed");
                    -error.errno().0
                });
                image.operation_ended(now, host, number, result);
            }
            JobEvent::Copied(object, result) => {
                image.object_copied(now, host, object, result.map_err(Error::into_image));
            }
            JobEvent::Read(ticket, result) => image.external_read(now, host, ticket, result),
        });
    }

    /// Closes all images when no caller waits for them any more.
    pub(super) fn close_all(&mut self, now: Time, parts: &mut CoreParts<'_>) {
        for key in self.keys() {
            self.with(now, parts, key, |image, host| image.leave(now, host));
        }
    }

    /// Drops abandoned changes that wait for a lock.
    pub(super) fn sweep(&mut self, now: Time, parts: &mut CoreParts<'_>) {
        for key in self.keys() {
            self.with(now, parts, key, |image, host| image.forget_where(now, host, ReplyTo::is_abandoned));
        }
    }

    pub(super) fn is_abandoned(&self, key: ImageKey, ticket: &onego_rbd::Ticket) -> bool {
        self.slab.get(key.index as usize).is_some_and(|OpenEntry { generation, image, .. }| {
            *generation == key.generation && image.is_abandoned(ticket, ReplyTo::is_abandoned)
        })
    }

    pub(super) fn are_idle(&self) -> bool {
        self.slab.iter().all(|(_, entry)| entry.image.is_idle())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    pub(super) fn due_at(&self) -> Option<Time> {
        self.due
    }

    pub(super) fn due(&mut self, now: Time, parts: &mut CoreParts<'_>) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.due = None;
        for key in self.keys() {
            self.with(now, parts, key, |image, host| image.due(now, host));
        }
        self.due = self.slab.iter().filter_map(|(_, entry)| entry.image.deadline()).min();
    }

    pub(super) fn is_lock_awaited(&self) -> bool {
        self.locks_awaited > 0
    }

    /// Returns the lock that an image has waited for longest.
    pub(super) fn waiting(&self, now: Time) -> Option<client::Waiting> {
        let waits = self.slab.iter().filter_map(|(_, entry)| Some((&entry.image, entry.image.lock_wait()?)));
        let (image, wait) = waits.min_by_key(|(_, wait)| wait.since)?;
        let image = image.id().to_owned();
        let target = client::Awaited::ImageLock { image, owner: wait.owner, addr: wait.addr };
        Some(client::Waiting::new(target, now.since(wait.since), None))
    }

    fn keys(&self) -> Vec<ImageKey> {
        let key = |(index, entry): (usize, &OpenEntry)| ImageKey {
            index: index as u32,
            generation: entry.generation,
        };
        self.slab.iter().map(key).collect()
    }
}
