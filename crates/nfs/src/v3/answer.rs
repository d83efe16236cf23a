//! Results of procedures that may fail.

use super::types::Status;
use crate::xdr::{Body, OK, Reader, Writer, Xdr};
use onego_buf::List;
use onego_wire::Decoded;

/// A failed procedure: its status, and the attributes that it returned nevertheless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed<T> {
    /// Error status.
    pub status: Status,
    /// Attributes of the files.
    pub more: T,
}

/// The result of a procedure that can fail.
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
