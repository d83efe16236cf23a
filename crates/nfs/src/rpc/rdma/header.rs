//! The transport header of RPC over RDMA, version 1 (RFC 8166, section 4), and the private data of connections (RFC
//! 8797).

use crate::xdr::{Reader, Writer, Xdr, decode_chain, encode_chain, xdr_struct};
use onego_rdma::{Key, Remote};
use onego_wire::{DecodeError, Decoded};
use thiserror::Error;

const VERSION: u32 = 1;

/// Message types (`rdma_proc`).
mod procedure {
    pub(super) const MESSAGE: u32 = 0;
    pub(super) const NO_MESSAGE: u32 = 1;
    pub(super) const ERROR: u32 = 4;
}

/// Error codes (`rpc_rdma_errcode`).
mod errcode {
    pub(super) const VERSION: u32 = 1;
    pub(super) const CHUNK: u32 = 2;
}

/// Maximum segments in all chunks of one kind: twice those of a 1 MiB payload in pages.
const SEGMENTS_MAX: usize = 512;
/// Maximum write chunks per call. NFS needs one.
const WRITE_CHUNKS_MAX: usize = 16;

xdr_struct! {
    /// Memory that the sender has registered for the receiver (`xdr_rdma_segment`).
    #[derive(Copy)]
    pub struct RdmaSegment {
        /// Handle (STag) of the memory.
        pub handle: u32,
        /// Length in bytes; in a reply, the number of bytes written.
        pub length: u32,
        /// Offset of the first byte.
        pub offset: u64,
    }

    /// Memory that the receiver reads (`xdr_read_chunk`). Consecutive segments with the same position form one chunk.
    #[derive(Copy)]
    pub struct ReadSegment {
        /// Position of the data in the encoded message; 0 if the data is the message itself.
        pub position: u32,
        /// The memory to read.
        pub target: RdmaSegment,
    }
}

impl RdmaSegment {
    /// Creates a segment of `length` bytes.
    pub fn new(memory: Remote, length: u32) -> Self {
        Self { handle: memory.key.0, length, offset: memory.offset }
    }

    /// Returns the address for RDMA Reads and Writes.
    pub fn remote(&self) -> Remote {
        Remote { key: Key(self.handle), offset: self.offset }
    }
}

/// Memory that the receiver writes, in segments (`xdr_write_chunk`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriteChunk(pub Vec<RdmaSegment>);

impl Xdr for WriteChunk {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        let count = r.len(SEGMENTS_MAX, "segments of a chunk")?;
        (0..count).map(|_| RdmaSegment::decode(r)).collect::<Decoded<_>>().map(Self)
    }

    fn encode(&self, w: &mut Writer) {
        w.len_of(self.0.len());
        self.0.iter().for_each(|target| target.encode(w));
    }
}

/// Data that is transferred separately from the message (RFC 8166, section 3.4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chunks {
    /// Memory of the sender to read, ordered by position.
    pub reads: Vec<ReadSegment>,
    /// Memory of the caller for results, one chunk per result.
    pub writes: Vec<WriteChunk>,
    /// Memory of the caller for a reply that is too long to send.
    pub reply: Option<WriteChunk>,
}

impl Xdr for Chunks {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            reads: decode_chain(r, SEGMENTS_MAX, "read segments")?,
            writes: decode_chain(r, WRITE_CHUNKS_MAX, "write chunks")?,
            reply: Option::decode(r)?,
        })
    }

    fn encode(&self, w: &mut Writer) {
        encode_chain(w, &self.reads);
        encode_chain(w, &self.writes);
        self.reply.encode(w);
    }
}

/// An error that the peer reports (`rpc_rdma_error`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RdmaError {
    /// The version is not supported; these are the lowest and highest that are.
    Version(u32, u32),
    /// The chunks are malformed or unusable.
    Chunk,
}

/// The body of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// An RPC message follows (`RDMA_MSG`).
    Message(Chunks),
    /// The RPC message is in a chunk (`RDMA_NOMSG`).
    NoMessage(Chunks),
    /// A message could not be processed (`RDMA_ERROR`).
    Error(RdmaError),
}

/// The header that precedes or replaces an RPC message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Transaction ID of the RPC message.
    pub xid: u32,
    /// Number of calls that the client requests or the server grants to have in flight.
    pub credits: u32,
    /// The body.
    pub content: Content,
}

