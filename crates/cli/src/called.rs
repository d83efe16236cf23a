//! The program under the names of Ceph's programs: links called `rbd`, `rados` and `ceph` accept the command lines of those.
//!
//! Ceph's programs take options before, between and after the words of a command, and any option of a cluster's configuration.

use crate::ceph::Meaning;
use crate::failure::Failure;
use clap::Command;
use onego_bench::report::progress;
use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Printed for `--version` under the name of one of Ceph's programs: scripts read the number to learn what the program can do.
pub(crate) const CEPH_VERSION: &str =
    concat!("ceph version 18.2.7 (onego ", env!("CARGO_PKG_VERSION"), ") reef (stable)\n");

/// First parts of the names of Ceph's options: other unknown options are mistakes.
///
/// Source: ceph `src/common/options/*.yaml.in`.
const SETTINGS: [&str; 26] = [
    "admin_socket",
    "auth_",
    "client_",
    "clog_",
    "compressor_",
    "crush_",
    "debug_",
    "err_",
    "fsid",
    "heartbeat_",
    "host",
    "key",
    "log_",
    "mempool_",
    "mgr_",
    "mon_",
    "monmap",
    "ms_",
    "objecter_",
    "osd_",
    "perf",
    "pid_file",
    "public_",
    "rados_",
    "rbd_",
    "run_dir",
];

/// Options of Ceph that are true or false. Without `=VALUE` they are true, unless the next word is `true` or `false`.
const SWITCHES: [&str; 24] = [
    "auth_debug",
    "err_to_stderr",
    "err_to_syslog",
    "log_flush_on_exit",
    "log_to_file",
    "log_to_stderr",
    "log_to_syslog",
    "ms_bind_ipv4",
    "ms_bind_ipv6",
    "ms_compress_secure",
    "ms_tcp_nodelay",
    "perf",
    "rbd_auto_exclusive_lock_until_manual_request",
    "rbd_blacklist_on_break_lock",
    "rbd_blocklist_on_break_lock",
    "rbd_cache",
    "rbd_cache_block_writes_upfront",
    "rbd_cache_writethrough_until_flush",
    "rbd_discard_on_zeroed_write_same",
    "rbd_enable_alloc_hint",
    "rbd_non_blocking_aio",
    "rbd_skip_partial_discard",
    "rbd_validate_names",
    "rbd_validate_pool",
];

/// Name of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Onego,
    Rbd,
    Rados,
    Ceph,
}

impl Name {
    /// Returns the command of `onego` that has the commands of Ceph's program.
    fn command(self) -> Option<&'static str> {
        match self {
            Self::Onego => None,
            Self::Rbd => Some("rbd"),
            Self::Rados => Some("rados"),
            Self::Ceph => Some("ceph"),
        }
    }
}

/// Name that the program was started by, and its command line.
pub(crate) struct Called {
    name: Name,
    arguments: Vec<OsString>,
    asks_version: bool,
}

impl Called {
    pub(crate) fn by_this_process(command: &Command) -> Self {
        Self::by(env::args_os().collect(), command)
    }

    fn by(arguments: Vec<OsString>, command: &Command) -> Self {
        let name = match arguments.first().and_then(|name| Path::new(name).file_name()?.to_str()) {
            Some("rbd") => Name::Rbd,
            Some("rados") => Name::Rados,
            Some("ceph") => Name::Ceph,
            _ => return Self { name: Name::Onego, arguments, asks_version: false },
        };
        let line = Line::of(name, command, arguments);
        if line.hides_progress {
            progress::hide();
        }
        Self { name, arguments: line.arranged, asks_version: line.asks_version }
    }

    pub(crate) fn arguments(&self) -> &[OsString] {
        &self.arguments
    }

    /// Returns whether it was called by the name of one of Ceph's programs.
    pub(crate) fn is_ceph(&self) -> bool {
        self.name != Name::Onego
    }

    /// Returns whether the command line asks for the version, as Ceph's programs print it.
    pub(crate) fn asks_version(&self) -> bool {
        self.asks_version
    }

    /// Returns help or an error in the words of the program that was called, in which `rbd` is not a command.
    pub(crate) fn said(&self, said: &str) -> String {
        match self.name.command() {
            None => said.to_owned(),
            Some(word) => said.replace(&format!("{word} {word}"), word),
        }
    }

    /// Returns the exit code for a command line that cannot be read; `code` is that of `onego`.
    pub(crate) fn unread_code(&self, code: ExitCode) -> ExitCode {
        match self.name {
            Name::Rbd if code != ExitCode::SUCCESS => ExitCode::FAILURE,
            _ => code,
        }
    }

