//! Messages of the protocols above the messenger.
//!
//! Source: ceph `src/include/msgr.h` (`ceph_msg_header2`), `src/msg/async/frames_v2.h` (`MessageFrame`).

use crate::types::Payload;
use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{DecodeError, Decoded, Writer};

/// Default priority of a message (`CEPH_MSG_PRIO_DEFAULT`).
pub const PRIORITY_DEFAULT: u16 = 127;

/// Message header (`ceph_msg_header2`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Sequence number on the connection, assigned by the sending connection.
    pub seq: u64,
    /// Transaction number: a reply carries that of its request.
    pub tid: u64,
    /// Type of the message.
    pub kind: u16,
    /// Priority.
    pub priority: u16,
    /// Version of the encoding.
    pub version: u16,
    /// Oldest reader version that understands the encoding.
    pub compat_version: u16,
    /// Low bits of the data's offset in its object, for receivers that align it.
    pub data_offset: u16,
    /// Former footer flags (`CEPH_MSG_FOOTER_*`); unused in version 2.
    pub flags: u8,
    /// Number of the last message that the sender received, assigned by the connection.
    pub ack_seq: u64,
}

impl Header {
    #[inline]
    pub(crate) fn of<P: Payload>(tid: u64) -> Self {
        Self {
            tid,
            kind: P::KIND,
            priority: PRIORITY_DEFAULT,
            version: P::VERSION,
            compat_version: P::COMPAT,
            ..Self::default()
        }
    }
}

/// A message: a header and three parts. `data` is never made contiguous.
#[derive(Debug)]
pub struct Message {
    /// Header.
    pub header: Header,
    /// Fields of the message.
    pub front: Segment,
    /// Second part, used by a few file system messages.
    pub middle: Option<Segment>,
    /// Payload. On receipt it shares the receive memory: keeping the payload keeps all of that memory.
    pub data: List,
    /// Filled buffer of a received payload for which the [`Placer`] gave a buffer. `data` is empty then.
    pub placed: Option<SegmentMut>,
    /// Length of a received payload that exceeded the limit and was discarded as it arrived: see
    /// [`Limits::discard`](crate::Limits::discard). `data` is empty then.
    pub discarded: usize,
}

impl Message {
    /// Creates a message without data.
    pub fn new(kind: u16, version: u16, compat_version: u16, front: impl Into<Segment>) -> Self {
        let header =
            Header { kind, version, compat_version, priority: PRIORITY_DEFAULT, ..Header::default() };
        Self { header, front: front.into(), middle: None, data: List::new(), placed: None, discarded: 0 }
    }

    /// Creates a message with content `payload` in transaction `tid`.
    pub fn of<P: Payload>(tid: u64, payload: &P) -> Self {
        let (mut front, mut data) = (Writer::new(), List::new());
        payload.encode(&mut front, &mut data);
        Self::new(P::KIND, P::VERSION, P::COMPAT, front.into_vec()).with_tid(tid).with_data(data)
    }

    /// Sets the transaction number.
    pub fn with_tid(mut self, tid: u64) -> Self {
        self.header.tid = tid;
        self
    }

    /// Sets the payload.
    pub fn with_data(mut self, data: impl Into<List>) -> Self {
        self.data = data.into();
        self
    }

    /// Decodes the content and takes the data part out of the message; a placed payload stays. The caller has checked
    /// the message's kind.
    pub fn decode<P: Payload>(&mut self) -> Decoded<P> {
        let Header { version, compat_version, .. } = self.header;
        if compat_version > P::VERSION {
            let [compat, known] = [compat_version, P::VERSION].map(|v| u8::try_from(v).unwrap_or(u8::MAX));
            return Err(DecodeError::TooNew { what: std::any::type_name::<P>(), compat, known });
        }
        P::decode(version, &self.front, std::mem::take(&mut self.data))
    }

    pub(crate) fn middle_len(&self) -> usize {
        self.middle.as_deref().map_or(0, <[u8]>::len)
    }

    /// Returns the length of all parts without the header, in bytes.
    pub fn body_len(&self) -> usize {
        self.front.len() + self.middle_len() + self.data.len()
    }
}

/// Checksums that are computed as a message's parts arrive, while they are in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sums {
    All,
    AllButData,
    None,
}

/// Chooses where payloads are received.
pub trait Placer {
    /// Returns a buffer of exactly `data_len` bytes for the payload of the message with this header and front. With
    /// `None`, the payload is delivered in the shared memory it was received into.
    ///
    /// Called once for each message with a payload, before the payload arrives. `header` has been checked by then;
    /// `front` has not, because its checksum comes last. If that checksum is wrong, the connection fails and returns
    /// the buffer by [`Event::Unplaced`](super::Event::Unplaced).
    fn place(&mut self, header: &Header, front: &[u8], data_len: usize) -> Option<SegmentMut>;
}

/// Placer that places nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPlacer;

impl Placer for NoPlacer {
    fn place(&mut self, _header: &Header, _front: &[u8], _data_len: usize) -> Option<SegmentMut> {
        None
    }
}