/// A header that cannot be decoded. It can be answered with an error if its xid is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("invalid RPC-over-RDMA header: {why}")]
pub struct Unreadable {
    /// Transaction ID, if it could be read.
    pub xid: Option<u32>,
    /// Error to report to the sender.
    pub error: RdmaError,
    /// Reason for the failure.
    pub why: DecodeError,
}

impl Header {
    /// Decodes the header and leaves the message.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, Unreadable> {
        let unreadable = |xid, error| move |why| Unreadable { xid, error, why };
        let xid = r.u32("xid").map_err(unreadable(None, RdmaError::Chunk))?;
        let broken = unreadable(Some(xid), RdmaError::Chunk);
        let version = r.u32("version of RPC over RDMA").map_err(broken)?;
        if version != VERSION {
            let why = DecodeError::Invalid { what: "version of RPC over RDMA", value: version.into() };
            return Err(unreadable(Some(xid), RdmaError::Version(VERSION, VERSION))(why));
        }
        let credits = r.u32("credits").map_err(broken)?;
        let content = Content::decode(r).map_err(broken)?;
        Ok(Self { xid, credits, content })
    }

    /// Appends the encoded header.
    pub fn encode(&self, w: &mut Writer) {
        w.u32(self.xid);
        w.u32(VERSION);
        w.u32(self.credits);
        self.content.encode(w);
    }
}

impl Xdr for Content {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        match r.u32("procedure of RPC over RDMA")? {
            procedure::MESSAGE => Chunks::decode(r).map(Self::Message),
            procedure::NO_MESSAGE => Chunks::decode(r).map(Self::NoMessage),
            procedure::ERROR => RdmaError::decode(r).map(Self::Error),
            // RDMA_MSGP and RDMA_DONE must not be used (RFC 8166, section 4.2.4).
            other => Err(DecodeError::Invalid { what: "procedure of RPC over RDMA", value: other.into() }),
        }
    }

    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Message(chunks) => {
                w.u32(procedure::MESSAGE);
                chunks.encode(w);
            }
            Self::NoMessage(chunks) => {
                w.u32(procedure::NO_MESSAGE);
                chunks.encode(w);
            }
            Self::Error(error) => {
                w.u32(procedure::ERROR);
                error.encode(w);
            }
        }
    }
}

impl Xdr for RdmaError {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        match r.u32("error of RPC over RDMA")? {
            errcode::VERSION => Ok(Self::Version(r.u32("lowest version")?, r.u32("highest version")?)),
            errcode::CHUNK => Ok(Self::Chunk),
            other => Err(DecodeError::Invalid { what: "error of RPC over RDMA", value: other.into() }),
        }
    }

    fn encode(&self, w: &mut Writer) {
        match *self {
            Self::Version(low, high) => {
                w.u32(errcode::VERSION);
                w.u32(low);
                w.u32(high);
            }
            Self::Chunk => w.u32(errcode::CHUNK),
        }
    }
}

/// Transport parameters in the private data of a connection (RFC 8797, section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// Whether the peer may invalidate the sender's memory with its sends.
    pub remote_invalidation: bool,
    /// Maximum size of a message that the sender sends, in bytes.
    pub send_size: u32,
    /// Maximum size of a message that the sender receives, in bytes.
    pub receive_size: u32,
}

impl Default for Parameters {
    /// Defaults for a peer without private data (RFC 8166, section 3.3.2).
    fn default() -> Self {
        Self { remote_invalidation: false, send_size: 1024, receive_size: 1024 }
    }
}

impl Parameters {
    /// Encoded length in bytes.
    pub const LEN: usize = 8;
    /// Maximum message size that the encoding can express, in bytes.
    pub const SIZE_MAX: u32 = 256 << 10;

    const MAGIC: [u8; 4] = [0xf6, 0xab, 0x0e, 0x18];
    const FORMAT: u8 = 1;
    const REMOTE_INVALIDATION: u8 = 1;
    /// Sizes are encoded in multiples of this number of bytes, less one.
    const SIZE_UNIT: u32 = 1024;

