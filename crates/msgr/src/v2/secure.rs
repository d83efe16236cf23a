//! Secure mode: keys, nonces, and the format of encrypted frames.
//!
//! Source: ceph `doc/dev/msgr2.rst`, "msgr2.1-secure mode"; `src/msg/async/{crypto_onwire,frames_v2}.cc`; linux
//! `net/ceph/messenger_v2.c`.
//!
//! ```text
//! preamble 32 | first 48 bytes of segment 1, zeros | tag 16
//! the rest of segment 1, zeros | tag 16                                      if it is longer than that
//! segment 2, zeros | segment 3, zeros | segment 4, zeros | status 16 | tag 16    if there is more than one
//! ```
//! Each line is an AES-128-GCM record with its own nonce; zeros pad a segment to a multiple of 16 bytes. Both
//! directions share the key but not the nonces. The nonce counter has 64 bits, which no connection exhausts, so
//! rekeying is unnecessary.

use super::frame::PREAMBLE_LEN;
use super::header::HEADER_LEN;
use crate::auth::Secret;
use crate::error::Error;
use crate::message::Header;
use onego_cipher::gcm::{KEY_LEN, NONCE_LEN, Opener, Sealer, TAG_LEN};

/// Size of the part of the first segment that is sent with the preamble, in bytes.
pub(super) const INLINE_LEN: usize = 48;
/// Size of the preamble and that part, without the tag, in bytes.
pub(super) const HEAD_LEN: usize = PREAMBLE_LEN + INLINE_LEN;
/// Size of the preamble and that part, with the tag, in bytes.
pub(super) const SEALED_HEAD_LEN: usize = HEAD_LEN + TAG_LEN;
/// Size of the status after the last segment, in bytes.
pub(super) const STATUS_LEN: usize = 16;
/// Size of the status with the tag, in bytes.
pub(super) const SEALED_STATUS_LEN: usize = STATUS_LEN + TAG_LEN;
/// Segments are padded to a multiple of this size.
pub(super) const BLOCK: usize = 16;

pub(super) fn padded(len: usize) -> usize {
    len.next_multiple_of(BLOCK)
}

/// Returns the sealed size of the rest of a first segment, padded and with its tag; 0 if there is none.
pub(super) fn first_rest(len: usize) -> usize {
    if len > INLINE_LEN { padded(len) - INLINE_LEN + TAG_LEN } else { 0 }
}

#[derive(Debug)]
struct Nonces {
    fixed: [u8; 4],
    counter: u64,
}

impl Nonces {
    fn new(bytes: [u8; NONCE_LEN]) -> Self {
        let [a, b, c, d, counter @ ..] = bytes;
        Self { fixed: [a, b, c, d], counter: u64::from_le_bytes(counter) }
    }

    #[inline]
    fn next(&mut self) -> [u8; NONCE_LEN] {
        let mut nonce = [0; NONCE_LEN];
        nonce[..4].copy_from_slice(&self.fixed);
        nonce[4..].copy_from_slice(&self.counter.to_le_bytes());
        self.counter = self.counter.wrapping_add(1);
        nonce
    }
}

#[derive(Debug)]
pub(super) struct SealTx {
    sealer: Sealer,
    nonces: Nonces,
}

#[derive(Debug)]
pub(super) struct OpenRx {
    opener: Opener,
    nonces: Nonces,
}

/// Derives the keys of both directions from the connection's secret, for the client's or the server's side.
pub(super) fn keys(secret: &Secret, client: bool) -> Result<(OpenRx, SealTx), Error> {
    let too_short = Error::BadFrame("a connection secret too short for secure mode");
    let bytes = secret.expose();
    let (key, rest) = bytes.split_first_chunk::<KEY_LEN>().ok_or(too_short.clone())?;
    let (to_client, rest) = rest.split_first_chunk::<NONCE_LEN>().ok_or(too_short.clone())?;
    let (to_server, _) = rest.split_first_chunk::<NONCE_LEN>().ok_or(too_short)?;
    let (rx, tx) = if client { (to_client, to_server) } else { (to_server, to_client) };
    Ok((
        OpenRx { opener: Opener::new(key), nonces: Nonces::new(*rx) },
        SealTx { sealer: Sealer::new(key), nonces: Nonces::new(*tx) },
    ))
}

