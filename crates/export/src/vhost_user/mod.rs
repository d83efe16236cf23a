//! A disk for virtual machines: a back end of vhost-user with a virtio block device.
//!
//! Comments cite QEMU's `docs/interop/vhost-user.rst` as "vhost-user.rst, 'Section name'", and the specification of virtio 1.2 by
//! its sections, such as "virtio 5.2.6".
//!
//! - [`DiskServer`] is the machine: its listener, the disk, and the front end (QEMU) that uses it.
//! - [`codec`] has the messages, `front` what a front end has told.
//! - `queue` has the split virtqueues, chains of descriptors, and the record of requests in flight.
//! - `disk` has the requests of the virtio block device and its configuration.
//! - `limits` has what a guest may hold, and why not more.

pub mod codec;
mod disk;
mod error;
mod features;
mod front;
mod inbound;
mod limits;
mod messages;
pub mod queue;
mod server;
mod work;

pub use disk::Disk;
pub use front::Counters;
pub use limits::QUEUES_MAX;
pub use server::DiskServer;
