//! Command lines of which most words are the cluster's: which of them are options of this program?
//!
//! A parser that knows the options alone would refuse the cluster's own (`--pg-num 8`), and one that takes every word for the
//! cluster's would leave ours to it. So ours are put before the words, wherever they stand.

use clap::{Arg, Command};
use std::ffi::OsString;

/// Puts options of this program before the words of a command to the monitors; `names` are the commands that have such
/// words. Other command lines stay as they are.
pub(crate) fn arrange(command: &Command, names: &[&str], args: Vec<OsString>) -> Vec<OsString> {
    let Some(at) = subcommand_at(command, &args) else { return args };
    let name = args[at].to_string_lossy().into_owned();
    if !names.contains(&name.as_str()) {
        return args;
    }
    // Only now: to build all commands takes longer than most of them do.
    let mut built = command.clone();
    built.build();
    let Some(subcommand) = built.find_subcommand(&name) else { return args };
    let (mut options, mut words) = (Vec::new(), Vec::new());
    let mut rest = args[at + 1..].iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            words.extend(rest.by_ref().cloned());
            break;
        }
        match Meaning::of(subcommand, &word.to_string_lossy()) {
            Meaning::Word => words.push(word.clone()),
            Meaning::Option => options.push(word.clone()),
            Meaning::OptionWithNext => {
                options.push(word.clone());
                options.extend(rest.next().cloned());
            }
        }
    }
    let before = args[..=at].iter().cloned();
    before.chain(options).chain([OsString::from("--")]).chain(words).collect()
}

/// Where the name of the subcommand stands.
fn subcommand_at(command: &Command, args: &[OsString]) -> Option<usize> {
    let mut at = 1;
    loop {
        match Meaning::of(command, &args.get(at)?.to_string_lossy()) {
            Meaning::Word => return Some(at),
            Meaning::Option => at += 1,
            Meaning::OptionWithNext => at += 2,
        }
    }
}

/// What a word is to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Word,
    Option,
    /// An option whose value is the next word.
    OptionWithNext,
}

impl Meaning {
    pub(crate) fn of(command: &Command, word: &str) -> Self {
        let takes_value = |arg: &Arg| arg.get_action().takes_values();
        if let Some(long) = word.strip_prefix("--") {
            let (name, has_value) = long.split_once('=').map_or((long, false), |(name, _)| (name, true));
            let is_it = |arg: &&Arg| {
                let aliases = arg.get_all_aliases().unwrap_or_default();
                arg.get_long().is_some_and(|long| long == name) || aliases.contains(&name)
            };
            return match command.get_arguments().find(is_it) {
                None => Self::Word,
                Some(arg) if takes_value(arg) && !has_value => Self::OptionWithNext,
                Some(_) => Self::Option,
            };
        }
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return Self::Word;
        };
        let mut left = letters.chars();
        while let Some(letter) = left.next() {
            match command.get_arguments().find(|arg| arg.get_short() == Some(letter)) {
                None => return Self::Word,
                Some(arg) if takes_value(arg) && left.as_str().is_empty() => return Self::OptionWithNext,
                Some(arg) if takes_value(arg) => return Self::Option,
                Some(_) => {}
            }
        }
        Self::Option
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ArgAction;

    fn arranged(line: &str) -> String {
        let value = |name: &'static str| Arg::new(name).long(name).global(true);
        let verbose = Arg::new("verbose").short('v').global(true).action(ArgAction::Count);
        let ceph = Command::new("ceph").arg(value("format").short('f')).arg(Arg::new("words").num_args(0..));
        let command = Command::new("onego")
            .args([value("conf").short('c'), verbose])
            .subcommands([ceph, Command::new("ls").arg(Arg::new("pool"))]);
        let args = line.split(' ').map(OsString::from).collect();
        let words = arrange(&command, &["ceph"], args);
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn options_of_this_program_come_before_the_words() {
        for (typed, expected) in [
            ("onego ceph osd tree --format json -c a", "onego ceph --format json -c a -- osd tree"),
            ("onego -c ceph ceph osd tree", "onego -c ceph ceph -- osd tree"),
            (
                "onego ceph osd pool create a --pg-num 8 -fjson",
                "onego ceph -fjson -- osd pool create a --pg-num 8",
            ),
            ("onego ceph a --conf=b -vv -1 -- --format x", "onego ceph --conf=b -vv -- a -1 --format x"),
            ("onego ceph --help", "onego ceph --help --"),
            ("onego ls --conf x pool", "onego ls --conf x pool"),
            ("onego", "onego"),
        ] {
            assert_eq!(arranged(typed), expected, "{typed}");
        }
    }
}