    /// Returns the exit code for a failure.
    pub(crate) fn exit_code(&self, failure: &Failure) -> ExitCode {
        match self.name {
            Name::Rbd => failure.rbd_exit_code(),
            Name::Onego | Name::Rados | Name::Ceph => failure.exit_code(),
        }
    }
}

/// A command line of Ceph's, in the order in which this program reads it: the words of the command, options, other words.
struct Line {
    arranged: Vec<OsString>,
    asks_version: bool,
    hides_progress: bool,
}

impl Line {
    fn of(name: Name, command: &Command, arguments: Vec<OsString>) -> Self {
        let mut line = Self { arranged: Vec::new(), asks_version: false, hides_progress: false };
        let mut arguments = arguments.into_iter().peekable();
        line.arranged.extend(arguments.next());
        let Some(word) = name.command() else { return line };
        line.arranged.push(word.into());
        let Some(root) = command.find_subcommand(word) else { return line };
        // Not built, which would take longer than many a command: the options of all commands are at the top.
        let mut commands = vec![command];
        collect(root, &mut commands);
        let (mut words, mut options) = (Vec::new(), Vec::new());
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                words.extend(arguments.by_ref());
                break;
            }
            let text = argument.to_str().unwrap_or_default();
            match text {
                "-h" | "--help" => options.push(argument),
                "-v" | "--version" if words.is_empty() => line.asks_version = true,
                "-s" | "--status" if name == Name::Ceph && words.is_empty() => words.push("status".into()),
                // Ceph's program takes it with every command, and ours where there is progress to show.
                "--no-progress" if words.is_empty() => line.hides_progress = true,
                _ => match Kind::of(&commands, text) {
                    // Among the options it is reported as unknown. The words of `ceph` may have options of their own.
                    Kind::Word if is_option(text) && name != Name::Ceph => options.push(argument),
                    Kind::Word => words.push(argument),
                    Kind::Option { spelling, takes_next } => {
                        let mut option = OsString::from(spelling);
                        let value = arguments.next_if(|_| takes_next);
                        if value.as_ref().is_some_and(|value| value.as_encoded_bytes().starts_with(b"-")) {
                            // Otherwise it would be taken for another option.
                            option.push(if text.starts_with("--") { "=" } else { "" });
                            option.extend(value);
                            options.push(option);
                        } else {
                            options.push(option);
                            options.extend(value);
                        }
                    }
                    Kind::Setting { name, value } => {
                        let is_truth = |next: &OsString| next == "true" || next == "false";
                        let is_bare = value.as_deref() == Some("true") && !text.contains('=');
                        let next = arguments.next_if(|next| value.is_none() || is_bare && is_truth(next));
                        let value = next.or_else(|| value.map(OsString::from)).unwrap_or_default();
                        let mut setting = OsString::from(format!("{name}="));
                        setting.push(value);
                        options.extend(["--set".into(), setting]);
                    }
                },
            }
        }
        let (mut at, mut path) = (root, 0);
        while let Some(next) = words.get(path).and_then(|word: &OsString| at.find_subcommand(word)) {
            (at, path) = (next, path + 1);
        }
        let rest = words.split_off(path);
        // Ceph's program stores the bytes of any file.
        if name == Name::Rbd && words == ["import"] {
            options.push("--raw".into());
        }
        line.arranged.extend(words);
        line.arranged.extend(options);
        if name != Name::Ceph && rest.iter().any(|word| word.to_str().is_some_and(is_option)) {
            line.arranged.push("--".into());
        }
        line.arranged.extend(rest);
        line
    }
}

/// Returns whether a word looks like an option, which "-" and negative numbers do not.
fn is_option(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|first: char| !first.is_ascii_digit()))
}

fn collect<'a>(command: &'a Command, found: &mut Vec<&'a Command>) {
    found.push(command);
    command.get_subcommands().for_each(|below| collect(below, found));
}

/// Role of an argument on a command line of Ceph's.
#[derive(Debug, PartialEq)]
enum Kind {
    Word,
    /// An option of a command, as this program spells it. The next argument may be its value.
    Option {
        spelling: String,
        takes_next: bool,
    },
    /// An option of Ceph's configuration. `None`: its value is the next argument.
    Setting {
        name: String,
        value: Option<String>,
    },
}

