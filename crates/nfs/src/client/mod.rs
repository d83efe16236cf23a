//! A client of RPC servers: calls go out over connections that may break, and each completes once.
//!
//! [`FileClient`] reads and writes files by it, and keeps what a server may lose until it is durable.
//!
//! [`Client`] is a [`Machine`](onego_wire::Machine): a driver moves its bytes. Its caller names [servers](Client::server), makes
//! [calls](Client::call), and takes [completions](Client::completion).
//!
//! - **Connections.** Each server has as many as its caller says; a call goes by the one with the least to do. They are
//!   opened when there is a call, and again when they break, later and later while that fails.
//! - **Retransmission.** A call without a reply is sent again under the same number over the next connection, so that a
//!   server which has carried it out already can tell. On a connection that lives nothing is sent twice.
//! - **Payloads** go out as they are, in one gathered send with their fronts, and come right into the sink of their
//!   call.

mod call;
mod calls;
mod channel;
mod config;
mod error;
mod expected;
mod files;
mod metrics;
mod rpc;
mod transport;
mod unstable;
mod waiting;
mod written;

pub use call::{Call, Completion, Reply, Sink};
pub use channel::ServerId;
pub use config::Config;
pub use error::Error;
pub use files::{Completion as FileCompletion, FileClient, Filled, Limits, Outcome};
pub use metrics::{CallFigures, CallsSnapshot};
pub use rpc::Client;
pub use transport::{Device, Rdma, Way};
pub use waiting::{Awaited, WaitCause, Waiting};
