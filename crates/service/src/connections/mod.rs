//! The connections of a server: one table for all protocols.
//!
//! [`Connections`] does for every connection what does not depend on the protocol: it hands out receive buffers and takes
//! them back, tells the driver what to do, counts what clients hold ([`admission`](crate::admission)), stops reading from a
//! client that does not take its replies, and keeps deadlines. A protocol brings its end of a connection as a
//! [`ServerConnection`], decides what its messages do, and closes the connections that the table names.

mod connection;
mod deadlines;
mod entry;
mod replies;
mod stream_end;
mod table;

pub use connection::ServerConnection;
pub use deadlines::{GiveUp, Review};
pub use entry::Allowance;
pub use stream_end::StreamEnd;
pub use table::Connections;

#[cfg(test)]
mod tests;
