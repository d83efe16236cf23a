//! A place of their own for the processes of one scenario: folder, network, mounts and process ids.

use super::home::Home;
use super::install::Install;
use super::process;
use crate::packages;
use crate::sh;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The one address of the network on a stage.
pub(crate) const ADDRESS: &str = "10.20.0.1";

/// How long a program may take. None of those that the scenarios run needs half of it.
const PATIENCE: Duration = Duration::from_secs(180);

/// Where system programs are, on the host as in a cached system.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Sets up the namespaces from inside. It ends when its input does, which is when xtask ends in whatever way; then
/// the kernel kills every process on the stage and takes its network and mounts apart.
const SETUP: &str = r#"
set -e
ip link set lo up
ip address add "$0/24" dev lo
if [ -n "$2" ]; then
    mkdir -p "$2$1"
    mount --bind "$1" "$2$1"
    mount -t proc proc "$2/proc"
fi
echo ready
exec cat
"#;

/// A folder, and namespaces (network, mounts, process ids) that live as long as this value.
///
/// Programs run in the folder, so that lines name files as a person in that folder would. `ceph.conf` there names
/// the cluster that plays here.
pub(crate) struct Stage {
    folder: PathBuf,
    /// The root of the system whose Ceph programs are used; none: the host's.
    root: Option<PathBuf>,
    onego: PathBuf,
    holder: Child,
    init: u32,
}

