//! TLS between the bytes of a connection and its messages.

use super::error::TlsFault;
use super::limits::TLS_HANDSHAKE_MAX;
use crate::inbound::Inbound;
use onego_buf::{Arena, List, Pool, Segment};
use onego_wire::{AHEAD, Landing, Unfinished};
use rustls::Connection;
use std::io::{self, BufRead as _, IoSlice, Write};

/// Bytes that are sealed at a time: some of the longest records.
const SEAL: usize = 256 << 10;

/// What is to be sealed.
pub trait ClearText {
    /// Bytes of it.
    fn unsent(&self) -> usize;

    /// Appends at most about `limit` bytes of it to `out`.
    fn transmit(&mut self, out: &mut List, limit: usize);
}

/// The TLS of one connection, on either side.
pub struct TlsLayer {
    tls: Connection,
    /// What is to be sent: first what was said in the clear, then records.
    out: Sealed,
    record: Record,
    /// Bytes of the handshake that have come.
    handshake: usize,
}

impl TlsLayer {
    /// `said` is still to be sent in the clear.
    pub fn new(tls: impl Into<Connection>, pool: Pool, said: List) -> Self {
        let mut tls = tls.into();
        // The connection bounds what waits.
        tls.set_buffer_limit(None);
        let mut out = Sealed { arena: Arena::new(pool), list: said };
        // A client speaks first.
        out.take(&mut tls);
        Self { tls, out, record: Record::default(), handshake: 0 }
    }

    /// Only the clear text has a place of its own.
    pub fn landing(&self) -> Landing {
        Landing::shared(AHEAD)
    }

    /// Opens what has come. After an error there is an alert to be sent.
    pub fn received(&mut self, bytes: &[u8], inbound: &mut Inbound) -> Result<(), TlsFault> {
        self.record.received(bytes);
        if self.tls.is_handshaking() {
            self.handshake += bytes.len();
            if self.handshake > TLS_HANDSHAKE_MAX {
                return Err(TlsFault::HandshakeTooLong);
            }
        }
        let mut bytes = bytes;
        // It takes nothing any more once the peer has ended its side.
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

    /// What has come of a handshake or of a record that is not whole.
    pub fn unfinished(&self) -> Option<Unfinished> {
        if self.tls.is_handshaking() {
            return Some(Unfinished { announced: self.handshake, held: self.handshake });
        }
        self.record.unfinished()
    }

    /// Is the handshake still to be ended?
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Bytes that wait to be sent and are sealed.
    pub fn unsent(&self) -> usize {
        self.out.len()
    }

    /// Appends at most about `limit` bytes of what is to be sent to `out`. What is to be sealed waits for the end of the
    /// handshake.
    pub fn transmit(&mut self, clear_text: &mut impl ClearText, out: &mut List, limit: usize) {
        while !self.tls.is_handshaking() && clear_text.unsent() > 0 && self.out.len() < limit {
            let mut clear = List::new();
            clear_text.transmit(&mut clear, SEAL.min(limit - self.out.len()));
            let slices: Vec<IoSlice<'_>> = clear.io_slices(usize::MAX).collect();
            // It takes all, because its buffers have no limit.
            let taken = self.tls.writer().write_vectored(&slices);
            debug_assert_eq!(taken.ok(), Some(clear.len()));
            self.out.take(&mut self.tls);
        }
        self.out.transmit(out, limit);
    }

    /// Says that nothing more is sent, so that the peer knows that nothing was cut off.
    pub fn end(&mut self) {
        self.tls.send_close_notify();
        self.out.take(&mut self.tls);
    }
}

/// What is ready to be sent.
struct Sealed {
    arena: Arena,
    list: List,
}

impl Sealed {
    fn len(&self) -> usize {
        self.list.len() + self.arena.pending()
    }

    /// Takes the records that are ready.
    fn take(&mut self, tls: &mut Connection) {
        // Memory takes all that is written to it.
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

/// Bytes before each record: its type, its version, and how many bytes follow (RFC 8446, 5.1).
const RECORD_HEADER: usize = 5;

/// How much has come of a record, and how much of it is to come.
#[derive(Default)]
struct Record {
    header: [u8; RECORD_HEADER],
    came: usize,
}

impl Record {
    fn len(&self) -> usize {
        RECORD_HEADER + usize::from(u16::from_be_bytes([self.header[3], self.header[4]]))
    }

    fn received(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let left = match self.came {
                0..RECORD_HEADER => RECORD_HEADER - self.came,
                came => self.len() - came,
            };
            let n = left.min(bytes.len());
            if self.came < RECORD_HEADER {
                self.header[self.came..self.came + n].copy_from_slice(&bytes[..n]);
            }
            self.came += n;
            bytes = &bytes[n..];
            if self.came >= RECORD_HEADER && self.came == self.len() {
                self.came = 0;
            }
        }
    }

    fn unfinished(&self) -> Option<Unfinished> {
        let announced = if self.came < RECORD_HEADER { RECORD_HEADER } else { self.len() };
        (self.came > 0).then_some(Unfinished { announced, held: self.came })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_followed_however_they_are_cut() {
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
