//! The upkeep of images: copies, maps of objects, moves, encryption, what is noted at them.

mod copy;
mod encryption;
mod metadata;
mod migration;
mod migration_status;
mod object_maps;

pub(super) use metadata::{MOST, give_entries};
