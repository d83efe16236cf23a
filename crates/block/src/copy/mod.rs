//! Copies the bytes of one device to another.
//!
//! A [`Copier`] is a machine without connections, driven together with the backends of the devices. It asks the source
//! which of its bytes are zeros, reads the others in pieces, a bounded number at a time, skips zeros in the data that
//! it has read, and flushes at the end. To continue an earlier copy, it can first compare bytes of both devices.

mod compare;
mod error;
mod extents;
mod handle;
mod machine;
mod plan;
mod zeros;

pub use compare::CompareHandle;
pub use error::{CopyError, CopySide};
pub use handle::{CopyHandle, CopyProgress};
pub use machine::Copier;
pub use plan::CopyPlan;
pub use zeros::data_in;
