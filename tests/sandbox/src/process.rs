//! Processes in the background: their start, their cost and their end.

use crate::sh;
use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Interval of polling.
const TICK: Duration = Duration::from_millis(10);

/// Time a process gets to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(60);

/// Unit of CPU times in `/proc/PID/stat`, in 1/s (proc_pid_stat(5), USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;

/// A process in the background. Dropping it kills the process.
pub struct Daemon {
    name: String,
    /// `nsenter`, which stays outside of the sandbox and waits.
    child: Child,
    /// The process itself, in the host's numbering.
    pid: u32,
    log: PathBuf,
    input: Option<ChildStdin>,
}

impl Daemon {
    /// Starts a command of a sandbox with its output in `log`.
    pub fn spawn(name: &str, command: Command, log: &Path) -> Result<Self> {
        Self::spawn_with(name, command, log, Stdio::null())
    }

    /// Starts a command that reads what [`write`](Self::write) writes.
    pub fn spawn_with_input(name: &str, command: Command, log: &Path) -> Result<Self> {
        Self::spawn_with(name, command, log, Stdio::piped())
    }

    fn spawn_with(name: &str, mut command: Command, log: &Path, input: Stdio) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        command.stdin(input).stdout(file.try_clone()?).stderr(file);
        let mut child = command.spawn().with_context(|| format!("cannot start `{}`", sh::line(&command)))?;
        let input = child.stdin.take();
        let mut daemon = Self { name: name.to_owned(), pid: 0, child, log: log.to_owned(), input };
        let pid = only_child(daemon.child.id());
        daemon.pid = pid.with_context(|| format!("{name} did not start: {}", daemon.said()))?;
        Ok(daemon)
    }

    /// Writes to the standard input of a process that was started for it.
    pub fn write(&mut self, text: &str) -> Result<()> {
        let input = self.input.as_mut().context("the process reads nothing")?;
        Ok(input.write_all(text.as_bytes())?)
    }

    /// Fails if the process has ended.
    pub fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended by itself ({status}): {}", self.name, self.said()),
        }
    }

    /// Polls until `ready`; fails after `patience` or when the process ends.
    pub fn wait_until(
        &mut self,
        what: &str,
        patience: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> Result<()> {
        let start = Instant::now();
        while !ready() {
            self.check_alive()?;
            if start.elapsed() > patience {
                bail!("{}: no {what} within {patience:?}: {}", self.name, self.said());
            }
            sleep(TICK);
        }
        Ok(())
    }

    /// Ends the process with SIGTERM and waits for it. Fails if it has ended before.
    pub fn stop(mut self) -> Result<()> {
        self.check_alive()?;
        self.signal(Signal::TERM)?;
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > GRACE {
                bail!("{} does not end on SIGTERM: {}", self.name, self.said());
            }
            sleep(TICK);
        }
        Ok(())
    }

    /// Waits until the process ends by itself, successfully.
    pub fn wait(mut self) -> Result<()> {
        let status = self.child.wait()?;
        if !status.success() {
            bail!("{} failed: {status}: {}", self.name, self.said());
        }
        Ok(())
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).context("a process has a number")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// Returns the CPU time of the process so far, in seconds.
    pub fn cpu_seconds(&self) -> Result<f64> {
        Ok(Stat::of(self.pid)?.cpu_seconds)
    }

    /// Returns the number of the process in the host's numbering.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the number of the process in its own namespace.
    pub fn pid_in_namespace(&self) -> Result<u32> {
        let numbers = status_field(self.pid, "NSpid:")?;
        numbers.split_whitespace().next_back().and_then(|pid| pid.parse().ok()).context("NSpid has no number")
    }

    /// Returns the memory mappings of the process, as `/proc/PID/maps` lists them.
    pub fn mapped(&self) -> Result<String> {
        fs::read_to_string(format!("/proc/{}/maps", self.pid)).context("cannot read a process's mappings")
    }

    /// Returns the memory of the process.
    pub fn memory(&self) -> Memory {
        Memory(self.pid)
    }

    fn said(&self) -> String {
        sh::tail(&fs::read(&self.log).unwrap_or_default())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // An error means that it has just ended.
            let _ = self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Memory of a process, by its number.
pub struct Memory(pub u32);

impl Memory {
    /// Returns resident bytes.
    pub fn now(&self) -> Result<u64> {
        self.bytes("VmRSS:")
    }

    /// Returns the most resident bytes since the start or the last [`reset_peak`](Self::reset_peak).
    pub fn peak(&self) -> Result<u64> {
        self.bytes("VmHWM:")
    }

    /// Restarts the measurement of the peak (proc_pid_clear_refs(5)).
    pub fn reset_peak(&self) -> Result<()> {
        Ok(fs::write(format!("/proc/{}/clear_refs", self.0), "5")?)
    }

    fn bytes(&self, field: &str) -> Result<u64> {
        let kib = status_field(self.0, field)?;
        let kib: u64 = kib.trim().trim_end_matches(" kB").parse().context("memory is no number")?;
        Ok(kib * 1024)
    }
}

fn status_field(pid: u32, field: &str) -> Result<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let value = status.lines().find_map(|line| line.strip_prefix(field));
    value.map(str::to_owned).with_context(|| format!("no {field} in /proc/{pid}/status"))
}

/// Waits for a child to end; returns its status and the CPU seconds of it and of the children it waited for.
pub fn wait_measured(child: &mut Child) -> Result<(ExitStatus, f64)> {
    loop {
        let stat = Stat::of(child.id())?;
        if stat.ended {
            return Ok((child.wait()?, stat.cpu_seconds));
        }
        sleep(TICK);
    }
}

/// Waits for a process to have a child and returns its number.
pub(crate) fn only_child(parent: u32) -> Result<u32> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(5) {
        let children =
            fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
        if let Some(pid) = children.split_whitespace().next() {
            return pid.parse().context("a child has a number");
        }
        if Stat::of(parent).is_ok_and(|stat| stat.ended) {
            break;
        }
        sleep(TICK);
    }
    bail!("process {parent} has no child")
}

/// The part of `/proc/PID/stat` that is used.
struct Stat {
    ended: bool,
    /// Of all threads, and of children that were waited for.
    cpu_seconds: f64,
}

impl Stat {
    fn of(pid: u32) -> Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Self::parse(&text).with_context(|| format!("cannot read /proc/{pid}/stat"))
    }

    /// Parses `pid (name) state ppid ...`, where the name may contain blanks and brackets.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks: f64 = fields.get(11..15)?.iter().map(|field| field.parse::<f64>().unwrap_or(0.0)).sum();
        Some(Self { ended: matches!(*fields.first()?, "Z" | "X"), cpu_seconds: ticks / TICKS_PER_SECOND })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_of_a_process_with_brackets_in_its_name() {
        let text = "12 (a) b) Z 7 1 1 0 -1 0 0 0 0 0 100 20 3 2 20 0 1 0 5 0 0";
        let stat = Stat::parse(text).expect("a stat line");
        assert_eq!((stat.ended, stat.cpu_seconds), (true, 1.25));
    }

    #[test]
    fn cpu_time_of_a_busy_child_is_measured() {
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let mut child = Command::new("sh").args(["-c", busy]).spawn().expect("sh starts");
        let (status, cpu) = wait_measured(&mut child).expect("it ends");
        assert!(status.success() && cpu > 0.0, "{cpu}");
    }
}