impl Stage {
    /// A fresh stage with the Ceph programs of `install`; its folder is emptied.
    pub(crate) fn new(home: &Home, name: &str, install: &Install, onego: &Path) -> Result<Self> {
        let folder = home.folder(name);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot empty {}", folder.display()));
            }
            _ => fs::create_dir_all(&folder)?,
        }
        let folder = folder.canonicalize()?;
        let root = install.root.clone();
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child"]);
        if !packages::is_root()? {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--", "sh", "-c", SETUP, ADDRESS]).arg(&folder);
        command.arg(root.as_deref().unwrap_or(Path::new("")));
        command.env("PATH", PATH).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder = command.spawn().context("cannot start `unshare`")?;
        let mut said = String::new();
        BufReader::new(holder.stdout.take().context("unshare has no output")?).read_line(&mut said)?;
        if said.trim() != "ready" {
            let output = holder.wait_with_output()?;
            bail!("cannot make namespaces for a test (run as root): {}", sh::tail(&output.stderr));
        }
        let init = process::only_child(holder.id())?;
        Ok(Self { folder, root, onego: onego.to_owned(), holder, init })
    }

    /// Ends everything on the stage and removes its folder.
    pub(crate) fn clear(self) -> Result<()> {
        let folder = self.folder.clone();
        drop(self);
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))
    }

    /// Removes all files, for another cluster on the same stage.
    pub(crate) fn empty(&self) -> Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
        Ok(())
    }

    /// A folder that outlives the stage: for what is kept from one run to the next.
    pub(crate) fn cache(&self, name: &str) -> PathBuf {
        self.folder.with_file_name(name)
    }

    /// The Debian release whose Ceph programs are used, if it is not the host's.
    pub(crate) fn suite(&self) -> Result<&str> {
        // Systems have its name.
        let name = self.root.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
        name.context("the stage uses the host's programs")
    }

    /// A file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Runs a line of one of Ceph's programs (or fio) and returns what it printed. An error if it fails.
    pub(crate) fn ceph(&self, line: &str) -> Result<String> {
        succeed(line, &mut self.ceph_command(line))
    }

    /// The same with words that may have blanks in them.
    pub(crate) fn ceph_words(&self, words: &[&str]) -> Result<String> {
        succeed(&words.join(" "), &mut self.ceph_command_of(words.iter().copied()))
    }

    /// Runs such words that are to fail, and returns how they did.
    pub(crate) fn ceph_words_fail(&self, words: &[&str]) -> Result<Output> {
        fail(&words.join(" "), &mut self.ceph_command_of(words.iter().copied()))
    }

    /// Runs a line of the `onego` program and returns what it printed. An error if it fails.
    pub(crate) fn onego(&self, line: &str) -> Result<String> {
        succeed(&format!("onego {line}"), &mut self.onego_command(line))
    }

    /// Runs a line of one of Ceph's programs that is to fail, and returns how it did.
    pub(crate) fn ceph_fails(&self, line: &str) -> Result<Output> {
        fail(line, &mut self.ceph_command(line))
    }

    /// Runs a line of the `onego` program that is to fail, and returns how it did.
    pub(crate) fn onego_fails(&self, line: &str) -> Result<Output> {
        fail(&format!("onego {line}"), &mut self.onego_command(line))
    }

    /// A line of one of Ceph's programs (or fio), to be run within a time limit.
    pub(crate) fn ceph_command(&self, line: &str) -> Command {
        self.ceph_command_of(line.split_whitespace())
    }

    /// The same within another time limit.
    pub(crate) fn ceph_command_within(&self, line: &str, limit: Duration) -> Command {
        self.limited(line.split_whitespace(), limit)
    }

    fn ceph_command_of<'a>(&self, words: impl Iterator<Item = &'a str>) -> Command {
        self.limited(words, PATIENCE)
    }

    fn limited<'a>(&self, words: impl Iterator<Item = &'a str>, limit: Duration) -> Command {
        let mut command = self.enter(self.root.as_deref());
        command.args(["timeout", "--kill-after=5", &limit.as_secs().to_string()]);
        command.args(words);
        command
    }

    /// The `onego` program that plays here.
    pub(crate) fn onego_program(&self) -> &Path {
        &self.onego
    }

    /// A line of the `onego` program, to be run within a time limit.
    pub(crate) fn onego_command(&self, line: &str) -> Command {
        let mut command = self.enter(None);
        command.args(["timeout", "--kill-after=5", &PATIENCE.as_secs().to_string()]);
        command.arg(&self.onego).args(line.split_whitespace());
        command
    }

    /// One of Ceph's daemons, without a time limit.
    pub(crate) fn ceph_daemon(&self, line: &str) -> Command {
        let mut command = self.enter(self.root.as_deref());
        command.args(line.split_whitespace());
        command
    }

    /// The `onego` program as a daemon, without a time limit.
    pub(crate) fn onego_daemon(&self, line: &str) -> Command {
        self.program(&self.onego, line)
    }

    /// Any program of the host, without a time limit.
    pub(crate) fn program(&self, program: &Path, line: &str) -> Command {
        let mut command = self.enter(None);
        command.arg(program).args(line.split_whitespace());
        command
    }

    /// Runs a line of a program of the host, and returns what it printed. An error if it fails.
    pub(crate) fn host(&self, line: &str) -> Result<String> {
        let mut command = self.enter(None);
        command.args(line.split_whitespace());
        succeed(line, &mut command)
    }

    /// The start of a command that runs in the stage's namespaces and folder, in the system at `root` if given.
    fn enter(&self, root: Option<&Path>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--mount", "--pid", "--target", &self.init.to_string()]);
        if !packages::is_root().unwrap_or(false) {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.arg("--");
        if let Some(root) = root {
            command.arg("chroot").arg(root);
        }
        command.args(["env", "--chdir"]).arg(&self.folder);
        command.env("PATH", PATH).env("CEPH_CONF", self.path("ceph.conf")).stdin(Stdio::null());
        command
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Nothing more can be done about an error here, and the kernel ends the stage with us anyway.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Exit codes of `timeout` for a program that it had to end.
const TIMED_OUT: [i32; 2] = [124, 137];

/// Runs a command that is to succeed. `line` is what a person would type for it.
fn succeed(line: &str, command: &mut Command) -> Result<String> {
    let output = sh::output(command)?;
    if output.status.success() {
        return String::from_utf8(output.stdout).with_context(|| format!("`{line}` did not print UTF-8"));
    }
    let said = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    if output.status.code().is_some_and(|code| TIMED_OUT.contains(&code)) {
        bail!("`{line}` did not end in {PATIENCE:?}\n{}", sh::tail(&said));
    }
    bail!("`{line}` failed: {}\n{}", output.status, sh::tail(&said));
}

/// Runs a command that is to fail by itself. `line` is what a person would type for it.
fn fail(line: &str, command: &mut Command) -> Result<Output> {
    let output = sh::output(command)?;
    match output.status.code() {
        Some(0) => bail!("`{line}` was to fail and did not"),
        Some(code) if !TIMED_OUT.contains(&code) => Ok(output),
        _ => bail!("`{line}` was to fail, but it hung or was killed: {}", output.status),
    }
}
