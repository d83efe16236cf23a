//! Messages: what the protocols above exchange.
//!
//! Source: ceph `src/include/msgr.h` (`ceph_msg_header2`), `src/msg/async/frames_v2.h` (`MessageFrame`).

use crate::types::Payload;
use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{DecodeError, Decoded, Writer};

/// The priority of a message that is like any other (`CEPH_MSG_PRIO_DEFAULT`).
pub const PRIORITY_DEFAULT: u16 = 127;

/// The header of a message (`ceph_msg_header2`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Number of the message on its connection. Given by the connection that sends it.
    pub seq: u64,
    /// Number of the transaction: a reply has that of its request.
    pub tid: u64,
    /// The type of the message.
    pub kind: u16,
    /// Its priority.
    pub priority: u16,
    /// Version of the encoding.
    pub version: u16,
    /// The oldest version of readers that understand the encoding.
    pub compat_version: u16,
    /// The low bits of the offset in the object that the data belongs to, for receivers that align it.
    pub data_offset: u16,
    /// What used to be in the footer (`CEPH_MSG_FOOTER_*`). Without meaning in this version of the protocol.
    pub flags: u8,
    /// Number of the last message that the sender received. Given by the connection.
    pub ack_seq: u64,
}

impl Header {
    /// The header of a message with content of that kind, as part of transaction `tid`.
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

/// A message: a header and three parts, of which `data` is never copied together.
#[derive(Debug)]
pub struct Message {
    /// The header.
    pub header: Header,
    /// The fields of the message.
    pub front: Segment,
    /// A second part that a few messages of the file system have.
    pub middle: Option<Segment>,
    /// The payload. When received, it shares the memory it was received into: to keep it is to keep all of that.
    pub data: List,
    /// A received payload for which the [`Placer`] gave a buffer: that buffer, full. `data` is empty then.
    pub placed: Option<SegmentMut>,
    /// Bytes of a received payload that were over the bound, and were forgotten as they came: see
    /// [`Limits::discard`](crate::Limits::discard). `data` is empty then.
    pub discarded: usize,
}

impl Message {
    /// A message without data.
    pub fn new(kind: u16, version: u16, compat_version: u16, front: impl Into<Segment>) -> Self {
        let header =
            Header { kind, version, compat_version, priority: PRIORITY_DEFAULT, ..Header::default() };
        Self { header, front: front.into(), middle: None, data: List::new(), placed: None, discarded: 0 }
    }

    /// The message with this content, as part of transaction `tid`.
    pub fn of<P: Payload>(tid: u64, payload: &P) -> Self {
        let (mut front, mut data) = (Writer::new(), List::new());
        payload.encode(&mut front, &mut data);
        Self::new(P::KIND, P::VERSION, P::COMPAT, front.into_vec()).with_tid(tid).with_data(data)
    }

    /// The same message as part of transaction `tid`.
    pub fn with_tid(mut self, tid: u64) -> Self {
        self.header.tid = tid;
        self
    }

    /// The same message with a payload.
    pub fn with_data(mut self, data: impl Into<List>) -> Self {
        self.data = data.into();
        self
    }

    /// The content, whose kind must have been looked at before. Its data part is taken out of the message; a payload
    /// that was placed stays where it is.
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

    /// Bytes of all parts but the header.
    pub fn body_len(&self) -> usize {
        self.front.len() + self.middle_len() + self.data.len()
    }
}

/// Which checksums of a message's parts are made, while the parts are in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sums {
    All,
    AllButData,
    None,
}

/// Says where payloads are to be received.
pub trait Placer {
    /// A buffer of exactly `data_len` bytes for the payload of the message with this header and front, or `None`:
    /// then the payload is delivered in the shared memory that it was received into.
    ///
    /// It is asked once a message that has a payload, before the payload is here. `header` is checked by then,
    /// `front` not yet: its checksum comes last, and if it is wrong, the connection fails and the buffer comes back by
    /// [`Event::Unplaced`](super::Event::Unplaced).
    fn place(&mut self, header: &Header, front: &[u8], data_len: usize) -> Option<SegmentMut>;
}

/// Places nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPlacer;

impl Placer for NoPlacer {
    fn place(&mut self, _header: &Header, _front: &[u8], _data_len: usize) -> Option<SegmentMut> {
        None
    }
}
