//! What a guest may hold of a server, and why not more.

/// Most queues: more than a guest has processors that one thread here could serve.
pub const QUEUES_MAX: u16 = 64;

/// Most descriptors of a queue, and of a chain: what QEMU allows.
pub(super) const QUEUE_SIZE_MAX: u16 = 1024;

/// Most bytes of a message beyond its header: the longest are configuration spaces and tables of memory.
pub(super) const MESSAGE_MAX: usize = 512;

/// Most regions of one message (vhost-user.rst, 'Memory regions description').
pub(super) const REGIONS_A_MESSAGE: usize = 8;

/// Segments of a request's data: a request of 4 KiB pages is at most 504 KiB then, and larger pieces of memory are one
/// segment each.
pub(super) const SEGMENTS_MAX: u32 = 126;

/// Bytes of requests that are at the device. Beyond that, queues wait; one request is always taken.
pub(super) const BYTES_MAX: usize = 128 << 20;

/// Most bytes of a request's data, also where the device takes fewer at a time: guests know no such bound, and make requests of a few
/// MiB at most.
pub(super) const REQUEST_MAX: u64 = 32 << 20;

/// Sectors of a discard, or of zeroes: 64 MiB, so that one request does not hold up the others for long.
pub(super) const DISCARD_SECTORS_MAX: u32 = 128 << 10;
