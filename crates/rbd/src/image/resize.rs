//! A change of the size, in the header and in the object map.
//!
//! Source: ceph `src/librbd/operation/ResizeRequest.cc`.

use super::lock_state::LockState;
use super::machine::{OpenImage, ResizeStep};
use super::refresh_state::Waiter;
use crate::facts::ImageState;
use crate::host::{Host, Purpose, Ticket};
use onego_ceph::client::{Error as ClientError, OpReply};
use onego_ceph::cls::Method as _;
use onego_ceph::cls::rbd::{ObjectMapResize, state};
use onego_ceph::ops::flag;

impl<T> OpenImage<T> {
    /// Begins when nothing is in flight that could reach behind the new end.
    pub(super) fn settle_resize(&mut self, host: &mut impl Host<T>) {
        let is_ready = self.changing == 0
            && self.is_map_idle()
            && !self.refresh.is_in_flight
            && !self.pauses.is_paused()
            && (!self.has_lock() || self.lock.state == LockState::Held);
        let objects = self.resize_objects();
        let Some(resize) = self.resize.as_mut().filter(|_| is_ready) else { return };
        if resize.step != ResizeStep::Waiting {
            return;
        }
        if self.map.as_ref().is_some_and(|map| map.len() < objects) {
            resize.step = ResizeStep::GrowingMap;
            self.resize_map(host, objects);
        } else {
            self.set_size(host);
        }
    }

    /// Objects that the image will have.
    fn resize_objects(&self) -> u64 {
        self.resize.as_ref().map_or(0, |resize| self.facts.data.layout.objects(resize.size))
    }

    fn resize_map(&mut self, host: &mut impl Host<T>, objects: u64) {
        let op = ObjectMapResize { objects, state: state::NONEXISTENT }.call();
        host.request(self.map_change(op), Ticket(Purpose::Resize));
    }

    fn set_size(&mut self, host: &mut impl Host<T>) {
        let Some(resize) = &mut self.resize else { return };
        resize.step = ResizeStep::SettingSize;
        let ops = ImageState::set_size(self.facts.format, resize.size);
        host.request(self.header_request_of(ops).with_flags(flag::WRITE), Ticket(Purpose::Resize));
    }

    /// A step has ended.
    pub(super) fn resize_step(&mut self, host: &mut impl Host<T>, result: Result<OpReply, ClientError>) {
        let objects = self.resize_objects();
        let Some(resize) = &mut self.resize else { return };
        match (resize.step, result) {
            (ResizeStep::GrowingMap, result) => {
                self.map_resized(host, objects, &result);
                self.set_size(host);
            }
            (ResizeStep::SettingSize, Ok(_)) if self.map.as_ref().is_some_and(|map| map.len() > objects) => {
                resize.step = ResizeStep::ShrinkingMap;
                self.resize_map(host, objects);
            }
            (ResizeStep::SettingSize, Err(error)) => {
                if let Some(resize) = self.resize.take() {
                    host.finished(resize.token, Err(error.into()));
                }
            }
            (ResizeStep::ShrinkingMap, result) => {
                self.map_resized(host, objects, &result);
                self.learn_size(host);
            }
            (ResizeStep::SettingSize, Ok(_)) => self.learn_size(host),
            (ResizeStep::Waiting, _) => {}
        }
        self.settle_resize(host);
        self.settle_lock(host);
    }

    /// The map has as many objects as the image, or is lost.
    fn map_resized(&mut self, host: &mut impl Host<T>, objects: u64, result: &Result<OpReply, ClientError>) {
        let Some(map) = &mut self.map else { return };
        match result {
            Ok(_) => map.resize(objects),
            Err(error) => {
                tracing::warn!(image = self.facts.id, %error, "the object map cannot be resized, and is given up");
                map.is_failing = true;
                self.invalidate_map(host);
            }
        }
    }

    /// The header has the size: this client reads it there. The caller tells the others, and waits for them.
    fn learn_size(&mut self, host: &mut impl Host<T>) {
        let Some(resize) = self.resize.take() else { return };
        self.refresh_for(host, Waiter::Caller(resize.token));
    }
}
