//! What clients may hold of a server, and why not more.

use onego_nbd::LARGE;
use onego_service::admission::Bounds;
use std::time::Duration;

/// Most bytes of the payload of a request or of a reply: what a server has to take of clients that do not ask (nbd
/// proto.md, 'Size constraints').
pub(super) const PAYLOAD_MAX: usize = 32 << 20;

/// Bytes of an option that are kept: a name and a few dozen queries of the longest.
pub(super) const OPTION_MAX: usize = 64 << 10;

/// Bytes of an option that are received to be dropped, so that its client can be told. A longer one is an attack.
pub(super) const OPTION_SKIP_MAX: usize = 1 << 20;

/// Time for the handshake: people who drive it by hand manage, and who never ends it holds no connection for long.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(60);

/// Most exports of a server: they are looked through for names.
pub const EXPORTS_MAX: usize = 1024;

/// Requests of one connection that may be in flight: what the kernel's client has at most by default.
pub(super) const REQUESTS_MAX: usize = 128;

/// Bytes of one connection's requests in flight (payloads of writes, replies to reads) and of its replies that wait: a
/// payload of the most bytes comes in while another is answered.
pub(super) const BYTES_MAX: usize = 2 * PAYLOAD_MAX;

/// Requests of all connections that may be in flight. Beyond that, a connection may have one.
pub(super) const REQUESTS_MAX_ALL: usize = 16 << 10;

/// The same, with those whose connections are gone: a client could come, leave requests behind and come again. Beyond that,
/// no request is taken.
pub(super) const REQUESTS_HELD_MAX: usize = 2 * REQUESTS_MAX_ALL;

/// Steps of one request that are at the device at a time: enough to keep a device busy, and few enough that other requests
/// come in between.
pub(super) const STEPS: u32 = 4;

/// Steps of long requests that are started in one turn: a device that answers at once must not hold up the connections.
pub(super) const STEPS_A_TURN: usize = 64;

/// What all connections hold together.
pub(super) const BOUNDS: Bounds = Bounds {
    connections: 4096,
    // Several of the longest, or thousands of the usual ones.
    slots: 8 * PAYLOAD_MAX,
    slot_from: LARGE,
    unfinished: 128 << 20,
    // Replies to reads, and payloads of writes that are at a device.
    replies: 16 * PAYLOAD_MAX,
    reply_max: PAYLOAD_MAX + 64,
};
