//! Reads a file, and says what is wrong in it.

use super::keys::{self, Value};
use super::server::{SERVERS, ServedCommand};
use crate::failure::Failure;
use clap::Command;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The most bytes of a file: some thousand times what all options take.
const SIZE_MAX: u64 = 1 << 20;

/// What a file says.
#[derive(Default)]
pub(super) struct ConfigFile {
    settings: Vec<Setting>,
}

/// An option that a file sets.
pub(super) struct Setting {
    pub(super) server: &'static ServedCommand,
    pub(super) key: String,
    pub(super) value: Value,
    /// Where it stands, from 1.
    pub(super) line: usize,
}

impl ConfigFile {
    /// Reads a file. Everything that is wrong in it is told at once, with its line.
    pub(super) fn read(path: &Path, command: &Command) -> Result<Self, Failure> {
        let mut text = String::new();
        let file = fs::File::open(path).map_err(Failure::file(path))?;
        let length = file.take(SIZE_MAX + 1).read_to_string(&mut text).map_err(Failure::file(path))?;
        if length as u64 > SIZE_MAX {
            return Err(Failure::Usage(format!("{}: more than {SIZE_MAX} bytes", path.display())));
        }
        Self::parse(&text, command).map_err(|problems| {
            let lines: Vec<_> =
                problems.iter().map(|problem| format!("{}:{problem}", path.display())).collect();
            Failure::Usage(lines.join("\n"))
        })
    }

    /// Reads what a file says. A problem begins with the number of its line.
    pub(super) fn parse(text: &str, command: &Command) -> Result<Self, Vec<String>> {
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            vec![format!("{line}: {}", error.message())]
        })?;
        let mut reader = Reader { text, command, settings: Vec::new(), problems: Vec::new() };
        reader.tables(&[], table.get_ref());
        let Reader { settings, problems, .. } = reader;
        if problems.is_empty() { Ok(Self { settings }) } else { Err(problems) }
    }

    /// What it sets of a server.
    pub(super) fn settings_of(&self, server: &'static ServedCommand) -> impl Iterator<Item = &Setting> {
        self.settings.iter().filter(move |setting| setting.server == server)
    }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

struct Reader<'a> {
    text: &'a str,
    /// The whole command line.
    command: &'a Command,
    settings: Vec<Setting>,
    problems: Vec<String>,
}

impl Reader<'_> {
    /// Reads tables whose names begin with these words.
    fn tables(&mut self, words: &[&str], table: &DeTable<'_>) {
        for (name, value) in table {
            let line = line_of(self.text, name.span().start);
            let words = [words, &[name.get_ref()]].concat();
            let is_part = SERVERS.iter().any(|server| server.words.starts_with(&words));
            match value.get_ref() {
                DeValue::Table(table) if is_part => {
                    match SERVERS.iter().find(|server| server.words == words) {
                        Some(server) => self.table(server, line, table),
                        None => self.tables(&words, table),
                    }
                }
                DeValue::Table(_) => {
                    let tables = SERVERS.map(super::server::ServedCommand::table);
                    let nearest = nearest(&words.join("."), tables.iter().map(String::as_str));
                    self.problems.push(format!("{line}: there is no table [{}]{nearest}", words.join(".")));
                }
                _ => {
                    let why = "options stand in the tables of their servers, such as [nfs.serve]";
                    self.problems
                        .push(format!("{line}: `{name}` stands in no table: {why}", name = words.join(".")));
                }
            }
        }
    }

    /// Reads the table of a server.
    fn table(&mut self, server: &'static ServedCommand, line: usize, table: &DeTable<'_>) {
        let command = server.command_in(self.command);
        let known: Vec<_> = keys::settable(command).collect();
        let (mut options, mut operands) = (Vec::new(), Vec::new());
        let problems = self.problems.len();
        for (name, value) in table {
            let line = line_of(self.text, name.span().start);
            let name = name.get_ref();
            let Some(arg) = known.iter().find(|arg| keys::key(arg) == **name) else {
                let names: Vec<_> = known.iter().map(|arg| keys::key(arg)).collect();
                let nearest = nearest(name, names.iter().map(String::as_str));
                self.problems.push(format!("{line}: [{}] has no key `{name}`{nearest}", server.table()));
                continue;
            };
            let read = value_of(value).and_then(|value| Ok((keys::words(arg, &value)?, value)));
            let read = read.and_then(|(words, value)| match keys::refused(command, arg, &words) {
                Some(why) => Err(why),
                None => Ok((words, value)),
            });
            match read {
                Ok((words, value)) => {
                    if arg.is_positional() { &mut operands } else { &mut options }.extend(words);
                    self.settings.push(Setting { server, key: name.to_string(), value, line });
                }
                Err(why) => self.problems.push(format!("{line}: `{name}`: {why}")),
            }
        }
        if problems == self.problems.len()
            && let Some(why) = keys::conflict(command, &options, &operands)
        {
            self.problems.push(format!("{line}: [{}]: {why}", server.table()));
        }
    }
}

/// The value that is written.
fn value_of(value: &Spanned<DeValue<'_>>) -> Result<Value, String> {
    match value.get_ref() {
        DeValue::Boolean(flag) => Ok(Value::Flag(*flag)),
        DeValue::Array(values) => values.iter().map(scalar).collect::<Result<_, _>>().map(Value::Many),
        _ => scalar(value).map(Value::One),
    }
}

fn scalar(value: &Spanned<DeValue<'_>>) -> Result<String, String> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.to_string()),
        DeValue::Integer(_) => Err("numbers are decimal".to_owned()),
        DeValue::Float(number) => Ok(number.to_string()),
        _ => Err("it is a text, a number, true or false, or a list of texts or numbers".to_owned()),
    }
}

/// Words that name the known name nearest to one that is not.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let likeness = |other: &&str| strsim::jaro_winkler(name, other);
    let nearest = known.max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    nearest.map(|nearest| format!("; the nearest is `{nearest}`")).unwrap_or_default()
}
