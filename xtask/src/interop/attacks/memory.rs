//! Clients that make a server hold as much memory as they can, from inside of its network.
//!
//! Each attack says what it is named, what it does, and how much more memory than before the process may have while it
//! goes on. The bounds are those of the table "What clients may hold" (docs/design/admission.md), and slack: what an allocator
//! keeps beside. A client that means no harm is served meanwhile.

use super::wire::{Client, Handle, Set, User, Words, user};
use super::{mode, wire};
use crate::cluster::{ADDRESS, Embedded, Stage};
use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where the server is for the honest client; the attackers reach it at the loopback address, and come from that
    address: SocketAddr,
    /// Its process
    pid: u32,
}

/// Descriptors of the attackers and of the servers: twice as many as a server takes connections, and some.
const DESCRIPTORS: usize = 12_000;

const MIB: u64 = 1 << 20;

/// What the allocator keeps, and what pages and tables take beside what is counted.
const SLACK: u64 = 32 * MIB;

/// How long a WRITE and a READ of an honest client may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of one READ and one WRITE.
const TRANSFER: usize = 1 << 20;

/// An attack on a server of NFS.
struct Attack {
    name: &'static str,
    /// Memory that the server may have on its account.
    bound: u64,
    /// How long an honest client may wait.
    patience: Duration,
    carry_out: fn(&mut Field) -> Result<Vec<TcpStream>>,
}

const ATTACKS: &[Attack] = &[
    // Half of what unfinished messages of all addresses may hold.
    Attack { name: "fragments of one byte", bound: 64 * MIB, patience: PATIENCE, carry_out: fragments },
    // What large messages may hold, and what is received ahead of the others.
    Attack { name: "records half sent", bound: (68 + 64) * MIB, patience: PATIENCE, carry_out: half_records },
    Attack { name: "replies not read", bound: 256 * MIB, patience: PATIENCE, carry_out: replies },
    Attack { name: "idle connections", bound: 64 * MIB, patience: PATIENCE, carry_out: idle },
    Attack { name: "slow writes", bound: (68 + 64) * MIB, patience: PATIENCE, carry_out: slow_writes },
];

/// Memory of a process: what it has, and the most that it had since that was asked last.
struct Memory(u32);

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

    /// From here on the peak is that of what comes (proc_pid_clear_refs(5)).
    fn forget_peak(&self) -> Result<()> {
        Ok(fs::write(format!("/proc/{}/clear_refs", self.0), "5")?)
    }

    fn peak(&self) -> Result<u64> {
        self.read("VmHWM")
    }
}

/// The server, a file on it, and who reads and writes that honestly.
struct Field {
    address: SocketAddr,
    /// Where attackers reach the server: all of them are one host, which is not that of the honest client.
    attacked: SocketAddr,
    honest: Client,
    caller: User,
    file: Handle,
}

impl Field {
    fn new(address: SocketAddr) -> Result<Self> {
        let (mut honest, caller) = (Client::connect(address)?, user(1000));
        let root = honest.mount(&caller, "/export")?;
        let root = root.map_err(|status| anyhow::anyhow!("the export cannot be mounted: {status}"))?;
        let set = Set { size: Some(TRANSFER as u64), ..mode(0o644) };
        let made = honest.create(&caller, &root, "file", &set)?;
        let file = made.map_err(|status| anyhow::anyhow!("CREATE: {status}"))?;
        let attacked = SocketAddr::from(([127, 0, 0, 1], address.port()));
        let mut field = Self { address, attacked, honest, caller, file };
        // The memory that serves this client is there before anything is measured.
        (0..8).try_for_each(|_| field.serve_honest().map(drop))?;
        Ok(field)
    }

    /// Writes and reads a large block, and says how long that took.
    fn serve_honest(&mut self) -> Result<Duration> {
        let start = Instant::now();
        let data = vec![7; TRANSFER];
        let status = self.honest.write(&self.caller, &self.file, &data)?;
        ensure!(status == wire::OK, "WRITE: {status}");
        let read = self.honest.results(wire::READ, &self.caller, self.read_args())?;
        ensure!(read.len() > TRANSFER, "READ gives {} bytes", read.len());
        Ok(start.elapsed())
    }

    fn read_args(&self) -> Words {
        Words::default().opaque(&self.file).u64(0).u32(TRANSFER as u32)
    }

    fn write_message(&self) -> Vec<u8> {
        let args = Words::default().opaque(&self.file).u64(0).u32(TRANSFER as u32).u32(0);
        Client::nfs_message(wire::WRITE, &self.caller, &args.opaque(&vec![1; TRANSFER]))
    }

