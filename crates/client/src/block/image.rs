//! Images as block devices: a layer on the cluster client.

use super::error::block_error;
use crate::ceph::core::Core;
use crate::ceph::done::ReplyTo;
use crate::ceph::image_key::ImageKey;
use crate::rbd::Image;
use crate::reactor::Core as _;
use onego_block::{Backend, BlockStatus, Caller, Device, Error, Geometry, Op, Request, StatusExtent, zeros};
use onego_rbd::{Allocated, Io, Outcome};
use onego_wire::{Layer, Time};
use slab::Slab;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

const PREFERRED: u32 = 4096;

/// Trims below this free little: librbd's default of `rbd_discard_granularity_bytes`.
const TRIM_GRANULARITY: u32 = 64 << 10;

/// Largest read or write of a device, as NBD clients expect: half of an image's limit.
const MAX_IO: u64 = 32 << 20;

/// Requests from devices to the layer that executes them, on one thread. The devices' users bound them.
type Inbox = Rc<RefCell<VecDeque<(ImageKey, Request)>>>;

pub(crate) struct ImageDevices {
    core: Core,
    inbox: Inbox,
    callers: Slab<Caller>,
}

pub(crate) struct ImageOpener {
    inbox: Inbox,
}

impl ImageOpener {
    pub(crate) fn device(&self, image: Image) -> ImageDevice {
        ImageDevice { geometry: geometry(&image), image, inbox: Rc::clone(&self.inbox) }
    }
}

pub(crate) struct ImageDevice {
    image: Image,
    /// Fixed properties while the image is open; the size may change.
    geometry: Geometry,
    inbox: Inbox,
}

impl ImageDevices {
    pub(crate) fn new(core: Core) -> Self {
        Self { core, inbox: Inbox::default(), callers: Slab::new() }
    }

    pub(crate) fn opener(&self) -> ImageOpener {
        ImageOpener { inbox: Rc::clone(&self.inbox) }
    }

    fn start(&mut self, now: Time, image: ImageKey, request: Request) {
        let Request { offset, op, flags, caller } = request;
        // Completed writes are durable, so FUA requires nothing more.
        let tag = self.callers.insert(caller) as u64;
        let io = match op {
            Op::Read { length } => Io::Read { offset, length },
            Op::ReadInto { buffer } => Io::ReadInto { offset, buffer },
            Op::Write { data } => Io::Write { offset, data },
            Op::Flush => Io::Flush,
            Op::Zero { length } if flags.no_hole => Io::Write { offset, data: zeros(length) },
            Op::Trim { length } | Op::Zero { length } => Io::Zero { offset, length },
            Op::Status { length } => Io::Allocated { offset, length },
        };
        self.core.start(now, image, io, ReplyTo::Tag(tag));
    }
}

impl Backend for ImageDevices {
    fn has_work(&self) -> bool {
        !self.inbox.borrow().is_empty()
    }

    fn leave(&mut self, now: Time) {
        self.core.close();
        self.core.shut_down(now);
    }

    fn is_leaving(&self) -> bool {
        self.core.is_leaving()
    }
}

impl Layer for ImageDevices {
    type Below = Core;

    fn below(&self) -> &Core {
        &self.core
    }

    fn below_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    fn settle(&mut self, now: Time) {
        while let Some((image, request)) = { self.inbox.borrow_mut().pop_front() } {
            self.start(now, image, request);
        }
        self.core.settle(now);
        while let Some(completed) = self.core.next_completed() {
            let Some(caller) = self.callers.try_remove(completed.tag as usize) else { continue };
            caller.complete(now, completed.result.map(outcome).map_err(|error| block_error(&error)));
        }
    }
}

fn outcome(outcome: Outcome) -> onego_block::Outcome {
    match outcome {
        Outcome::Done => onego_block::Outcome::Done,
        Outcome::Buffer(buffer) => onego_block::Outcome::Filled(buffer),
        Outcome::Data(list) => onego_block::Outcome::Data(list),
        Outcome::Allocated(runs) => onego_block::Outcome::Status(status(&runs)),
    }
}

fn status(runs: &[Allocated]) -> Vec<StatusExtent> {
    let mut extents = Vec::new();
    for run in runs {
        let status = if run.is_there { BlockStatus::DATA } else { BlockStatus::HOLE };
        StatusExtent::append(&mut extents, run.length, status);
    }
    extents
}

fn geometry(image: &Image) -> Geometry {
    let mut geometry = Geometry::new(image.size());
    geometry.preferred = PREFERRED;
    geometry.max_io = MAX_IO;
    geometry.boundary = Some(image.info().layout.object_size());
    geometry.read_only = !image.is_writable();
    geometry.trim_granularity = Some(TRIM_GRANULARITY);
    geometry
}

impl Device for ImageDevice {
    fn geometry(&self) -> Geometry {
        let mut geometry = self.geometry;
        geometry.size = self.image.size();
        geometry
    }

    fn submit(&self, now: Time, request: Request) {
        match self.geometry().check(&request) {
            // Zeros that must keep their space allocated are sent as data.
            Ok(()) if request.flags.no_hole && request.flags.fast => {
                request.complete(now, Err(Error::Unsupported("allocate zeros faster than it writes them")));
            }
            Ok(()) => self.inbox.borrow_mut().push_back((self.image.key(), request)),
            Err(error) => request.complete(now, Err(error)),
        }
    }
}
