//! NFS version 3 (RFC 1813): program 100003.
//!
//! Every procedure is a type that implements [`Procedure`](crate::rpc::Procedure), which defines its number, arguments
//! and results. Results are a [`Result`]; the error is a [`Failed`] with the status and the attributes that a failure
//! returns nevertheless.

mod answer;
mod procedures;
mod program;
mod split;
mod types;

pub use answer::{Answer, Failed};
pub use procedures::*;
pub use program::{PORT, PROGRAM, VERSION};
pub use split::{split_call, split_reply};
pub use types::*;
