//! Size changes, one at a time in the order of their requests.
//!
//! A smaller size first becomes the bound of every request: changes in flight end, later ones past the new end fail. Only then
//! does the caller trim ([`Io::Trim`](crate::Io::Trim)), and the header and the object map follow. In any other order a write
//! could recreate a trimmed object, which a later growth would expose.
//!
//! Source: ceph `src/librbd/operation/ResizeRequest.cc`.

use super::lock_state::LockState;
use super::machine::OpenImage;
use super::refresh_state::Waiter;
use crate::error::Error;
use crate::facts::ImageState;
use crate::host::{Host, Purpose, Ticket};
use crate::request::Outcome;
use onego_ceph::client::{Error as ClientError, OpReply};
use onego_ceph::cls::Method as _;
use onego_ceph::cls::rbd::{MAX_OBJECTS, ObjectMapResize, state};
use onego_ceph::ops::flag;
use onego_ceph::rbd::Features;
use onego_wire::Time;
use std::mem;

/// Most size changes that may wait for each other: a program that resizes an image again before it knows the first result gains
/// nothing by more.
const MAX_RESIZES: usize = 64;

#[derive(Debug)]
pub(super) struct Resize<T> {
    /// Chosen by the caller.
    id: u64,
    /// New size, with the encryption header.
    size: u64,
    step: ResizeStep<T>,
}

/// The steps of a size change. Tokens are those of callers that wait for the end of the step.
#[derive(Debug)]
enum ResizeStep<T> {
    /// Waits for earlier resizes, the lock, and the changes in flight.
    Draining(T),
    /// Requests past the new end fail, and the caller trims.
    Trimming,
    /// Like `Trimming`, but another client may have owned the lock since: trimmed objects may exist again.
    Broken,
    /// The caller has trimmed: waits for the changes in flight.
    Trimmed(T),
    GrowingMap(T),
    SettingSize(T),
    ShrinkingMap(T),
    /// The caller gave up: the old size is valid again as soon as no trim is in flight.
    Cancelled,
}

impl<T> OpenImage<T> {
    /// Begins to change the size to `size` bytes of data: finishes `token` when no change past a smaller size is in flight and
    /// later ones fail. Then the caller trims the bytes past it and calls [`finish_resize`](Self::finish_resize), or
    /// [`cancel_resize`](Self::cancel_resize), with the same `id`. It holds the lock meanwhile.
    pub fn begin_resize(&mut self, now: Time, host: &mut impl Host<T>, size: u64, id: u64, token: T) {
        let size = size.saturating_add(self.facts.data.start());
        if let Err(error) = self.check_resize(size) {
            return host.finished(token, Err(error));
        }
        self.resizes.push_back(Resize { id, size, step: ResizeStep::Draining(token) });
        self.process(now, host);
    }

    /// Sets the size in the header and in the object map. The caller has trimmed the bytes past the new end, and notifies the other
    /// clients of the new header.
    pub fn finish_resize(&mut self, now: Time, host: &mut impl Host<T>, id: u64, token: T) {
        match self.resizes.front_mut() {
            Some(Resize { id: first, step: step @ ResizeStep::Trimming, .. }) if *first == id => {
                *step = ResizeStep::Trimmed(token);
            }
            _ => return host.finished(token, Err(self.fatal_error.clone().unwrap_or(Error::LockLost))),
        }
        self.process(now, host);
    }

    /// Ends a size change that the caller gave up, unless the size is being set already.
    pub fn cancel_resize(&mut self, now: Time, host: &mut impl Host<T>, id: u64) {
        let Some(at) = self.resizes.iter().position(|resize| resize.id == id) else { return };
        match &self.resizes[at].step {
            ResizeStep::Draining(_) => self.remove_resize(host, at, &ClientError::Cancelled.into()),
            ResizeStep::Trimming | ResizeStep::Broken => self.resizes[at].step = ResizeStep::Cancelled,
            _ => {}
        }
        self.process(now, host);
    }

    fn check_resize(&self, size: u64) -> Result<(), Error> {
        self.check_writable()?;
        let objects = self.facts.data.layout.objects(size);
        if self.facts.state.features.contains(Features::OBJECT_MAP) && objects > MAX_OBJECTS {
            return Err(Error::MapLimit { objects });
        }
        let reason = if self.migration.is_some() {
            "the size of an image that is being moved does not change: finish its migration first"
        } else if self.resizes.len() >= MAX_RESIZES {
            "64 size changes of the image already wait, which is the limit: wait for completions"
        } else {
            return Ok(());
        };
        Err(ClientError::Invalid(reason).into())
    }

    /// Returns whether changes wait for a step of a size change.
    pub(super) fn is_resizing(&self) -> bool {
        let step = self.resizes.front().map(|resize| &resize.step);
        step.is_some_and(|step| !matches!(step, ResizeStep::Trimming | ResizeStep::Broken))
    }

    /// Returns the bound of every request: the header's size, or a smaller one that is about to replace it. Includes the
    /// encryption header.
    pub(super) fn visible_size(&self) -> u64 {
        let size = self.facts.state.size;
        match self.resizes.front() {
            None | Some(Resize { step: ResizeStep::Draining(_) | ResizeStep::Cancelled, .. }) => size,
            Some(resize) => size.min(resize.size),
        }
    }

