//! What goes out: replies in the order in which they are made, their payloads without a copy.

use crate::nbd::refusal::Refusal;
use onego_block::StatusExtent;
use onego_buf::{Arena, List, Pool};
use onego_nbd::codec::{
    ChunkHeader, ChunkType, EXTENDED_CHUNK_LEN, ErrorChunk, HeaderStyle, OptionCode, OptionError,
    OptionReply, OptionReplyType, RequestHeader, SIMPLE_REPLY_LEN, STRUCTURED_CHUNK_LEN, SimpleReply,
    StatusChunk,
};
use onego_nbd::tls::ClearText;

/// Replies of one connection that wait.
pub(super) struct Outbound {
    arena: Arena,
    /// What is to be sent before that which is pending in the arena.
    unsent: List,
}

impl ClearText for Outbound {
    #[inline]
    fn unsent(&self) -> usize {
        self.unsent.len() + self.arena.pending()
    }

    fn transmit(&mut self, out: &mut List, limit: usize) {
        self.arena.flush(&mut self.unsent);
        if self.unsent.len() <= limit {
            out.append(std::mem::take(&mut self.unsent));
        } else {
            out.append(self.unsent.split_to(limit.max(1)));
        }
    }
}

impl Outbound {
    pub(super) fn new(pool: Pool) -> Self {
        Self { arena: Arena::new(pool), unsent: List::new() }
    }

    /// Appends bytes.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.arena.bytes(bytes, &mut self.unsent);
    }

    /// Appends a reply to an option.
    pub(super) fn option_reply(&mut self, code: OptionCode, kind: OptionReplyType, data: &[u8]) {
        self.put(&OptionReply { code, kind, length: data.len() as u32 }.encode());
        self.put(data);
    }

    /// Appends the refusal of an option.
    pub(super) fn option_error(&mut self, code: OptionCode, error: OptionError, message: &str) {
        self.option_reply(code, OptionReplyType::Error(error), message.as_bytes());
    }

    /// Answers a read.
    pub(super) fn data(&mut self, style: HeaderStyle, request: &RequestHeader, mut data: List) {
        match style {
            HeaderStyle::Simple => self.simple(request, 0),
            // A chunk of content has at least one byte (nbd proto.md, 'Structured reply types').
            _ if data.is_empty() => return self.chunk(style, request, ChunkType::None, 0),
            _ => {
                self.chunk(style, request, ChunkType::OffsetData, 8 + data.len() as u64);
                self.arena.put(&request.offset.to_be_bytes(), &mut self.unsent);
            }
        }
        self.arena.pieces(&mut data, &mut self.unsent, |_| {});
    }

    /// Answers a request that has nothing to give.
    pub(super) fn done(&mut self, style: HeaderStyle, request: &RequestHeader) {
        match style {
            // With structured replies it may be a simple one where there is no payload, which is the shorter.
            HeaderStyle::Simple | HeaderStyle::Structured => self.simple(request, 0),
            HeaderStyle::Extended => self.chunk(style, request, ChunkType::None, 0),
        }
    }

    /// Answers a request for the status of bytes, which takes structured replies.
    pub(super) fn status(
        &mut self,
        style: HeaderStyle,
        request: &RequestHeader,
        context: u32,
        extents: Vec<StatusExtent>,
    ) {
        let extended = style == HeaderStyle::Extended;
        let payload = StatusChunk { context, extents }.encode(extended);
        let kind = if extended { ChunkType::BlockStatusExt } else { ChunkType::BlockStatus };
        self.chunk(style, request, kind, payload.len() as u64);
        self.put(&payload);
    }

    /// Answers a request that has failed.
    pub(super) fn refused(&mut self, style: HeaderStyle, request: &RequestHeader, refusal: &Refusal) {
        let error = refusal.code.number();
        if style == HeaderStyle::Simple {
            return self.simple(request, error);
        }
        let payload = ErrorChunk { error, message: &refusal.message }.encode();
        self.chunk(style, request, ChunkType::Error, payload.len() as u64);
        self.put(&payload);
    }

    #[inline]
    fn simple(&mut self, request: &RequestHeader, error: u32) {
        let reply = SimpleReply { error, cookie: request.cookie };
        self.arena.write::<SIMPLE_REPLY_LEN>(&mut self.unsent, |to| reply.encode(to));
    }

    /// Appends the header of the only chunk of a reply.
    #[inline]
    fn chunk(&mut self, style: HeaderStyle, request: &RequestHeader, kind: ChunkType, length: u64) {
        let RequestHeader { cookie, offset, .. } = *request;
        let chunk = ChunkHeader { done: true, kind, cookie, offset, length };
        match style {
            HeaderStyle::Extended => {
                self.arena.write::<EXTENDED_CHUNK_LEN>(&mut self.unsent, |to| chunk.encode_extended(to));
            }
            HeaderStyle::Simple | HeaderStyle::Structured => {
                self.arena.write::<STRUCTURED_CHUNK_LEN>(&mut self.unsent, |to| chunk.encode_structured(to));
            }
        }
    }
}