impl SealTx {
    #[inline]
    pub(super) fn begin(&mut self) {
        self.sealer.begin(&self.nonces.next());
    }

    #[inline]
    pub(super) fn seal(&mut self, piece: &[u8], to: &mut [u8]) {
        self.sealer.seal(piece, to);
    }

    #[inline]
    pub(super) fn seal_zeros(&mut self, to: &mut [u8]) {
        to.fill(0);
        self.sealer.seal_in_place(to);
    }

    /// Fills `to` with the sealed status and the tag that end a frame of several segments.
    #[inline]
    pub(super) fn seal_status(&mut self, status: u8, to: &mut [u8; SEALED_STATUS_LEN]) {
        to.fill(0);
        to[0] = status;
        self.finish_in_place(to);
    }

    /// Seals the rest of a record in place and puts the tag into its last bytes.
    #[inline]
    fn finish_in_place(&mut self, record: &mut [u8]) {
        let at = record.len() - TAG_LEN;
        let (bytes, tag) = record.split_at_mut(at);
        self.sealer.seal_in_place(bytes);
        tag.copy_from_slice(&self.sealer.finish());
    }

    /// Writes the preamble and the header of a message, its whole first segment, to `to`.
    #[inline]
    pub(super) fn seal_header(
        &mut self,
        preamble: &[u8; PREAMBLE_LEN],
        header: &Header,
        to: &mut [u8; SEALED_HEAD_LEN],
    ) {
        to[..PREAMBLE_LEN].copy_from_slice(preamble);
        let (first, rest) = to[PREAMBLE_LEN..].split_at_mut(HEADER_LEN);
        if let Some(first) = first.first_chunk_mut() {
            header.put(first);
        }
        rest.fill(0);
        self.begin();
        self.finish_in_place(to);
    }

    pub(super) fn seal_control(&mut self, preamble: &[u8; PREAMBLE_LEN], first: &[u8], to: &mut Vec<u8>) {
        let (inline, rest) = first.split_at(first.len().min(INLINE_LEN));
        let start = to.len();
        to.extend_from_slice(preamble);
        to.extend_from_slice(inline);
        to.resize(start + SEALED_HEAD_LEN, 0);
        self.begin();
        self.finish_in_place(&mut to[start..]);
        if !rest.is_empty() {
            let start = to.len();
            to.extend_from_slice(rest);
            to.resize(start + first_rest(first.len()), 0);
            self.begin();
            self.finish_in_place(&mut to[start..]);
        }
    }
}

impl OpenRx {
    #[inline]
    pub(super) fn begin(&mut self) {
        self.opener.begin(&self.nonces.next());
    }

    #[inline]
    pub(super) fn open_in_place(&mut self, piece: &mut [u8]) {
        self.opener.open_in_place(piece);
    }

    #[inline]
    pub(super) fn open(&mut self, piece: &[u8], to: &mut [u8]) {
        self.opener.open(piece, to);
    }

    /// Opens the rest of a record, which ends with the tag, and returns it without the tag.
    #[inline]
    pub(super) fn finish<'a>(&mut self, record: &'a mut [u8], what: &'static str) -> Result<&'a [u8], Error> {
        let forged = Error::Tampered(what);
        let (bytes, tag) = record.split_last_chunk_mut::<TAG_LEN>().ok_or(forged.clone())?;
        self.opener.open_in_place(bytes);
        self.opener.finish(tag).map_err(|_| forged)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_count_in_their_last_eight_bytes() {
        let mut nonces = Nonces::new([1, 2, 3, 4, 0xff, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(nonces.next(), [1, 2, 3, 4, 0xff, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(nonces.next(), [1, 2, 3, 4, 0, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_secret_that_is_too_short_is_refused() {
        assert!(keys(&Secret::new(vec![0; 39]), true).is_err());
        assert!(keys(&Secret::new(vec![0; 40]), true).is_ok());
    }

    #[test]
    fn the_rest_of_a_first_segment_begins_after_the_inline_part() {
        assert_eq!([0, 41, 48, 49, 64, 65].map(first_rest), [0, 0, 0, 32, 32, 48]);
    }
}
