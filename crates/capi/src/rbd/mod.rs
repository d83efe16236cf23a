//! librbd: images.

mod admin;
mod aio;
mod diff;
mod exclusive;
mod features;
mod image;
mod info;
mod io;
mod list;
mod metadata;
mod options;
mod snap;
mod watchers;