    /// Decodes private data. Returns `None` for other formats, such as those of older peers.
    pub fn decode(private_data: &[u8]) -> Option<Self> {
        let (magic, rest) = private_data.split_first_chunk::<4>()?;
        let &[Self::FORMAT, flags, send, receive] = rest.first_chunk::<4>()? else { return None };
        let size = |told: u8| (u32::from(told) + 1) * Self::SIZE_UNIT;
        (*magic == Self::MAGIC).then(|| Self {
            remote_invalidation: flags & Self::REMOTE_INVALIDATION != 0,
            send_size: size(send),
            receive_size: size(receive),
        })
    }

    /// Encodes the parameters as private data. Sizes are clamped to the range that the format can express, and rounded
    /// down to whole KiB.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let told = |size: u32| {
            let size = size.clamp(Self::SIZE_UNIT, Self::SIZE_MAX);
            (size / Self::SIZE_UNIT - 1) as u8
        };
        let [a, b, c, d] = Self::MAGIC;
        let flags = if self.remote_invalidation { Self::REMOTE_INVALIDATION } else { 0 };
        [a, b, c, d, Self::FORMAT, flags, told(self.send_size), told(self.receive_size)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(header: &Header) -> Vec<u8> {
        let mut w = Writer::new();
        header.encode(&mut w);
        w.as_slice().to_vec()
    }

    fn target(handle: u32) -> RdmaSegment {
        RdmaSegment { handle, length: 4096, offset: 1 << 40 }
    }

    #[test]
    fn headers_survive_a_round_trip() {
        let reads = vec![ReadSegment { position: 132, target: target(1) }; 3];
        let chunks =
            Chunks { reads, writes: vec![WriteChunk(vec![target(2)]); 2], reply: Some(WriteChunk(vec![])) };
        for content in [
            Content::Message(Chunks::default()),
            Content::Message(chunks.clone()),
            Content::NoMessage(chunks),
            Content::Error(RdmaError::Chunk),
            Content::Error(RdmaError::Version(1, 2)),
        ] {
            let header = Header { xid: 7, credits: 32, content };
            let bytes = written(&header);
            let mut r = Reader::new(&bytes);
            assert_eq!(Header::decode(&mut r), Ok(header));
            assert_eq!(r.left(), 0);
            for len in 0..bytes.len() {
                let error = Header::decode(&mut Reader::new(&bytes[..len])).unwrap_err();
                assert_eq!(error.xid, (len >= 4).then_some(7), "{len} bytes");
            }
        }
        // RFC 8166, section 4.3: the minimum is 28 bytes.
        assert_eq!(
            written(&Header { xid: 0, credits: 0, content: Content::Message(Chunks::default()) }).len(),
            28
        );
    }

    #[test]
    fn unreadable_headers_yield_the_right_error() {
        let mut bytes = written(&Header { xid: 9, credits: 1, content: Content::Message(Chunks::default()) });
        let told = |bytes: &[u8]| Header::decode(&mut Reader::new(bytes)).unwrap_err().error;
        bytes[7] = 2;
        assert_eq!(told(&bytes), RdmaError::Version(1, 1));
        bytes[7] = 1;
        for procedure in [2, 3, 5] {
            bytes[15] = procedure;
            assert_eq!(told(&bytes), RdmaError::Chunk);
        }
        let many = vec![ReadSegment { position: 0, target: target(1) }; SEGMENTS_MAX + 1];
        let content = Content::NoMessage(Chunks { reads: many, ..Chunks::default() });
        assert_eq!(told(&written(&Header { xid: 9, credits: 1, content })), RdmaError::Chunk);
    }

    #[test]
    fn parameters_match_those_of_the_kernel() {
        // Linux's client: 4 KiB both ways, remote invalidation.
        let told = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3];
        let parameters = Parameters { remote_invalidation: true, send_size: 4096, receive_size: 4096 };
        assert_eq!(Parameters::decode(&told), Some(parameters));
        assert_eq!(parameters.encode(), told);
        assert_eq!(Parameters::decode(&told[..7]), None);
        assert_eq!(Parameters::decode(&[0; 12]), None);
        let odd = Parameters { send_size: 10, receive_size: 1 << 30, ..parameters };
        let odd = Parameters::decode(&odd.encode()).unwrap();
        assert_eq!((odd.send_size, odd.receive_size), (1024, Parameters::SIZE_MAX));
    }
}
