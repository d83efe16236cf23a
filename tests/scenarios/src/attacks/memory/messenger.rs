//! A client of an OSD in version 1 of the messenger's protocol that sends any part of a message.
//!
//! It has encoders of its own, so it does not repeat errors of the server's. Source: ceph
//! `doc/dev/network-protocol.rst`, `src/include/msgr.h`, `src/messages/MOSDOp.h`, `src/osd/osd_types.h`.

use super::connect_attacker;
use crate::attacks::garbage::crc32c;
use anyhow::{Context as _, Result, bail, ensure};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const BANNER: &[u8] = b"ceph v027";
/// Bytes of an address.
const ADDRESS_LEN: usize = 136;
/// Bytes of the reply to a connection request, before its authorizer.
const REPLY_LEN: usize = 26;
const HEADER_LEN: usize = 53;
const FOOTER_LEN: usize = 21;

/// `CEPH_MSGR_TAG_*`.
const READY: u8 = 1;
const MESSAGE: u8 = 7;
const ACK: u8 = 8;

/// All features but `RECONNECT_SEQ`.
const FEATURES: u64 = !(1 << 6);
/// `CEPH_OSDC_PROTOCOL`.
const PROTOCOL: u32 = 24;
/// `CEPH_ENTITY_TYPE_CLIENT`.
const CLIENT: u32 = 8;
/// `CEPH_AUTH_NONE`.
const NO_AUTH: u32 = 1;
/// `CEPH_MSG_CONNECT_LOSSY`.
const LOSSY: u8 = 1;
/// The message is complete and its payload has no checksum.
const FOOTER_FLAGS: u8 = 1 | 2;

const OSD_OP: u16 = 42;
const OSD_OP_REPLY: u16 = 43;
/// `CEPH_OSD_FLAG_*`.
const ON_DISK: u32 = 4;
const READS: u32 = 0x10;
const WRITES: u32 = 0x20;
/// `CEPH_NOSNAP`.
const NO_SNAPSHOT: u64 = u64::MAX - 1;
/// Number of the pool that the cluster has from the start.
const POOL: u64 = 1;

/// Time limit of a reply.
const PATIENCE: Duration = Duration::from_secs(30);

/// An operation on the object `attacked`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Op {
    /// Reads that many bytes from the start.
    Read(u32),
    /// Replaces the object by that many bytes.
    WriteFull(u32),
}

/// Little-endian encoder.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn u16(self, value: u16) -> Self {
        self.raw(&value.to_le_bytes())
    }

    fn u32(self, value: u32) -> Self {
        self.raw(&value.to_le_bytes())
    }

    fn u64(self, value: u64) -> Self {
        self.raw(&value.to_le_bytes())
    }

    fn zeros(mut self, count: usize) -> Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }
}

/// Returns a request up to its payload: tag, header and front.
pub(super) fn request(op: Op, epoch: u32, tid: u64) -> Vec<u8> {
    let (code, flags, length, payload) = match op {
        Op::Read(length) => (0x1201, READS, length, 0),
        Op::WriteFull(length) => (0x2202, WRITES, length, length),
    };
    // Placement group with an envelope of 18 bytes, no preferred OSD, no shard; hash, epoch, flags.
    let front = Bytes::default().raw(&[1, 1, 18, 0, 0, 0, 1]).u64(POOL).u32(0).u32(u32::MAX).raw(&[u8::MAX]);
    let front = front.u32(0).u32(epoch).u32(flags | ON_DISK);
    // Request id, which the sender and the tid imply; trace, incarnation, time.
    let front = front.raw(&[2, 2, 21, 0, 0, 0]).zeros(21 + 24 + 4 + 8);
    // Object locator: pool, explicit hash 0; object name.
    let front = front.raw(&[6, 6, 28, 0, 0, 0]).u64(POOL).u32(u32::MAX).zeros(4 + 4 + 8);
    let front = front.u32(8).raw(b"attacked");
    // One operation: code, flags, offset, length, truncation, length of the payload.
    let front = front.u16(1).u16(code).zeros(4 + 8).u64(length.into()).zeros(8 + 4).u32(payload);
    // No snapshots, first attempt.
    let front = front.u64(NO_SNAPSHOT).zeros(8 + 4 + 4).u64(FEATURES).0;

    // Sequence number, tid, type, priority, version; lengths of front, middle and payload.
    let header = Bytes::default().u64(tid).u64(tid).u16(OSD_OP).u16(127).u16(8);
    let header = header.u32(front.len() as u32).u32(0).u32(payload);
    // Alignment and sender; oldest compatible version; reserved.
    let header = header.zeros(2 + 9).u16(3).zeros(2);
    let crc = crc32c(0, &header.0);
    Bytes(vec![MESSAGE]).raw(&header.u32(crc).0).raw(&front).0
}

