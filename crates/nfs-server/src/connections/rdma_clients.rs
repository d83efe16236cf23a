//! What the connections over RDMA have in common.

use super::connection::RECORD_MAX;
use crate::transport::{Rdma, RdmaConfig};
use onego_buf::Pool;
use onego_rdma::Listener;
use onego_wire::ConnId;

/// Most bytes of receives that are posted for clients over RDMA, each of which has as many as it has credits.
const RECEIVES_MAX: usize = 256 << 20;

/// What the connections over RDMA have in common.
pub(super) struct RdmaClients {
    /// `None`: there may be no such connections.
    pub(super) config: Option<RdmaConfig>,
    /// Where clients come by devices, if they may, and its name for the driver.
    pub(super) device: Option<(ConnId, Box<dyn Listener>)>,
    /// How many connections there are, and how many there may be.
    pub(super) open: usize,
    pub(super) most: usize,
}

impl RdmaClients {
    pub(super) fn new(rdma: Option<&Rdma>, pool: &Pool) -> Self {
        let config = rdma.map(|rdma| RdmaConfig::new(rdma, RECORD_MAX, pool));
        let most = rdma.map_or(0, |rdma| RECEIVES_MAX / rdma.receives_len()).max(1);
        Self { config, device: None, open: 0, most }
    }
}
