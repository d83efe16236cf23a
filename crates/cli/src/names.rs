//! Names on the command line and in what commands print. They are bytes: see [`onego::text`].

use crate::spec::{ImageSpec, PoolSpec, SnapSpec};
use clap::builder::{StringValueParser, TypedValueParser};
use clap::{Arg, Command};
use onego::text;
use std::any::TypeId;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::str::FromStr;

/// Reads an argument that may be any bytes as text.
#[derive(Clone)]
struct Named<P>(P);

impl<P: TypedValueParser> TypedValueParser for Named<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        self.0.parse_ref(command, arg, OsStr::new(&*text::from_bytes(value.as_bytes())))
    }
}

fn parsed<T>(arg: Arg) -> Arg
where
    T: FromStr<Err: Display> + Clone + Send + Sync + 'static,
{
    arg.value_parser(Named(|text: &str| text.parse::<T>().map_err(|error| error.to_string())))
}

/// Lets all arguments of commands to clusters that are texts be any bytes. Paths of files are bytes already.
pub(crate) fn arrange(command: Command) -> Command {
    let any_bytes = |arg: Arg| {
        let kind = arg.get_value_parser().type_id();
        if kind == TypeId::of::<String>() && arg.get_possible_values().is_empty() {
            arg.value_parser(Named(StringValueParser::new()))
        } else if kind == TypeId::of::<ImageSpec>() {
            parsed::<ImageSpec>(arg)
        } else if kind == TypeId::of::<SnapSpec>() {
            parsed::<SnapSpec>(arg)
        } else if kind == TypeId::of::<PoolSpec>() {
            parsed::<PoolSpec>(arg)
        } else {
            arg
        }
    };
    let below = |command: Command| if command.get_name() == "nfs" { command } else { arrange(command) };
    command.mut_args(any_bytes).mut_subcommands(below)
}

/// The file that a text names.
pub(crate) fn path(text: &str) -> PathBuf {
    OsString::from_vec(text::to_bytes(text).into_owned()).into()
}

/// Returns a name, or lines with names in them, as they are shown: escaped on a terminal, and elsewhere byte by byte.
pub(crate) fn shown(lines: &str, on_terminal: bool) -> Cow<'_, [u8]> {
    match (on_terminal, text::escaped_lines(lines)) {
        (false, _) => text::to_bytes(lines),
        (true, Cow::Borrowed(lines)) => Cow::Borrowed(lines.as_bytes()),
        (true, Cow::Owned(lines)) => Cow::Owned(lines.into_bytes()),
    }
}

/// Returns what a cluster said, as it is shown on a terminal: without characters that would change its state.
pub(crate) fn shown_text(said: &[u8]) -> String {
    let mut shown = String::with_capacity(said.len());
    for chunk in said.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c.is_control() && !matches!(c, '\n' | '\t') {
                true => shown.extend(c.escape_default()),
                false => shown.push(c),
            }
        }
        shown.extend(
            chunk.invalid().iter().flat_map(|byte| format!("\\x{byte:02x}").into_bytes()).map(char::from),
        );
    }
    shown
}

/// Writes a line as it is shown.
pub(crate) fn write_line(out: &mut impl Write, line: &str, on_terminal: bool) -> io::Result<()> {
    out.write_all(&shown(line, on_terminal))?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_escaped_on_a_terminal_and_as_they_are_elsewhere() {
        let name = text::from_bytes(b"bad\xff\x1b[2J\\");
        assert_eq!(&*shown(&name, true), br"bad\xff\x1b[2J\".as_slice());
        assert_eq!(&*shown(&name, false), b"bad\xff\x1b[2J\\");
    }

    #[test]
    fn what_a_cluster_says_does_not_change_a_terminal() {
        assert_eq!(shown_text(b"POOL\tID\n\x1b[2J\xff\xc2\x9b"), "POOL\tID\n\\u{1b}[2J\\xff\\u{9b}");
    }

    #[test]
    fn arguments_may_be_any_bytes() {
        let read = |words: &[&[u8]]| {
            let words = words.iter().map(|word| OsString::from_vec(word.to_vec()));
            crate::command().try_get_matches_from(words)
        };
        let found = read(&[b"onego", b"rados", b"-p", b"p\xfe", b"get", b"\xff", b"-"]).unwrap();
        let (_, rados) = found.subcommand().unwrap();
        assert_eq!(text::to_bytes(rados.get_one::<String>("pool").unwrap()), &b"p\xfe"[..]);
        let (_, get) = rados.subcommand().unwrap();
        assert_eq!(text::to_bytes(get.get_one::<String>("object").unwrap()), &b"\xff"[..]);
        assert!(read(&[b"onego", b"rbd", b"info", b"p/bad\xff"]).is_ok());
        assert!(read(&[b"onego", b"rbd", b"export", b"p/bad\xff", b"-"]).is_ok());
        let error = read(&[b"onego", b"rbd", b"export", b"p/", b"-"]).unwrap_err().to_string();
        assert!(error.contains("names no image"), "{error}");
    }
}
