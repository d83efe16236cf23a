//! Configuration of one side of a connection, and its limits.

use super::header::{CRC_LEN, FPDU_MAX, FPDU_MIN, TAGGED_LEN};
use super::mpa::ReadyToReceive;
use onego_buf::Pool;
use std::time::Duration;

/// Settings shared by the connections of a process.
#[derive(Debug, Clone)]
pub struct Config {
    /// Opens connections in revision 2 of MPA, which negotiates the number of RDMA Reads in flight; otherwise in
    /// revision 1. A server replies in the revision of the request.
    pub enhanced: bool,
    /// Requests checksums. They are used if either side requests them.
    pub crc: bool,
    /// RDMA Reads of the peer that this side answers at a time (IRD). A Linux NFS server accepts no connection from a
    /// client with 0.
    pub ird: u16,
    /// RDMA Reads of this side in flight (ORD), if the peer allows that many.
    pub ord: u16,
    /// Opens connections in peer-to-peer mode, in which the client indicates that it is ready so that the server may
    /// send first. Only with `enhanced`. A server follows the client's request if it uses one of these ways.
    pub peer_to_peer: Option<ReadyToReceive>,
    /// Maximum size of an FPDU in bytes, from its length to its checksum. Hardware may require that it fits a packet
    /// (RFC 5044, section 5.1); software accepts any.
    pub fpdu: usize,
    /// Receives several segments of RDMA Writes at a time, as always for those of RDMA Reads. The part of a region
    /// after what the peer writes is then undefined.
    pub foresee_writes: bool,
    /// Limit on posted sends, RDMA Writes and RDMA Reads, including their unpolled completions.
    pub send_queue: usize,
    /// Limit on posted receives, including their unpolled completions.
    pub receive_queue: usize,
    /// Limit on registered regions.
    pub regions: usize,
    /// Limit on the time until the connection is established: as long as siw waits for a reply.
    pub handshake_timeout: Duration,
    /// Memory pool for headers.
    pub pool: Pool,
}

impl Config {
    /// Returns settings for NFS with a window of 128 outstanding requests over a Linux peer.
    pub fn new(pool: Pool) -> Self {
        Self {
            enhanced: true,
            crc: false,
            // siw's own maximum.
            ird: 128,
            ord: 128,
            peer_to_peer: None,
            // With 15 pages of payload: the largest size at which every segment of page-aligned data starts on a page.
            fpdu: TAGGED_LEN + (60 << 10) + CRC_LEN,
            foresee_writes: false,
            send_queue: 1024,
            receive_queue: 512,
            regions: 4096,
            handshake_timeout: Duration::from_secs(10),
            pool,
        }
    }

    pub(super) fn whole_fpdu(&self) -> usize {
        self.fpdu.clamp(FPDU_MIN, FPDU_MAX) & !3
    }
}
