//! librbd: images.

mod admin;
mod aio;
mod clones;
mod features;
mod image;
mod image_watch;
mod info;
mod io;
mod lists;
mod locks;
mod mirroring;
mod new_image;
mod open;
mod options;
mod pools;
mod progress;
mod settings;
mod snapshots;
mod upkeep;
mod watchers;
