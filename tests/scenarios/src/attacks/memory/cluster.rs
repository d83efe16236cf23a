//! Attacks on an OSD of the embedded cluster.

use super::messenger::{Connection, Op, footer, request};
use super::{Attack, MIB, PATIENCE, Target, attack_in_sandbox, send, send_all, trickle};
use crate::steps::json;
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{Sandbox, Server, sh};
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Idle connections: more than a cluster accepts with 20,000 descriptors (docs/design/admission.md).
const IDLE: usize = 11_000;

/// Bytes of a write and a read of librbd's size.
const TRANSFER: u32 = 4 << 20;
/// Bytes of the largest message that the server accepts.
const LARGEST: u32 = 90 << 20;
/// Bytes of a payload that the server discards while it arrives: more than two of the largest objects.
const TOO_LARGE: u32 = 300 << 20;
/// Bytes of a payload that is received together with others.
const SMALL: u32 = 16 << 10;

const EMSGSIZE: i32 = 90;

/// What the honest client writes to an image and reads back.
static HONEST_BYTES: [u8; 1 << 20] = [7; 1 << 20];

/// Lines of the honest client, each a process.
const HONEST: [&str; 3] =
    ["rbd import --no-progress file image", "rbd export --no-progress image -", "rbd rm --no-progress image"];

/// Attacks a cluster with its default bounds.
pub(crate) fn run(sandbox: &Sandbox) -> Result<()> {
    let mut cluster = Server::cluster(sandbox, "")?;
    let pid = cluster.daemon().pid_in_namespace()?;
    let map = json(&sandbox.ceph("ceph osd dump --format json")?)?;
    let addresses =
        map["osds"][0]["public_addrs"]["addrvec"].as_array().context("the OSD has no addresses")?;
    let address = addresses.iter().find(|address| address["type"] == "v1");
    let address =
        address.and_then(|address| address["addr"].as_str()).context("the OSD has no v1 address")?;
    let server = format!("cluster {address} {} {}", map["epoch"], sandbox.onego_program().display());
    attack_in_sandbox::<Osd>(sandbox, pid, &server)?;
    cluster.daemon().check_alive()?;
    cluster.stop()
}

/// An OSD, and the program that uses its cluster honestly.
pub(super) struct Osd {
    address: SocketAddr,
    /// Epoch of the map, which requests name.
    epoch: u32,
    onego: PathBuf,
}

impl Osd {
    pub(super) fn new(address: SocketAddr, epoch: u32, onego: &Path) -> Result<Self> {
        fs::write("file", HONEST_BYTES.as_slice())?;
        let mut osd = Self { address, epoch, onego: onego.to_owned() };
        let mut connection = Connection::open(address)?;
        connection.send(Op::WriteFull(TRANSFER), epoch, 1)?;
        ensure!(connection.result()? == 0, "an object cannot be written");
        // The memory that serves the honest client is allocated before anything is measured.
        osd.serve_honest()?;
        Ok(osd)
    }

    /// Opens nonblocking connections of attackers.
    fn connections(&self, count: usize) -> Result<Vec<TcpStream>> {
        // The server may refuse an address that has as many as it gets.
        let opened = (0..count).map_while(|_| Connection::open(self.address).ok());
        let streams: Vec<_> = opened.map(|connection| connection.stream).collect();
        streams.iter().try_for_each(|stream| stream.set_nonblocking(true))?;
        ensure!(streams.len() >= count / 2, "only {} of {count} connections were opened", streams.len());
        Ok(streams)
    }

    /// Returns a write without its payload.
    fn write(&self, length: u32) -> Vec<u8> {
        request(Op::WriteFull(length), self.epoch, 1)
    }
}

