//! What a frame of version 2 is.
//!
//! Source: ceph `doc/dev/msgr2.rst`; `src/msg/async/frames_v2.h` (`Tag`).

macro_rules! tags {
    ($($name:ident = $value:literal: $doc:literal),* $(,)?) => {
        /// What a frame is.
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
    Hello = 1: "Kind of the sender, and the receiver's address as it sees it.",
    AuthRequest = 2: "The client asks to be let in.",
    AuthBadMethod = 3: "The server does not take the client's method.",
    AuthReplyMore = 4: "The server's part of an authentication of several rounds.",
    AuthRequestMore = 5: "The client's part of an authentication of several rounds.",
    AuthDone = 6: "The server lets the client in.",
    AuthSignature = 7: "Signature over everything received before.",
    ClientIdent = 8: "The client asks for a new session.",
    ServerIdent = 9: "The server grants a new session.",
    IdentMissingFeatures = 10: "The client lacks features.",
    SessionReconnect = 11: "The client asks to go on with a session.",
    SessionReset = 12: "The server does not know the session.",
    SessionRetry = 13: "The client's count of connections of the session is stale.",
    SessionRetryGlobal = 14: "The client's count of connections is stale.",
    SessionReconnectOk = 15: "The session goes on.",
    Wait = 16: "The server is connecting to the client itself.",
    Message = 17: "A message.",
    Keepalive2 = 18: "Asks for a sign of life.",
    Keepalive2Ack = 19: "A sign of life.",
    Ack = 20: "The number of the last message received.",
    CompressionRequest = 21: "The client asks to compress.",
    CompressionDone = 22: "The server says whether both compress, and how.",
}
