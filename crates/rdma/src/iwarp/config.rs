//! The configuration of one side of a connection, and its bounds.

use super::header::{CRC_LEN, FPDU_MAX, FPDU_MIN, TAGGED_LEN};
use super::mpa::ReadyToReceive;
use onego_buf::Pool;
use std::time::Duration;

/// What the connections of one process have in common.
#[derive(Debug, Clone)]
pub struct Config {
    /// Open connections in MPA's revision 2, which tells the peer how many RDMA Reads may be under way; else in
    /// revision 1. A server answers in the revision that it is asked in.
    pub enhanced: bool,
    /// Ask for checksums. They are made and checked if either side asks.
    pub crc: bool,
    /// RDMA Reads of the peer that this side answers at a time (IRD). A Linux NFS server accepts no connection from a
    /// client with 0.
    pub ird: u16,
    /// RDMA Reads that this side has under way at a time (ORD), if the peer allows as many.
    pub ord: u16,
    /// Open connections as a peer that says when it is ready, so that the server may send first. Only with
    /// `enhanced`. A server does what it is asked, if it is asked in a way that is allowed here.
    pub peer_to_peer: Option<ReadyToReceive>,
    /// Bytes of an FPDU at the most, from its length to its checksum. Hardware may want as little as fits a packet
    /// (RFC 5044, section 5.1); software takes any.
    pub fpdu: usize,
    /// Receive the segments of RDMA Writes many at a time, as those of RDMA Reads always are. What the peer leaves unwritten
    /// of a region, behind what it writes, is undefined then.
    pub foresee_writes: bool,
    /// Sends, RDMA Writes and RDMA Reads that may be posted, with their completions.
    pub send_queue: usize,
    /// Receives that may be posted, with their completions.
    pub receive_queue: usize,
    /// Regions that may be registered.
    pub regions: usize,
    /// How long the connection may take until it is established: as long as siw waits for an answer.
    pub handshake_timeout: Duration,
    /// Gives the memory that headers are built in.
    pub pool: Pool,
}

impl Config {
    /// What suits NFS with one outstanding window of 128 requests, over a Linux peer.
    pub fn new(pool: Pool) -> Self {
        Self {
            enhanced: true,
            crc: false,
            // siw's own most.
            ird: 128,
            ord: 128,
            peer_to_peer: None,
            // With 15 pages of payload: the most in which every segment of what begins on a page does so, too.
            fpdu: TAGGED_LEN + (60 << 10) + CRC_LEN,
            foresee_writes: false,
            send_queue: 1024,
            receive_queue: 512,
            regions: 4096,
            handshake_timeout: Duration::from_secs(10),
            pool,
        }
    }

    /// Bytes of an FPDU that is not filled up: only the last of a message is.
    pub(super) fn whole_fpdu(&self) -> usize {
        self.fpdu.clamp(FPDU_MIN, FPDU_MAX) & !3
    }
}
