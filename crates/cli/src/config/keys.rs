//! What a table of the file may have: a key for each option that the help page of its command shows.

use super::server::CONFIG;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};
use std::collections::BTreeSet;

/// The most times that an option is repeated which counts how often it is given.
const COUNT_MAX: u8 = 8;

/// The value of an option. Numbers stay as they are written: the option reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Flag(bool),
    One(String),
    Many(Vec<String>),
}

/// The options of a command that a file can set, operands included.
pub(super) fn settable(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_help = |arg: &Arg| {
        matches!(
            arg.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        )
    };
    command.get_arguments().filter(move |arg| !arg.is_hide_set() && arg.get_id() != CONFIG && !is_help(arg))
}

/// What an option is called in a file.
pub(super) fn key(arg: &Arg) -> String {
    arg.get_long().map_or_else(|| arg.get_id().as_str().replace('_', "-"), str::to_owned)
}

/// Is it given without a value?
pub(super) fn is_flag(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// May it have more than one value?
pub(super) fn takes_many(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// The words of a command line that give an option this value; an operand is a word of its own.
pub(super) fn words(arg: &Arg, value: &Value) -> Result<Vec<String>, String> {
    let word = |text: &str| match arg.get_long() {
        Some(long) => format!("--{long}={text}"),
        None => text.to_owned(),
    };
    let alone = || vec![format!("--{}", key(arg))];
    let takes_none = || arg.get_num_args().is_some_and(|count| count.min_values() == 0);
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, Value::Flag(true)) => Ok(alone()),
        (ArgAction::SetTrue, Value::Flag(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, _) => Err("it is true or false".to_owned()),
        (ArgAction::Count, Value::One(text)) => match text.parse() {
            Ok(count @ 0..=COUNT_MAX) => Ok(vec![format!("--{}", key(arg)); count.into()]),
            _ => Err(format!("it is a number from 0 to {COUNT_MAX}")),
        },
        (ArgAction::Count, _) => Err(format!("it is a number from 0 to {COUNT_MAX}")),
        (_, Value::Flag(true)) if takes_none() => Ok(alone()),
        (_, Value::Flag(false)) if takes_none() => Ok(Vec::new()),
        (_, Value::Flag(flag)) => Ok(vec![word(&flag.to_string())]),
        (_, Value::One(text)) => Ok(vec![word(text)]),
        (_, Value::Many(texts)) if takes_many(arg) => Ok(texts.iter().map(|text| word(text)).collect()),
        (_, Value::Many(_)) => Err("it takes one value, and not a list".to_owned()),
    }
}

/// Why a command cannot take an option with these words, whatever else is given.
pub(super) fn refused(command: &Command, arg: &Arg, words: &[String]) -> Option<String> {
    let error = parse(command, arg.is_positional(), words)?;
    let is_about_value = matches!(
        error.kind(),
        ErrorKind::InvalidValue
            | ErrorKind::ValueValidation
            | ErrorKind::TooFewValues
            | ErrorKind::TooManyValues
            | ErrorKind::WrongNumberOfValues
    );
    is_about_value.then(|| sentence(&error))
}

/// Why the options of a table cannot stand together; what is missing may be given by the command line, if it is missing in an
/// empty table, too.
pub(super) fn conflict(command: &Command, options: &[String], operands: &[String]) -> Option<String> {
    let words = [options, &["--".to_owned()], operands].concat();
    let error = parse(command, false, &words)?;
    if error.kind() == ErrorKind::MissingRequiredArgument {
        let always = parse(command, false, &[]).map(|error| missing(&error)).unwrap_or_default();
        if missing(&error).is_subset(&always) {
            return None;
        }
    }
    Some(sentence(&error))
}

fn missing(error: &clap::Error) -> BTreeSet<String> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(names)) => names.iter().cloned().collect(),
        Some(ContextValue::String(name)) => BTreeSet::from([name.clone()]),
        _ => BTreeSet::new(),
    }
}

/// What a command says to these words, if it does not take them.
fn parse(command: &Command, are_operands: bool, words: &[String]) -> Option<clap::Error> {
    let first = [command.get_name().to_owned()];
    let end = are_operands.then(|| "--".to_owned());
    command.clone().try_get_matches_from(first.iter().chain(&end).chain(words)).err()
}

/// What the parser says, in one line.
fn sentence(error: &clap::Error) -> String {
    let said = error.render().to_string();
    let lines = said.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let words: Vec<_> = lines.flat_map(str::split_whitespace).collect();
    let said = words.join(" ");
    said.strip_prefix("error: ").unwrap_or(&said).to_owned()
}
