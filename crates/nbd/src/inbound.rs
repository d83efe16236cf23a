//! Input of one connection: headers, and the bodies that follow them.

use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{Ahead, Landing, Part, Pieces, Place, Unfinished};
use std::collections::VecDeque;

/// Size of the longest header in bytes.
pub const HEADER_MAX: usize = 32;

/// Minimum size in bytes of payloads that are received into their own buffer. Smaller ones are slices of the receive
/// buffer: copying them when needed is cheaper than a separate receive.
pub const LARGE: usize = 16 << 10;

/// Number of messages for which bulk transfer is assumed after a large payload. Bulk is received directly into its
/// buffer, while data read ahead with a header would have to be copied.
const BULK_LASTS: u8 = 16;

#[derive(Default)]
enum Body {
    #[default]
    None,
    /// Data kept in the receive buffers, with the number of missing bytes.
    Pieces(Pieces, usize),
    Placed(SegmentMut, Place),
    /// Data to drop, with the number of missing bytes.
    Skipped(u64),
}

/// Received data, and the message in progress.
pub struct Inbound {
    received: VecDeque<Segment>,
    header: Part<HEADER_MAX>,
    body: Body,
    ahead: Ahead,
}

impl Default for Inbound {
    fn default() -> Self {
        Self {
            received: VecDeque::new(),
            header: Part::default(),
            body: Body::None,
            ahead: Ahead::new(LARGE, BULK_LASTS),
        }
    }
}

impl Inbound {
    /// Adds received data.
    #[inline]
    pub fn received(&mut self, bytes: Segment) {
        self.received.push_back(bytes);
    }

    /// Returns whether all received data has been parsed.
    pub fn is_empty(&self) -> bool {
        self.received.is_empty() && self.header.is_empty()
    }

    /// Returns the receive target for the next bytes.
    pub fn landing(&mut self) -> Landing {
        match &mut self.body {
            Body::Placed(buffer, place) => {
                let rest = place.left();
                // Buffered data comes before newly received data.
                let part = if self.received.is_empty() { place.hand_out(buffer, rest) } else { None };
                self.ahead.landing(part, rest)
            }
            Body::Pieces(_, left) => self.ahead.landing(None, *left),
            Body::None | Body::Skipped(_) => self.ahead.landing(None, 0),
        }
    }

    /// Returns a receive buffer, with its first `filled` bytes received.
    pub fn landed(&mut self, buffer: SegmentMut, filled: usize) {
        if let Body::Placed(whole, place) = &mut self.body {
            place.landed(whole, buffer, filled);
        }
    }

    /// Returns the next `n` bytes at the start of an array, once all have arrived.
    ///
    /// # Panics
    /// If `n` is more than [`HEADER_MAX`].
    #[inline]
    pub fn header(&mut self, n: usize) -> Option<[u8; HEADER_MAX]> {
        loop {
            let bytes = self.received.front_mut()?;
            let taken = self.header.take(n, bytes).map(|(header, used)| {
                let mut copy = [0; HEADER_MAX];
                copy[..n].copy_from_slice(header);
                (copy, used)
            });
            let Some((header, used)) = taken else {
                // The part has consumed all of it.
                self.received.pop_front();
                continue;
            };
            bytes.advance(used);
            if bytes.is_empty() {
                self.received.pop_front();
            }
            return Some(header);
        }
    }

    /// Declares a message without a body.
    #[inline]
    pub fn expect_nothing(&mut self) {
        self.ahead.message(0);
    }

    /// Declares a body of `n` bytes, kept in the receive buffers.
    pub fn expect(&mut self, n: usize) {
        self.ahead.message(0);
        self.body = Body::Pieces(Pieces::default(), n);
    }

    /// Declares a body that fills `buffer`.
    pub fn expect_in(&mut self, buffer: SegmentMut) {
        let n = buffer.len();
        self.expect_at(buffer, 0, n);
    }