/// Returns the footer of a request: checksums of front, middle and payload, signature, flags.
pub(super) fn footer(request: &[u8]) -> Vec<u8> {
    let crc = crc32c(0, &request[1 + HEADER_LEN..]);
    Bytes::default().u32(crc).zeros(4 + 4 + 8).raw(&[FOOTER_FLAGS]).0
}

/// A connection to an OSD after the handshake.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
}

impl Connection {
    pub(super) fn open(address: SocketAddr) -> Result<Self> {
        let mut stream = connect_attacker(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&hello()).context("the handshake is not accepted")?;
        let mut said = [0; BANNER.len() + 2 * ADDRESS_LEN + REPLY_LEN];
        stream.read_exact(&mut said).context("the handshake has no reply")?;
        ensure!(said.starts_with(BANNER), "the server speaks another protocol");
        let reply = &said[BANNER.len() + 2 * ADDRESS_LEN..];
        ensure!(reply[0] == READY, "the handshake's reply has tag {}", reply[0]);
        stream.read_exact(&mut vec![0; le(&reply[21..25]) as usize])?;
        Ok(Self { stream })
    }

    /// Sends a complete request with a payload of zeros.
    pub(super) fn send(&mut self, op: Op, epoch: u32, tid: u64) -> Result<()> {
        let head = request(op, epoch, tid);
        self.stream.write_all(&head)?;
        if let Op::WriteFull(length) = op {
            let zeros = vec![0; length as usize];
            self.stream.write_all(&zeros)?;
        }
        Ok(self.stream.write_all(&footer(&head))?)
    }

    /// Returns the result in the next reply to a request.
    pub(super) fn result(&mut self) -> Result<i32> {
        loop {
            let mut tag = [0];
            self.stream.read_exact(&mut tag).context("the OSD does not reply")?;
            match tag[0] {
                ACK => self.stream.read_exact(&mut [0; 8])?,
                MESSAGE => {
                    let (kind, front) = self.message()?;
                    if kind == OSD_OP_REPLY {
                        return result_in(&front);
                    }
                }
                other => bail!("the OSD sends tag {other}"),
            }
        }
    }

    /// Reads a message and returns its type and front.
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

/// Returns all that a client sends in the handshake; nothing of it depends on the server.
fn hello() -> Vec<u8> {
    static CLIENTS: AtomicU64 = AtomicU64::new(1_000_000);
    let authorizer = Bytes(vec![1]).u32(CLIENT).u32(5).raw(b"admin");
    let authorizer = authorizer.u64(CLIENTS.fetch_add(1, Ordering::Relaxed)).0;
    let hello = Bytes::default().raw(BANNER).zeros(ADDRESS_LEN).u64(FEATURES).u32(CLIENT);
    // Numbers of the connection among all and in its session.
    let hello = hello.u32(1).u32(0).u32(PROTOCOL).u32(NO_AUTH).u32(authorizer.len() as u32);
    hello.raw(&[LOSSY]).raw(&authorizer).0
}

/// Returns the result in the front of a reply (`MOSDOpReply`): it follows the name, the placement group and the flags.
fn result_in(front: &[u8]) -> Result<i32> {
    let name = le(front.get(..4).context("a reply is too short")?) as usize;
    let at = 4 + name + 17 + 8;
    Ok(le(front.get(at..at + 4).context("a reply is too short")?) as i32)
}

fn le(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}
