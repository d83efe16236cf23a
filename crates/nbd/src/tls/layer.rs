//! TLS between the bytes of a connection and its messages.

use super::error::TlsFault;
use super::limits::TLS_HANDSHAKE_MAX;
use crate::inbound::Inbound;
use onego_buf::{Arena, List, Pool, Segment};
use onego_wire::{AHEAD, Landing, Unfinished};
use rustls::Connection;
use std::io::{self, BufRead as _, IoSlice, Write};

/// Number of bytes to encrypt at a time: several records of maximum size.
const SEAL: usize = 256 << 10;

/// A source of cleartext to encrypt.
pub trait ClearText {
    /// Returns the number of pending bytes.
    fn unsent(&self) -> usize;

    /// Moves about `limit` bytes at most to `out`.
    fn transmit(&mut self, out: &mut List, limit: usize);
}

/// TLS on one connection, for clients and servers.
pub struct TlsLayer {
    tls: Connection,
    /// Output: remaining cleartext first, then TLS records.
    out: Sealed,
    record: Record,
    handshake: usize,
}

impl TlsLayer {
    /// Creates the layer. `said` is cleartext that must still be sent before TLS.
    pub fn new(tls: impl Into<Connection>, pool: Pool, said: List) -> Self {
        let mut tls = tls.into();
        // The connection itself bounds its pending output.
        tls.set_buffer_limit(None);
        let mut out = Sealed { arena: Arena::new(pool), list: said };
        // A client sends first.
        out.take(&mut tls);
        Self { tls, out, record: Record::default(), handshake: 0 }
    }

    /// Returns the receive target: only cleartext can go directly to its destination.
    pub fn landing(&self) -> Landing {
        Landing::shared(AHEAD)
    }

    /// Decrypts received bytes. After an error, an alert must still be sent.
    pub fn received(&mut self, bytes: &[u8], inbound: &mut Inbound) -> Result<(), TlsFault> {
        self.record.received(bytes);
        if self.tls.is_handshaking() {
            self.handshake += bytes.len();
            if self.handshake > TLS_HANDSHAKE_MAX {
                return Err(TlsFault::HandshakeTooLong);
            }
        }
        let mut bytes = bytes;
        // rustls accepts no more data after the peer has closed its side.
        while !bytes.is_empty() && self.tls.read_tls(&mut bytes).is_ok_and(|taken| taken > 0) {
            let opened = self.tls.process_new_packets();
            self.out.take(&mut self.tls);
            opened.map_err(TlsFault::Tls)?;
            let mut clear = self.tls.reader();
            while let Ok(record) = clear.fill_buf()
                && !record.is_empty()
            {
                let n = record.len();
                inbound.received(Segment::copy_from(record));
                clear.consume(n);
            }
        }
        Ok(())
    }

    /// Returns the size and progress of the handshake, or of a partially received record.
    pub fn unfinished(&self) -> Option<Unfinished> {
        if self.tls.is_handshaking() {
            return Some(Unfinished { announced: self.handshake, held: self.handshake });
        }
        self.record.unfinished()
    }

    /// Returns whether the handshake is in progress.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Returns the number of encrypted bytes to send.
    pub fn unsent(&self) -> usize {
        self.out.len()
    }

    /// Moves about `limit` bytes of output at most to `out`. Cleartext waits for the end of the handshake.
    pub fn transmit(&mut self, clear_text: &mut impl ClearText, out: &mut List, limit: usize) {
        while !self.tls.is_handshaking() && clear_text.unsent() > 0 && self.out.len() < limit {
            let mut clear = List::new();
            clear_text.transmit(&mut clear, SEAL.min(limit - self.out.len()));
            let slices: Vec<IoSlice<'_>> = clear.io_slices(usize::MAX).collect();
            // It accepts everything, because its buffers are unlimited.
            let taken = self.tls.writer().write_vectored(&slices);
            debug_assert_eq!(taken.ok(), Some(clear.len()));
            self.out.take(&mut self.tls);
        }
        self.out.transmit(out, limit);
    }

    /// Closes this side, so that the peer can detect truncation.
    pub fn end(&mut self) {
        self.tls.send_close_notify();
        self.out.take(&mut self.tls);
    }
}

struct Sealed {
    arena: Arena,
    list: List,
}

impl Sealed {
    fn len(&self) -> usize {
        self.list.len() + self.arena.pending()
    }

    fn take(&mut self, tls: &mut Connection) {
        // Writing to memory never blocks.
        while tls.wants_write() && tls.write_tls(self).is_ok() {}
    }

    fn transmit(&mut self, out: &mut List, limit: usize) {
        self.arena.flush(&mut self.list);
        if self.list.len() <= limit {
            out.append(std::mem::take(&mut self.list));
            self.arena.rest();
        } else {
            out.append(self.list.split_to(limit.max(1)));
        }
    }
}

impl Write for Sealed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.arena.bytes(bytes, &mut self.list);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Size of a record's header: type, version, and length (RFC 8446, 5.1).
const RECORD_HEADER: usize = 5;

#[derive(Default)]
struct Record {
    header: [u8; RECORD_HEADER],
    received: usize,
}

impl Record {
    fn len(&self) -> usize {
        RECORD_HEADER + usize::from(u16::from_be_bytes([self.header[3], self.header[4]]))
    }

    fn received(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let left = match self.received {
                0..RECORD_HEADER => RECORD_HEADER - self.received,
                received => self.len() - received,
            };
            let n = left.min(bytes.len());
            if self.received < RECORD_HEADER {
                self.header[self.received..self.received + n].copy_from_slice(&bytes[..n]);
            }
            self.received += n;
            bytes = &bytes[n..];
            if self.received >= RECORD_HEADER && self.received == self.len() {
                self.received = 0;
            }
        }
    }

    fn unfinished(&self) -> Option<Unfinished> {
        let announced = if self.received < RECORD_HEADER { RECORD_HEADER } else { self.len() };
        (self.received > 0).then_some(Unfinished { announced, held: self.received })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_tracked_whatever_the_segmentation() {
        // Three records of 300, 0 and 1 bytes.
        let bytes = [&[23, 3, 3, 1, 44][..], &[7; 300], &[23, 3, 3, 0, 0], &[23, 3, 3, 0, 1, 9]].concat();
        for cut in [1, 2, 3, 5, 7, 299, 400] {
            let mut record = Record::default();
            let mut at = 0;
            for part in bytes.chunks(cut) {
                record.received(part);
                at += part.len();
                let ended = [0, 305, 310, 316].contains(&at);
                assert_eq!(record.unfinished().is_none(), ended, "{at} bytes by {cut}");
            }
            assert!(record.unfinished().is_none());
        }
    }
}
