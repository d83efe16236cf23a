//! Headers of FPDUs: MPA's length, and the control fields of DDP and RDMAP (RFC 5044, section 4; RFC 5041, section 4;
//! RFC 5040, section 4).

use super::violation::{TERMINATE_LEN, Violation};

/// Length of MPA's length and the control fields, which determine the rest of the header.
pub(super) const CONTROL_LEN: usize = 4;
pub(super) const TAGGED_LEN: usize = 16;
pub(super) const UNTAGGED_LEN: usize = 20;
pub(super) const READ_LEN: usize = 28;
/// MPA's length field does not count itself.
pub(super) const LENGTH_LEN: usize = 2;
/// Length of the checksum, which follows a segment after at most 3 bytes of padding to a multiple of 4. MPA's length
/// counts neither.
pub(super) const CRC_LEN: usize = 4;

/// Maximum length of an FPDU without padding: MPA's length has 16 bits.
pub(super) const FPDU_MAX: usize = (LENGTH_LEN + u16::MAX as usize) / 4 * 4 + CRC_LEN;
/// Minimum length of an FPDU with a reasonable ratio of payload.
pub(super) const FPDU_MIN: usize = 64;

const TAGGED: u16 = 0x8000;
const LAST: u16 = 0x4000;
const DDP_VERSION: u16 = 0x0300;
const DDP_VERSION_1: u16 = 0x0100;
const RDMAP_VERSION: u16 = 0x00c0;
const RDMAP_VERSION_1: u16 = 0x0040;
const OPCODE: u16 = 0x000f;

pub(super) const HEADER_MAX: usize = UNTAGGED_LEN + READ_LEN;

pub(super) const SEND_QUEUE: u32 = 0;
pub(super) const READ_QUEUE: u32 = 1;
pub(super) const TERMINATE_QUEUE: u32 = 2;

/// Operations (RFC 5040, section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Opcode {
    Write = 0,
    ReadRequest = 1,
    ReadResponse = 2,
    Send = 3,
    SendInvalidate = 4,
    SendSolicited = 5,
    SendSolicitedInvalidate = 6,
    Terminate = 7,
}

impl Opcode {
    const ALL: [Self; 8] = [
        Self::Write,
        Self::ReadRequest,
        Self::ReadResponse,
        Self::Send,
        Self::SendInvalidate,
        Self::SendSolicited,
        Self::SendSolicitedInvalidate,
        Self::Terminate,
    ];

    pub(super) fn is_tagged(self) -> bool {
        matches!(self, Self::Write | Self::ReadResponse)
    }

    pub(super) fn invalidates(self) -> bool {
        matches!(self, Self::SendInvalidate | Self::SendSolicitedInvalidate)
    }

    pub(super) fn is_solicited(self) -> bool {
        matches!(self, Self::SendSolicited | Self::SendSolicitedInvalidate)
    }

    pub(super) fn send(invalidates: bool, solicited: bool) -> Self {
        match (invalidates, solicited) {
            (false, false) => Self::Send,
            (true, false) => Self::SendInvalidate,
            (false, true) => Self::SendSolicited,
            (true, true) => Self::SendSolicitedInvalidate,
        }
    }