    /// Connections of attackers, which wait for nothing.
    fn connections(&self, count: usize) -> Result<Vec<TcpStream>> {
        let connect = |_| {
            let stream = TcpStream::connect(self.attacked).context("an attacker cannot connect")?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        (0..count).map(connect).collect()
    }
}

/// Sends as much as the other side takes at once. A connection that the server has closed is no error: that is its right.
fn send(stream: &mut TcpStream, mut bytes: &[u8]) -> Result<usize> {
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

/// 150 connections, each with a call in 64 Ki fragments of one byte.
fn fragments(field: &mut Field) -> Result<Vec<TcpStream>> {
    let fragments: Vec<u8> = (0..64 << 10).flat_map(|_| [0, 0, 0, 1, 7]).collect();
    let mut streams = field.connections(150)?;
    let mut sent = vec![0; streams.len()];
    for _ in 0..20 {
        for (stream, sent) in streams.iter_mut().zip(&mut sent) {
            *sent += send(stream, &fragments[*sent..])?;
        }
        sleep(Duration::from_millis(20));
    }
    let total: usize = sent.iter().sum();
    ensure!(total > 1 << 20, "the server has taken {total} bytes of fragments, and nothing was tried");
    Ok(streams)
}

/// 2,000 WRITEs of 1 MiB each, of which half is sent.
fn half_records(field: &mut Field) -> Result<Vec<TcpStream>> {
    let message = field.write_message();
    let mut streams = field.connections(2000)?;
    let mut total = 0;
    for stream in &mut streams {
        total += send(stream, &message[..TRANSFER / 2])?;
    }
    ensure!(total > 128 << 20, "the attackers have sent {total} bytes, and nothing was tried");
    Ok(streams)
}

/// 100 connections, each with 50 READs of 1 MiB, whose replies nobody reads.
fn replies(field: &mut Field) -> Result<Vec<TcpStream>> {
    let mut streams = field.connections(100)?;
    let reads: Vec<u8> =
        (0..50).flat_map(|_| Client::nfs_message(wire::READ, &field.caller, &field.read_args())).collect();
    for stream in &mut streams {
        let sent = send(stream, &reads)?;
        ensure!(sent == reads.len(), "only {sent} bytes of READs were sent");
    }
    Ok(streams)
}

/// 4,096 connections that say nothing: as many as there may be. The honest client's gives way to none of them.
fn idle(field: &mut Field) -> Result<Vec<TcpStream>> {
    let streams = field.connections(4096)?;
    let mut other = Client::connect(field.address)?;
    let start = Instant::now();
    let status = other.status(wire::READ, &field.caller, field.read_args())?;
    ensure!(status == wire::OK && start.elapsed() < PATIENCE, "a new client waits {:?}", start.elapsed());
    Ok(streams)
}

/// 64 WRITEs of 1 MiB each, of which the beginning is sent, and a byte now and then.
fn slow_writes(field: &mut Field) -> Result<Vec<TcpStream>> {
    let message = field.write_message();
    let mut streams = field.connections(64)?;
    for (at, stream) in streams.iter_mut().enumerate() {
        ensure!(send(stream, &message[..1000])? == 1000, "connection {at} takes nothing");
    }
    let mut longest = Duration::ZERO;
    for round in 0..4 {
        for stream in &mut streams {
            send(stream, &message[1000 + round..1001 + round])?;
        }
        longest = longest.max(serve_for(field, Duration::from_millis(1500))?);
    }
    ensure!(longest < PATIENCE, "the honest client has waited {longest:?}");
    Ok(streams)
}

/// The honest client works for so long; returns the longest wait.
fn serve_for(field: &mut Field, time: Duration) -> Result<Duration> {
    let (start, mut longest) = (Instant::now(), Duration::ZERO);
    while start.elapsed() < time {
        longest = longest.max(field.serve_honest().context("the honest client is not served")?);
    }
    Ok(longest)
}

/// Carries an attack out, and tells what it cost.
fn measure(attack: &Attack, field: &mut Field, memory: &Memory) -> Result<()> {
    memory.forget_peak()?;
    let before = memory.now()?;
    let streams = (attack.carry_out)(field)?;
    let longest = serve_for(field, Duration::from_secs(1))?;
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
    ensure!(longest < attack.patience, "the honest client has waited {longest:?}");
    let bound = attack.bound + SLACK;
    ensure!(held <= bound, "the server held {} MiB more, and {} MiB is the bound", held / MIB, bound / MIB);
    Ok(())
}

/// Carries the attacks out, in the server's network and process namespace.
pub(crate) fn attack(options: &Options) -> Result<()> {
    let memory = Memory(options.pid);
    let mut field = Field::new(options.address)?;
    let mut failed = Vec::new();
    for attack in ATTACKS {
        if let Err(error) = measure(attack, &mut field, &memory) {
            failed.push(format!("{}: {error:#}", attack.name));
            // A reply that came too late is not the reply to the next call.
            field.honest = Client::connect(options.address)?;
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("the server did not hold: {}", failed.join("; ")) }
}

/// The scenario: servers of NFS in processes of their own, of a directory and of memory, with their default bounds.
pub(crate) fn run(stage: &Stage) -> Result<()> {
    fs::create_dir(stage.path("export"))?;
    fs::set_permissions(stage.path("export"), fs::Permissions::from_mode(0o777))?;
    for served in ["export", "--mem"] {
        // The attackers have more connections than there are privileged ports.
        let mut server = Embedded::start_nfs_everywhere(stage, &format!("{served} --insecure"))?;
        let pid = server.server().pid_in_namespace()?;
        let xtask = std::env::current_exe()?;
        let line = format!("--nofile={DESCRIPTORS} {} memory-attack {ADDRESS}:2049 {pid}", xtask.display());
        let said = crate::sh::text(&mut stage.program(Path::new("prlimit"), &line))?;
        println!("{served}:\n{said}");
        let figures = said.lines().filter(|line| line.contains("MiB at the most")).count();
        ensure!(figures == ATTACKS.len(), "{figures} attacks of {} were measured:\n{said}", ATTACKS.len());
        server.server().check_alive()?;
        server.stop()?;
    }
    Ok(())
}
