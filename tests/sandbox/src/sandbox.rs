//! A place of its own for the processes of one test: folder, network, mounts and process ids.

use crate::process::only_child;
use crate::root::{self, Release, is_root};
use crate::{sh, workspace};
use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The one address of a sandbox's network.
pub const ADDRESS: &str = "10.20.0.1";

/// Search path of programs, on the host and in private roots.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Time limit of a program that a test waits for.
const PATIENCE: Duration = Duration::from_secs(180);

/// Exit codes of `timeout` for a program that it had to end.
const TIMED_OUT: [i32; 2] = [124, 137];

/// Sets up the namespaces from inside. It ends when its input does, which is when the test process ends in whatever
/// way, or at the time limit; then the kernel kills every process in the sandbox and drops its network and mounts.
const SETUP: &str = r#"
set -e
limit=$1 address=$2 target=$3
shift 3
for root; do
    mount --rbind /dev "$root/dev"
    mount -t proc proc "$root/proc"
    mount -t tmpfs tmpfs "$root/run"
    mount -t tmpfs tmpfs "$root/tmp"
    mkdir -p "$root$target"
    mount --bind "$target" "$root$target"
done
chroot "$1" ip link set lo up
chroot "$1" ip address add "$address/24" dev lo
echo ready
exec timeout "$limit" cat
"#;

/// A folder and namespaces that live as long as this value, with the tools and one release of Ceph.
///
/// Programs run in the folder, so lines name files relative to it. `ceph.conf` there names the cluster in the sandbox.
pub struct Sandbox {
    folder: PathBuf,
    release: Release,
    release_root: PathBuf,
    tools: PathBuf,
    onego: PathBuf,
    /// Process that keeps the namespaces; none where another value owns them.
    holder: Option<Child>,
    init: u32,
}

impl Sandbox {
    /// Makes a sandbox in `target/sandbox/NAME`, which is emptied first. Everything in it ends after `limit`.
    pub fn new(name: &str, release: Release, onego: &Path, limit: Duration) -> Result<Self> {
        let (release_root, tools) = (release.root()?, root::tools()?);
        let target = workspace::target()?;
        let folder = target.join("sandbox").join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        fs::create_dir_all(&folder)?;
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child"]);
        if !is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--", "sh", "-c", SETUP, "sandbox", &limit.as_secs().to_string(), ADDRESS]);
        command.arg(target).arg(&tools);
        if release_root != tools {
            command.arg(&release_root);
        }
        command.env("PATH", PATH).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut holder = command.spawn().context("cannot start `unshare`")?;
        let mut said = String::new();
        BufReader::new(holder.stdout.take().context("unshare has no output")?).read_line(&mut said)?;
        if said.trim() != "ready" {
            let output = holder.wait_with_output()?;
            bail!("cannot make namespaces: {}", sh::tail(&output.stderr));
        }
        let init = only_child(holder.id())?;
        Ok(Self { folder, release, release_root, tools, onego: onego.to_owned(), holder: Some(holder), init })
    }

    /// Makes a network device with this address. Returns false where this user may not.
    pub(crate) fn make_tap(&self, name: &str, address: &str) -> Result<bool> {
        let made = sh::output(&mut self.tool_command(&format!("ip tuntap add dev {name} mode tap")))?;
        if !made.status.success() {
            return Ok(false);
        }
        self.tool(&format!("ip address add {address} dev {name}"))?;
        self.tool(&format!("ip link set {name} up"))?;
        Ok(true)
    }

