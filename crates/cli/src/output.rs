//! What commands give, on standard output.

use crate::failure::Failure;
use serde_json::Value;
use std::fmt::Display;
use std::io::{self, Write};

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Plain,
    /// For programs
    Json,
}

/// Why standard output takes no more: its reader may have gone away, which is quiet.
pub(crate) fn failed(source: io::Error) -> Failure {
    Failure::Output(source)
}

/// Prints bytes as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(failed)
}

/// Prints lines. Their reader may have gone away, which is an error like any other.
pub(crate) fn lines<T: Display>(lines: impl IntoIterator<Item = T>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    lines.into_iter().try_for_each(|line| writeln!(out, "{line}")).and_then(|()| out.flush()).map_err(failed)
}

/// Prints a value for programs, in one line.
pub(crate) fn json(value: &Value) -> Result<(), Failure> {
    lines([value])
}
