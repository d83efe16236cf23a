//! Which options of [`Access`] stand on which help page.
//!
//! All commands take them, before and after their names, so that a line can be changed from one command to another. But
//! a page shows only those that its command has a use for.

use crate::access::Access;
use clap::{Arg, Args as _, Command};

/// Options that say how bytes are moved.
const MOVEMENT: [&str; 3] = ["engine", "zero_copy", "spin"];

/// Options that are about servers of files, too.
const PATIENCE: [&str; 2] = ["connect_timeout", "request_timeout"];

/// Options that a cluster which is started has, too.
const SERVED: [&str; 5] = [
    "messenger",
    "ms_osd_compress_mode",
    "ms_osd_compress_min_size",
    "ms_osd_compression_algorithm",
    "ms_compress_secure",
];

/// What a command has a use for.
#[derive(Clone, Copy)]
enum Use {
    /// All: it talks to a cluster of Ceph.
    Cluster,
    /// It is a cluster of Ceph.
    Serving,
    /// It talks to a server of files.
    Files,
    /// It moves bytes.
    Moving,
}

/// Commands by their words. Those below one are as it is, unless they stand here.
const PAGES: [(&[&str], Use); 28] = [
    (&["demo"], Use::Moving),
    (&["cluster", "start"], Use::Serving),
    (&["cluster", "run"], Use::Serving),
    (&["cluster", "osd"], Use::Cluster),
    (&["pool"], Use::Cluster),
    (&["rados"], Use::Cluster),
    (&["status"], Use::Cluster),
    (&["health"], Use::Cluster),
    (&["df"], Use::Cluster),
    (&["osd"], Use::Cluster),
    (&["pg"], Use::Cluster),
    (&["mon"], Use::Cluster),
    (&["quorum_status"], Use::Cluster),
    (&["versions"], Use::Cluster),
    (&["ceph"], Use::Cluster),
    (&["rbd"], Use::Cluster),
    (&["cp"], Use::Cluster),
    (&["export"], Use::Cluster),
    (&["map"], Use::Cluster),
    (&["nfs"], Use::Files),
    (&["nfs", "serve"], Use::Moving),
    (&["bench", "rbd"], Use::Cluster),
    (&["bench", "nfs"], Use::Files),
    (&["bench", "block"], Use::Moving),
    (&["bench", "msgr"], Use::Moving),
    (&["bench", "msgr-server"], Use::Moving),
    (&["bench", "zc"], Use::Moving),
    (&["calibrate"], Use::Moving),
];

impl Use {
    fn has(self, option: &str) -> bool {
        match self {
            Self::Cluster => true,
            Self::Serving => SERVED.contains(&option) || MOVEMENT.contains(&option),
            Self::Files => PATIENCE.contains(&option) || MOVEMENT.contains(&option),
            Self::Moving => MOVEMENT.contains(&option),
        }
    }
}

/// Hides the options of [`Access`] where nothing uses them.
pub(crate) fn arrange(command: Command) -> Command {
    let access = Access::augment_args(Command::new("access"));
    let options: Vec<Arg> = access.get_arguments().cloned().collect();
    let hidden =
        |command: Command, option: &Arg| command.mut_arg(option.get_id().clone(), |option| option.hide(true));
    let command = options.iter().fold(command, hidden);
    // Options of a command that stands below another one here are put there first, so that they are not those of that one.
    PAGES.iter().fold(command, |command, (words, purpose)| with_options(command, words, *purpose, &options))
}

/// Gives a command options of its own in place of those that come from above.
fn with_options(command: Command, words: &[&'static str], purpose: Use, options: &[Arg]) -> Command {
    match words {
        [] => command.args(options.iter().map(|option| {
            let is_hidden = option.is_hide_set() || !purpose.has(option.get_id().as_str());
            option.clone().hide(is_hidden)
        })),
        [first, rest @ ..] => {
            command.mut_subcommand(*first, |below| with_options(below, rest, purpose, options))
        }
    }
}

#[cfg(test)]
mod tests {
    /// The help page of a command.
    fn page(words: &[&str]) -> String {
        let mut command = crate::command();
        command.build();
        let found =
            words.iter().fold(&mut command, |command, word| command.find_subcommand_mut(word).unwrap());
        found.render_long_help().to_string()
    }

    #[test]
    fn pages_show_the_options_that_their_commands_use() {
        for (words, shown, hidden) in [
            (&["completions"][..], &[][..], &["--conf", "--engine", "--id"][..]),
            (&["rbd", "ls"], &["--conf", "--id", "--engine"], &["--as-osd"]),
            (&["rados", "get"], &["--conf", "--pool"], &[]),
            (&["osd"], &["--conf", "--format"], &[]),
            (&["nfs", "ls"], &["--connect-timeout", "--engine"], &["--conf", "--id"]),
            (&["nfs", "serve"], &["--engine"], &["--conf", "--connect-timeout"]),
            (&["cluster", "start"], &["--messenger", "--engine"], &["--conf", "--id"]),
            (&["bench", "rbd"], &["--conf"], &[]),
            (&["showmapped"], &[], &["--conf", "--engine"]),
            (&[], &[], &["--conf", "--engine"]),
        ] {
            let page = page(words);
            let has = |option: &&&str| {
                page.contains(&format!("{option} <")) || page.contains(&format!("{option}\n"))
            };
            assert_eq!(shown.iter().find(|option| !has(option)), None, "{words:?} lacks it:\n{page}");
            assert_eq!(hidden.iter().find(has), None, "{words:?} shows it:\n{page}");
        }
    }

    #[test]
    fn options_are_taken_before_and_after_the_names_of_commands() {
        for line in [
            "onego --conf a rbd ls",
            "onego rbd --conf a ls",
            "onego rbd ls --conf a",
            "onego nfs --conf a ls nfs://h/e",
            "onego bench rbd -c a",
        ] {
            let matches = crate::command().try_get_matches_from(line.split(' ')).unwrap();
            let conf = matches.get_one::<std::path::PathBuf>("conf");
            assert_eq!(conf.unwrap().to_str(), Some("a"), "{line}");
        }
    }
}
