//! Running programs and saying clearly which one failed.

use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Announces what comes next.
pub(crate) fn step(what: &str) {
    eprintln!("\n== {what}");
}

/// A command as one would type it, for messages.
pub(crate) fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a command whose output is for the user to see. An error if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start `{}`", line(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", line(command));
    }
    Ok(())
}

/// Runs a command and returns what it did, failed or not. It gets no input.
pub(crate) fn output(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null());
    command.output().with_context(|| format!("cannot start `{}`", line(command)))
}

/// Runs a command and returns what it wrote. An error, with the end of that, if it fails.
fn checked(command: &mut Command) -> Result<Output> {
    let output = output(command)?;
    if !output.status.success() {
        bail!("`{}` failed: {}\n{}", line(command), output.status, tail(&both(&output)));
    }
    Ok(output)
}

/// What a command wrote to standard output, and then what it wrote to standard error.
fn both(output: &Output) -> Vec<u8> {
    [output.stdout.as_slice(), output.stderr.as_slice()].concat()
}

/// Runs a command and returns its standard output. An error, with the end of what it said, if it fails.
pub(crate) fn bytes(command: &mut Command) -> Result<Vec<u8>> {
    Ok(checked(command)?.stdout)
}

/// Runs a command and returns all that it said, errors last. An error, with the end of that, if it fails.
pub(crate) fn said(command: &mut Command) -> Result<String> {
    let said = both(&checked(command)?);
    Ok(String::from_utf8_lossy(&said).trim_end().to_owned())
}

/// Runs a command and returns its standard output as text. An error, with the end of what it said, if it fails.
pub(crate) fn text(command: &mut Command) -> Result<String> {
    let what = line(command);
    String::from_utf8(bytes(command)?).with_context(|| format!("the output of `{what}` is not UTF-8"))
}

/// The last lines of what a program said: enough to see why it failed.
pub(crate) fn tail(said: &[u8]) -> String {
    const LINES: usize = 20;
    let said = String::from_utf8_lossy(said);
    let lines: Vec<_> = said.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// Is there a program of this name?
pub(crate) fn have(program: &str) -> bool {
    find(program).is_some()
}

/// Where the program of this name is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    // The folders of system programs are not in every user's path.
    let system = ["/usr/sbin", "/sbin"].map(Into::into);
    let mut files = std::env::split_paths(&folders).chain(system).map(|folder| folder.join(program));
    files.find(|file| file.is_file())
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
