//! A peer that sends arbitrary bytes: FPDUs assembled by hand, from the RFCs' figures.

use onego_buf::crc32c;

pub(crate) const WRITE: u16 = 0xc140;
pub(crate) const READ_REQUEST: u16 = 0x4141;
pub(crate) const READ_RESPONSE: u16 = 0xc142;
pub(crate) const SEND: u16 = 0x4143;
pub(crate) const SEND_INVALIDATE: u16 = 0x4144;
pub(crate) const TERMINATE: u16 = 0x4147;
pub(crate) const LAST: u16 = 0x4000;

/// Returns a segment in its FPDU: length before it, padding and checksum after it.
pub(crate) fn fpdu(segment: &[u8], crc: bool) -> Vec<u8> {
    fpdu_of(segment.len() as u16, segment, crc)
}

/// Returns the same with a length that may be wrong.
pub(crate) fn fpdu_of(len: u16, segment: &[u8], crc: bool) -> Vec<u8> {
    let mut bytes = len.to_be_bytes().to_vec();
    bytes.extend_from_slice(segment);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let sum = if crc { !crc32c(u32::MAX, &bytes) } else { 0 };
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

pub(crate) fn tagged(control: u16, key: u32, offset: u64, payload: &[u8]) -> Vec<u8> {
    [&control.to_be_bytes()[..], &key.to_be_bytes(), &offset.to_be_bytes(), payload].concat()
}

pub(crate) fn untagged(control: u16, invalidate: u32, [queue, msn, mo]: [u32; 3], payload: &[u8]) -> Vec<u8> {
    let fields = [invalidate, queue, msn, mo].map(u32::to_be_bytes).concat();
    [&control.to_be_bytes()[..], &fields, payload].concat()
}

pub(crate) fn send(msn: u32, mo: u32, payload: &[u8]) -> Vec<u8> {
    untagged(SEND, 0, [0, msn, mo], payload)
}

pub(crate) fn read_request(msn: u32, key: u32, offset: u64, len: u32) -> Vec<u8> {
    untagged(READ_REQUEST, 0, [1, msn, 0], &read_fields(key, offset, len))
}

pub(crate) fn read_fields(key: u32, offset: u64, len: u32) -> Vec<u8> {
    let sink = [&0xabcd_u32.to_be_bytes()[..], &77_u64.to_be_bytes()].concat();
    [&sink[..], &len.to_be_bytes(), &key.to_be_bytes(), &offset.to_be_bytes()].concat()
}

pub(crate) fn mpa_request(crc: bool) -> Vec<u8> {
    [&b"MPA ID Req Frame"[..], &[if crc { 0x40 } else { 0 }, 1, 0, 0]].concat()
}
