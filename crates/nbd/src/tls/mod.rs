//! TLS for servers and clients: the layer between a connection's bytes and its messages, and PEM files.

mod error;
mod layer;
mod limits;
mod pem;

pub use error::{TlsError, TlsFault};
pub use layer::{ClearText, TlsLayer};
pub use limits::TLS_HANDSHAKE_MAX;
pub use pem::{authority, certificates, key};
