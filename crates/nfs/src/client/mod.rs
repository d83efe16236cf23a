//! RPC client: makes calls over connections that may break; each call completes exactly once.
//!
//! [`FileClient`] builds on it to read and write files, and keeps data that the server may lose until it is durable.
//!
//! [`Client`] is a [`Machine`](onego_wire::Machine): a driver moves its bytes. The caller adds
//! [servers](Client::server), makes [calls](Client::call), and takes [completions](Client::completion).
//!
//! - **Connections.** The caller chooses the number per server; a call goes to the least loaded one. They open on
//!   demand and reopen when they break, with exponential backoff while that fails.
//! - **Retransmission.** A call without a reply is sent again under the same xid over the next connection, so that a
//!   server that has executed it can detect the duplicate. Nothing is sent twice on one connection.
//! - **Payloads** are sent without a copy, in one gathered send with their fronts, and received directly into the sink
//!   of their call.

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
