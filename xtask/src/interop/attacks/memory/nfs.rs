//! Attacks on a server of NFS.

use super::attack::{Attack, MIB, PATIENCE, Target, attack_on_stage, connect_attacker, send, trickle};
use crate::cluster::{ADDRESS, Embedded, Stage};
use crate::interop::attacks::wire::{self, Attacker, Handle, Set, User, Words, mode, user};
use anyhow::{Result, ensure};
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Bytes of one READ and one WRITE.
const TRANSFER: usize = 1 << 20;

/// The server, a file on it, and who reads and writes that honestly.
pub(super) struct AttackedServer {
    address: SocketAddr,
    honest: Attacker,
    caller: User,
    file: Handle,
}

impl AttackedServer {
    pub(super) fn new(address: SocketAddr) -> Result<Self> {
        let (mut honest, caller) = (Attacker::connect(address)?, user(1000));
        let root = honest.mount(&caller, "/export")?;
        let root = root.map_err(|status| anyhow::anyhow!("the export cannot be mounted: {status}"))?;
        let set = Set { size: Some(TRANSFER as u64), ..mode(0o644) };
        let made = honest.create(&caller, &root, "file", &set)?;
        let file = made.map_err(|status| anyhow::anyhow!("CREATE: {status}"))?;
        let mut server = Self { address, honest, caller, file };
        // The memory that serves this client is there before anything is measured.
        (0..8).try_for_each(|_| server.serve_honest().map(drop))?;
        Ok(server)
    }

    fn read_args(&self) -> Words {
        Words::default().opaque(&self.file).u64(0).u32(TRANSFER as u32)
    }

    fn write_message(&self) -> Vec<u8> {
        let args = Words::default().opaque(&self.file).u64(0).u32(TRANSFER as u32).u32(0);
        Attacker::nfs_message(wire::WRITE, &self.caller, &args.opaque(&vec![1; TRANSFER]))
    }

    /// Connections of attackers, which wait for nothing.
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

    /// A WRITE and a READ of a large block.
    fn serve_honest(&mut self) -> Result<Duration> {
        let start = Instant::now();
        let data = vec![7; TRANSFER];
        let status = self.honest.write(&self.caller, &self.file, &data)?;
        ensure!(status == wire::OK, "WRITE: {status}");
        let read = self.honest.results(wire::READ, &self.caller, self.read_args())?;
        ensure!(read.len() > TRANSFER, "READ gives {} bytes", read.len());
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
    ensure!(total > 1 << 20, "the server has taken {total} bytes of fragments, and nothing was tried");
    Ok(streams)
}

/// 2,000 WRITEs of 1 MiB each, of which half is sent.
fn half_records(server: &mut AttackedServer) -> Result<Vec<TcpStream>> {
    let message = server.write_message();
    let mut streams = server.connections(2000)?;
    let mut total = 0;
    for stream in &mut streams {
        total += send(stream, &message[..TRANSFER / 2])?;
    }
    ensure!(total > 128 << 20, "the attackers have sent {total} bytes, and nothing was tried");
    Ok(streams)
}

/// 100 connections, each with 50 READs of 1 MiB, whose replies nobody reads.
fn replies(server: &mut AttackedServer) -> Result<Vec<TcpStream>> {
    let mut streams = server.connections(100)?;
    let reads: Vec<u8> = (0..50)
        .flat_map(|_| Attacker::nfs_message(wire::READ, &server.caller, &server.read_args()))
        .collect();
    for stream in &mut streams {
        let sent = send(stream, &reads)?;
        ensure!(sent == reads.len(), "only {sent} bytes of READs were sent");
    }
    Ok(streams)
}

/// 4,096 connections that say nothing: as many as there may be. The honest client's gives way to none of them.
fn idle(server: &mut AttackedServer) -> Result<Vec<TcpStream>> {
    let streams = server.connections(4096)?;
    let mut other = Attacker::connect(server.address)?;
    let start = Instant::now();
    let status = other.status(wire::READ, &server.caller, server.read_args())?;
    ensure!(status == wire::OK && start.elapsed() < PATIENCE, "a new client waits {:?}", start.elapsed());
    Ok(streams)
}

/// 64 WRITEs of 1 MiB each, of which the beginning is sent, and a byte now and then.
fn slow_writes(server: &mut AttackedServer) -> Result<Vec<TcpStream>> {
    let message = server.write_message();
    let mut streams = server.connections(64)?;
    trickle(server, &mut streams, &message, 1000)?;
    Ok(streams)
}

/// The scenario: servers of NFS in processes of their own, of a directory and of memory, with their default bounds.
pub(crate) fn run(stage: &Stage) -> Result<()> {
    fs::create_dir(stage.path("export"))?;
    fs::set_permissions(stage.path("export"), fs::Permissions::from_mode(0o777))?;
    for served in ["export", "--mem"] {
        // The attackers have more connections than there are privileged ports.
        let mut server = Embedded::start_nfs(stage, &format!("{served} --insecure"))?;
        let pid = server.server().pid_in_namespace()?;
        println!("{served}:");
        attack_on_stage::<AttackedServer>(stage, pid, &format!("nfs {ADDRESS}:2049"))?;
        server.server().check_alive()?;
        server.stop()?;
    }
    Ok(())
}
