//! What travels between hosts.

use super::end::End;
use crate::trace::Trace;
use onego_buf::List;
use onego_engine::SocketId;
use std::net::{IpAddr, SocketAddr};

/// Something under way from one socket to another.
pub(super) struct Packet {
    pub(super) from: End,
    pub(super) to: IpAddr,
    pub(super) what: What,
}

pub(super) enum What {
    /// Asks to open a connection from the first address to the second.
    Open(SocketAddr, SocketAddr),
    /// Nobody listens; for that socket.
    Refuse(SocketId),
    /// The connection is open; for that socket.
    Accept(SocketId),
    /// Bytes of the stream.
    Bytes(SocketId, List),
    /// The stream ends.
    End(SocketId),
    /// The receiver has taken this number of bytes.
    Taken(SocketId, usize),
    /// The connection is broken.
    Reset(SocketId),
}

impl What {
    pub(super) fn note(&self, trace: &mut Trace) {
        if let What::Bytes(_, bytes) = self {
            trace.note_content(bytes.crc32c(0));
        }
        trace.note(self.words());
    }

    fn words(&self) -> [u64; 3] {
        match self {
            What::Open(from, to) => [1, from.port().into(), to.port().into()],
            What::Refuse(_) => [2, 0, 0],
            What::Accept(_) => [3, 0, 0],
            What::Bytes(_, bytes) => [4, bytes.len() as u64, 0],
            What::End(_) => [5, 0, 0],
            What::Taken(_, n) => [6, *n as u64, 0],
            What::Reset(_) => [7, 0, 0],
        }
    }

    /// Must it keep its place in the order of the stream?
    pub(super) fn in_order(&self) -> bool {
        matches!(self, What::Accept(_) | What::Bytes(..) | What::End(_))
    }
}
