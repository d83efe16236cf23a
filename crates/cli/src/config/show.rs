//! `onego config`: checks files, shows what they lead to, and makes one to begin with.

use super::file::{ConfigFile, Setting};
use super::keys::{self, Value};
use super::server::{self, SERVERS};
use crate::failure::Failure;
use crate::output;
use clap::{Arg, ArgAction, Command};
use std::path::PathBuf;

/// The file that the units for systemd read.
const USUAL: &str = "/etc/onego/onego.toml";

#[derive(clap::Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say what is wrong in a file, if anything is
    #[command(after_help = "Example:\n  onego config check onego.toml")]
    Check(ConfigOptions),
    /// Show the options that are in force with a file: those that it sets, and the defaults of the others
    #[command(after_help = "Example:\n  onego config show onego.toml")]
    Show(ConfigOptions),
    /// Print a file that has all options, commented out, with what they do
    #[command(after_help = "Example:\n  onego config template > onego.toml")]
    Template,
}

#[derive(clap::Args)]
pub(crate) struct ConfigOptions {
    /// The file
    #[arg(value_name = "FILE", default_value = USUAL)]
    file: PathBuf,
}

pub(crate) fn run(command: ConfigCommand, whole: Command) -> Result<(), Failure> {
    let whole = &server::built(whole);
    match command {
        ConfigCommand::Check(ConfigOptions { file }) => {
            ConfigFile::read(&file, whole)?;
            output::lines([format!("{}: ok", file.display())])
        }
        ConfigCommand::Show(ConfigOptions { file }) => {
            output::lines(shown(&ConfigFile::read(&file, whole)?, whole))
        }
        ConfigCommand::Template => output::lines(template(whole)),
    }
}

/// What is in force, in the form of a file.
pub(super) fn shown(file: &ConfigFile, whole: &Command) -> Vec<String> {
    let mut lines = Vec::new();
    for server in SERVERS {
        lines.push(format!("[{}]", server.table()));
        for arg in keys::settable(server.command_in(whole)) {
            let key = keys::key(arg);
            let set = file.settings_of(server).find(|setting| setting.key == key);
            let line =
                set.map(|Setting { value, line, .. }| format!("{key} = {} # line {line}", written(value)));
            lines.extend(line.or_else(|| Some(format!("{key} = {} # default", default_of(arg)?))));
        }
        lines.push(String::new());
    }
    lines.pop();
    lines
}

/// A file with all options, each commented out.
pub(super) fn template(whole: &Command) -> Vec<String> {
    let mut lines = vec![
        "# Options of onego's servers. The command line comes before this file. \"onego config check\" says what is wrong in it,"
            .to_owned(),
        "# \"onego config show\" what is in force. \"onego NAME --help\" shows what values may be.".to_owned(),
    ];
    for server in SERVERS {
        lines.push(String::new());
        lines.push(format!("# onego {}", server.words.join(" ")));
        lines.push(format!("[{}]", server.table()));
        for arg in keys::settable(server.command_in(whole)) {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            lines.extend(wrapped(&help).into_iter().map(|line| format!("# {line}")));
            lines.push(format!("#{} = {}", keys::key(arg), default_of(arg).unwrap_or_else(|| example(arg))));
        }
    }
    lines
}

/// The value that an option has by itself, as a file says it.
pub(super) fn default_of(arg: &Arg) -> Option<String> {
    let defaults: Vec<_> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    match (arg.get_action(), &defaults[..]) {
        (ArgAction::SetTrue, _) => Some(false.to_string()),
        (ArgAction::Count, _) => Some(0.to_string()),
        (_, []) => None,
        (_, [one]) => Some(written(&Value::One(one.clone()))),
        (_, _) => Some(written(&Value::Many(defaults))),
    }
}

/// What stands for the value of an option that has none by itself.
fn example(arg: &Arg) -> String {
    let name = arg.get_value_names().and_then(|names| names.first()).map_or("VALUE", |name| name.as_str());
    if keys::takes_many(arg) { format!("[{name:?}]") } else { format!("{name:?}") }
}

/// A value as a file says it.
fn written(value: &Value) -> String {
    let text = |text: &String| match text.parse::<u64>() {
        // A number that is written otherwise is none.
        Ok(number) if number.to_string() == *text => text.clone(),
        _ => quoted(text),
    };
    match value {
        Value::Flag(flag) => flag.to_string(),
        Value::One(one) => text(one),
        Value::Many(many) => format!("[{}]", many.iter().map(text).collect::<Vec<_>>().join(", ")),
    }
}

/// A basic string (TOML 1.0, "String").
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            char if char.is_control() => quoted += &format!("\\u{:04X}", u32::from(char)),
            char => quoted.push(char),
        }
    }
    quoted + "\""
}

/// A text in lines that fit a screen.
fn wrapped(text: &str) -> Vec<String> {
    const WIDTH: usize = 100;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
