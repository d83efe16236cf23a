//! Parameters of a measurement.

use super::messages;
use crate::floor::Traffic;
use crate::row::{self, Pattern};
use onego_engine::{EngineKind, Spin};

/// Idle memory that each end keeps for frame headers: enough for a deep queue.
pub(super) const POOL_IDLE: usize = 4 << 20;

/// Parameters that both ends share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndOptions {
    /// Engine that moves the bytes.
    pub engine: EngineKind,
    /// Computes and checks checksums of fronts and data.
    pub crc: bool,
    /// Strategy before sleeping.
    pub spin: Spin,
}

/// A load to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// Parameters of both ends.
    pub end: EndOptions,
    /// Bytes of data per request.
    pub block_size: u32,
    /// Number of connections, all served by one thread at each end.
    pub connections: u32,
    /// Requests in flight per connection.
    pub io_depth: u32,
    /// Checks all data.
    pub verify: bool,
}

impl Load {
    pub(super) fn as_row(&self) -> row::Load {
        row::Load {
            rw: Pattern::Write,
            block_size: self.block_size.into(),
            jobs: self.connections,
            io_depth: self.io_depth,
        }
    }

    pub(super) fn traffic(&self) -> Traffic {
        Traffic {
            sizes: messages::sizes(self.block_size),
            clients: 1,
            connections: self.connections,
            io_depth: self.io_depth,
        }
    }
}
