//! Broken bytes on both ports of a cluster while others work, and wrong arguments.

use super::attack;
use crate::bench::Background;
use crate::steps::{ensure_pool, json};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{Sandbox, Server, disk::Random};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Most memory that broken bytes may cost the server, in bytes.
const TAKEN: u64 = 64 << 20;

/// Wrong arguments, each with the exit code that `onego --help` documents and a part of the error message.
const WRONG: &[(&str, i32, &str)] = &[
    ("no-such-command", 2, "no-such-command"),
    ("rbd create rbd/image --size", 2, "--size"),
    ("rbd create rbd/image --size lots", 2, "lots"),
    ("bench rbd --rw sideways", 2, "sideways"),
    ("bench rbd --block-size 0", 2, "0"),
    ("bench rbd --io-depth 0", 2, "0"),
    ("cluster start --listen not-an-address", 2, "not-an-address"),
    ("cluster start --memory lots", 2, "lots"),
    ("--conf missing.conf rbd ls rbd", 1, "missing.conf"),
    ("--conf ceph.conf rbd import missing.raw rbd/image", 1, "missing.raw"),
    ("--conf ceph.conf rbd ls nowhere", 3, "nowhere"),
    ("--conf ceph.conf rbd info rbd/nothing", 3, "nothing"),
    ("--conf ceph.conf rbd export rbd/nothing out.raw", 3, "nothing"),
    ("--conf ceph.conf rbd rm rbd/nothing", 3, "nothing"),
    ("--conf ceph.conf rbd create rbd/there --size 1M", 4, "there"),
    ("--mon-host 10.20.0.1:1 --connect-timeout 2 rbd ls rbd", 7, "no monitor"),
];

pub(super) fn run(sandbox: &Sandbox) -> Result<()> {
    let mut cluster = Server::cluster(sandbox, "")?;
    ensure_pool(sandbox)?;
    let osd = json(&sandbox.ceph("ceph osd dump --format json")?)?["osds"][0].take();
    let monitor = json(&sandbox.ceph("ceph mon dump --format json")?)?["mons"][0].take();
    let addresses = [monitor, osd].map(|daemon| {
        daemon["public_addrs"]["addrvec"][0]["addr"].as_str().unwrap_or("no address").to_owned()
    });
    let send = |address: &str, seed: usize| {
        let line = format!("send-garbage --seed {seed} {address}");
        let sent = attack(sandbox, &line).map(drop);
        sent.with_context(|| format!("replay with `cargo scenarios {line}` against a cluster there"))
    };
    let before = cluster.daemon().memory().peak()?;
    addresses.iter().enumerate().try_for_each(|(seed, address)| send(address, seed))?;
    let taken = cluster.daemon().memory().peak()? - before;
    ensure!(taken < TAKEN, "broken bytes cost the server {} MiB", taken >> 20);

    let mut load = Background::verified_writes(sandbox, 10)?;
    for (seed, address) in addresses.iter().enumerate() {
        load.check_running()?;
        send(address, 100 + seed)?;
    }
    load.finish(sandbox)?;
    sandbox.ceph("ceph osd stat")?;
    cluster.daemon().check_alive()?;

    sandbox.onego("--conf ceph.conf rbd create rbd/there --size 1M")?;
    for (line, code, expected) in WRONG {
        let output = sandbox.onego_fails(line)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.code() == Some(*code) && said.contains(expected) && !said.contains("panicked"),
            "`onego {line}` must exit with {code} and name `{expected}`, but: {}\n{said}",
            output.status
        );
    }
    ensure!(!sandbox.path("out.raw").exists(), "a failed export left a file");
    Ok(())
}

#[derive(clap::Args)]
pub(crate) struct Options {
    #[arg(long, default_value_t = 0)]
    seed: u64,
    address: SocketAddr,
}

const ROUNDS: usize = 200;

/// Connections that stay open and silent until the end.
const SILENT: usize = 8;

