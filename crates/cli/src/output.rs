//! Output of commands, on standard output and in files.

use crate::failure::Failure;
use crate::names;
use serde_json::Value;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, IsTerminal as _, StdoutLock, Write};
use std::path::Path;

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

/// Writes a file and makes it durable.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    sync(&file)
}

/// Makes a regular file durable; pipes and terminals have nothing to sync.
pub(crate) fn sync(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.sync_all() } else { Ok(()) }
}

/// Prints lines, with names as they are [shown](names::shown). Their reader may have gone away, which is an error like any
/// other.
pub(crate) fn lines<T: Display>(lines: impl IntoIterator<Item = T>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let on_terminal = out.is_terminal();
    let write = |out: &mut StdoutLock<'_>, line: T| names::write_line(out, &line.to_string(), on_terminal);
    lines.into_iter().try_for_each(|line| write(&mut out, line)).and_then(|()| out.flush()).map_err(failed)
}

/// Prints a value for programs, in one line.
pub(crate) fn json(value: &Value) -> Result<(), Failure> {
    text(&format!("{value}\n"))
}

/// Prints a text for programs as it is.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    bytes(text.as_bytes())
}
