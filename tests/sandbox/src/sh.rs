//! Running programs, with errors that name the command and show the end of its output.

use anyhow::{Context as _, Result, bail};
use std::process::{Command, Output, Stdio};

/// Lines of output that an error shows.
const TAIL: usize = 20;

/// Announces the next step on standard error.
pub fn step(what: &str) {
    eprintln!("== {what}");
}

/// Returns a command as a person would type it.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a command with its output on the terminal.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start `{}`", line(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", line(command));
    }
    Ok(())
}

/// Runs a command without input to its end, successful or not.
pub fn output(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null());
    command.output().with_context(|| format!("cannot start `{}`", line(command)))
}

/// Runs a command that must succeed and returns its standard output.
pub fn bytes(command: &mut Command) -> Result<Vec<u8>> {
    let output = output(command)?;
    if !output.status.success() {
        bail!("`{}` failed: {}\n{}", line(command), output.status, tail(both(&output).as_bytes()));
    }
    Ok(output.stdout)
}

/// Runs a command that must succeed and returns its standard output as text.
pub fn text(command: &mut Command) -> Result<String> {
    String::from_utf8(bytes(command)?).with_context(|| format!("`{}` did not print UTF-8", line(command)))
}

/// Returns standard output and then standard error.
pub fn both(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// Returns the last lines of a program's output.
pub fn tail(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let lines: Vec<_> = said.trim_end().lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}
