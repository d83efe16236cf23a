//! The data of what an image does with the help of the layer that drives it.

pub(super) mod pauses;
pub(super) mod under_way;
