use std::ops::BitOr;

/// Defines a set of flags that is a number on the wire.
macro_rules! flags {
    ($(#[$doc:meta])* $name:ident: $type:ty { $($(#[$of:meta])* $flag:ident = $bit:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub $type);

        impl $name {
            $($(#[$of])* pub const $flag: Self = Self(1 << $bit);)*

            /// Are all of these set?
            #[inline]
            pub fn contains(self, flags: Self) -> bool {
                self.0 & flags.0 == flags.0
            }

            /// Is any set but these?
            #[inline]
            pub fn exceeds(self, flags: Self) -> bool {
                self.0 & !flags.0 != 0
            }

            /// These, and the others if `set`.
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
    /// What a server can, said in its greeting (nbd proto.md, 'Handshake flags').
    HandshakeFlags: u16 {
        /// It answers options.
        FIXED_NEWSTYLE = 0,
        /// It can leave out the 124 zeros behind the answer to `EXPORT_NAME`.
        NO_ZEROES = 1,
    }
}

flags! {
    /// What a client wants of that (nbd proto.md, 'Client flags').
    ClientFlags: u32 {
        /// It knows answers to options.
        FIXED_NEWSTYLE = 0,
        /// The zeros are left out.
        NO_ZEROES = 1,
    }
}

flags! {
    /// What an export can (nbd proto.md, 'Transmission flags').
    TransmissionFlags: u16 {
        /// Always set.
        HAS_FLAGS = 0,
        /// Nothing can be written.
        READ_ONLY = 1,
        /// `FLUSH` is known.
        SEND_FLUSH = 2,
        /// The flag `FUA` is known.
        SEND_FUA = 3,
        /// The medium turns.
        ROTATIONAL = 4,
        /// `TRIM` is known.
        SEND_TRIM = 5,
        /// `WRITE_ZEROES` is known.
        SEND_WRITE_ZEROES = 6,
        /// The flag `DF` is known.
        SEND_DF = 7,
        /// A flush on one connection covers the writes that were acknowledged on others.
        CAN_MULTI_CONN = 8,
        /// `CACHE` is known.
        SEND_CACHE = 10,
        /// The flag `FAST_ZERO` is known.
        SEND_FAST_ZERO = 11,
        /// `BLOCK_STATUS` takes a payload.
        BLOCK_STATUS_PAYLOAD = 12,
    }
}

flags! {
    /// How a request is to be carried out (nbd proto.md, 'Command flags').
    CommandFlags: u16 {
        /// What it changes is durable when it is answered.
        FUA = 0,
        /// Zeroes keep their space allocated.
        NO_HOLE = 1,
        /// The answer to a read has one chunk of content at most.
        DF = 2,
        /// The status of one extent only.
        REQ_ONE = 3,
        /// Fail rather than write zeros as data.
        FAST_ZERO = 4,
        /// The length is that of a payload.
        PAYLOAD_LEN = 5,
    }
}
