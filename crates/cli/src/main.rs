//! The `onego` program: images of a Ceph cluster, an embedded cluster, and what both cost.
#![forbid(unsafe_code)]

mod access;
mod background;
mod bench;
mod called;
mod ceph;
mod cluster;
mod config;
mod cp;
mod demo;
mod device;
mod export;
mod failure;
mod identity;
mod interrupt;
mod listen;
mod map;
mod metrics;
mod names;
mod nbd_driver;
mod nfs;
mod nfs_files;
mod output;
mod partial;
mod partial_import;
mod pool;
mod process;
mod rados;
mod rbd;
mod signal;
mod size;
mod spec;
mod top;

use access::Access;
use called::Called;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use failure::{Code, Failure};
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Storage data at one go: Ceph block devices from userspace, and an embedded cluster to try them on
#[derive(Parser)]
#[command(name = "onego", version, max_term_width = 100, after_long_help = failure::EXIT_CODES)]
struct Cli {
    /// Say what is going on; twice: in detail [env: RUST_LOG says it module by module]
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    access: Access,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// See it all in less than a minute
    #[command(after_help = demo::EXAMPLE)]
    Demo(demo::Options),
    /// The embedded cluster
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Pools of a cluster
    #[command(subcommand)]
    Pool(pool::PoolCommand),
    /// Objects in pools, by the commands of Ceph's "rados"
    Rados(rados::Options),
    /// What the cluster is like
    #[command(after_help = "Examples:\n  onego status\n  onego status --watch")]
    Status(ceph::StatusOptions),
    /// Whether the cluster is well, and why not
    #[command(after_help = "Examples:\n  onego health\n  onego health detail")]
    Health(ceph::CephCommand),
    /// How full the cluster and its pools are
    #[command(after_help = "Examples:\n  onego df\n  onego df detail --format json")]
    Df(ceph::CephCommand),
    /// Commands about OSDs: tree, df, ls, dump, and all others of Ceph
    #[command(after_help = "Examples:\n  onego osd tree\n  onego osd pool create images 32")]
    Osd(ceph::CephCommand),
    /// Commands about placement groups: stat, dump, and all others of Ceph
    #[command(after_help = "Examples:\n  onego pg stat\n  onego pg dump pgs_brief")]
    Pg(ceph::CephCommand),
    /// Commands about monitors: stat, dump, and all others of Ceph
    #[command(after_help = "Example:\n  onego mon stat")]
    Mon(ceph::CephCommand),
    /// Which monitors agree
    #[command(name = "quorum_status", after_help = "Example:\n  onego quorum_status --format json-pretty")]
    QuorumStatus(ceph::CephCommand),
    /// Which versions of Ceph the daemons have
    #[command(after_help = "Example:\n  onego versions")]
    Versions(ceph::CephCommand),
    /// Give the monitors any command of Ceph
    #[command(after_help = ceph::EXAMPLES)]
    Ceph(ceph::CephCommand),
    /// Images: block devices that a cluster keeps
    #[command(subcommand)]
    Rbd(rbd::Command),
    /// Copy one device to another: files, images, exports of NBD, files over NFS
    #[command(after_help = cp::examples())]
    Cp(cp::Options),
    /// Options of servers in a file
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Devices for hosts and virtual machines
    #[command(subcommand)]
    Export(export::ExportCommand),
    /// Make a block device of the kernel out of an image, and print its name
    #[command(after_help = map::MAP_EXAMPLES)]
    Map(map::MapOptions),
    /// Remove a block device that was made so
    #[command(after_help = map::UNMAP_EXAMPLES)]
    Unmap(map::UnmapOptions),
    /// List the block devices that were made so
    #[command(name = "showmapped", after_help = map::SHOW_EXAMPLES)]
    ShowMapped(map::ShowOptions),
    /// Files over NFS version 3
    #[command(subcommand, after_help = nfs::URLS)]
    Nfs(nfs::Command),
    /// Measure throughput, latency and CPU
    #[command(subcommand)]
    Bench(bench::Command),
    /// Show what running commands do, by their metrics
    #[command(after_help = top::EXAMPLES)]
    Top(top::Options),
    /// Find from which sizes on sends without a copy pay on this machine, and remember it
    #[command(after_help = bench::zc::CALIBRATE_EXAMPLES)]
    Calibrate(bench::zc::CalibrateOptions),
    /// Print a script that completes command lines
    #[command(after_help = "Example:\n  onego completions bash > /etc/bash_completion.d/onego")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the pages of the manual
    #[command(hide = true)]
    Man {
        /// The folder for them
        folder: PathBuf,
    },
    /// Write the pages of the reference
    #[command(hide = true)]
    Reference {
        /// The folder for them
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    let mut command = command();
    let called = Called::by_this_process(&command);
    if called.asks_version() {
        // A reader that stops reading has what it wanted.
        let _ = write!(io::stdout(), "{}", called::CEPH_VERSION);
        return ExitCode::SUCCESS;
    }
    let args = ceph::arrange(&command, &ceph::WITH_WORDS, called.arguments().to_vec());
    let args = match config::with_file(args, self::command) {
        Ok(args) => args,
        Err(failure) => {
            report(&failure);
            return called.exit_code(&failure);
        }
    };
    let cli = match command
        .try_get_matches_from_mut(args.clone())
        .and_then(|found| Cli::from_arg_matches(&found))
    {
        Ok(cli) => cli,
        Err(error) => return called.unread_code(unread(&called, &with_tip(error, &args), command, &args)),
    };
    log(cli.verbose);
    match interrupt::watch().and_then(|()| run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure);
            called.exit_code(&failure)
        }
    }
}

