//! A client of an OSD in version 1 of the messenger's protocol, that sends as much of a message as it likes.
//!
//! It has its own encoders, so that an error in those of the server is not made twice. Source: ceph
//! `doc/dev/network-protocol.rst`, `src/include/msgr.h`, `src/messages/MOSDOp.h`, `src/osd/osd_types.h`.

use super::attack::connect_attacker;
use crate::interop::attacks::garbage::crc32c;
use anyhow::{Context as _, Result, bail, ensure};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const BANNER: &[u8] = b"ceph v027";
/// Bytes of an address as this version writes it.
const ADDRESS_LEN: usize = 136;
/// Bytes of the answer to what a client asks for, and of its authorizer's.
const REPLY_LEN: usize = 26;

const HEADER_LEN: usize = 53;
const FOOTER_LEN: usize = 21;

/// What comes is one of these (`CEPH_MSGR_TAG_*`).
const READY: u8 = 1;
const MESSAGE: u8 = 7;
const ACK: u8 = 8;

/// All features but the one by which sessions that are taken up again say what they have (`RECONNECT_SEQ`).
const FEATURES: u64 = !(1 << 6);
/// `CEPH_OSDC_PROTOCOL`.
const PROTOCOL: u32 = 24;
const CLIENT: u8 = 8;
/// The method that proves nothing (`CEPH_AUTH_NONE`).
const NO_PROOF: u32 = 1;
/// The connection's session is gone with it (`CEPH_MSG_CONNECT_LOSSY`).
const LOSSY: u8 = 1;
/// A message is whole, and its payload has no checksum.
const FOOTER_FLAGS: u8 = 1 | 2;

const OSD_OP: u16 = 42;
const OSD_OP_REPLY: u16 = 43;
const ON_DISK: u32 = 4;
const READS: u32 = 0x10;
const WRITES: u32 = 0x20;
/// The object as it is, not a snapshot of it.
const NO_SNAPSHOT: u64 = u64::MAX - 1;
/// The pool that the cluster has from the start.
const POOL: u64 = 1;

/// How long a reply may take that comes at all, but for those to requests by an old map.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait for a reply that does not come if the request's map is too old.
const DROPPED: Duration = Duration::from_millis(200);
/// Maps that a cluster that has just begun may have.
const MAX_EPOCH: u32 = 100;

/// Gives each client its number.
static CLIENTS: AtomicU64 = AtomicU64::new(1_000_000);

/// What a request asks for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Op {
    /// Bytes from the object's begin.
    Read(u32),
    /// Bytes that replace all that the object has.
    WriteFull(u32),
}

/// Bytes of a message before its payload: tag, header and front. The request is on the object "attacked" at position 0.
pub(super) fn request(op: Op, epoch: u32, tid: u64) -> Vec<u8> {
    let (code, flags, length, payload) = match op {
        Op::Read(length) => (0x1201_u16, READS, length, 0),
        Op::WriteFull(length) => (0x2202, WRITES, length, length),
    };
    let mut front = Vec::new();
    // The placement group, with an envelope of 18 bytes; none of the last two numbers.
    front.extend([1, 1, 18, 0, 0, 0, 1]);
    front.extend(POOL.to_le_bytes());
    front.extend(0_u32.to_le_bytes());
    front.extend((-1_i32).to_le_bytes());
    front.push(u8::MAX);
    // The object's position, the sender's map, flags.
    [0, epoch, flags | ON_DISK].iter().for_each(|word| front.extend(word.to_le_bytes()));
    // The request's name, which its sender and number give; trace, incarnation and time.
    front.extend([2, 2, 21, 0, 0, 0]);
    front.extend([0; 21 + 24 + 4 + 8]);
    // Where the object is: the pool, and a position of its own instead of that of its name.
    front.extend([6, 6, 28, 0, 0, 0]);
    front.extend(POOL.to_le_bytes());
    front.extend((-1_i32).to_le_bytes());
    front.extend([0; 4 + 4 + 8]);
    let name = b"attacked";
    front.extend((name.len() as u32).to_le_bytes());
    front.extend(name);
    // One operation: its code, flags, offset, length, truncation, and the length of its payload.
    front.extend(1_u16.to_le_bytes());
    front.extend(code.to_le_bytes());
    front.extend([0; 4 + 8]);
    front.extend(u64::from(length).to_le_bytes());
    front.extend([0; 8 + 4]);
    front.extend(payload.to_le_bytes());
    // No snapshots; the first attempt.
    front.extend(NO_SNAPSHOT.to_le_bytes());
    front.extend([0; 8 + 4 + 4]);
    front.extend(FEATURES.to_le_bytes());
    [header(tid, &front, payload), front].concat()
}

/// Tag and header of a request.
fn header(tid: u64, front: &[u8], payload: u32) -> Vec<u8> {
    let mut bytes = vec![MESSAGE];
    bytes.extend(tid.to_le_bytes());
    bytes.extend(tid.to_le_bytes());
    // Kind, priority and version; the lengths of front, middle and payload.
    [OSD_OP, 127, 8].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    [front.len() as u32, 0, payload].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    // Alignment; the sender, who is known; the oldest version that can be read; nothing.
    bytes.extend([0; 2 + 9]);
    bytes.extend(3_u16.to_le_bytes());
    bytes.extend([0; 2]);
    let crc = crc32c(0, &bytes[1..]);
    bytes.extend(crc.to_le_bytes());
    bytes
}

