//! Work that needs the layer that drives the image: operations for other clients, pauses for them, and object copies of a
//! migration.

mod migration;
mod operations;
mod pause;
