//! Parses the server's replies and applies them to their requests.

use super::error::ClientError;
use super::negotiation::{Agreed, text};
use super::pending::{Pending, PendingWork, error_of};
use crate::codec::{
    ChunkHeader, ChunkType, EXTENTS_MAX, ErrorChunk, HeaderStyle, ReplyHeader, STRING_MAX, SimpleReply,
    StatusChunk,
};
use crate::inbound::{HEADER_MAX, Inbound, LARGE};
use onego_block::StatusExtent;
use onego_buf::Pool;
use onego_wire::Reader;
use slab::Slab;
use std::ops::Range;

/// Maximum size of an error payload: error number, longest message, and offset.
const ERROR_MAX: u64 = 4 + 2 + STRING_MAX as u64 + 8;

/// Maximum errors in one reply, so that a server cannot prolong it endlessly.
const ERRORS_MAX: u32 = 64;

/// Maximum size of a status payload, with the maximum number of extents.
const STATUS_MAX: u64 = 8 + 16 * EXTENTS_MAX as u64;

pub(super) struct Replied(pub(super) usize);

#[derive(Default)]
enum Awaiting {
    #[default]
    Reply,
    Rest([u8; HEADER_MAX]),
    Offset(Chunk),
    Hole(Chunk),
    Bytes(Chunk),
    /// The complete data of a short read, which stays in the receive buffer.
    Shared(Chunk),
    Payload(Chunk, ChunkType),
}

#[derive(Clone, Copy)]
struct Chunk {
    key: usize,
    done: bool,
    length: u64,
}

#[derive(Default)]
pub(super) struct Replies {
    awaiting: Awaiting,
}

impl Replies {
    /// Processes input up to the end of a reply.
    pub(super) fn next(
        &mut self,
        inbound: &mut Inbound,
        agreed: &Agreed,
        pending: &mut Slab<Pending>,
        pool: &Pool,
    ) -> Result<Option<Replied>, ClientError> {
        let mut turn = Turn { inbound, agreed, pending, pool };
        loop {
            let (next, progress) = match std::mem::take(&mut self.awaiting) {
                Awaiting::Reply => turn.header()?,
                Awaiting::Rest(first) => turn.rest(first)?,
                Awaiting::Offset(chunk) => turn.offset(chunk)?,
                Awaiting::Hole(chunk) => turn.hole(chunk)?,
                Awaiting::Bytes(chunk) => turn.bytes(chunk),
                Awaiting::Shared(chunk) => turn.shared(chunk),
                Awaiting::Payload(chunk, kind) => turn.payload(chunk, kind)?,
            };
            let Progress::Continue = progress else {
                self.awaiting = next;
                return Ok(progress.replied());
            };
            self.awaiting = next;
        }
    }

    /// Returns the buffer of an interrupted receive to its read, after the connection has ended.
    pub(super) fn give_back(&self, inbound: &mut Inbound, pending: &mut Slab<Pending>) {
        if let Awaiting::Bytes(chunk) = &self.awaiting
            && let Some(buffer) = inbound.take_buffer()
            && let Some(Pending { work: PendingWork::Read(reading), .. }) = pending.get_mut(chunk.key)
        {
            reading.put_back(buffer);
        }
    }
}

enum Progress {
    Continue,
    NeedInput,
    Done(usize),
}

impl Progress {
    fn replied(self) -> Option<Replied> {
        match self {
            Self::Done(key) => Some(Replied(key)),
            Self::Continue | Self::NeedInput => None,
        }
    }
}

struct Turn<'a> {
    inbound: &'a mut Inbound,
    agreed: &'a Agreed,
    pending: &'a mut Slab<Pending>,
    pool: &'a Pool,
}

type Turned = (Awaiting, Progress);

