use std::ops::BitOr;

/// Defines a set of flags with an integer representation.
macro_rules! flags {
    ($(#[$doc:meta])* $name:ident: $type:ty { $($(#[$of:meta])* $flag:ident = $bit:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub $type);

        impl $name {
            $($(#[$of])* pub const $flag: Self = Self(1 << $bit);)*

            /// Returns whether all of `flags` are set.
            #[inline]
            pub fn contains(self, flags: Self) -> bool {
                self.0 & flags.0 == flags.0
            }

            /// Returns whether flags other than `flags` are set.
            #[inline]
            pub fn exceeds(self, flags: Self) -> bool {
                self.0 & !flags.0 != 0
            }

            /// Adds `flags` if `set` is true.
            #[must_use]
            #[inline]
            pub fn with(self, flags: Self, set: bool) -> Self {
                if set { self | flags } else { self }
            }
        }

        impl BitOr for $name {
            type Output = Self;

            #[inline]
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }
    };
}

flags! {
    /// Capabilities in a server's greeting (nbd proto.md, 'Handshake flags').
    HandshakeFlags: u16 {
        /// Fixed newstyle handshake: the server replies to unknown options.
        FIXED_NEWSTYLE = 0,
        /// The server can omit the 124 zeros after its response to `EXPORT_NAME`.
        NO_ZEROES = 1,
    }
}

flags! {
    /// Capabilities in a client's answer to the greeting (nbd proto.md, 'Client flags').
    ClientFlags: u32 {
        /// Fixed newstyle handshake: the client handles replies to options.
        FIXED_NEWSTYLE = 0,
        /// The zeros after the response to `EXPORT_NAME` are omitted.
        NO_ZEROES = 1,
    }
}

flags! {
    /// Properties of an export (nbd proto.md, 'Transmission flags').
    TransmissionFlags: u16 {
        /// Always set.
        HAS_FLAGS = 0,
        /// The export is read-only.
        READ_ONLY = 1,
        /// Supports `FLUSH`.
        SEND_FLUSH = 2,
        /// Supports the flag `FUA`.
        SEND_FUA = 3,
        /// The device is rotational.
        ROTATIONAL = 4,
        /// Supports `TRIM`.
        SEND_TRIM = 5,
        /// Supports `WRITE_ZEROES`.
        SEND_WRITE_ZEROES = 6,
        /// Supports the flag `DF`.
        SEND_DF = 7,
        /// A flush on one connection covers acknowledged writes on others.
        CAN_MULTI_CONN = 8,
        /// Supports `CACHE`.
        SEND_CACHE = 10,
        /// Supports the flag `FAST_ZERO`.
        SEND_FAST_ZERO = 11,
        /// `BLOCK_STATUS` accepts a payload.
        BLOCK_STATUS_PAYLOAD = 12,
    }
}

flags! {
    /// Flags of a request (nbd proto.md, 'Command flags').
    CommandFlags: u16 {
        /// Make the changes durable before replying.
        FUA = 0,
        /// Keep zeroed space allocated.
        NO_HOLE = 1,
        /// Reply to a read with at most one content chunk.
        DF = 2,
        /// Return the status of only one extent.
        REQ_ONE = 3,
        /// Fail instead of writing zeros as data.
        FAST_ZERO = 4,
        /// The length is that of a payload.
        PAYLOAD_LEN = 5,
    }
}
