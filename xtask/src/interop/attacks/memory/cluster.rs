//! Attacks on an OSD of the embedded cluster.

use super::attack::{Attack, MIB, PATIENCE, Target, attack_on_stage, send, trickle};
use super::messenger::{Connection, Op, find_epoch, footer, request};
use crate::cluster::{Embedded, Stage};
use crate::sh;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Idle connections: more than a cluster takes that may have 20,000 descriptors (docs/design/admission.md).
const IDLE: usize = 11_000;

/// Bytes of a write and a read as RBD makes them.
const TRANSFER: u32 = 4 << 20;
/// Bytes of the largest message that is not refused for its size.
const LARGEST: u32 = 90 << 20;
/// Bytes of a payload that is discarded as it comes: more than two of the largest objects have.
const TOO_LARGE: u32 = 300 << 20;
/// Bytes of a payload that is small enough to be received with others.
const SMALL: u32 = 16 << 10;

const EMSGSIZE: i32 = 90;

/// What the honest client writes and reads.
static HONEST_BYTES: [u8; 1 << 20] = [7; 1 << 20];

/// What the honest client does, each by a process of its own: it writes a file to an image, reads it back, and removes it.
const HONEST: [&str; 3] =
    ["rbd import --no-progress file image", "rbd export --no-progress image -", "rbd rm --no-progress image"];

/// An OSD, and the program that uses its cluster honestly.
pub(super) struct Osd {
    address: SocketAddr,
    onego: PathBuf,
    /// The map by which requests are made.
    epoch: u32,
}

impl Osd {
    pub(super) fn new(address: SocketAddr, onego: &Path) -> Result<Self> {
        fs::write("file", HONEST_BYTES.as_slice())?;
        let mut osd = Self { address, onego: onego.to_owned(), epoch: find_epoch(address)? };
        let mut connection = Connection::connect(address)?;
        connection.send(Op::WriteFull(TRANSFER), osd.epoch, 1)?;
        ensure!(connection.result()? == Some(0), "an object cannot be written");
        // The memory that serves the honest client is there before anything is measured.
        osd.serve_honest()?;
        Ok(osd)
    }

    /// Connections of attackers, whose handshakes are through, and which wait for nothing then.
    fn connections(&self, count: usize) -> Result<Vec<TcpStream>> {
        let mut streams = Vec::new();
        for _ in 0..count {
            // The server may refuse an address that has as many as it gets: that is its right.
            let Ok(Connection { stream, .. }) = Connection::connect(self.address) else { break };
            stream.set_nonblocking(true)?;
            streams.push(stream);
        }
        ensure!(streams.len() >= count / 2, "only {} connections of {count} were opened", streams.len());
        Ok(streams)
    }

    /// The beginning of a write, up to its payload.
    fn write(&self, length: u32) -> Vec<u8> {
        request(Op::WriteFull(length), self.epoch, 1)
    }
}

impl Target for Osd {
    const ATTACKS: &'static [Attack<Self>] = &[
        // Nothing has come of it, and it takes no memory before.
        Attack { name: "payloads announced", bound: 64 * MIB, carry_out: announced },
        // What large messages may hold, and half of what other unfinished messages of all addresses may.
        Attack { name: "payloads half sent", bound: (64 + 128) * MIB, carry_out: half_sent },
        Attack { name: "slow payloads", bound: (64 + 128) * MIB, carry_out: slow },
        Attack { name: "bytes one at a time", bound: 128 * MIB, carry_out: single_bytes },
        // They are discarded as they come.
        Attack { name: "payloads over the bound", bound: 64 * MIB, carry_out: too_large },
        Attack { name: "replies not read", bound: 256 * MIB, carry_out: replies },
        Attack { name: "idle connections", bound: 256 * MIB, carry_out: idle },
    ];

    fn serve_honest(&mut self) -> Result<Duration> {
        let start = Instant::now();
        for line in HONEST {
            let mut onego = Command::new(&self.onego);
            let said = sh::bytes(onego.args(["-c", "ceph.conf"]).args(line.split_whitespace()))?;
            ensure!(
                !line.contains("export") || said == HONEST_BYTES,
                "the honest client reads something else"
            );
        }
        Ok(start.elapsed())
    }

    fn reconnect(&mut self) -> Result<()> {
        // Each process has connections of its own.
        Ok(())
    }
}

/// 2,000 writes of the largest payload that is taken, of which nothing comes.
fn announced(osd: &mut Osd) -> Result<Vec<TcpStream>> {
    let message = osd.write(LARGEST);
    let mut streams = osd.connections(2000)?;
    for (at, stream) in streams.iter_mut().enumerate() {
        ensure!(send(stream, &message)? == message.len(), "connection {at} takes nothing");
    }
    Ok(streams)
}

