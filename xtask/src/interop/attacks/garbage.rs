//! A peer that sends broken bytes, in every way that a messenger has to bear. The same seed sends the same bytes.

use crate::interop::disk::Random;
use anyhow::{Context as _, Result};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which bytes
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where to
    address: SocketAddr,
}

const ROUNDS: usize = 200;
/// Connections that stay open and silent until the end.
const SILENT: usize = 8;
/// How long to wait for what the server answers.
const ANSWER: Duration = Duration::from_millis(50);

/// msgr2.rst, "Banner": the text, the length of what follows, supported and required features.
const BANNER: &[u8] = b"ceph v2\n\x10\x00\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// Connects again and again and sends something broken each time. An error only if it cannot connect: that is a
/// server which is gone.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut random = Random(options.seed);
    let connect = || {
        let stream = TcpStream::connect(options.address).context("the server takes no connections")?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(Duration::from_secs(1)))?;
        anyhow::Ok(stream)
    };
    let silent = (0..SILENT).map(|_| connect()).collect::<Result<Vec<_>>>()?;
    for round in 0..ROUNDS {
        let mut stream = connect().with_context(|| format!("in round {round}"))?;
        let bytes = broken(&mut random);
        // The server may close before it has read everything: that is its right.
        if stream.write_all(&bytes).is_ok() && random.below(2) == 0 {
            drain(&mut stream);
        }
    }
    drop(silent);
    Ok(())
}

/// Reads what the server says until it closes or falls silent.
fn drain(stream: &mut TcpStream) {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// One peer's worth of bytes.
fn broken(random: &mut Random) -> Vec<u8> {
    let length = random.below(20_000);
    match random.below(8) {
        0 => random.bytes(length),
        // A banner that ends early.
        1 => BANNER[..random.below(BANNER.len())].to_vec(),
        // A banner that announces more than a banner has.
        2 => [b"ceph v2\n\xff\xff", &random.bytes(length)[..]].concat(),
        // The banner of the first protocol.
        3 => [b"ceph v027", &random.bytes(length)[..]].concat(),
        4 => [BANNER, &random.bytes(length)].concat(),
        // A preamble whose checksum is right and whose segments are as long as can be.
        5 => {
            let tag = random.below(32) as u8;
            let mut bytes = [BANNER, &preamble(tag, &[u32::MAX; 4], random)].concat();
            bytes.extend(random.bytes(length));
            bytes
        }
        // Frames that are whole and mean nothing.
        6 => {
            let mut bytes = BANNER.to_vec();
            for _ in 0..1 + random.below(8) {
                let tag = random.below(32) as u8;
                bytes.extend(frame(tag, random));
            }
            bytes
        }
        // A frame cut off.
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

/// A frame of one segment with right checksums and random content.
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

/// CRC-32C as Ceph uses it: the caller gives the register's first value, and nothing is inverted at the end.
pub(super) fn crc32c(first: u32, bytes: &[u8]) -> u32 {
    let byte = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    };
    bytes.iter().fold(first, byte)
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