impl Kind {
    fn of(commands: &[&Command], text: &str) -> Self {
        let option = |spelling: String| {
            let meanings = commands.iter().map(|command| Meaning::of(command, &spelling));
            match meanings.reduce(|found, next| if found == Meaning::Word { next } else { found }) {
                None | Some(Meaning::Word) => None,
                Some(found) => Some(Self::Option { takes_next: found == Meaning::OptionWithNext, spelling }),
            }
        };
        let Some(long) = text.strip_prefix("--") else {
            return option(text.to_owned()).unwrap_or(Self::Word);
        };
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        // Dashes and underscores are the same to Ceph.
        let spelt = |name: &str| match value {
            Some(value) => format!("--{name}={value}"),
            None => format!("--{name}"),
        };
        let name = if name == "cluster" { "cluster-name" } else { name };
        let spellings = [name.to_owned(), name.replace('_', "-"), name.replace('-', "_")];
        if let Some(known) = spellings.iter().find_map(|name| option(spelt(name))) {
            return known;
        }
        let [_, _, name] = spellings;
        let (name, default) = match name.strip_prefix("no_").filter(|name| SWITCHES.contains(name)) {
            Some(switch) => (switch.to_owned(), Some("false")),
            None => (name, None),
        };
        if !SETTINGS.iter().any(|start| name.starts_with(start)) {
            return Self::Word;
        }
        let default = default.or_else(|| SWITCHES.contains(&name.as_str()).then_some("true"));
        Self::Setting { value: value.or(default).map(str::to_owned), name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(words: &str) -> Called {
        Called::by(words.split(' ').map(OsString::from).collect(), &crate::command())
    }

    fn arranged(words: &str) -> String {
        let words: Vec<_> =
            called(words).arguments().iter().map(|word| word.to_string_lossy().into_owned()).collect();
        words.join(" ")
    }

    #[test]
    fn options_stand_anywhere_on_command_lines_of_ceph() {
        for (typed, expected) in [
            ("/usr/local/bin/rbd snap ls disk", "/usr/local/bin/rbd rbd snap ls disk"),
            ("rbd -p images ls", "rbd rbd ls -p images"),
            ("rbd -p images --id a ls -l --format json", "rbd rbd ls -p images --id a -l --format json"),
            (
                "rbd --pool p --image a --snap s snap protect",
                "rbd rbd snap protect --pool p --image a --snap s",
            ),
            ("rbd --size 1G create p/a", "rbd rbd create --size 1G p/a"),
            ("rbd snap --pool p rm --snap s a", "rbd rbd snap rm --pool p --snap s a"),
            ("rbd --no-progress rm p/a", "rbd rbd rm p/a"),
            ("rbd --cluster backup ls p", "rbd rbd ls --cluster-name backup p"),
            ("rbd --image_format=2 create a", "rbd rbd create --image-format=2 a"),
            ("rbd ls p --rbd_cache=false", "rbd rbd ls --set rbd_cache=false p"),
            ("rbd --rbd-cache ls p", "rbd rbd ls --set rbd_cache=true p"),
            ("rbd --rbd-cache false ls p", "rbd rbd ls --set rbd_cache=false p"),
            ("rbd info --image -odd", "rbd rbd info --image=-odd"),
            ("rbd --no-rbd-cache ls p", "rbd rbd ls --set rbd_cache=false p"),
            ("rbd --debug-rbd 20 ls p", "rbd rbd ls --set debug_rbd=20 p"),
            ("rbd ls p --auth_supported cephx", "rbd rbd ls --set auth_supported=cephx p"),
            ("rbd rm -- -odd", "rbd rbd rm -- -odd"),
            ("rbd import - p/a", "rbd rbd import --raw - p/a"),
            ("rbd --unknown ls p", "rbd rbd ls --unknown p"),
            ("rados -p p ls", "rados rados ls -p p"),
            ("rados put a f -p p", "rados rados put -p p a f"),
            ("ceph -s --format json", "ceph ceph --format json status"),
            ("ceph -n client.admin osd pool create a 8", "ceph ceph -n client.admin osd pool create a 8"),
            ("onego rbd -p p ls", "onego rbd -p p ls"),
        ] {
            assert_eq!(arranged(typed), expected, "{typed}");
        }
    }

    #[test]
    fn the_names_of_ceph_print_its_version() {
        for line in ["rbd --version", "rbd -v", "rados --version", "ceph -v"] {
            assert!(called(line).asks_version(), "{line}");
        }
        assert!(!called("onego --version").asks_version());
        assert_eq!(CEPH_VERSION.split(' ').nth(2), Some("18.2.7"));
    }

    #[test]
    fn help_names_the_program_that_was_called() {
        assert_eq!(called("rbd ls").said("Usage: rbd rbd ls [POOL]"), "Usage: rbd ls [POOL]");
        assert_eq!(called("rados ls").said("Usage: rados rados ls"), "Usage: rados ls");
    }
}
