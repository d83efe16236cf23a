//! What an image's machine needs of the layer that drives it.

use crate::data::ExternalBytes;
use crate::error::Error;
use crate::notify::{AsyncRequestId, Operation};
use crate::request::Outcome;
use onego_buf::List;
use onego_ceph::client::{Request, WatchId, WatchTarget};
use onego_wire::Time;
use std::ops::Range;

/// What a machine's request is for. It comes back with the completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(pub(crate) Purpose);

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A part of a caller's request.
    Piece { io: u32, index: u32 },
    /// A part of a read of an ancestor.
    Ancestral { read: u32, index: u32 },
    /// The parent's bytes of an object, written for the snapshots.
    CopyUp { object: u64 },
    /// The object map of a snapshot says that an object exists.
    Mark { object: u64, snap: u64 },
    /// The watch of the header.
    Watch,
    /// The end of the watch.
    Unwatch,
    /// The header is read.
    Refresh,
    /// A step of the lock's; an earlier number is out of date.
    Lock { step: u32 },
    /// The lock gets the name of a new watch.
    Cookie,
    /// The state of an object is changed in the object map.
    MapUpdate { object: u64, era: u32 },
    /// The object map is marked as one that cannot be relied on.
    MapInvalid,
    /// A step of a change of the size.
    Resize,
    /// The others are told how far an operation is.
    Progress { number: u32 },
    /// The others are told that an operation has ended.
    OperationEnd { id: AsyncRequestId, result: i32, attempts: u32 },
    /// Nobody waits for it.
    Nobody,
}

/// The layer that drives a machine: it carries out what the machine wants.
///
/// None of the calls may call the machine. Each request with a ticket ends in one call of
/// [`OpenImage::completed`](crate::OpenImage::completed), later.
pub trait Host<T> {
    /// Submits a request to an object.
    fn request(&mut self, request: Request, ticket: Ticket);
    /// Watches an object.
    fn watch(&mut self, target: WatchTarget, ticket: Ticket);
    /// Gives a watch up.
    fn unwatch(&mut self, watch: WatchId, ticket: Ticket);
    /// Notifies the watchers of an object, which have `timeout` seconds to answer.
    fn notify(&mut self, target: WatchTarget, payload: List, timeout: u32, ticket: Ticket);
    /// Answers a notification.
    fn acknowledge(&mut self, watch: WatchId, notify_id: u64, reply: List);
    /// Gives the monitors a command, in JSON.
    fn command(&mut self, json: &str, ticket: Ticket);
    /// Asks the monitors for the newest epoch of the OSD map.
    fn newest_map(&mut self, ticket: Ticket);
    /// Waits until the client has the OSD map of `epoch`: completes with [`Outcome::Version`](onego_ceph::client::Outcome).
    fn wait_for_map(&mut self, epoch: u32, ticket: Ticket);
    /// Calls [`OpenImage::due`](crate::OpenImage::due) at that time, or earlier.
    fn wake_at(&mut self, time: Time);
    /// Carries out an operation for another user of the image, and says what comes of it by
    /// [`OpenImage::operation_ended`](crate::OpenImage::operation_ended), later. Only images that
    /// [serve others](crate::OpenImage::serve_others) ask for this.
    fn operate(&mut self, _number: u32, _operation: Operation) {}
    /// Breaks an operation off, whose result nobody needs any more.
    fn break_off(&mut self, _number: u32) {}
    /// Copies an object of an image that [is being moved here](crate::OpenImage::moves_here), with what it is at the snapshots
    /// that came with the image, and says so by [`OpenImage::object_copied`](crate::OpenImage::object_copied), later.
    /// `is_whole`: with what ancestors of the source show in it. `snaps`: the image's snapshots, newest first.
    fn copy_object(&mut self, _object: u64, _is_whole: bool, _snaps: &[u64]) {}
    /// Reads bytes that show through an image and that no cluster has, and gives them to
    /// [`OpenImage::external_read`](crate::OpenImage::external_read), later. Only images with [such an
    /// ancestor](crate::AncestorData::External) ask for this.
    fn read_external(&mut self, _bytes: &dyn ExternalBytes, _range: Range<u64>, _ticket: Ticket) {}
    /// Ends a caller's request.
    fn finished(&mut self, token: T, result: Result<Outcome, Error>);
    /// The epoch of the newest OSD map that the client has.
    fn epoch(&self) -> u32;
    /// The id that the monitors gave the client.
    fn global_id(&self) -> u64;
}
