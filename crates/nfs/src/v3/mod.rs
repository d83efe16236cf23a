//! NFS version 3 (RFC 1813): program 100003.
//!
//! Every procedure is a type that implements [`Procedure`](crate::rpc::Procedure), which names its number, its arguments
//! and its results.
//! Results are a [`Result`]: what there is if it went well, or a [`Failed`] with the status and the attributes that come
//! with it all the same.

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
