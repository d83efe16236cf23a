//! Processes in the background, which the command that starts them waits for until they serve.

use crate::failure::Failure;
use crate::process::this_program;
use rustix::process::Signal;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// What came of a process in the background.
pub(crate) enum Started {
    /// It serves, and has printed this.
    Said(String),
    /// It has ended with this code, and said why.
    Failed(i32),
}

/// Starts this program once more as the one that serves, in a folder or in this one, and waits until it ends its output. What it
/// says if it fails goes where this process's words go.
pub(crate) fn start<S: AsRef<OsStr>>(
    arguments: impl IntoIterator<Item = S>,
    folder: Option<&Path>,
) -> Result<Started, Failure> {
    let mut command = Command::new(this_program()?);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    let mut child = command.spawn().map_err(Failure::io("starting the process in the background"))?;
    let mut said = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut said).map_err(Failure::io("waiting for the process in the background"))?;
    }
    if !said.is_empty() {
        return Ok(Started::Said(said.trim_end().to_owned()));
    }
    let status = child.wait().map_err(Failure::io("waiting for the process in the background"))?;
    Ok(Started::Failed(status.code().unwrap_or(1)))
}

/// Lets go of the terminal of the process that has started this one: its signals are not for this one. Until it is
/// [detached](detach), this process ends when that one does.
pub(crate) fn leave_terminal() -> Result<(), Failure> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .and_then(|()| rustix::process::setsid())
        .map(drop)
        .map_err(|error| Failure::Io { what: "leaving the terminal", source: error.into() })
}

/// Lets go of the end and the folder of the process that has started this one. Later words go to a file.
pub(crate) fn detach(log: &Path) -> Result<(), Failure> {
    let log = File::options().append(true).open(log).map_err(Failure::file(log))?;
    let detaching = || Failure::io("going to the background");
    std::env::set_current_dir("/").map_err(detaching())?;
    rustix::process::set_parent_process_death_signal(None).map_err(|error| detaching()(error.into()))?;
    rustix::stdio::dup2_stderr(&log).map_err(|error| detaching()(error.into()))
}

/// Ends this process's output: the one that has started it has read what it waited for, and is gone.
pub(crate) fn end_output() -> Result<(), Failure> {
    let ending = || Failure::io("ending the output");
    let null = File::options().write(true).open("/dev/null").map_err(ending())?;
    rustix::stdio::dup2_stdout(&null).map_err(|error| ending()(error.into()))
}