impl Turn<'_> {
    fn header(&mut self) -> Result<Turned, ClientError> {
        let style = self.agreed.style;
        let first = ReplyHeader::first_len(style);
        let Some(bytes) = self.inbound.header(first) else {
            return Ok((Awaiting::Reply, Progress::NeedInput));
        };
        match ReplyHeader::rest_len(&bytes[..first], style) {
            0 => self.begin(&bytes[..first]),
            _ => Ok((Awaiting::Rest(bytes), Progress::Continue)),
        }
    }

    fn rest(&mut self, mut first: [u8; HEADER_MAX]) -> Result<Turned, ClientError> {
        let at = ReplyHeader::first_len(self.agreed.style);
        let len = ReplyHeader::rest_len(&first[..at], self.agreed.style);
        let Some(rest) = self.inbound.header(len) else {
            return Ok((Awaiting::Rest(first), Progress::NeedInput));
        };
        first[at..at + len].copy_from_slice(&rest[..len]);
        self.begin(&first[..at + len])
    }

    fn begin(&mut self, header: &[u8]) -> Result<Turned, ClientError> {
        match ReplyHeader::decode(&mut Reader::new(header), self.agreed.style)? {
            ReplyHeader::Simple(reply) => self.simple(reply),
            ReplyHeader::Chunk(chunk) => self.chunk(chunk),
        }
    }

    fn find(&mut self, cookie: u64) -> Result<(usize, &mut Pending), ClientError> {
        let key = cookie as u32 as usize;
        match self.pending.get_mut(key) {
            Some(pending) if pending.cookie == Some(cookie) => Ok((key, pending)),
            _ => Err(ClientError::Protocol("it replies to a request that was not sent")),
        }
    }

    fn simple(&mut self, SimpleReply { error, cookie }: SimpleReply) -> Result<Turned, ClientError> {
        let is_simple = self.agreed.style == HeaderStyle::Simple;
        let (key, pending) = self.find(cookie)?;
        if error != 0 {
            pending.error = Some(error_of(error, ""));
        }
        let length = match &pending.work {
            // (nbd proto.md, 'Structured replies')
            PendingWork::Read(_) if !is_simple => {
                return Err(ClientError::Protocol("it sends a simple reply to a read"));
            }
            PendingWork::Status(_) if error == 0 => {
                return Err(ClientError::Protocol("it sends no status for the requested range"));
            }
            PendingWork::Read(reading) if error == 0 => reading.length() as u64,
            _ => 0,
        };
        let chunk = Chunk { key, done: true, length };
        match length {
            0 => {
                self.inbound.expect_nothing();
                Ok((Awaiting::Reply, Progress::Done(key)))
            }
            length => self.data(chunk, 0..length as usize),
        }
    }

    fn chunk(&mut self, header: ChunkHeader) -> Result<Turned, ClientError> {
        let ChunkHeader { done, kind, cookie, length, .. } = header;
        let (key, pending) = self.find(cookie)?;
        let chunk = Chunk { key, done, length };
        let wrong = |what| Err(ClientError::Protocol(what));
        match (kind, &pending.work) {
            (ChunkType::None, PendingWork::Status(extents))
                if extents.is_empty() && pending.error.is_none() =>
            {
                wrong("it sends no status for the requested range")
            }
            (ChunkType::None, _) if length == 0 && done => {
                self.inbound.expect_nothing();
                Ok((Awaiting::Reply, Progress::Done(key)))
            }
            (ChunkType::OffsetData, PendingWork::Read(reading)) => match length.checked_sub(8) {
                Some(data) if data > 0 && data <= reading.length() as u64 => {
                    Ok((Awaiting::Offset(chunk), Progress::Continue))
                }
                _ => wrong("it sends data outside the requested range"),
            },
            (ChunkType::OffsetHole, PendingWork::Read(_)) if length == 12 => {
                Ok((Awaiting::Hole(chunk), Progress::Continue))
            }
            (ChunkType::BlockStatus | ChunkType::BlockStatusExt, PendingWork::Status(_))
                if length <= STATUS_MAX =>
            {
                self.inbound.expect(length as usize);
                Ok((Awaiting::Payload(chunk, kind), Progress::Continue))
            }
            (ChunkType::Error | ChunkType::ErrorOffset, _) if length <= ERROR_MAX => {
                self.inbound.expect(length as usize);
                Ok((Awaiting::Payload(chunk, kind), Progress::Continue))
            }
            _ => wrong("it sends a reply that does not match the request"),
        }
    }

    fn offset(&mut self, chunk: Chunk) -> Result<Turned, ClientError> {
        let Some(bytes) = self.inbound.header(8) else {
            return Ok((Awaiting::Offset(chunk), Progress::NeedInput));
        };
        let length = chunk.length - 8;
        let range = self.within(chunk.key, u64_at(&bytes, 0), length)?;
        self.data(chunk, range)
    }

    fn hole(&mut self, chunk: Chunk) -> Result<Turned, ClientError> {
        let Some(bytes) = self.inbound.header(12) else {
            return Ok((Awaiting::Hole(chunk), Progress::NeedInput));
        };
        let length = u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        let range = self.within(chunk.key, u64_at(&bytes, 0), length.into())?;
        self.inbound.expect_nothing();
        if let Some(Pending { work: PendingWork::Read(reading), .. }) = self.pending.get_mut(chunk.key) {
            reading.claim(range.clone())?;
            reading.put_zeros(range, self.pool);
        }
        Ok(chunk.ended())
    }

    fn within(&self, key: usize, offset: u64, length: u64) -> Result<Range<usize>, ClientError> {
        let pending = self.pending.get(key);
        let range = pending.and_then(|pending| {
            let start = offset.checked_sub(pending.offset)?;
            let end = start.checked_add(length).filter(|end| *end <= pending.length)?;
            Some(start as usize..end as usize)
        });
        range.ok_or(ClientError::Protocol("it sends data outside the requested range"))
    }

    fn data(&mut self, chunk: Chunk, range: Range<usize>) -> Result<Turned, ClientError> {
        let Some(Pending { work: PendingWork::Read(reading), .. }) = self.pending.get_mut(chunk.key) else {
            return Err(ClientError::Protocol("it sends a reply that does not match the request"));
        };
        let is_short = range.len() < LARGE && range.len() == reading.length();
        let takes_list = is_short && reading.takes_list();
        reading.claim(range.clone())?;
        if takes_list {
            self.inbound.expect(range.len());
            return Ok((Awaiting::Shared(chunk), Progress::Continue));
        }
        let buffer = reading.take(self.pool);
        self.inbound.expect_at(buffer, range.start, range.len());
        Ok((Awaiting::Bytes(chunk), Progress::Continue))
    }

    fn bytes(&mut self, chunk: Chunk) -> Turned {
        let Some(buffer) = self.inbound.buffer() else {
            return (Awaiting::Bytes(chunk), Progress::NeedInput);
        };
        if let Some(Pending { work: PendingWork::Read(reading), .. }) = self.pending.get_mut(chunk.key) {
            reading.put_back(buffer);
        }
        chunk.ended()
    }

    fn shared(&mut self, chunk: Chunk) -> Turned {
        let Some(list) = self.inbound.body() else { return (Awaiting::Shared(chunk), Progress::NeedInput) };
        if let Some(Pending { work: PendingWork::Read(reading), .. }) = self.pending.get_mut(chunk.key) {
            reading.put_list(list);
        }
        chunk.ended()
    }

    fn payload(&mut self, chunk: Chunk, kind: ChunkType) -> Result<Turned, ClientError> {
        let Some(payload) = self.inbound.body() else {
            return Ok((Awaiting::Payload(chunk, kind), Progress::NeedInput));
        };
        let payload = payload.to_segment();
        let extended = kind == ChunkType::BlockStatusExt;
        let Some(pending) = self.pending.get_mut(chunk.key) else {
            return Err(ClientError::Protocol("it replies to a request that was not sent"));
        };
        match kind {
            ChunkType::BlockStatus | ChunkType::BlockStatusExt => {
                let status = StatusChunk::decode(&payload, extended)?;
                if Some(status.context) != self.agreed.context {
                    return Err(ClientError::Protocol(
                        "it sends the status of an unselected metadata context",
                    ));
                }
                let most = pending.step();
                if let PendingWork::Status(extents) = &mut pending.work {
                    // A context has only one chunk (nbd proto.md, '`NBD_REPLY_TYPE_BLOCK_STATUS`').
                    if !extents.is_empty() {
                        return Err(ClientError::Protocol("it sends more than one status chunk"));
                    }
                    *extents = clipped(status.extents, most)?;
                }
            }
            _ => {
                let error = ErrorChunk::decode(&payload)?;
                if error.error == 0 {
                    return Err(ClientError::Protocol("it sends an error chunk with error number 0"));
                }
                pending.errors += 1;
                if pending.errors > ERRORS_MAX {
                    return Err(ClientError::Protocol("it sends more than 64 errors for one request"));
                }
                let message = text(error.message.as_bytes());
                pending.error.get_or_insert_with(|| error_of(error.error, &message));
            }
        }
        Ok(chunk.ended())
    }
}

impl Chunk {
    fn ended(self) -> Turned {
        (Awaiting::Reply, if self.done { Progress::Done(self.key) } else { Progress::Continue })
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(number)
}

/// Clips extents to the requested length: the last one may exceed it (nbd proto.md, '`NBD_REPLY_TYPE_BLOCK_STATUS`').
fn clipped(extents: Vec<StatusExtent>, length: u64) -> Result<Vec<StatusExtent>, ClientError> {
    let mut left = length;
    let mut clipped = Vec::new();
    for extent in extents {
        if extent.length == 0 {
            return Err(ClientError::Protocol("it sends an empty extent"));
        }
        let length = extent.length.min(left);
        StatusExtent::append(&mut clipped, length, extent.status);
        left -= length;
        if clipped.len() >= StatusExtent::MOST {
            break;
        }
    }
    match clipped.is_empty() {
        true => Err(ClientError::Protocol("it sends no status for the requested range")),
        false => Ok(clipped),
    }
}