    /// Declares a body of `n` bytes that goes to `buffer` at offset `at`.
    ///
    /// # Panics
    /// If the buffer is too short.
    pub fn expect_at(&mut self, buffer: SegmentMut, at: usize, n: usize) {
        assert!(at + n <= buffer.len(), "the buffer has room for what is expected");
        self.ahead.message(n);
        self.body = Body::Placed(buffer, Place::new(at, n));
    }

    /// Declares a body of `n` bytes to drop.
    pub fn expect_to_skip(&mut self, n: u64) {
        self.ahead.message(0);
        self.body = Body::Skipped(n);
    }

    /// Returns the body once it is complete; empty for a dropped body.
    pub fn body(&mut self) -> Option<List> {
        self.is_filled().then(|| match std::mem::take(&mut self.body) {
            Body::None | Body::Skipped(_) => List::new(),
            Body::Pieces(mut pieces, _) => pieces.take(),
            Body::Placed(buffer, _) => buffer.into(),
        })
    }

    /// Returns the buffer of a body [declared with one](Self::expect_at), once it is complete.
    pub fn buffer(&mut self) -> Option<SegmentMut> {
        if self.is_filled() { self.take_buffer() } else { None }
    }

    /// Returns the partially filled buffer after the connection has ended, unless it is lent out.
    pub fn take_buffer(&mut self) -> Option<SegmentMut> {
        match std::mem::take(&mut self.body) {
            Body::Placed(buffer, place) if !place.is_out() => Some(buffer),
            other => {
                self.body = other;
                None
            }
        }
    }

    /// Returns whether a buffer is lent out for a receive.
    pub fn is_out(&self) -> bool {
        matches!(&self.body, Body::Placed(_, place) if place.is_out())
    }

    /// Consumes buffered data for the body. Returns whether the body is complete.
    fn is_filled(&mut self) -> bool {
        while !self.body.is_whole() {
            let Some(bytes) = self.received.front_mut() else {
                if let Body::Pieces(pieces, _) = &mut self.body {
                    // A partial message must not keep the receive buffer that it shares with other messages.
                    pieces.settle();
                }
                return false;
            };
            match &mut self.body {
                Body::None => {}
                Body::Pieces(pieces, left) => {
                    let n = bytes.len().min(*left);
                    pieces.push(bytes.split_to(n));
                    *left -= n;
                }
                Body::Placed(buffer, place) => {
                    let n = bytes.len().min(place.left());
                    place.fill(buffer, &bytes[..n]);
                    bytes.advance(n);
                }
                Body::Skipped(left) => {
                    let n = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    bytes.advance(n);
                    *left -= n as u64;
                }
            }
            if bytes.is_empty() {
                self.received.pop_front();
            }
        }
        true
    }

    /// Returns the size and progress of a partially received message.
    #[inline]
    pub fn unfinished(&self) -> Option<Unfinished> {
        let is_between = matches!(self.body, Body::None) && self.header.is_empty();
        if is_between && self.received.is_empty() {
            return None;
        }
        let (announced, held) = match &self.body {
            Body::None | Body::Skipped(_) => (0, 0),
            Body::Pieces(pieces, left) => (pieces.len() + left, pieces.len()),
            Body::Placed(_, place) => (place.at() + place.left(), place.at()),
        };
        let waits: usize = self.received.iter().map(|bytes| bytes.len()).sum();
        Some(Unfinished { announced, held: held + waits })
    }

    /// Copies small unparsed data out of receive buffers that it shares with other messages. To be called when the data
    /// will not be parsed soon.
    pub fn settle(&mut self) {
        for bytes in self.received.iter_mut().filter(|bytes| bytes.len() <= bytes.block_len() / 4) {
            *bytes = Segment::copy_from(bytes);
        }
    }
}

impl Body {
    fn is_whole(&self) -> bool {
        match self {
            Self::None => true,
            Self::Pieces(_, left) => *left == 0,
            Self::Placed(_, place) => place.left() == 0 && !place.is_out(),
            Self::Skipped(left) => *left == 0,
        }
    }
}