    /// Returns a view of this sandbox with a folder of its own, which has the cluster's configuration and keys.
    pub fn with_folder(&self, name: &str) -> Result<Self> {
        let folder = self.folder.join(name);
        fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            if name == "ceph.conf" || name.to_string_lossy().ends_with("keyring") {
                symlink(Path::new("..").join(&name), folder.join(&name))?;
            }
        }
        Ok(Self {
            folder,
            release: self.release,
            release_root: self.release_root.clone(),
            tools: self.tools.clone(),
            onego: self.onego.clone(),
            holder: None,
            init: self.init,
        })
    }

    /// Ends everything in the sandbox and removes its folder.
    pub fn clear(self) -> Result<()> {
        let folder = self.folder.clone();
        drop(self);
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))
    }

    /// Removes all files, for another cluster in the same sandbox.
    pub fn empty(&self) -> Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
        Ok(())
    }

    /// Returns the release of Ceph whose programs are used.
    pub fn release(&self) -> Release {
        self.release
    }

    /// Returns the root with the programs of that release.
    pub fn release_root(&self) -> &Path {
        &self.release_root
    }

    /// Returns the root with the tools.
    pub fn tools_root(&self) -> &Path {
        &self.tools
    }

    /// Returns the path of a file in the folder.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.join(name)
    }

    /// Reads a text file of the folder.
    pub fn read(&self, name: &str) -> Result<String> {
        fs::read_to_string(self.path(name)).with_context(|| format!("cannot read {name}"))
    }

    /// Writes a file of the folder.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<()> {
        fs::write(self.path(name), content).with_context(|| format!("cannot write {name}"))
    }

    /// Returns the `onego` program under test.
    pub fn onego_program(&self) -> &Path {
        &self.onego
    }

    /// Runs a line of a program of the release (Ceph's, fio, QEMU's, libnbd's) and returns what it printed.
    pub fn ceph(&self, line: &str) -> Result<String> {
        succeed(line, &mut self.ceph_command(line))
    }

    /// Runs such words, which may contain blanks.
    pub fn ceph_words(&self, words: &[&str]) -> Result<String> {
        succeed(
            &words.join(" "),
            &mut self.limited(Some(&self.release_root), words.iter().copied(), PATIENCE),
        )
    }

    /// Runs a line of a program of the release that must fail.
    pub fn ceph_fails(&self, line: &str) -> Result<Output> {
        fail(line, &mut self.ceph_command(line))
    }

    /// Runs such words, which may contain blanks and must fail.
    pub fn ceph_words_fail(&self, words: &[&str]) -> Result<Output> {
        fail(&words.join(" "), &mut self.limited(Some(&self.release_root), words.iter().copied(), PATIENCE))
    }

    /// Returns a line of a program of the release, with a time limit.
    pub fn ceph_command(&self, line: &str) -> Command {
        self.ceph_command_within(line, PATIENCE)
    }

    /// Returns a line of a program of the release, with another time limit.
    pub fn ceph_command_within(&self, line: &str, limit: Duration) -> Command {
        self.limited(Some(&self.release_root), line.split_whitespace(), limit)
    }

    /// Returns a line of a program of the release without a time limit.
    pub fn ceph_daemon(&self, line: &str) -> Command {
        self.enter(Some(&self.release_root), line.split_whitespace())
    }

    /// Runs a line of the `onego` program and returns what it printed.
    pub fn onego(&self, line: &str) -> Result<String> {
        succeed(&format!("onego {line}"), &mut self.onego_command(line))
    }

    /// Runs a line of the `onego` program that must fail.
    pub fn onego_fails(&self, line: &str) -> Result<Output> {
        fail(&format!("onego {line}"), &mut self.onego_command(line))
    }

    /// Returns a line of the `onego` program, with a time limit.
    pub fn onego_command(&self, line: &str) -> Command {
        let mut command = self.limited(None, std::iter::empty(), PATIENCE);
        command.arg(&self.onego).args(line.split_whitespace());
        command
    }

    /// Returns a line of the `onego` program without a time limit.
    pub fn onego_daemon(&self, line: &str) -> Command {
        self.host_command(&self.onego, line)
    }

    /// Runs a line of a tool and returns what it printed.
    pub fn tool(&self, line: &str) -> Result<String> {
        succeed(line, &mut self.tool_command(line))
    }

    /// Returns a line of a tool, with a time limit.
    pub fn tool_command(&self, line: &str) -> Command {
        self.limited(Some(&self.tools), line.split_whitespace(), PATIENCE)
    }

    /// Returns a line of a tool without a time limit.
    pub fn tool_daemon(&self, line: &str) -> Command {
        self.enter(Some(&self.tools), line.split_whitespace())
    }

    /// Runs a line of a program of the host, in the sandbox: what changes mounts that `onego` sees.
    pub fn host(&self, line: &str) -> Result<String> {
        succeed(line, &mut self.limited(None, line.split_whitespace(), PATIENCE))
    }

    /// Returns a line of a program outside of private roots, without a time limit.
    pub fn host_command(&self, program: impl AsRef<Path>, line: &str) -> Command {
        let mut command = self.enter(None, std::iter::empty());
        command.arg(program.as_ref()).args(line.split_whitespace());
        command
    }

    fn limited<'a>(
        &self,
        root: Option<&Path>,
        words: impl Iterator<Item = &'a str>,
        limit: Duration,
    ) -> Command {
        let mut command = self.enter(root, ["timeout", "--kill-after=5"].into_iter());
        command.arg(limit.as_secs().to_string()).args(words);
        command
    }

    /// Returns a command in the namespaces and the folder, and in a private root if one is given.
    fn enter<'a>(&self, root: Option<&Path>, words: impl Iterator<Item = &'a str>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--mount", "--pid", "--target", &self.init.to_string()]);
        if !is_root() {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.arg("--");
        if let Some(root) = root {
            command.arg("chroot").arg(root);
        }
        command.args(["env", "--chdir"]).arg(&self.folder).args(words);
        command.env("PATH", PATH).env("CEPH_CONF", self.path("ceph.conf")).env_remove("LD_LIBRARY_PATH");
        command.stdin(Stdio::null());
        command
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if let Some(mut holder) = self.holder.take() {
            // An error means that the sandbox has ended already.
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

/// Runs a command that must succeed. `line` is what a person would type for it.
fn succeed(line: &str, command: &mut Command) -> Result<String> {
    let output = sh::output(command)?;
    if output.status.success() {
        return String::from_utf8(output.stdout).with_context(|| format!("`{line}` did not print UTF-8"));
    }
    let said = sh::both(&output);
    ensure!(!timed_out(&output), "`{line}` exceeded its time limit\n{}", sh::tail(said.as_bytes()));
    bail!("`{line}` failed: {}\n{}", output.status, sh::tail(said.as_bytes()));
}

/// Runs a command that must fail by itself.
fn fail(line: &str, command: &mut Command) -> Result<Output> {
    let output = sh::output(command)?;
    ensure!(!output.status.success(), "`{line}` succeeded instead of failing");
    let by_itself = output.status.code().is_some() && !timed_out(&output);
    ensure!(by_itself, "`{line}` hung or was killed instead of failing: {}", output.status);
    Ok(output)
}

fn timed_out(output: &Output) -> bool {
    output.status.code().is_some_and(|code| TIMED_OUT.contains(&code))
}