/// All commands and their options.
fn command() -> clap::Command {
    names::arrange(config::arrange(access::pages::arrange(Cli::command())))
}

/// Returns the error of an option that servers do not have with the one that people look for: names that resemble it are others.
fn with_tip(mut error: clap::Error, args: &[OsString]) -> clap::Error {
    let is_port =
        matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(arg)) if arg == "--port");
    let is_server = ["serve", "export", "start", "run"].iter().any(|word| args.iter().any(|arg| arg == word));
    if is_port && is_server {
        error.insert(ContextKind::SuggestedArg, ContextValue::String("--listen".to_owned()));
    }
    error
}

/// A command line that cannot be read, or that asks for help. Commands that Ceph's programs have end with their codes.
fn unread(called: &Called, error: &clap::Error, command: clap::Command, args: &[OsString]) -> ExitCode {
    // Standard error may be closed: then the words are lost.
    let _ = match error.use_stderr() {
        _ if !called.is_ceph() => error.print(),
        true => write!(io::stderr(), "{}", called.said(&error.to_string())),
        false => write!(io::stdout(), "{}", called.said(&error.to_string())),
    };
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    let read = command.ignore_errors(true).try_get_matches_from(args);
    let name = read.as_ref().ok().and_then(|read| read.subcommand_name());
    match name {
        Some("rados") => Code::Failed.into(),
        Some(name) if name == "status" || ceph::WITH_WORDS.contains(&name) => ceph::INVALID.into(),
        _ => Code::Usage.into(),
    }
}

