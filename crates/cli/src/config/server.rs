//! The servers whose options a file has.

use clap::{Arg, Command, value_parser};
use std::path::PathBuf;

/// The option that names the file itself.
pub(super) const CONFIG: &str = "config";

/// A command that runs a server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServedCommand {
    /// What it is called, word by word.
    pub(super) words: &'static [&'static str],
}

pub(super) static SERVERS: [&ServedCommand; 4] = [
    &ServedCommand { words: &["cluster", "start"] },
    &ServedCommand { words: &["nfs", "serve"] },
    &ServedCommand { words: &["export", "nbd"] },
    &ServedCommand { words: &["export", "vhost-user"] },
];

impl ServedCommand {
    /// What its table is called.
    pub(super) fn table(&self) -> String {
        self.words.join(".")
    }

    /// Its command, below the whole one.
    ///
    /// # Panics
    /// If there is no such command, which a test rules out.
    pub(super) fn command_in<'a>(&self, whole: &'a Command) -> &'a Command {
        let below = |command: &'a Command, word: &&str| command.find_subcommand(word);
        let found = self.words.iter().try_fold(whole, below);
        found.expect("every server is a command")
    }
}

/// All commands, with the options that come from above.
pub(super) fn built(mut command: Command) -> Command {
    command.build();
    command
}

/// Gives the servers an option that names the file.
pub(crate) fn arrange(command: Command) -> Command {
    SERVERS.iter().fold(command, |command, server| with_option(command, server.words))
}

fn with_option(command: Command, words: &[&'static str]) -> Command {
    match words {
        [] => {
            let help = "A file with options, which those of the command line come before (\"onego config template\" shows one)";
            let option = Arg::new(CONFIG).long(CONFIG).value_name("FILE").help(help);
            command.arg(option.value_parser(value_parser!(PathBuf)))
        }
        [first, rest @ ..] => command.mut_subcommand(*first, |below| with_option(below, rest)),
    }
}