    fn header_len(self) -> usize {
        match self {
            Self::Write | Self::ReadResponse => TAGGED_LEN,
            Self::ReadRequest => UNTAGGED_LEN + READ_LEN,
            Self::Terminate => UNTAGGED_LEN + TERMINATE_LEN,
            _ => UNTAGGED_LEN,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Control {
    /// MPA's length field: bytes of headers and payload, without the field itself.
    pub(super) len: u16,
    pub(super) last: bool,
    pub(super) opcode: Opcode,
}

impl Control {
    pub(super) fn parse([a, b, c, d]: [u8; CONTROL_LEN]) -> Result<Self, Violation> {
        let (len, bits) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let tagged = bits & TAGGED != 0;
        if bits & DDP_VERSION != DDP_VERSION_1 {
            return Err(if tagged { Violation::TaggedVersion } else { Violation::UntaggedVersion });
        }
        if bits & RDMAP_VERSION != RDMAP_VERSION_1 {
            return Err(Violation::RdmapVersion);
        }
        let number = (bits & OPCODE) as u8;
        let opcode = Opcode::ALL.get(usize::from(number)).copied().ok_or(Violation::Opcode(number))?;
        if opcode.is_tagged() != tagged {
            return Err(Violation::Opcode(number));
        }
        let this = Self { len, last: bits & LAST != 0, opcode };
        if usize::from(len) < this.header_len() - LENGTH_LEN {
            return Err(Violation::Length(len));
        }
        Ok(this)
    }

    fn of(opcode: Opcode, last: bool, payload: usize) -> Self {
        let len = opcode.header_len() - LENGTH_LEN + payload;
        Self { len: u16::try_from(len).expect("a segment is cut to fit MPA's length"), last, opcode }
    }

    fn to_bytes(self) -> [u8; CONTROL_LEN] {
        let mut bits = DDP_VERSION_1 | RDMAP_VERSION_1 | self.opcode as u16;
        bits |= if self.opcode.is_tagged() { TAGGED } else { 0 };
        bits |= if self.last { LAST } else { 0 };
        let ([a, b], [c, d]) = (self.len.to_be_bytes(), bits.to_be_bytes());
        [a, b, c, d]
    }

    pub(super) fn header_len(self) -> usize {
        self.opcode.header_len()
    }

    pub(super) fn payload_len(self) -> usize {
        usize::from(self.len) + LENGTH_LEN - self.header_len()
    }

    /// Returns the length of padding and checksum after the segment.
    pub(super) fn trailer_len(self) -> usize {
        padding(usize::from(self.len)) + CRC_LEN
    }
}

/// Returns the padding of an FPDU with a segment of `len` bytes, to a multiple of 4.
pub(super) fn padding(len: usize) -> usize {
    (LENGTH_LEN + len).wrapping_neg() & 3
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|i| bytes[at + i]))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tagged {
    pub(super) key: u32,
    pub(super) offset: u64,
}

impl Tagged {
    pub(super) fn parse(header: &[u8; TAGGED_LEN]) -> Self {
        Self { key: be32(header, 4), offset: be64(header, 8) }
    }

    pub(super) fn write(self, opcode: Opcode, last: bool, payload: usize, to: &mut [u8; TAGGED_LEN]) {
        to[..4].copy_from_slice(&Control::of(opcode, last, payload).to_bytes());
        to[4..8].copy_from_slice(&self.key.to_be_bytes());
        to[8..].copy_from_slice(&self.offset.to_be_bytes());
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Untagged {
    /// Key to invalidate; 0 and ignored for other operations.
    pub(super) invalidate: u32,
    pub(super) queue: u32,
    pub(super) msn: u32,
    pub(super) offset: u32,
}

impl Untagged {
    pub(super) fn parse(header: &[u8; UNTAGGED_LEN]) -> Self {
        Self {
            invalidate: be32(header, 4),
            queue: be32(header, 8),
            msn: be32(header, 12),
            offset: be32(header, 16),
        }
    }

    pub(super) fn write(self, opcode: Opcode, last: bool, payload: usize, to: &mut [u8; UNTAGGED_LEN]) {
        to[..4].copy_from_slice(&Control::of(opcode, last, payload).to_bytes());
        to[4..8].copy_from_slice(&self.invalidate.to_be_bytes());
        to[8..12].copy_from_slice(&self.queue.to_be_bytes());
        to[12..16].copy_from_slice(&self.msn.to_be_bytes());
        to[16..].copy_from_slice(&self.offset.to_be_bytes());
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadRequest {
    pub(super) sink: Tagged,
    pub(super) len: u32,
    pub(super) source: Tagged,
}

impl ReadRequest {
    pub(super) fn parse(bytes: &[u8; READ_LEN]) -> Self {
        Self {
            sink: Tagged { key: be32(bytes, 0), offset: be64(bytes, 4) },
            len: be32(bytes, 12),
            source: Tagged { key: be32(bytes, 16), offset: be64(bytes, 20) },
        }
    }

    pub(super) fn to_bytes(self) -> [u8; READ_LEN] {
        let mut bytes = [0; READ_LEN];
        bytes[..4].copy_from_slice(&self.sink.key.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.sink.offset.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.len.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.source.key.to_be_bytes());
        bytes[20..].copy_from_slice(&self.source.offset.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers sent by siw of Linux 6.1 for the kernel's NFS client and server.
    const SEND: [u8; UNTAGGED_LEN] = *b"\x00\x56\x41\x43\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0";
    const SEND_INVALIDATE: [u8; UNTAGGED_LEN] =
        *b"\x00\xb6\x41\x44\xfe\x7e\x1b\x01\0\0\0\0\0\0\0\x0c\0\0\0\0";
    const WRITE: [u8; TAGGED_LEN] = *b"\x00\x96\xc1\x40\x36\x60\x49\x01\xc4\x02\xaa\x2d\x08\x9c\x48\x00";
    const READ_RESPONSE: [u8; TAGGED_LEN] =
        *b"\x05\xa2\x81\x42\x8a\x8f\x6b\x01\xff\xff\x88\x80\x3f\x7c\xb0\x00";
    const READ: [u8; UNTAGGED_LEN] = *b"\x00\x2e\x41\x41\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\0";
    const READ_REQUEST: [u8; READ_LEN] = *b"\x8a\x8f\x6b\x01\xff\xff\x88\x80\x3f\x7c\xb0\x00\x00\x02\x00\x00\
        \xfe\x7e\x1b\x01\xc6\x02\xaa\x2d\x02\x94\x10\x00";

    fn control(header: &[u8], opcode: Opcode, last: bool, payload: usize, trailer: usize) {
        let control = Control::parse(*header.first_chunk().unwrap()).unwrap();
        assert_eq!((control.opcode, control.last, control.payload_len()), (opcode, last, payload));
        assert_eq!(control.trailer_len(), trailer);
        assert_eq!(Control::of(opcode, last, payload), control);
    }

    fn untagged(header: [u8; UNTAGGED_LEN], opcode: Opcode, payload: usize, expected: Untagged) {
        assert_eq!(Untagged::parse(&header), expected);
        let mut written = [0; UNTAGGED_LEN];
        expected.write(opcode, true, payload, &mut written);
        assert_eq!(written, header);
    }

    fn tagged(header: [u8; TAGGED_LEN], opcode: Opcode, last: bool, payload: usize, expected: Tagged) {
        assert_eq!(Tagged::parse(&header), expected);
        let mut written = [0; TAGGED_LEN];
        expected.write(opcode, last, payload, &mut written);
        assert_eq!(written, header);
    }

    #[test]
    fn the_kernels_messages_are_read_and_written() {
        control(&SEND, Opcode::Send, true, 68, 4);
        untagged(SEND, Opcode::Send, 68, Untagged { invalidate: 0, queue: SEND_QUEUE, msn: 1, offset: 0 });
        control(&SEND_INVALIDATE, Opcode::SendInvalidate, true, 164, 4);
        let sent = Untagged { invalidate: 0xfe7e_1b01, queue: SEND_QUEUE, msn: 12, offset: 0 };
        untagged(SEND_INVALIDATE, Opcode::SendInvalidate, 164, sent);
    }

    #[test]
    fn the_kernels_tagged_segments_are_read_and_written() {
        control(&WRITE, Opcode::Write, true, 136, 4);
        tagged(WRITE, Opcode::Write, true, 136, Tagged { key: 0x3660_4901, offset: 0xc402_aa2d_089c_4800 });
        control(&READ_RESPONSE, Opcode::ReadResponse, false, 1428, 4);
        let sink = Tagged { key: 0x8a8f_6b01, offset: 0xffff_8880_3f7c_b000 };
        tagged(READ_RESPONSE, Opcode::ReadResponse, false, 1428, sink);
    }

    #[test]
    fn the_kernels_reads_are_read_and_written() {
        control(&READ, Opcode::ReadRequest, true, 0, 4);
        untagged(
            READ,
            Opcode::ReadRequest,
            0,
            Untagged { invalidate: 0, queue: READ_QUEUE, msn: 1, offset: 0 },
        );
        let request = ReadRequest {
            sink: Tagged { key: 0x8a8f_6b01, offset: 0xffff_8880_3f7c_b000 },
            len: 0x20000,
            source: Tagged { key: 0xfe7e_1b01, offset: 0xc602_aa2d_0294_1000 },
        };
        assert_eq!((ReadRequest::parse(&READ_REQUEST), request.to_bytes()), (request, READ_REQUEST));
    }

    #[test]
    fn a_segment_is_padded_to_a_multiple_of_four() {
        assert_eq!([14, 15, 16, 17, 18].map(padding), [0, 3, 2, 1, 0]);
    }

    #[test]
    fn headers_that_are_wrong_are_named() {
        for (bytes, violation) in [
            ([0, 14, 0xc2, 0x40], Violation::TaggedVersion),
            ([0, 18, 0x40, 0x43], Violation::UntaggedVersion),
            ([0, 18, 0x41, 0x03], Violation::RdmapVersion),
            ([0, 18, 0x41, 0x4f], Violation::Opcode(15)),
            ([0, 18, 0x41, 0x40], Violation::Opcode(0)),
            ([0, 18, 0xc1, 0x43], Violation::Opcode(3)),
            ([0, 13, 0xc1, 0x40], Violation::Length(13)),
            ([0, 17, 0x41, 0x43], Violation::Length(17)),
            ([0, 45, 0x41, 0x41], Violation::Length(45)),
        ] {
            assert_eq!(Control::parse(bytes), Err(violation));
        }
    }
}
