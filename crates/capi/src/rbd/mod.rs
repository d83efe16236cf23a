//! librbd: images.

mod admin;
mod aio;
mod image;
mod info;
mod io;
mod list;
mod metadata;
mod options;
mod snap;
