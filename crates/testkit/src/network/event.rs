//! What happens in the network, and when.

use super::end::End;
use super::packet::Packet;
use onego_wire::Time;
use std::net::IpAddr;

/// Names something that is to happen.
pub(super) type Key = (Time, u64);

/// Something that is to happen at a time.
pub(super) enum Happening {
    /// A packet arrives.
    Arrive(Packet),
    /// The listener's application hears of a new connection.
    Announce(End),
    /// A receiver hears that something is there.
    Readable(End),
    /// A sender hears that there is room again.
    Writable(End),
    /// Nobody has answered a connect.
    ConnectTimeout(End),
    /// A connection has lived long enough.
    EndOfLife(End),
    /// Some link breaks.
    Cut,
    /// A link is whole again.
    Heal(IpAddr, IpAddr),
    /// The caller wants the clock to stop here.
    Stop,
}
