//! Attacks on an NFS server.

use super::{Attack, MIB, PATIENCE, Target, attack_in_sandbox, connect_attacker, send, send_all, trickle};
use crate::attacks::wire::{self, Attacker, Handle, Set, User, Words, granted, mode, user};
use anyhow::{Result, ensure};
use onego_sandbox::{ADDRESS, Sandbox, Server};
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Bytes of a READ and a WRITE.
const TRANSFER: usize = 1 << 20;

/// Attacks servers of a directory and of memory with their default bounds.
pub(crate) fn run(sandbox: &Sandbox) -> Result<()> {
    fs::create_dir(sandbox.path("export"))?;
    for served in ["export", "--mem"] {
        // The attackers have more connections than there are privileged ports.
        let mut server = Server::nfs(sandbox, &format!("{served} --squash none --insecure"))?;
        let pid = server.daemon().pid_in_namespace()?;
        println!("{served}:");
        attack_in_sandbox::<AttackedServer>(sandbox, pid, &format!("nfs {ADDRESS}:2049"))?;
        server.daemon().check_alive()?;
        server.stop()?;
    }
    Ok(())
}

/// A server, and a file that its honest client reads and writes.
pub(super) struct AttackedServer {
    address: SocketAddr,
    honest: Attacker,
    caller: User,
    file: Handle,
}

impl AttackedServer {
    pub(super) fn new(address: SocketAddr) -> Result<Self> {
        let (mut honest, caller) = (Attacker::connect(address)?, user(0));
        let root = granted("MOUNT", honest.mount(&caller, "/export")?)?;
        let set = Set { size: Some(TRANSFER as u64), ..mode(0o644) };
        let file = granted("CREATE", honest.create(&caller, &root, "file", &set)?)?;
        let mut server = Self { address, honest, caller, file };
        // The memory that serves this client is allocated before anything is measured.
        (0..8).try_for_each(|_| server.serve_honest().map(drop))?;
        Ok(server)
    }

    fn read_args(&self) -> Words {
        Words::default().opaque(&self.file).u64(0).u32(TRANSFER as u32)
    }

    fn write_message(&self) -> Vec<u8> {
        let args = Words::default().opaque(&self.file).u64(0).u32(TRANSFER as u32).u32(0);
        wire::nfs_message(wire::WRITE, &self.caller, &args.opaque(&vec![1; TRANSFER]))
    }

    /// Opens nonblocking connections of attackers.
    fn connections(&self, count: usize) -> Result<Vec<TcpStream>> {
        let connect = |_| {
            let stream = connect_attacker(self.address)?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        (0..count).map(connect).collect()
    }
}

impl Target for AttackedServer {
    const ATTACKS: &'static [Attack<Self>] = &[
        // Half of what unfinished messages of all addresses may hold.
        Attack { name: "fragments of one byte", bound: 64 * MIB, carry_out: fragments },
        // What large messages may hold, and what is received ahead of the others.
        Attack { name: "records half sent", bound: (68 + 64) * MIB, carry_out: half_records },
        Attack { name: "replies not read", bound: 256 * MIB, carry_out: replies },
        Attack { name: "idle connections", bound: 64 * MIB, carry_out: idle },
        Attack { name: "slow writes", bound: (68 + 64) * MIB, carry_out: slow_writes },
    ];

    /// Writes and reads a large block.
    fn serve_honest(&mut self) -> Result<Duration> {
        let start = Instant::now();
        let status = self.honest.write(&self.caller, &self.file, &vec![7; TRANSFER])?;
        ensure!(status == wire::OK, "WRITE fails with status {status}");
        let read = self.honest.results(wire::READ, &self.caller, &self.read_args())?;
        ensure!(read.len() > TRANSFER, "READ returns {} bytes", read.len());
        Ok(start.elapsed())
    }

    fn reconnect(&mut self) -> Result<()> {
        self.honest = Attacker::connect(self.address)?;
        Ok(())
    }
}

/// 150 connections, each with a call in 64 Ki fragments of one byte.
fn fragments(server: &mut AttackedServer) -> Result<Vec<TcpStream>> {
    let fragments: Vec<u8> = (0..64 << 10).flat_map(|_| [0, 0, 0, 1, 7]).collect();
    let mut streams = server.connections(150)?;
    let mut sent = vec![0; streams.len()];
    for _ in 0..20 {
        for (stream, sent) in streams.iter_mut().zip(&mut sent) {
            *sent += send(stream, &fragments[*sent..])?;
        }
        sleep(Duration::from_millis(20));
    }
    let total: usize = sent.iter().sum();
    ensure!(total > 1 << 20, "the server accepts only {total} bytes of fragments: no attack");
    Ok(streams)
}

/// 2,000 WRITEs of 1 MiB, half sent.
fn half_records(server: &mut AttackedServer) -> Result<Vec<TcpStream>> {
    let message = server.write_message();
    let mut streams = server.connections(2000)?;
    let mut total = 0;
    for stream in &mut streams {
        total += send(stream, &message[..TRANSFER / 2])?;
    }
    ensure!(total > 128 << 20, "the server accepts only {total} bytes of WRITEs: no attack");
    Ok(streams)
}

/// 100 connections, each with 50 READs of 1 MiB whose replies are not read.
fn replies(server: &mut AttackedServer) -> Result<Vec<TcpStream>> {
    let mut streams = server.connections(100)?;
    let read = |_| wire::nfs_message(wire::READ, &server.caller, &server.read_args());
    send_all(&mut streams, &(0..50).flat_map(read).collect::<Vec<_>>())?;
    Ok(streams)
}

/// 4,096 idle connections, as many as the server accepts. None of them displaces the honest client's.
fn idle(server: &mut AttackedServer) -> Result<Vec<TcpStream>> {
    let streams = server.connections(4096)?;
    let start = Instant::now();
    let mut other = Attacker::connect(server.address)?;
    let status = other.status(wire::READ, &server.caller, &server.read_args())?;
    ensure!(status == wire::OK && start.elapsed() < PATIENCE, "a new client waits {:?}", start.elapsed());
    Ok(streams)
}

/// 64 WRITEs of 1 MiB that arrive slowly.
fn slow_writes(server: &mut AttackedServer) -> Result<Vec<TcpStream>> {
    let message = server.write_message();
    let mut streams = server.connections(64)?;
    trickle(server, &mut streams, &message, 1000)?;
    Ok(streams)
}
