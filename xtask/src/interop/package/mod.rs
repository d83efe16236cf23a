//! What users install, on systems that have nothing else: packages, the image for containers, the program alone.

mod alone;
mod debian;
mod image;
mod made;
mod peers;
mod start;

pub(super) use alone::program_alone;
pub(super) use debian::{on_bookworm, on_bullseye, on_trixie};
pub(super) use image::image;
