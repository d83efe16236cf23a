//! Images of an embedded cluster.

mod damaged;
mod encrypted;
mod format1;
mod full;
mod imported;
mod maps;
mod names;
mod owned;
mod shared;
mod trash;
mod validated;