/// The footer of a request that begins with these bytes.
pub(super) fn footer(request: &[u8]) -> Vec<u8> {
    let mut bytes = crc32c(0, &request[1 + HEADER_LEN..]).to_le_bytes().to_vec();
    // The checksums of what is not there and of the payload, and room for a signature.
    bytes.extend([0; 4 + 4 + 8]);
    bytes.push(FOOTER_FLAGS);
    bytes
}

/// A connection to an OSD, whose handshake is through.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
}

impl Connection {
    pub(super) fn connect(address: SocketAddr) -> Result<Self> {
        let mut stream = connect_attacker(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&hello()).context("the handshake is not taken")?;
        let mut said = [0; BANNER.len() + 2 * ADDRESS_LEN + REPLY_LEN];
        stream.read_exact(&mut said).context("the handshake is not answered")?;
        ensure!(said.starts_with(BANNER), "the server speaks something else");
        let reply = &said[BANNER.len() + 2 * ADDRESS_LEN..];
        ensure!(reply[0] == READY, "the handshake is answered with {}", reply[0]);
        let proof = le(&reply[21..25]) as usize;
        stream.read_exact(&mut vec![0; proof])?;
        Ok(Self { stream })
    }

    /// Sends a whole request with a payload of zeros.
    pub(super) fn send(&mut self, op: Op, epoch: u32, tid: u64) -> Result<()> {
        let head = request(op, epoch, tid);
        self.stream.write_all(&head)?;
        if let Op::WriteFull(length) = op {
            let zeros = vec![0; 1 << 20];
            let mut left = length as usize;
            while left > 0 {
                let part = left.min(zeros.len());
                self.stream.write_all(&zeros[..part])?;
                left -= part;
            }
        }
        Ok(self.stream.write_all(&footer(&head))?)
    }

    /// The result of the request that is answered next. `None`: nothing has come in time.
    pub(super) fn result(&mut self) -> Result<Option<i32>> {
        loop {
            let mut tag = [0];
            match self.stream.read_exact(&mut tag) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                read => read.context("the connection has ended")?,
            }
            match tag[0] {
                ACK => self.stream.read_exact(&mut [0; 8])?,
                MESSAGE => {
                    let (kind, front) = self.message()?;
                    if kind == OSD_OP_REPLY {
                        return result_in(&front).map(Some);
                    }
                }
                other => bail!("the OSD sends the tag {other}"),
            }
        }
    }

    /// The kind of a message, and its front.
    fn message(&mut self) -> Result<(u16, Vec<u8>)> {
        let mut header = [0; HEADER_LEN];
        self.stream.read_exact(&mut header)?;
        let [front, middle, payload] = [22, 26, 30].map(|at| le(&header[at..at + 4]) as usize);
        let mut body = vec![0; front + middle + payload + FOOTER_LEN];
        self.stream.read_exact(&mut body)?;
        body.truncate(front);
        Ok((le(&header[16..18]) as u16, body))
    }
}

/// All that a client says in the handshake: it need not know what the server says.
fn hello() -> Vec<u8> {
    let number = CLIENTS.fetch_add(1, Ordering::Relaxed);
    let mut proof = vec![1];
    let name = b"admin";
    [u32::from(CLIENT), name.len() as u32].iter().for_each(|word| proof.extend(word.to_le_bytes()));
    proof.extend(name);
    proof.extend(number.to_le_bytes());
    let mut bytes = [BANNER, &[0; ADDRESS_LEN]].concat();
    bytes.extend(FEATURES.to_le_bytes());
    // The numbers of the connection among all and in its session stand between.
    [CLIENT.into(), 1, 0, PROTOCOL, NO_PROOF, proof.len() as u32]
        .iter()
        .for_each(|word: &u32| bytes.extend(word.to_le_bytes()));
    bytes.push(LOSSY);
    bytes.extend(proof);
    bytes
}

/// The newest map that a cluster serves by.
pub(super) fn find_epoch(address: SocketAddr) -> Result<u32> {
    let mut connection = Connection::connect(address)?;
    connection.stream.set_read_timeout(Some(DROPPED))?;
    for epoch in 1..MAX_EPOCH {
        connection.send(Op::Read(1), epoch, epoch.into())?;
        if connection.result()?.is_some() {
            return Ok(epoch);
        }
    }
    bail!("the OSD answers no request by any map up to {MAX_EPOCH}")
}

/// The result that a reply states (`MOSDOpReply`).
fn result_in(front: &[u8]) -> Result<i32> {
    let name = le(front.get(..4).context("a reply is too short")?) as usize;
    // The placement group and the flags stand between.
    let at = 4 + name + 17 + 8;
    Ok(le(front.get(at..at + 4).context("a reply is too short")?) as i32)
}

fn le(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}
