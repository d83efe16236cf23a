//! Options of servers in a file, `onego.toml`.
//!
//! What may stand in it follows from the command line: a table for each server, called by the words of its command, and in it a
//! key for each option and operand that its help page shows. What a file adds is put into the command line before that is read.
//! So no option stands twice, and what a value may be is said in one place.

mod file;
mod keys;
mod merge;
mod reference;
mod server;
mod show;
#[cfg(test)]
mod tests;

pub(crate) use merge::with_file;
pub(crate) use reference::write_reference;
pub(crate) use server::arrange;
pub(crate) use show::{ConfigCommand, run};