/// msgr2.rst, "Banner": the text, the length of the rest, supported and required features.
const BANNER: &[u8] = b"ceph v2\n\x10\x00\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// Connects again and again and sends something broken each time. Fails only if the server accepts no connection.
pub(super) fn send(options: &Options) -> Result<()> {
    let mut random = Random(options.seed);
    let connect = || {
        let stream = TcpStream::connect(options.address).context("the server accepts no connection")?;
        stream.set_read_timeout(Some(Duration::from_millis(20)))?;
        stream.set_write_timeout(Some(Duration::from_secs(1)))?;
        anyhow::Ok(stream)
    };
    let silent = (0..SILENT).map(|_| connect()).collect::<Result<Vec<_>>>()?;
    for round in 0..ROUNDS {
        let mut stream = connect().with_context(|| format!("round {round}"))?;
        // The server may close the connection before it has read everything.
        if stream.write_all(&broken(&mut random)).is_ok() && random.below(2) == 0 {
            read_replies(&mut stream);
        }
    }
    drop(silent);
    Ok(())
}

/// Reads until the server closes the connection or falls silent.
fn read_replies(stream: &mut TcpStream) {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(1..) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
        }
    }
}

/// Returns what one connection sends.
fn broken(random: &mut Random) -> Vec<u8> {
    let length = random.below(20_000);
    match random.below(8) {
        0 => random.bytes(length),
        // A banner that ends early.
        1 => BANNER[..random.below(BANNER.len())].to_vec(),
        // A banner with a length that is too large.
        2 => [b"ceph v2\n\xff\xff", &random.bytes(length)[..]].concat(),
        // The banner of version 1.
        3 => [b"ceph v027", &random.bytes(length)[..]].concat(),
        4 => [BANNER, &random.bytes(length)].concat(),
        // A valid preamble with the longest segments.
        5 => {
            let tag = random.below(32) as u8;
            [BANNER, &preamble(tag, &[u32::MAX; 4], random), &random.bytes(length)].concat()
        }
        // Complete frames with random content.
        6 => (0..1 + random.below(8)).fold(BANNER.to_vec(), |bytes, _| {
            let tag = random.below(32) as u8;
            [bytes, frame(tag, random)].concat()
        }),
        // A truncated frame.
        _ => {
            let tag = 1 + random.below(20) as u8;
            let bytes = [BANNER, &frame(tag, random)].concat();
            bytes[..random.below(bytes.len())].to_vec()
        }
    }
}

/// msgr2.rst, "Frame format" of revision 1: tag, segments with length and alignment, flags, checksum.
fn preamble(tag: u8, segments: &[u32], random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![tag, segments.len() as u8];
    for at in 0..4 {
        bytes.extend(segments.get(at).copied().unwrap_or(0).to_le_bytes());
        bytes.extend((8u16 << random.below(4)).to_le_bytes());
    }
    bytes.extend([0, 0]);
    let crc = crc32c(0, &bytes);
    bytes.extend(crc.to_le_bytes());
    bytes
}

/// Returns a frame of one segment with random content and valid checksums.
fn frame(tag: u8, random: &mut Random) -> Vec<u8> {
    let length = random.below(200);
    let content = random.bytes(length);
    let mut bytes = preamble(tag, &[length as u32], random);
    if !content.is_empty() {
        let crc = crc32c(!0, &content);
        bytes.extend(content);
        bytes.extend(crc.to_le_bytes());
    }
    bytes
}

/// CRC-32C as Ceph uses it: the caller gives the register's initial value, and the result is not inverted.
pub(super) fn crc32c(initial: u32, bytes: &[u8]) -> u32 {
    let byte = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    };
    bytes.iter().fold(initial, byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc32c() {
        // The check value of the CRC catalogue, where the register is inverted at both ends.
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
    }

    #[test]
    fn the_same_seed_sends_the_same_bytes() {
        let send = |seed| {
            let mut random = Random(seed);
            (0..50).map(|_| broken(&mut random)).collect::<Vec<_>>()
        };
        assert_eq!(send(1), send(1));
        assert_ne!(send(1), send(2));
    }
}
