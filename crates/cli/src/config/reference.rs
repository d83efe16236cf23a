//! The reference of commands and of the configuration, in Markdown, made from the definitions of the command line.

use super::{server, show};
use crate::failure::Failure;
use clap::{Arg, Command};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The heading of options that most commands have. They are listed once.
const SHARED: &str = "Cluster and connections";

const ABOUT_COMMANDS: &str = "\
# Commands

What `onego COMMAND --help` says, on one page (`cargo xtask reference` makes it). Commands that talk to a cluster or a server also
have those of the [options they share](#cluster-and-connections) that `--help` shows.
";

const ABOUT_CONFIGURATION: &str = "\
# Configuration of servers

`--config FILE` of `cluster start`, `nfs serve`, `export nbd` and `export vhost-user` reads options from a file; the units for
systemd name `/etc/onego/onego.toml`, and the package for Debian installs one that sets nothing. There is a table for each
server, and in it a key for each option that `--help` shows, operands included (`cargo xtask reference` makes this page from them).

- The command line comes before the file. Where it has an option, or one that excludes that, the file's is left out;
  `--read-only=false` unsets a flag that the file sets.
- Lists (`allow`, `sources`) are arrays. A value is what the command line takes; numbers need no quotes.
- An unknown key or table, and a value that an option does not take, is an error, with the line and the nearest name that is known.
  `onego config check FILE` finds them, and `onego config show FILE` prints what is in force.

`onego config template` prints this file:
";

/// Writes the pages to a folder.
pub(crate) fn write_reference(folder: &Path, whole: Command) -> Result<(), Failure> {
    for (name, text) in pages(whole) {
        let path = folder.join(name);
        fs::write(&path, text).map_err(Failure::file(&path))?;
    }
    Ok(())
}

/// Names of pages, and what stands on them.
fn pages(whole: Command) -> [(&'static str, String); 2] {
    let whole = server::built(whole);
    let mut commands = ABOUT_COMMANDS.to_owned();
    add(&mut commands, &whole, "onego");
    let mut shared = whole.find_subcommand("rbd").into_iter().flat_map(Command::get_arguments).peekable();
    if shared.peek().is_some() {
        write!(commands, "\n## {SHARED}\n\n").unwrap_or_default();
        table(&mut commands, shared.filter(|arg| arg.get_help_heading() == Some(SHARED)));
    }
    let template = show::template(&whole).join("\n");
    let configuration = format!("{ABOUT_CONFIGURATION}\n```toml\n{template}\n```\n");
    [("commands.md", commands), ("configuration.md", configuration)]
}

/// Adds a command and those below it.
fn add(page: &mut String, command: &Command, path: &str) {
    let mut below: Vec<_> = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help")
        .collect();
    below.sort_by_key(|below| below.get_name());
    if below.is_empty() {
        page.push_str(&section(command, path));
    }
    for below in below {
        add(page, below, &format!("{path} {}", below.get_name()));
    }
}

/// What is said of a command that does something.
fn section(command: &Command, path: &str) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let mut section = format!("\n## {path}\n\n{about}.\n\n```text\n{usage}\n```\n");
    let own = || {
        let args = command.get_arguments().filter(|arg| arg.get_help_heading() != Some(SHARED));
        args.filter(|arg| arg.get_id() != "help" && arg.get_id() != "verbose")
    };
    if own().any(|arg| !arg.is_hide_set()) {
        section.push('\n');
        table(&mut section, own());
    }
    let help = command.get_after_long_help().or(command.get_after_help());
    if let Some(help) = help {
        section += &format!("\n```text\n{help}\n```\n");
    }
    section
}

/// Adds a table of options, hidden ones left out.
fn table<'a>(page: &mut String, args: impl Iterator<Item = &'a Arg>) {
    page.push_str("| option | what it does |\n|---|---|\n");
    for arg in args.filter(|arg| !arg.is_hide_set()) {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let mut cell = escaped(&help);
        let possible: Vec<_> =
            arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        if arg.get_action().takes_values() && !possible.is_empty() {
            cell += &format!(" ({})", possible.join(", "));
        }
        let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        if arg.get_action().takes_values() && !defaults.is_empty() {
            cell += &format!(" [default: {}]", escaped(&defaults.join(" ")));
        }
        page.push_str(&format!("| `{}` | {cell} |\n", escaped(&arg.to_string())));
    }
}

/// A text as a cell of a table has it.
fn escaped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_the_tree_are_as_the_definitions_are() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        for (name, text) in pages(crate::command()) {
            let there = fs::read_to_string(folder.join(name)).unwrap_or_default();
            assert!(there == text, "docs/reference/{name} is not current: run `cargo xtask reference`");
        }
    }
}
