//! TLS, for servers and clients alike: what is between the bytes of a connection and its messages, and what is in files of
//! certificates.

mod error;
mod layer;
mod limits;
mod pem;

pub use error::{TlsError, TlsFault};
pub use layer::{ClearText, TlsLayer};
pub use limits::TLS_HANDSHAKE_MAX;
pub use pem::{authority, certificates, key};
