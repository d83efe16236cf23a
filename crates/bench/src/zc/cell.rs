//! Parameters of one figure: path, sender, sizes.

/// Gives an enum of names its `ALL`, `name` and `FromStr`.
macro_rules! named {
    ($type:ident: $($variant:ident = $name:literal),+ $(,)?) => {
        impl $type {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let all = [$($name),+].join(", ");
                let found = Self::ALL.iter().copied().find(|one| one.name() == text);
                found.ok_or_else(|| format!("{text:?} is none of {all}"))
            }
        }
    };
}

/// Network path of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// UDP to a device that discards everything.
    Sink,
    /// TCP over loopback.
    Loopback,
    /// TCP over a pair of virtual Ethernet devices.
    Veth,
}

named!(Path: Sink = "sink", Loopback = "loopback", Veth = "veth");

/// Way of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A loop over `send`.
    Send,
    /// A loop over `send` with `MSG_ZEROCOPY`.
    MsgZerocopy,
    /// A loop over io_uring, with a copy.
    BareCopy,
    /// A loop over io_uring, without a copy.
    BareZc,
    /// A loop over io_uring, without a copy, from registered memory.
    BareFixed,
    /// Our sends by io_uring, with a copy.
    Copy,
    /// Our sends by io_uring, without a copy.
    Zc,
    /// Our sends by io_uring, without a copy, from registered memory.
    Fixed,
    /// Our sends by io_uring, by the adaptive policy, from registrable memory.
    Adaptive,
    /// Our sends by `sendmsg`, with a copy.
    SocketOff,
    /// Our sends by `sendmsg`, without a copy.
    SocketOn,
    /// Our sends by `sendmsg`, by the adaptive policy.
    SocketAdaptive,
}

named!(Sender:
    Send = "send", MsgZerocopy = "msg_zerocopy",
    BareCopy = "bare-copy", BareZc = "bare-zc", BareFixed = "bare-fixed",
    Copy = "copy", Zc = "zc", Fixed = "fixed", Adaptive = "adaptive",
    SocketOff = "socket-off", SocketOn = "socket-on", SocketAdaptive = "socket-adaptive",
);

impl Sender {
    /// Senders measured by default.
    pub const USUAL: [Self; 7] =
        [Self::Send, Self::MsgZerocopy, Self::Copy, Self::Zc, Self::BareFixed, Self::Fixed, Self::Adaptive];

    /// Returns the kind of engine.
    pub fn engine(self) -> &'static str {
        if self.has_batches() { "uring" } else { "socket" }
    }

    pub(super) fn has_batches(self) -> bool {
        !matches!(
            self,
            Self::Send | Self::MsgZerocopy | Self::SocketOff | Self::SocketOn | Self::SocketAdaptive
        )
    }

    /// Returns whether the sender has slots to flush.
    pub(super) fn has_slots(self) -> bool {
        matches!(self, Self::Zc | Self::Fixed | Self::Adaptive)
    }
}

/// Rule by which a notification slot is flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// After each request.
    Request,
    /// After each submission.
    Batch,
}

named!(Flush: Request = "request", Batch = "batch");

/// One figure of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The path.
    pub path: Path,
    /// The sender.
    pub sender: Sender,
    /// Bytes per send.
    pub size: u32,
    /// Sends per submission.
    pub batch: u32,
    /// Flush rule, if the sender has slots.
    pub flush: Flush,
    /// Pieces of memory per send.
    pub pieces: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_again() {
        for sender in Sender::ALL {
            assert_eq!(sender.name().parse(), Ok(*sender));
        }
        assert_eq!("air".parse::<Path>().unwrap_err(), "\"air\" is none of sink, loopback, veth");
    }
}
