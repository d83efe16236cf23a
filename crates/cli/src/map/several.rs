//! Maps several sources, each with a process of its own.

use super::rbdmap::{self, Entry};
use super::records;
use super::states::States;
use crate::background::{self, Started};
use crate::device::Source;
use crate::failure::Failure;
use crate::output;
use onego_ublk::DeviceState;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// Option that names the source that a device waits for.
const RECOVERS: &str = "--recovers=";

/// Maps the images of a list, as far as they are not mapped, and prints their devices.
pub(super) fn all(list: &Path) -> Result<(), Failure> {
    let text = fs::read_to_string(list).map_err(Failure::file(list))?;
    let bad = |why: String| Failure::Usage(format!("{}: {why}", list.display()));
    let entries = rbdmap::parse(&text).map_err(|error| bad(error.to_string()))?;
    let mut failed = 0;
    for entry in &entries {
        let _: Source = format!("rbd:{}", entry.image).parse().map_err(bad)?;
        failed += start(command_line(entry), None)?;
    }
    conclude(failed, entries.len())
}

/// Maps again what waits for a process, and prints the devices.
pub(super) fn recover() -> Result<(), Failure> {
    let records = records::all()?;
    let mut waiting = Vec::new();
    let mut states = States::default();
    for record in records {
        if states.of(&record)? == Some(DeviceState::Quiesced) {
            waiting.push(record);
        }
    }
    let mut failed = 0;
    for record in &waiting {
        let mode = ["--foreground", "--detached", "--unless-mapped"];
        let arguments = record.arguments.iter().filter(|argument| !mode.contains(&argument.as_str()));
        let arguments = arguments.filter(|argument| !argument.starts_with(RECOVERS));
        let only = format!("{RECOVERS}{}", record.identity);
        failed += start(arguments.cloned().chain([only]), Some(&record.directory))?;
    }
    conclude(failed, waiting.len())
}

/// The options of this process, without what asks for the list, and with those of an entry.
fn command_line(entry: &Entry) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut given = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--all" => {}
            "--rbdmap" => drop(given.next()),
            with_value if with_value.starts_with("--rbdmap=") => {}
            _ => arguments.push(argument),
        }
    }
    arguments.extend(entry.access.iter().cloned());
    arguments.push(format!("rbd:{}", entry.image));
    arguments.extend(entry.options.iter().cloned());
    arguments.push("--unless-mapped".to_owned());
    arguments
}

/// Starts a process, and prints its device; how many have failed.
fn start(arguments: impl IntoIterator<Item = String>, folder: Option<&Path>) -> Result<usize, Failure> {
    let arguments = arguments.into_iter().map(OsString::from).chain(super::mode());
    match background::start(arguments, folder)? {
        Started::Said(device) => output::lines([device]).map(|()| 0),
        Started::Failed(_) => Ok(1),
    }
}

fn conclude(failed: usize, of: usize) -> Result<(), Failure> {
    match failed {
        0 => Ok(()),
        failed => Err(Failure::Device(format!("{failed} of {of} devices are not there"))),
    }
}
