//! Clients that make a server hold as much memory as they can, from inside of its network.
//!
//! Each attack says what it is named, what it does, and how much more memory than before the process may have while it
//! goes on. The bounds are those of the table "What clients may hold" (docs/design/admission.md), and slack: what an allocator
//! keeps beside. A client that means no harm is served meanwhile.

use crate::cluster::Stage;
use anyhow::{Context as _, Result, bail, ensure};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Where attackers come from: all of them are one host, which is not that of the honest client.
pub(super) const ATTACKER: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Descriptors of the attackers: more than any of them opens connections.
pub(super) const DESCRIPTORS: usize = 12_000;

pub(super) const MIB: u64 = 1 << 20;

/// What the allocator keeps, and what pages and tables take beside what is counted.
pub(super) const SLACK: u64 = 32 * MIB;

/// How long an honest client may wait, on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// An attack on a server.
pub(super) struct Attack<F> {
    pub(super) name: &'static str,
    /// Memory that the server may have on its account.
    pub(super) bound: u64,
    /// Returns the connections that hold the memory.
    pub(super) carry_out: fn(&mut F) -> Result<Vec<TcpStream>>,
}

/// A server under attack, and a client of it that means no harm.
pub(super) trait Target: Sized + 'static {
    const ATTACKS: &'static [Attack<Self>];

    /// Lets the honest client do a piece of work, and says how long that took.
    fn serve_honest(&mut self) -> Result<Duration>;

    /// Gives the honest client another connection: a reply that came too late is not the reply to the next call.
    fn reconnect(&mut self) -> Result<()>;

    /// The honest client works for so long; returns the longest wait.
    fn serve_for(&mut self, time: Duration) -> Result<Duration> {
        let (start, mut longest) = (Instant::now(), Duration::ZERO);
        while start.elapsed() < time {
            longest = longest.max(self.serve_honest().context("the honest client is not served")?);
        }
        Ok(longest)
    }
}

/// Memory of a process: what it has, and the most that it had since that was asked last.
pub(super) struct Memory(pub(super) u32);

impl Memory {
    fn read(&self, field: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)).context("no such field")?;
        let kib: u64 = line.trim_start_matches(':').trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1024)
    }

    fn now(&self) -> Result<u64> {
        self.read("VmRSS")
    }

    /// What it has once the server has done with the attack before: its connections end, and what they held is given back.
    fn settled(&self) -> Result<u64> {
        const STEP: Duration = Duration::from_millis(300);
        let (deadline, mut before) = (Instant::now() + PATIENCE, self.now()?);
        loop {
            sleep(STEP);
            let now = self.now()?;
            if now.abs_diff(before) < MIB || Instant::now() > deadline {
                return Ok(now);
            }
            before = now;
        }
    }

    /// From here on the peak is that of what comes (proc_pid_clear_refs(5)).
    fn forget_peak(&self) -> Result<()> {
        Ok(fs::write(format!("/proc/{}/clear_refs", self.0), "5")?)
    }

    fn peak(&self) -> Result<u64> {
        self.read("VmHWM")
    }
}

/// A connection of an attacker.
pub(super) fn connect_attacker(address: SocketAddr) -> Result<TcpStream> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddr::from((ATTACKER, 0)))?;
    connect(&socket, &address).context("an attacker cannot connect")?;
    Ok(socket.into())
}

/// Sends as much as the other side takes at once. A connection that the server has closed is no error: that is its right.
pub(super) fn send(stream: &mut TcpStream, mut bytes: &[u8]) -> Result<usize> {
    let len = bytes.len();
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(len - bytes.len())
}

/// Sends the beginning of a message on each connection, and then a byte now and then, while the honest client works.
pub(super) fn trickle<F: Target>(
    target: &mut F,
    streams: &mut [TcpStream],
    message: &[u8],
    begin: usize,
) -> Result<()> {
    for (at, stream) in streams.iter_mut().enumerate() {
        ensure!(send(stream, &message[..begin])? == begin, "connection {at} takes nothing");
    }
    let mut longest = Duration::ZERO;
    for round in begin..begin + 4 {
        for stream in &mut *streams {
            send(stream, &message[round..=round])?;
        }
        longest = longest.max(target.serve_for(Duration::from_millis(1500))?);
    }
    ensure!(longest < PATIENCE, "the honest client has waited {longest:?}");
    Ok(())
}

/// Carries an attack out, and tells what it cost.
pub(super) fn measure<F: Target>(attack: &Attack<F>, target: &mut F, memory: &Memory) -> Result<()> {
    let before = memory.settled()?;
    memory.forget_peak()?;
    let streams = (attack.carry_out)(target)?;
    let longest = target.serve_for(Duration::from_secs(1))?;
    let (now, peak) = (memory.now()?, memory.peak()?);
    drop(streams);
    let held = peak.saturating_sub(before);
    println!(
        "{}: {} MiB before, {} MiB at the end, {} MiB at the most; an honest client waited {longest:?}",
        attack.name,
        before / MIB,
        now / MIB,
        peak / MIB
    );
    ensure!(longest < PATIENCE, "the honest client has waited {longest:?}");
    let bound = attack.bound + SLACK;
    ensure!(held <= bound, "the server held {} MiB more, and {} MiB is the bound", held / MIB, bound / MIB);
    Ok(())
}

pub(super) fn measure_all<F: Target>(mut target: F, memory: &Memory, only: &str) -> Result<()> {
    let mut failed = Vec::new();
    for attack in F::ATTACKS.iter().filter(|attack| attack.name.contains(only)) {
        if let Err(error) = measure(attack, &mut target, memory) {
            failed.push(format!("{}: {error:#}", attack.name));
            target.reconnect()?;
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("the server did not hold: {}", failed.join("; ")) }
}

/// Has the attacks carried out on a server of the stage. `server` is a line of the subcommand for it.
pub(super) fn attack_on_stage<F: Target>(stage: &Stage, pid: u32, server: &str) -> Result<()> {
    let xtask = std::env::current_exe()?;
    let line = format!("--nofile={DESCRIPTORS} {} memory-attack {pid} {server}", xtask.display());
    let said = crate::sh::text(&mut stage.program(Path::new("prlimit"), &line))?;
    println!("{said}");
    let figures = said.lines().filter(|line| line.contains("MiB at the most")).count();
    let attacks = F::ATTACKS.len();
    ensure!(figures == attacks, "{figures} attacks of {attacks} were measured:\n{said}");
    Ok(())
}
