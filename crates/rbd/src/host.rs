//! Interface between an image's machine and the layer that drives it.

use crate::data::ExternalBytes;
use crate::error::Error;
use crate::notify::{AsyncRequestId, Operation};
use crate::request::Outcome;
use onego_buf::List;
use onego_ceph::client::{Request, WatchId, WatchTarget};
use onego_wire::Time;
use std::ops::Range;

/// Purpose of a machine's request. It comes back with the completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(pub(crate) Purpose);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Piece {
        io: u32,
        index: u32,
    },
    Ancestral {
        read: u32,
        index: u32,
    },
    /// Write of the parent's bytes of an object, for the snapshots.
    CopyUp {
        object: u64,
    },
    Mark {
        object: u64,
        snap: u64,
    },
    Watch,
    Unwatch,
    Refresh,
    /// Step of the lock; completions of earlier steps are stale.
    Lock {
        step: u32,
    },
    Cookie,
    MapUpdate {
        object: u64,
        era: u32,
    },
    MapInvalid,
    Resize,
    Progress {
        number: u32,
    },
    OperationEnd {
        id: AsyncRequestId,
        result: i32,
        attempts: u32,
    },
    Ignored,
}

/// The layer that drives a machine: it carries out the machine's requests.
///
/// None of the methods may call the machine. Each request with a ticket ends in one call of
/// [`OpenImage::completed`](crate::OpenImage::completed), later.
pub trait Host<T> {
    /// Submits a request to an object.
    fn request(&mut self, request: Request, ticket: Ticket);
    /// Watches an object.
    fn watch(&mut self, target: WatchTarget, ticket: Ticket);
    /// Ends a watch.
    fn unwatch(&mut self, watch: WatchId, ticket: Ticket);
    /// Notifies the watchers of an object, which have `timeout` seconds to answer.
    fn notify(&mut self, target: WatchTarget, payload: List, timeout: u32, ticket: Ticket);
    /// Answers a notification.
    fn acknowledge(&mut self, watch: WatchId, notify_id: u64, reply: List);
    /// Sends a command in JSON to the monitors.
    fn command(&mut self, json: &str, ticket: Ticket);
    /// Asks the monitors for the newest epoch of the OSD map.
    fn newest_map(&mut self, ticket: Ticket);
    /// Waits until the client has the OSD map of `epoch`: completes with [`Outcome::Version`](onego_ceph::client::Outcome).
    fn wait_for_map(&mut self, epoch: u32, ticket: Ticket);
    /// Calls [`OpenImage::due`](crate::OpenImage::due) at that time, or earlier.
    fn wake_at(&mut self, time: Time);
    /// Carries out an operation for another user of the image, and later reports its result by
    /// [`OpenImage::operation_ended`](crate::OpenImage::operation_ended). Only called for images that
    /// [serve others](crate::OpenImage::serve_others).
    fn operate(&mut self, _number: u32, _operation: Operation) {}
    /// Aborts an operation. Its result is no longer needed.
    fn break_off(&mut self, _number: u32) {}
    /// Copies an object of an image that [is being moved here](crate::OpenImage::moves_here), including its versions at the snapshots
    /// that came with the image, and later reports it by [`OpenImage::object_copied`](crate::OpenImage::object_copied). `is_whole`:
    /// include the bytes of the source's ancestors that show in it. `snaps`: the image's snapshots, newest first.
    fn copy_object(&mut self, _object: u64, _is_whole: bool, _snaps: &[u64]) {}
    /// Reads bytes of an ancestor that is not in the cluster, and later passes them to
    /// [`OpenImage::external_read`](crate::OpenImage::external_read). Only called for images with [such an
    /// ancestor](crate::AncestorData::External).
    fn read_external(&mut self, _bytes: &dyn ExternalBytes, _range: Range<u64>, _ticket: Ticket) {}
    /// Ends a caller's request.
    fn finished(&mut self, token: T, result: Result<Outcome, Error>);
    /// Returns the epoch of the newest OSD map that the client has.
    fn epoch(&self) -> u32;
    /// Returns the id that the monitors gave the client.
    fn global_id(&self) -> u64;
}
