//! What is measured.

use super::messages;
use crate::floor::Traffic;
use crate::row::{self, Pattern};
use onego_engine::{EngineKind, Spin};

/// Idle memory that each end keeps for the heads of frames: those of a deep queue.
pub(super) const POOL_IDLE: usize = 4 << 20;

/// What both ends of a measurement have to agree upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndOptions {
    /// What moves the bytes.
    pub engine: EngineKind,
    /// Make and check checksums of fronts and data.
    pub crc: bool,
    /// What they do before they sleep.
    pub spin: Spin,
}

/// A load to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// Both ends.
    pub end: EndOptions,
    /// Bytes of data of a request.
    pub block_size: u32,
    /// Connections, all served by one thread at each end.
    pub connections: u32,
    /// Requests in flight on a connection.
    pub io_depth: u32,
    /// Check all data.
    pub verify: bool,
}

impl Load {
    /// The load in the words of rows.
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
