//! The connections of the server: what of them is NFS's.
//!
//! The table bounds what all clients hold together (see [`onego_service::connections`]). Here are the bounds for one
//! connection (`connection`), the calls that are carried out and answered (`calls`), and clients over RDMA (`rdma`).

mod calls;
mod connection;
mod rdma;
mod rdma_clients;
mod table;

pub(super) use table::NfsConnections;
