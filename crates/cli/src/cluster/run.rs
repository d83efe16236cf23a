//! `onego cluster run`: a cluster for one command.

use super::ClusterOptions;
use super::start::Serving;
use crate::access::Access;
use crate::failure::Failure;
use crate::process;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};

pub(super) const EXAMPLES: &str = "\
Examples:
  onego cluster run -- ceph -s
  onego cluster run --osds 3 -- pytest tests
  onego cluster run -- sh -c \"rbd create --size 1G disk && rbd ls\"

The command finds the cluster by CEPH_CONF in its environment, as Ceph's programs and libraries do; CEPH_ARGS is removed from
it. Signals are passed on to the command. This program ends as the command does, with its exit code, or 128 and the number of
the signal that ended it.";

/// Exit codes of shells for commands that cannot be started.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

#[derive(clap::Args)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    cluster: ClusterOptions,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn run(access: &Access, options: RunOptions) -> Result<(), Failure> {
    let RunOptions { cluster, command } = options;
    let serving = Serving::start(access, cluster)?;
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Failure::io("listening to signals"))?;
    process::is_up();
    let child = spawn(&command, &serving)?;
    let status = wait(child, signals)?;
    // A cluster that failed is why the command may have.
    serving.check()?;
    drop(serving);
    match status.code().map(|code| code as u8).or(status.signal().map(|signal| 128 + signal as u8)) {
        Some(0) => Ok(()),
        code => Err(Failure::AsCeph { code: code.unwrap_or(1), said: String::new() }),
    }
}

fn spawn(command: &[OsString], serving: &Serving) -> Result<Child, Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::Usage("a command is missing after --".into()));
    };
    let mut child = Command::new(program);
    child.args(arguments).env("CEPH_CONF", &serving.conf).env_remove("CEPH_ARGS");
    child.spawn().map_err(|error| {
        let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
        Failure::AsCeph { code, said: format!("onego: {}: {error}", program.to_string_lossy()) }
    })
}

/// Waits for the command, and passes signals on to it. The terminal sends SIGINT to the command as well, which is in the same
/// process group so that it can read from the terminal.
fn wait(mut child: Child, mut signals: Signals) -> Result<ExitStatus, Failure> {
    let pid = Pid::from_child(&child);
    let handle = signals.handle();
    let waiting = std::thread::spawn(move || {
        let status = child.wait();
        handle.close();
        status
    });
    for signal in signals.forever() {
        let signal = match signal {
            SIGINT if io::stdin().is_terminal() => continue,
            SIGINT => Signal::INT,
            SIGHUP => Signal::HUP,
            _ => Signal::TERM,
        };
        // It may have ended meanwhile.
        let _ = kill_process(pid, signal);
    }
    match waiting.join() {
        Ok(status) => status.map_err(Failure::io("waiting for the command")),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
