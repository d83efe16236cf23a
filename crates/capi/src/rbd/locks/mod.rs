//! Locks of images: the one that its owner has by itself, and the one that users take by hand.

mod exclusive;
mod lockers;
mod owners;

pub(in crate::rbd) use owners::is_owned_elsewhere;
