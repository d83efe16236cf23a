//! Clients that make a server hold as much memory as they can.
//!
//! Each attack has a bound on the memory that the server's process may gain meanwhile: those of the table "What clients
//! may hold" (docs/design/admission.md), and slack for the allocator. An honest client must be served all the time.

mod cluster;
mod messenger;
mod nfs;

pub(super) use cluster::run as on_cluster;
pub(super) use nfs::run as on_nfs;

use anyhow::{Context as _, Result, bail, ensure};
use onego_sandbox::{Memory, Sandbox};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{ErrorKind, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Address of all attackers, which is not the honest client's.
const ATTACKER: Ipv4Addr = Ipv4Addr::LOCALHOST;

const MIB: u64 = 1 << 20;

/// Memory that the allocator keeps, and pages and tables besides the counted buffers.
const SLACK: u64 = 32 * MIB;

/// Longest wait of an honest client on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Process number of the server
    pid: u32,
    #[command(subcommand)]
    server: AttackedServer,
}

#[derive(clap::Subcommand)]
enum AttackedServer {
    /// Attack an NFS server
    Nfs { address: SocketAddr },
    /// Attack an OSD of an embedded cluster, whose honest client is a program
    Cluster { address: SocketAddr, epoch: u32, onego: PathBuf },
}

/// Attacks from the server's network and process namespace.
pub(super) fn attack(options: &Options) -> Result<()> {
    let memory = Memory(options.pid);
    match &options.server {
        AttackedServer::Nfs { address } => measure_all(nfs::AttackedServer::new(*address)?, &memory),
        AttackedServer::Cluster { address, epoch, onego } => {
            measure_all(cluster::Osd::new(*address, *epoch, onego)?, &memory)
        }
    }
}

/// Attacks a server of the sandbox. `server` is a line of the subcommand for it.
fn attack_in_sandbox<T: Target>(sandbox: &Sandbox, pid: u32, server: &str) -> Result<()> {
    let said = super::attack(sandbox, &format!("memory-attack {pid} {server}"))?;
    println!("{said}");
    let measured = said.lines().filter(|line| line.contains("MiB at most")).count();
    ensure!(measured == T::ATTACKS.len(), "{measured} of {} attacks ran:\n{said}", T::ATTACKS.len());
    Ok(())
}

struct Attack<T> {
    name: &'static str,
    /// Memory that the server may gain, in bytes.
    bound: u64,
    /// Returns the connections that hold the memory.
    carry_out: fn(&mut T) -> Result<Vec<TcpStream>>,
}

/// A server under attack, and an honest client.
trait Target: Sized + 'static {
    const ATTACKS: &'static [Attack<Self>];

    /// Serves the honest client once and returns the time it took.
    fn serve_honest(&mut self) -> Result<Duration>;

    /// Reconnects the honest client, so that a late reply is not taken for the next one.
    fn reconnect(&mut self) -> Result<()>;

    /// Serves the honest client for that time and returns its longest wait.
    fn serve_for(&mut self, time: Duration) -> Result<Duration> {
        let (start, mut longest) = (Instant::now(), Duration::ZERO);
        while start.elapsed() < time {
            longest = longest.max(self.serve_honest().context("the honest client is not served")?);
        }
        Ok(longest)
    }
}

/// Carries out all attacks. An error names those that the server did not withstand.
fn measure_all<T: Target>(mut target: T, memory: &Memory) -> Result<()> {
    let mut failed = Vec::new();
    for attack in T::ATTACKS {
        if let Err(error) = measure(attack, &mut target, memory) {
            failed.push(format!("{}: {error:#}", attack.name));
            target.reconnect()?;
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("the server did not withstand {}", failed.join("; ")) }
}

/// Carries out an attack and prints its cost.
fn measure<T: Target>(attack: &Attack<T>, target: &mut T, memory: &Memory) -> Result<()> {
    let before = settled(memory)?;
    memory.reset_peak()?;
    let streams = (attack.carry_out)(target)?;
    let longest = target.serve_for(Duration::from_secs(1))?;
    let (now, peak) = (memory.now()?, memory.peak()?);
    drop(streams);
    println!(
        "{}: {} MiB before, {} MiB at the end, {} MiB at most; an honest client waited {longest:?}",
        attack.name,
        before / MIB,
        now / MIB,
        peak / MIB
    );
    ensure!(longest < PATIENCE, "the honest client waited {longest:?}");
    let (gained, bound) = (peak.saturating_sub(before), attack.bound + SLACK);
    ensure!(gained <= bound, "the server gained {} MiB, more than {} MiB", gained / MIB, bound / MIB);
    Ok(())
}

/// Returns the memory once the server has freed what earlier connections held.
fn settled(memory: &Memory) -> Result<u64> {
    let (start, mut before) = (Instant::now(), memory.now()?);
    loop {
        sleep(Duration::from_millis(300));
        let now = memory.now()?;
        if now.abs_diff(before) < MIB || start.elapsed() > PATIENCE {
            return Ok(now);
        }
        before = now;
    }
}

fn connect_attacker(address: SocketAddr) -> Result<TcpStream> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddr::from((ATTACKER, 0)))?;
    connect(&socket, &address).context("an attacker cannot connect")?;
    Ok(socket.into())
}

/// Sends as much as the server accepts without waiting, and returns how much. The server may close the connection.
fn send(stream: &mut TcpStream, mut bytes: &[u8]) -> Result<usize> {
    let len = bytes.len();
    while !bytes.is_empty() {
        match stream.write(bytes).map_err(|error| (error.kind(), error)) {
            Ok(n) => bytes = &bytes[n..],
            Err((ErrorKind::Interrupted, _)) => {}
            Err((ErrorKind::WouldBlock | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe, _)) => break,
            Err((_, error)) => return Err(error.into()),
        }
    }
    Ok(len - bytes.len())
}

/// Sends `bytes` on each connection, which the server must accept as a whole.
fn send_all(streams: &mut [TcpStream], bytes: &[u8]) -> Result<()> {
    for (at, stream) in streams.iter_mut().enumerate() {
        let sent = send(stream, bytes)?;
        ensure!(sent == bytes.len(), "connection {at} accepts {sent} of {} bytes", bytes.len());
    }
    Ok(())
}

/// Sends the first `begin` bytes of a message on each connection, and then four bytes, one every 1.5 s.
fn trickle<T: Target>(target: &mut T, streams: &mut [TcpStream], message: &[u8], begin: usize) -> Result<()> {
    send_all(streams, &message[..begin])?;
    let mut longest = Duration::ZERO;
    for byte in &message[begin..begin + 4] {
        for stream in &mut *streams {
            send(stream, &[*byte])?;
        }
        longest = longest.max(target.serve_for(Duration::from_millis(1500))?);
    }
    ensure!(longest < PATIENCE, "the honest client waited {longest:?}");
    Ok(())
}