    pub(super) fn publish_size(&self) {
        let start = self.facts.data.start();
        self.view.set_size(self.visible_size().saturating_sub(start), self.facts.state.data_size(start));
    }

    pub(super) fn break_resize(&mut self) {
        if let Some(Resize { step: step @ ResizeStep::Trimming, .. }) = self.resizes.front_mut() {
            *step = ResizeStep::Broken;
        }
    }

    /// Fails the callers that wait for size changes. A caller that is trimming gets the error when it finishes.
    pub(super) fn fail_resizes(&mut self, host: &mut impl Host<T>, error: &Error) {
        for at in (0..self.resizes.len()).rev() {
            if self.resizes[at].step.has_caller() {
                self.remove_resize(host, at, error);
            }
        }
    }

    fn remove_resize(&mut self, host: &mut impl Host<T>, at: usize, error: &Error) {
        if let Some(token) = self.resizes.remove(at).and_then(|resize| resize.step.into_token()) {
            host.finished(token, Err(error.clone()));
        }
        self.publish_size();
    }

    /// Advances the first size change once nothing is in flight that could reach past the new end.
    pub(super) fn process_resize(&mut self, host: &mut impl Host<T>) {
        let is_ready = self.changing == 0
            && self.is_map_idle()
            && !self.refresh.is_in_flight
            && !self.pauses.is_paused()
            && (!self.has_lock() || self.lock.state == LockState::Held);
        let changing = self.changing;
        let Some(resize) = self.resizes.front_mut() else { return };
        match mem::replace(&mut resize.step, ResizeStep::Cancelled) {
            ResizeStep::Cancelled if changing == 0 => {
                self.resizes.pop_front();
                self.publish_size();
                self.process_resize(host);
            }
            ResizeStep::Draining(token) if is_ready => {
                resize.step = ResizeStep::Trimming;
                self.publish_size();
                host.finished(token, Ok(Outcome::Done));
            }
            ResizeStep::Trimmed(token) if is_ready => {
                let objects = self.facts.data.layout.objects(resize.size);
                if self.map.as_ref().is_some_and(|map| map.len() < objects) {
                    resize.step = ResizeStep::GrowingMap(token);
                    self.resize_map(host, objects);
                } else {
                    self.set_size(host, token);
                }
            }
            step => resize.step = step,
        }
    }

    fn resize_map(&mut self, host: &mut impl Host<T>, objects: u64) {
        let op = ObjectMapResize { objects, state: state::NONEXISTENT }.call();
        host.request(self.map_change(op), Ticket(Purpose::Resize));
    }

    fn set_size(&mut self, host: &mut impl Host<T>, token: T) {
        let Some(resize) = self.resizes.front_mut() else { return };
        resize.step = ResizeStep::SettingSize(token);
        let ops = ImageState::set_size(self.facts.format, resize.size);
        host.request(self.header_request_of(ops).with_flags(flag::WRITE), Ticket(Purpose::Resize));
    }

    pub(super) fn resize_step(&mut self, host: &mut impl Host<T>, result: Result<OpReply, ClientError>) {
        let Some(resize) = self.resizes.front_mut() else { return };
        let objects = self.facts.data.layout.objects(resize.size);
        match (mem::replace(&mut resize.step, ResizeStep::Cancelled), result) {
            (ResizeStep::GrowingMap(token), result) => {
                self.map_resized(host, objects, &result);
                self.set_size(host, token);
            }
            (ResizeStep::SettingSize(token), Ok(_)) => {
                if self.map.as_ref().is_some_and(|map| map.len() > objects) {
                    resize.step = ResizeStep::ShrinkingMap(token);
                    self.resize_map(host, objects);
                } else {
                    self.learn_size(host, token);
                }
            }
            (ResizeStep::SettingSize(token), Err(error)) => {
                self.resizes.pop_front();
                self.publish_size();
                host.finished(token, Err(error.into()));
            }
            (ResizeStep::ShrinkingMap(token), result) => {
                self.map_resized(host, objects, &result);
                self.learn_size(host, token);
            }
            (step, _) => resize.step = step,
        }
        self.process_resize(host);
        self.process_lock(host);
    }

    fn map_resized(&mut self, host: &mut impl Host<T>, objects: u64, result: &Result<OpReply, ClientError>) {
        let Some(map) = &mut self.map else { return };
        match result {
            Ok(_) => map.resize(objects),
            Err(error) => {
                tracing::warn!(image = self.facts.id, %error, "cannot resize the object map: giving it up");
                map.is_failing = true;
                self.invalidate_map(host);
            }
        }
    }

    /// Applies the new size and reads the header. The caller notifies the other clients, and waits for them.
    fn learn_size(&mut self, host: &mut impl Host<T>, token: T) {
        let Some(resize) = self.resizes.pop_front() else { return };
        self.facts.state.size = resize.size;
        self.publish_size();
        self.refresh_for(host, Waiter::Caller(token));
    }
}

impl<T> ResizeStep<T> {
    fn has_caller(&self) -> bool {
        !matches!(self, Self::Trimming | Self::Broken | Self::Cancelled)
    }

    fn into_token(self) -> Option<T> {
        match self {
            Self::Draining(token)
            | Self::Trimmed(token)
            | Self::GrowingMap(token)
            | Self::SettingSize(token)
            | Self::ShrinkingMap(token) => Some(token),
            Self::Trimming | Self::Broken | Self::Cancelled => None,
        }
    }
}