/// 500 writes of 4 MiB each, of which half is sent.
fn half_sent(osd: &mut Osd) -> Result<Vec<TcpStream>> {
    let mut message = osd.write(TRANSFER);
    message.resize(message.len() + TRANSFER as usize / 2, 1);
    let mut streams = osd.connections(500)?;
    let mut total = 0;
    for stream in &mut streams {
        total += send(stream, &message)?;
    }
    ensure!(total > 256 << 20, "the attackers have sent {total} bytes, and nothing was tried");
    Ok(streams)
}

/// 64 writes of 4 MiB each, of which the beginning is sent, and a byte now and then.
fn slow(osd: &mut Osd) -> Result<Vec<TcpStream>> {
    let mut message = osd.write(TRANSFER);
    let begin = message.len() + 1000;
    message.resize(message.len() + TRANSFER as usize, 1);
    let mut streams = osd.connections(64)?;
    trickle(osd, &mut streams, &message, begin)?;
    Ok(streams)
}

/// 1,000 small writes, sent in pieces of one byte, in turns: each would keep what it came in.
fn single_bytes(osd: &mut Osd) -> Result<Vec<TcpStream>> {
    let mut message = osd.write(SMALL);
    let begin = message.len();
    message.resize(begin + SMALL as usize, 1);
    let mut streams = osd.connections(1000)?;
    for stream in &mut streams {
        ensure!(send(stream, &message[..begin])? == begin, "a connection takes nothing");
    }
    for byte in &message[begin..begin + 200] {
        for stream in &mut streams {
            send(stream, &[*byte])?;
        }
    }
    Ok(streams)
}

/// Writes over the bound, whole, and 8 at a time that stop in the middle. Each whole one is refused, and its connection goes
/// on.
fn too_large(osd: &mut Osd) -> Result<Vec<TcpStream>> {
    let mut connection = Connection::connect(osd.address)?;
    for tid in [1, 3] {
        connection.send(Op::WriteFull(TOO_LARGE), osd.epoch, tid)?;
        let result = connection.result()?;
        ensure!(result == Some(-EMSGSIZE), "a write of {TOO_LARGE} bytes gives {result:?}");
        connection.send(Op::Read(1), osd.epoch, tid + 1)?;
        ensure!(connection.result()?.is_some_and(|result| result >= 0), "a read after it fails");
    }
    let mut message = osd.write(TOO_LARGE);
    message.resize(message.len() + LARGEST as usize, 1);
    let mut streams = osd.connections(8)?;
    let mut sent = vec![0; streams.len()];
    let start = Instant::now();
    while sent.iter().any(|sent| *sent < message.len()) {
        for (stream, sent) in streams.iter_mut().zip(&mut sent) {
            *sent += send(stream, &message[*sent..])?;
        }
        ensure!(start.elapsed() < PATIENCE * 6, "the OSD has taken {sent:?} bytes");
    }
    Ok(streams)
}

/// 100 connections, each with 50 reads of 4 MiB, whose replies nobody reads.
fn replies(osd: &mut Osd) -> Result<Vec<TcpStream>> {
    let mut streams = osd.connections(100)?;
    let read = |tid| {
        let head = request(Op::Read(TRANSFER), osd.epoch, tid);
        let footer = footer(&head);
        [head, footer].concat()
    };
    let reads: Vec<u8> = (1..=50).flat_map(read).collect();
    for stream in &mut streams {
        let sent = send(stream, &reads)?;
        ensure!(sent == reads.len(), "only {sent} bytes of reads were sent");
    }
    Ok(streams)
}

/// Connections that say nothing after the handshake.
fn idle(osd: &mut Osd) -> Result<Vec<TcpStream>> {
    osd.connections(IDLE)
}

/// The scenario: a cluster in a process of its own, with its default bounds.
pub(crate) fn run(stage: &Stage) -> Result<()> {
    let mut cluster = Embedded::start(stage, "")?;
    let pid = cluster.server().pid_in_namespace()?;
    let address = osd_address(&fs::read_to_string(stage.path("cluster.out"))?)?;
    let server = format!("cluster {address} {}", stage.onego_program().display());
    attack_on_stage::<Osd>(stage, pid, &server)?;
    cluster.server().check_alive()?;
    cluster.stop()
}

/// Where the OSD is for clients of version 1, as the cluster says it.
fn osd_address(said: &str) -> Result<SocketAddr> {
    let (_, osd) = said.split_once(", OSD ").context("the cluster does not say where its OSD is")?;
    let (_, address) = osd.split_once("v1:").context("the OSD has no address of version 1")?;
    let (address, _) = address.split_once('/').context("the OSD's address has no nonce")?;
    Ok(address.parse()?)
}
