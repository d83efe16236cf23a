//! Frame tags of version 2.
//!
//! Source: ceph `doc/dev/msgr2.rst`; `src/msg/async/frames_v2.h` (`Tag`).

macro_rules! tags {
    ($($name:ident = $value:literal: $doc:literal),* $(,)?) => {
        /// Kind of a frame.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Tag {
            $(#[doc = $doc] $name = $value,)*
        }

        impl Tag {
            pub(crate) fn from_wire(value: u8) -> Option<Self> {
                match value {
                    $($value => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

tags! {
    Hello = 1: "Kind of the sender, and the receiver's address as seen by the sender.",
    AuthRequest = 2: "The client starts authentication.",
    AuthBadMethod = 3: "The server rejects the client's method.",
    AuthReplyMore = 4: "The server's part of a multi-round authentication.",
    AuthRequestMore = 5: "The client's part of a multi-round authentication.",
    AuthDone = 6: "The server admits the client.",
    AuthSignature = 7: "Signature over everything received so far.",
    ClientIdent = 8: "The client requests a new session.",
    ServerIdent = 9: "The server grants a new session.",
    IdentMissingFeatures = 10: "The client lacks features.",
    SessionReconnect = 11: "The client resumes a session.",
    SessionReset = 12: "The server does not know the session.",
    SessionRetry = 13: "The client's `connect_seq` is stale.",
    SessionRetryGlobal = 14: "The client's `global_seq` is stale.",
    SessionReconnectOk = 15: "The server resumes the session.",
    Wait = 16: "The server is connecting to the client itself.",
    Message = 17: "A message.",
    Keepalive2 = 18: "Keepalive request.",
    Keepalive2Ack = 19: "Keepalive answer.",
    Ack = 20: "Number of the last message received.",
    CompressionRequest = 21: "The client offers compression.",
    CompressionDone = 22: "The server's choice of compression.",
}
