//! Images of an embedded cluster.

mod damaged;
mod encrypted;
mod owned;
mod shared;