impl Target for Osd {
    const ATTACKS: &'static [Attack<Self>] = &[
        // Memory is taken when data arrives, not when it is announced.
        Attack { name: "payloads announced", bound: 64 * MIB, carry_out: announced },
        // What large messages may hold, and half of what other unfinished messages of all addresses may.
        Attack { name: "payloads half sent", bound: (64 + 128) * MIB, carry_out: half_sent },
        Attack { name: "slow payloads", bound: (64 + 128) * MIB, carry_out: slow },
        Attack { name: "bytes one at a time", bound: 128 * MIB, carry_out: single_bytes },
        // They are discarded while they arrive.
        Attack { name: "payloads over the bound", bound: 64 * MIB, carry_out: too_large },
        Attack { name: "replies not read", bound: 256 * MIB, carry_out: replies },
        Attack { name: "idle connections", bound: 256 * MIB, carry_out: |osd| osd.connections(IDLE) },
    ];

    fn serve_honest(&mut self) -> Result<Duration> {
        let start = Instant::now();
        for line in HONEST {
            let mut onego = Command::new(&self.onego);
            let said = sh::bytes(onego.args(["-c", "ceph.conf"]).args(line.split_whitespace()))?;
            let is_right = !line.contains("export") || said == HONEST_BYTES;
            ensure!(is_right, "the honest client reads other bytes");
        }
        Ok(start.elapsed())
    }

    fn reconnect(&mut self) -> Result<()> {
        // Each process has connections of its own.
        Ok(())
    }
}

/// 2,000 writes of the largest payload, of which nothing is sent.
fn announced(osd: &mut Osd) -> Result<Vec<TcpStream>> {
    let mut streams = osd.connections(2000)?;
    send_all(&mut streams, &osd.write(LARGEST))?;
    Ok(streams)
}

/// 500 writes of 4 MiB, half sent.
fn half_sent(osd: &mut Osd) -> Result<Vec<TcpStream>> {
    let mut message = osd.write(TRANSFER);
    message.resize(message.len() + TRANSFER as usize / 2, 1);
    let mut streams = osd.connections(500)?;
    let mut total = 0;
    for stream in &mut streams {
        total += send(stream, &message)?;
    }
    ensure!(total > 256 << 20, "the server accepts only {total} bytes: no attack");
    Ok(streams)
}

/// 64 writes of 4 MiB that arrive slowly.
fn slow(osd: &mut Osd) -> Result<Vec<TcpStream>> {
    let mut message = osd.write(TRANSFER);
    let begin = message.len() + 1000;
    message.resize(message.len() + TRANSFER as usize, 1);
    let mut streams = osd.connections(64)?;
    trickle(osd, &mut streams, &message, begin)?;
    Ok(streams)
}

/// 1,000 small writes in pieces of one byte, in turns: each byte may pin the buffer in which it arrived.
fn single_bytes(osd: &mut Osd) -> Result<Vec<TcpStream>> {
    let message = osd.write(SMALL);
    let mut streams = osd.connections(1000)?;
    send_all(&mut streams, &message)?;
    for _ in 0..200 {
        for stream in &mut streams {
            send(stream, &[1])?;
        }
    }
    Ok(streams)
}

/// Writes over the bound: two whole ones, which are refused without ending the connection, and 8 that stop midway.
fn too_large(osd: &mut Osd) -> Result<Vec<TcpStream>> {
    let mut connection = Connection::open(osd.address)?;
    for tid in [1, 3] {
        connection.send(Op::WriteFull(TOO_LARGE), osd.epoch, tid)?;
        let result = connection.result()?;
        ensure!(result == -EMSGSIZE, "a write of {TOO_LARGE} bytes returns {result}");
        connection.send(Op::Read(1), osd.epoch, tid + 1)?;
        ensure!(connection.result()? >= 0, "a read after it fails");
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
        ensure!(start.elapsed() < PATIENCE * 6, "the OSD has accepted {sent:?} bytes");
    }
    Ok(streams)
}

/// 100 connections, each with 50 reads of 4 MiB whose replies are not read.
fn replies(osd: &mut Osd) -> Result<Vec<TcpStream>> {
    let mut streams = osd.connections(100)?;
    let read = |tid| {
        let head = request(Op::Read(TRANSFER), osd.epoch, tid);
        let footer = footer(&head);
        [head, footer].concat()
    };
    send_all(&mut streams, &(1..=50).flat_map(read).collect::<Vec<_>>())?;
    Ok(streams)
}
