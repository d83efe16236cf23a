//! The messages: a request with data, and a small reply.

use crate::floor::Sizes;
use crate::pattern;
use onego_buf::{List, SegmentMut};
use onego_ceph::messages::{Payload, kind};
use onego_msgr::Message;
use onego_wire::{Decoded, Reader, Writer};

/// A request. Its message type is that of an object operation, as in fio's engine for the messenger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EchoRequest {
    /// Number on its connection.
    pub(super) number: u64,
    /// Seed of its bytes if they are checked; otherwise 0.
    pub(super) seed: u64,
    pub(super) length: u32,
    pub(super) data: List,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) number: u64,
    pub(super) length: u32,
}

impl Payload for EchoRequest {
    const KIND: u16 = kind::OSD_OP;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, front: &mut Writer, data: &mut List) {
        front.u64(self.number);
        front.u64(self.seed);
        front.u32(self.length);
        self.data.segments().for_each(|segment| data.push(segment.clone()));
    }

    fn decode(_: u16, front: &[u8], data: List) -> Decoded<Self> {
        Ok(Self { data, ..Self::without_data(front)? })
    }
}

impl Payload for Reply {
    const KIND: u16 = kind::OSD_OP_REPLY;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, front: &mut Writer, _: &mut List) {
        front.u64(self.number);
        front.u32(self.length);
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        let mut r = Reader::new(front);
        Ok(Self { number: r.u64("reply number")?, length: r.u32("reply length")? })
    }
}

impl EchoRequest {
    /// Creates a request whose bytes can be checked. They are whole sectors.
    pub(super) fn with_pattern(number: u64, seed: u64, length: u32) -> Self {
        let mut data = SegmentMut::zeroed(length as usize);
        pattern::fill(&mut data, seed, number * u64::from(length), GENERATION);
        Self { number, seed, length, data: data.into() }
    }

    /// Decodes the front; the data is checked in place.
    pub(super) fn without_data(front: &[u8]) -> Decoded<Self> {
        let mut r = Reader::new(front);
        let (number, seed) = (r.u64("request number")?, r.u64("request seed")?);
        Ok(Self { number, seed, length: r.u32("request length")?, data: List::new() })
    }

    /// Checks that it is the request with that number, with all of its `data`.
    pub(super) fn check(&self, number: u64, data: &List) -> Result<(), String> {
        let (length, came) = (self.length as usize, data.len());
        if self.number != number {
            return Err(format!("request {} came where {number} was due", self.number));
        }
        if came != length {
            return Err(format!("request {number} came with {came} bytes of {length}"));
        }
        if self.seed == 0 {
            return Ok(());
        }
        let at = number * u64::from(self.length);
        pattern::check(&data.to_segment(), self.seed, at, GENERATION)
            .map_err(|mismatch| format!("request {number}: {mismatch}"))
    }
}

/// Generation of all data, because nothing is overwritten.
const GENERATION: u32 = 1;

pub(super) fn sizes(block_size: u32) -> Sizes {
    let data = SegmentMut::zeroed(block_size as usize).into();
    let request = Message::of(0, &EchoRequest { number: 0, seed: 0, length: block_size, data });
    let reply = Message::of(0, &Reply { number: 0, length: 0 });
    Sizes { request: request.frame_len(), reply: reply.frame_len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(request: &EchoRequest) -> EchoRequest {
        Message::of(1, request).decode().unwrap()
    }

    #[test]
    fn a_damaged_request_is_detected() {
        let request = EchoRequest::with_pattern(3, 77, 4096);
        assert_eq!(arrived(&request), request);
        let checked = |request: &EchoRequest, number| request.check(number, &request.data);
        assert_eq!(checked(&arrived(&request), 3), Ok(()));
        assert_eq!(checked(&request, 4).unwrap_err(), "request 3 came where 4 was due");
        let short = EchoRequest { data: request.data.slice(0, 512), ..request.clone() };
        assert_eq!(checked(&short, 3).unwrap_err(), "request 3 came with 512 bytes of 4096");
        let other = EchoRequest { data: EchoRequest::with_pattern(2, 77, 4096).data, ..request.clone() };
        let wrong = checked(&other, 3).unwrap_err();
        assert!(wrong.contains("belongs at byte 8192"), "{wrong}");
        assert_eq!(checked(&EchoRequest { seed: 0, ..other }, 3), Ok(()), "not to be checked");
    }

    #[test]
    fn the_floor_moves_as_many_bytes_as_the_messages_take() {
        // Preamble, header and its checksum, front, data, epilogue.
        assert_eq!(sizes(4096), Sizes { request: 32 + 45 + 20 + 4096 + 13, reply: 32 + 45 + 12 + 13 });
    }
}
