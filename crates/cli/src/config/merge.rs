//! Puts the options of a file into a command line.

use super::file::{ConfigFile, Setting};
use super::keys;
use super::server::{self, CONFIG, SERVERS, ServedCommand};
use crate::failure::Failure;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// What ends the options of a command line.
const END: &str = "--";

/// The command line with what the file adds that it names, if it is one of a server. `commands` makes the
/// definitions of all.
///
/// An option of the file is left out where the command line has it, or one that excludes it. The command line unsets a flag by
/// `--FLAG=false`.
pub(crate) fn with_file(line: Vec<OsString>, commands: fn() -> Command) -> Result<Vec<OsString>, Failure> {
    let names_file = |word: &OsString| {
        let rest = word.as_encoded_bytes().strip_prefix(b"--config");
        rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'=')
    };
    if !line.iter().any(names_file) {
        return Ok(line);
    }
    let command = &server::built(commands());
    let (unset, plain) = flags(command, &line);
    // What is wrong in the line is told when all of it is read. A command that is built already would not ignore it everywhere.
    let lenient = commands().ignore_errors(true);
    let Ok(found) = lenient.try_get_matches_from(&plain) else { return Ok(line) };
    let Some((server, found)) = SERVERS.iter().find_map(|server| Some((*server, below(&found, server)?)))
    else {
        return Ok(line);
    };
    let Some(path) = found.get_one::<PathBuf>(CONFIG) else { return Ok(line) };
    let file = ConfigFile::read(path, command)?;
    let command = server.command_in(command);
    Ok(merged(command, &plain, |arg| is_said(found, &unset, arg), file.settings_of(server)))
}

/// Takes flags with a value out of a line: what is false is unset, what is true is as the flag alone.
fn flags(command: &Command, line: &[OsString]) -> (BTreeSet<String>, Vec<OsString>) {
    let servers = SERVERS.iter().map(|server| server.command_in(command));
    let flags: BTreeSet<_> =
        servers.flat_map(keys::settable).filter(|arg| keys::is_flag(arg)).filter_map(Arg::get_long).collect();
    let mut unset = BTreeSet::new();
    let flag = |word: &OsStr, value: &str| {
        let name = word.to_str()?.strip_prefix("--")?.strip_suffix(value)?;
        flags.contains(name).then(|| name.to_owned())
    };
    let mut kept = Vec::new();
    for word in line {
        match (flag(word, "=false"), flag(word, "=true")) {
            (Some(name), _) => drop(unset.insert(name)),
            (_, Some(name)) => kept.push(format!("--{name}").into()),
            _ => kept.push(word.clone()),
        }
    }
    (unset, kept)
}

/// What was found of a server's command.
fn below<'a>(found: &'a ArgMatches, server: &ServedCommand) -> Option<&'a ArgMatches> {
    server.words.iter().try_fold(found, |found, word| found.subcommand_matches(word))
}

/// Has the command line the option?
fn is_said(found: &ArgMatches, unset: &BTreeSet<String>, arg: &Arg) -> bool {
    found.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
        || arg.get_long().is_some_and(|long| unset.contains(long))
}

/// A line of a command with settings of a file.
fn merged<'a>(
    command: &Command,
    line: &[OsString],
    is_said: impl Fn(&Arg) -> bool,
    settings: impl Iterator<Item = &'a Setting>,
) -> Vec<OsString> {
    let said: Vec<_> = keys::settable(command).filter(|arg| is_said(arg)).collect();
    let excludes = |one: &Arg, other: &Arg| {
        command.get_arg_conflicts_with(one).iter().any(|arg| arg.get_id() == other.get_id())
    };
    let gives_way =
        |arg: &Arg| said.iter().any(|said| *said == arg || excludes(said, arg) || excludes(arg, said));
    let (mut options, mut operands) = (Vec::new(), Vec::new());
    for setting in settings {
        let arg = keys::settable(command).find(|arg| keys::key(arg) == setting.key && !gives_way(arg));
        let Some(arg) = arg else { continue };
        // Words that cannot be made were told of when the file was read.
        let words = keys::words(arg, &setting.value).unwrap_or_default();
        let words = words.into_iter().map(OsString::from);
        if arg.is_positional() { &mut operands } else { &mut options }.extend(words);
    }
    let end = line.iter().position(|word| word == END).unwrap_or(line.len());
    let (before, after) = line.split_at(end);
    let after = after.get(1..).unwrap_or_default();
    [before, &options, &[END.into()], after, &operands].concat()
}
