//! `onego ceph`, and the commands to monitors that operators give most: the cluster's own text, printed as Ceph's `ceph` does.

pub(crate) mod errno;
mod line;
mod signature;
mod value;
mod words;

pub(crate) use line::{Meaning, arrange};

use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt;
use crate::names;
use crate::output;
use onego::List;
use onego::ceph::{Errno, Error};
use onego::rados::{Cluster, CommandReply};
use serde_json::json;
use std::fs;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  onego ceph osd pool create images 32
  onego ceph osd tree --format json-pretty
  onego ceph config-key set greeting -i file

The words are those of Ceph's \"ceph\": the monitor says which commands there are. The code is the cluster's error number.";

/// The code by which Ceph's `ceph` ends for words that make no sense: EINVAL.
pub(crate) const INVALID: u8 = 22;

/// The commands that have words of the cluster.
pub(crate) const WITH_WORDS: [&str; 8] =
    ["health", "df", "osd", "pg", "mon", "quorum_status", "versions", "ceph"];

/// The words of a command, and what becomes of its input and output.
#[derive(clap::Args)]
pub(crate) struct CephCommand {
    /// The words of the command
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    #[command(flatten)]
    options: CommandOptions,
}

#[derive(clap::Args)]
struct CommandOptions {
    /// How the cluster prints its answer
    #[arg(short, long, value_name = "FORMAT", value_parser = ["json", "json-pretty", "xml", "xml-pretty", "plain", "yaml"])]
    format: Option<String>,
    /// The command's input; "-" is standard input
    #[arg(short, long, value_name = "FILE")]
    in_file: Option<PathBuf>,
    /// Where the output goes; "-" is standard output
    #[arg(short, long, value_name = "FILE")]
    out_file: Option<PathBuf>,
}

/// `onego status`.
#[derive(clap::Args)]
pub(crate) struct StatusOptions {
    /// Show it every two seconds until a signal ends it
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    options: CommandOptions,
}

/// How often a status is shown.
const PERIOD: Duration = Duration::from_secs(2);

/// The most bytes of a command's input: what fits a message to a monitor with ease.
const MAX_INPUT: u64 = 64 << 20;

/// The name of standard input and output.
const STANDARD: &str = "-";

/// Gives a command of which the first words are fixed.
pub(crate) fn run(access: &Access, first: &[&str], command: &CephCommand) -> Result<(), Failure> {
    let words: Vec<_> =
        first.iter().copied().map(str::to_owned).chain(command.words.iter().cloned()).collect();
    if words.is_empty() {
        return Err(Failure::AsCeph { code: INVALID, said: "onego ceph: which command?".to_owned() });
    }
    let input = input(command.options.in_file.as_deref())?;
    let given = access.with_cluster(async |cluster| give(cluster, &words, &command.options, input).await);
    given.map_err(unreached)
}

pub(crate) fn status(access: &Access, options: &StatusOptions) -> Result<(), Failure> {
    let words = ["status".to_owned()];
    let (mut reactor, cluster) = access.connect().map_err(unreached)?;
    loop {
        let shown = reactor.block_on(give(&cluster, &words, &options.options, List::new()))?;
        shown.map_err(unreached)?;
        if !options.watch {
            return Ok(());
        }
        // A signal ends the program here. The session with the monitor needs no turn within two seconds.
        thread::sleep(PERIOD);
        let clear = if io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "\n" };
        output::bytes(clear.as_bytes())?;
    }
}

/// A cluster that is not reached is no answer of a command: Ceph's `ceph` ends with 1 then.
fn unreached(failure: Failure) -> Failure {
    match failure {
        failure @ (Failure::AsCeph { .. } | Failure::Interrupted | Failure::Output(_)) => failure,
        other => errno::failed(other.sentence()),
    }
}

fn input(path: Option<&Path>) -> Result<List, Failure> {
    let Some(path) = path else { return Ok(List::new()) };
    let mut input = Vec::new();
    let read = if path == Path::new(STANDARD) {
        io::stdin().lock().take(MAX_INPUT).read_to_end(&mut input)
    } else {
        fs::File::open(path).and_then(|file| file.take(MAX_INPUT).read_to_end(&mut input))
    };
    read.map_err(|error| {
        // As Python says it.
        let number = error.raw_os_error().unwrap_or_default();
        let sentence = errno::sentence(number);
        let reason = sentence.split_once(' ').map_or(sentence.as_str(), |(_, reason)| reason);
        let path = path.display();
        errno::failed(format!("Can't open input file {path}: [Errno {number}] {reason}: '{path}'"))
    })?;
    Ok(input.into())
}

async fn give(
    cluster: &Cluster,
    words: &[String],
    options: &CommandOptions,
    input: List,
) -> Result<(), Failure> {
    if words.first().is_some_and(|word| word == "tell") {
        return tell(words);
    }
    let question = json!({"prefix": "get_command_descriptions"}).to_string();
    let described = cluster.command(&question, List::new()).await?;
    let signatures = signature::parse(&described.output).map_err(|error| {
        Failure::from(Error::Answer { what: "the monitor's commands".into(), reason: error.to_string() })
    })?;
    let reply = match words::command(&signatures, words) {
        Ok(mut command) => {
            if let Some(format) = &options.format {
                command.insert("format".to_owned(), format.as_str().into());
            }
            cluster.command_reply(&serde_json::Value::from(command).to_string(), input).await?
        }
        Err(said) => {
            interrupt::say_as_it_is(&said);
            CommandReply {
                result: -i32::from(INVALID),
                status: "invalid command".to_owned(),
                output: Vec::new(),
            }
        }
    };
    print(&reply, options)
}

/// A daemon is told something.
fn tell(words: &[String]) -> Result<(), Failure> {
    let target = words.get(1).map_or("a daemon", String::as_str);
    let said = format!(
        "onego tells nothing to {target}: this needs a session with that daemon; use Ceph's \"ceph tell\""
    );
    Err(Failure::AsCeph { code: Errno::OPNOTSUPP.0 as u8, said })
}

/// Prints what the cluster gave: its output as it is, and its words on standard error.
fn print(reply: &CommandReply, options: &CommandOptions) -> Result<(), Failure> {
    match options.out_file.as_deref() {
        Some(path) if path != Path::new(STANDARD) => {
            output::write_file(path, &reply.output).map_err(Failure::file(path))?;
        }
        Some(_) => output::bytes(&reply.output)?,
        None => {
            let mut out = io::stdout().lock();
            // Programs that read JSON from `ceph` expect that a line comes before it.
            let is_json = options.format.as_ref().is_some_and(|format| format.starts_with("json"));
            let line: &[u8] = if is_json { b"\n" } else { b"" };
            let shown = out.is_terminal().then(|| names::shown_text(&reply.output));
            let said = shown.as_ref().map_or(&reply.output[..], String::as_bytes);
            let written = out.write_all(line).and_then(|()| out.write_all(said));
            written.and_then(|()| out.flush()).map_err(output::failed)?;
        }
    }
    let CommandReply { result, status, .. } = reply;
    if *result < 0 {
        let number = -result;
        let said = format!("Error {}: {status}", errno::name(number));
        return Err(Failure::AsCeph { code: u8::try_from(number).unwrap_or(1), said });
    }
    if !status.is_empty() {
        interrupt::say_as_it_is(status);
    }
    Ok(())
}