/// Says on standard error what went wrong.
fn report(failure: &Failure) {
    match failure {
        failure if failure.is_quiet() => {}
        Failure::AsCeph { said, .. } if said.is_empty() => {}
        Failure::AsCeph { said, .. } => interrupt::say_as_it_is(said),
        failure => interrupt::say(&failure.sentence()),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Demo(options) => demo::run(&cli.access, &options),
        Command::Cluster(command) => cluster::run(&cli.access, command),
        Command::Pool(command) => pool::run(&cli.access, command),
        Command::Rados(options) => rados::run(&cli.access, &options),
        Command::Status(options) => ceph::status(&cli.access, &options),
        Command::Health(command) => ceph::run(&cli.access, &["health"], &command),
        Command::Df(command) => ceph::run(&cli.access, &["df"], &command),
        Command::Osd(command) => ceph::run(&cli.access, &["osd"], &command),
        Command::Pg(command) => ceph::run(&cli.access, &["pg"], &command),
        Command::Mon(command) => ceph::run(&cli.access, &["mon"], &command),
        Command::QuorumStatus(command) => ceph::run(&cli.access, &["quorum_status"], &command),
        Command::Versions(command) => ceph::run(&cli.access, &["versions"], &command),
        Command::Ceph(command) => ceph::run(&cli.access, &[], &command),
        Command::Rbd(command) => rbd::run(&cli.access, command),
        Command::Cp(options) => cp::run(&cli.access, &options),
        Command::Config(command) => config::run(command, self::command()),
        Command::Export(command) => export::run(&cli.access, command),
        Command::Map(options) => map::map(&cli.access, options),
        Command::Unmap(options) => map::unmap(&cli.access, options),
        Command::ShowMapped(options) => map::show(&options),
        Command::Nfs(command) => nfs::run(&cli.access, command),
        Command::Bench(command) => bench::run(&cli.access, command),
        Command::Top(options) => top::run(&options),
        Command::Calibrate(options) => bench::zc::calibrate(&options),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "onego", &mut script);
            output::bytes(&script)
        }
        Command::Man { folder } => {
            clap_mangen::generate_to(command(), &folder).map_err(Failure::file(&folder))
        }
        Command::Reference { folder } => config::write_reference(&folder, command()),
    }
}

/// Events go to standard error, so that they never mix with what a command gives.
fn log(verbose: u8) {
    const LEVELS: [LevelFilter; 3] = [LevelFilter::WARN, LevelFilter::INFO, LevelFilter::DEBUG];
    let level = *LEVELS.get(usize::from(verbose)).unwrap_or(&LevelFilter::TRACE);
    let by_module = std::env::var("RUST_LOG").ok().and_then(|text| text.parse().ok());
    let filter = by_module.unwrap_or_else(|| Targets::new().with_default(level));
    // Colours are for people, and not for those who have said so (no-color.org).
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(colours)
        .log_internal_errors(false);
    tracing_subscriber::registry().with(lines).with(filter).init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_example_is_a_command_line() {
        fn examples(command: &clap::Command, found: &mut Vec<String>) {
            let help = [command.get_after_help(), command.get_after_long_help()];
            let help = help.into_iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            // A line that ends in a backslash goes on in the next.
            let help = help.replace("\\\n", " ");
            found.extend(
                help.lines().filter(|line| line.starts_with("  onego ")).map(|line| line.trim().to_owned()),
            );
            command.get_subcommands().for_each(|below| examples(below, found));
        }
        let mut found = Vec::new();
        examples(&command(), &mut found);
        assert!(found.len() > 100, "only {} examples were found", found.len());
        let mut wrong = Vec::new();
        for line in found {
            let words = line.replace(['"', '\''], "");
            let words = words.split_whitespace().take_while(|word| !["<", ">", "|"].contains(word));
            let words: Vec<_> = words.map(OsString::from).collect();
            let words = ceph::arrange(&command(), &ceph::WITH_WORDS, words);
            wrong.extend(command().try_get_matches_from(words).err().map(|error| format!("{line}: {error}")));
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn every_command_that_does_something_has_an_example() {
        fn without(command: &clap::Command, path: &str, found: &mut Vec<String>) {
            let path = format!("{path} {}", command.get_name());
            let help = [command.get_after_help(), command.get_after_long_help()];
            let has = help.iter().flatten().any(|help| help.to_string().contains("Example"));
            if !command.has_subcommands() && !command.is_hide_set() && !has {
                found.push(path.clone());
            }
            command.get_subcommands().for_each(|sub| without(sub, &path, found));
        }
        let mut found = Vec::new();
        without(&command(), "", &mut found);
        assert!(found.is_empty(), "{found:?}");
    }
}
