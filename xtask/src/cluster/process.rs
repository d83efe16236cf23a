//! Processes that a stage runs: what they are called, what they cost, and how they end.

use crate::sh;
use anyhow::{Context as _, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often we look whether something has happened that nobody tells us about.
const TICK: Duration = Duration::from_millis(10);
/// How long a process may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(60);

/// Linux reports the CPU time of processes in units of 1/100 s on every architecture (proc_pid_stat(5), USER_HZ).
const TICKS_A_SECOND: f64 = 100.0;

/// A process in the background on a stage. It is killed when this value goes.
pub(crate) struct Daemon {
    name: String,
    /// `nsenter`, which stays outside and waits.
    child: Child,
    /// The process itself, as the host numbers it.
    pid: u32,
    log: PathBuf,
}

impl Daemon {
    /// Starts `command`, a command of a stage, with what it says going to `log`.
    pub(crate) fn spawn(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("cannot start `{}`", sh::line(&command)))?;
        let pid = only_child(child.id());
        let mut daemon = Self { name: name.to_owned(), child, pid: 0, log: log.to_owned() };
        daemon.pid = pid.with_context(|| format!("{name} did not start: {}", daemon.said()))?;
        Ok(daemon)
    }

    /// An error if the process is gone.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended by itself ({status}): {}", self.name, self.said()),
        }
    }

    /// Waits until `ready` says so; an error if it takes longer than `patience` or the process ends.
    pub(crate) fn wait_until(
        &mut self,
        what: &str,
        patience: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> Result<()> {
        let start = Instant::now();
        while !ready() {
            self.check_alive()?;
            if start.elapsed() > patience {
                bail!("{}: {what} did not happen in {patience:?}: {}", self.name, self.said());
            }
            sleep(TICK);
        }
        Ok(())
    }

    /// Asks the process to end in order (SIGTERM) and waits until it has. An error if it is gone already.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.check_alive()?;
        signal("TERM", self.pid)?;
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > GRACE {
                bail!("{} does not end on SIGTERM: {}", self.name, self.said());
            }
            sleep(TICK);
        }
        Ok(())
    }

    /// Waits for the process to end by itself.
    pub(crate) fn wait(mut self) -> Result<()> {
        let status = self.child.wait()?;
        if !status.success() {
            bail!("{} failed: {status}: {}", self.name, self.said());
        }
        Ok(())
    }

    /// CPU time that the process has used so far.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        Ok(Stat::of(self.pid)?.cpu_seconds)
    }

    /// Its number within its own namespace of processes.
    pub(crate) fn pid_in_namespace(&self) -> Result<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line =
            status.lines().find_map(|line| line.strip_prefix("NSpid:")).context("no NSpid in status")?;
        line.split_whitespace()
            .next_back()
            .context("NSpid has no number")?
            .parse()
            .context("NSpid is no number")
    }

    /// What the process has mapped, as `/proc/PID/maps` has it.
    pub(crate) fn mapped(&self) -> Result<String> {
        fs::read_to_string(format!("/proc/{}/maps", self.pid))
            .context("cannot read what a process has mapped")
    }

    /// The most memory that the process ever had, in bytes.
    pub(crate) fn peak_memory(&self) -> Result<u64> {
        self.status_bytes("VmHWM:")
    }

    /// The memory that the process has, in bytes.
    pub(crate) fn memory(&self) -> Result<u64> {
        self.status_bytes("VmRSS:")
    }

    fn status_bytes(&self, name: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let value = status.lines().find_map(|line| line.strip_prefix(name));
        let value = value.with_context(|| format!("no {name} in status"))?;
        let kib: u64 = value.trim().trim_end_matches(" kB").parse().context("memory is no number")?;
        Ok(kib * 1024)
    }

    fn said(&self) -> String {
        sh::tail(&fs::read(&self.log).unwrap_or_default())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // An error means that it is gone already.
            let _ = signal("KILL", self.pid);
            let _ = self.child.wait();
        }
    }
}

/// Waits for a child to end, and returns with its status the CPU time of it and of its children.
pub(crate) fn wait_measured(child: &mut Child) -> Result<(ExitStatus, f64)> {
    // What has ended keeps its figures until it is waited for, with those of the children it waited for itself.
    loop {
        let stat = Stat::of(child.id())?;
        if stat.ended {
            return Ok((child.wait()?, stat.cpu_seconds));
        }
        sleep(TICK);
    }
}

/// The one child of a process, as soon as there is one.
pub(crate) fn only_child(parent: u32) -> Result<u32> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(5) {
        for entry in fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // A process may end between the listing and the look at it.
            if Stat::of(pid).is_ok_and(|stat| stat.parent == parent) {
                return Ok(pid);
            }
        }
        if Stat::of(parent).is_ok_and(|stat| stat.ended) {
            break;
        }
        sleep(TICK);
    }
    bail!("process {parent} has no child");
}

fn signal(name: &str, pid: u32) -> Result<()> {
    // The shell's own kill, since the program is not in every system.
    sh::text(Command::new("sh").args(["-c", r#"kill -s "$0" "$1""#, name, &pid.to_string()])).map(drop)
}

/// What /proc/PID/stat says.
struct Stat {
    parent: u32,
    ended: bool,
    /// Of all its threads, and of its children that it has waited for.
    cpu_seconds: f64,
}

impl Stat {
    fn of(pid: u32) -> Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Self::parse(&text).with_context(|| format!("cannot read /proc/{pid}/stat"))
    }

    /// proc_pid_stat(5): `pid (name) state ppid ...`; a name may have blanks and brackets.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let mut ticks = 0.0;
        for field in fields.get(11..15)? {
            ticks += field.parse::<f64>().ok()?;
        }
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            ended: matches!(*fields.first()?, "Z" | "X"),
            cpu_seconds: ticks / TICKS_A_SECOND,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stat_line_of_a_process_with_an_odd_name_is_read() {
        let text = "12 (a) b) Z 7 1 1 0 -1 0 0 0 0 0 100 20 3 2 20 0 1 0 5 0 0";
        let stat = Stat::parse(text).expect("a stat line");
        assert_eq!((stat.parent, stat.ended, stat.cpu_seconds), (7, true, 1.25));
    }

    #[test]
    fn a_child_that_worked_is_measured() {
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let mut child = Command::new("sh").args(["-c", busy]).spawn().expect("sh starts");
        let (status, cpu) = wait_measured(&mut child).expect("it ends");
        assert!(status.success() && cpu > 0.0, "{cpu}");
    }
}
