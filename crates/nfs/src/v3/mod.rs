//! NFS version 3 (RFC 1813): program 100003.
//!
//! Every procedure is a type that implements [`Procedure`](crate::rpc::Procedure), which names its number, its arguments
//! and its results.
//! Results are a [`Result`]: what there is if it went well, or a [`Failed`] with the status and the attributes that come
//! with it all the same.

mod procedures;
mod split;
mod types;

pub use procedures::*;
pub use split::{split_call, split_reply};
pub use types::*;

use crate::xdr::{Body, OK, Reader, Writer, Xdr};
use onego_buf::List;
use onego_wire::Decoded;

/// The program's number.
pub const PROGRAM: u32 = 100_003;
/// Its version.
pub const VERSION: u32 = 3;
/// The port where servers are by convention.
pub const PORT: u16 = 2049;

/// A procedure failed: why, and what is known of the files all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed<T> {
    /// Why.
    pub status: Status,
    /// Attributes of the files.
    pub more: T,
}

/// What procedures return that can fail.
pub type Answer<T, F> = Result<T, Failed<F>>;

impl<T: Body, F: Xdr> Body for Answer<T, F> {
    fn read(r: &mut Reader<'_>, payload: &mut List) -> Decoded<Self> {
        if r.take_ok()? {
            return Ok(Ok(T::read(r, payload)?));
        }
        Ok(Err(Failed { status: Status::decode(r)?, more: F::decode(r)? }))
    }

    fn write(&self, w: &mut Writer, payload: &mut List) {
        match self {
            Ok(value) => {
                w.u32(OK);
                value.write(w, payload);
            }
            Err(Failed { status, more }) => {
                status.encode(w);
                more.encode(w);
            }
        }
    }
}
