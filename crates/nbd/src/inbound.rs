//! What comes in on one connection: headers, and what is behind them.

use onego_buf::{List, Segment, SegmentMut};
use onego_wire::{Ahead, Landing, Part, Pieces, Place, Unfinished};
use std::collections::VecDeque;

/// Bytes of the longest header.
pub const HEADER_MAX: usize = 32;

/// Payloads from this size on are received into a buffer of their own. Smaller ones are sliced from what was received: it
/// costs less to copy them, if they are kept, than to receive them apart.
pub const LARGE: usize = 16 << 10;

/// Messages for which a connection is taken to carry bulk after a large payload: that is received right into its buffer, and
/// bytes that are read ahead of its header would be copied to it.
const BULK_LASTS: u8 = 16;

/// What is behind a header.
#[derive(Default)]
enum Body {
    /// Nothing.
    #[default]
    None,
    /// Bytes that are kept as they come.
    Pieces(Pieces, usize),
    /// Bytes that have a place in a buffer.
    Placed(SegmentMut, Place),
    /// Bytes that are dropped.
    Skipped(u64),
}

/// What was received on one connection, and the message that is being put together.
pub struct Inbound {
    /// Not looked at yet.
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
    /// Bytes have come.
    #[inline]
    pub fn received(&mut self, bytes: Segment) {
        self.received.push_back(bytes);
    }

    /// Is there nothing that nobody has looked at?
    pub fn is_empty(&self) -> bool {
        self.received.is_empty() && self.header.is_empty()
    }

    /// Where the next bytes go.
    pub fn landing(&mut self) -> Landing {
        match &mut self.body {
            Body::Placed(buffer, place) => {
                let rest = place.left();
                // What waits comes before what is received next.
                let part = if self.received.is_empty() { place.hand_out(buffer, rest) } else { None };
                self.ahead.landing(part, rest)
            }
            Body::Pieces(_, left) => self.ahead.landing(None, *left),
            Body::None | Body::Skipped(_) => self.ahead.landing(None, 0),
        }
    }

    /// A receive buffer is back.
    pub fn landed(&mut self, buffer: SegmentMut, filled: usize) {
        if let Body::Placed(whole, place) = &mut self.body {
            place.landed(whole, buffer, filled);
        }
    }

    /// The next `n` bytes, at the front of an array, once all are here.
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
                // All of it is in the part.
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

    /// A message without a payload has begun.
    #[inline]
    pub fn expect_nothing(&mut self) {
        self.ahead.message(0);
    }

    /// The next `n` bytes are kept as they come.
    pub fn expect(&mut self, n: usize) {
        self.ahead.message(0);
        self.body = Body::Pieces(Pieces::default(), n);
    }

    /// The next bytes go to that buffer, until it is full.
    pub fn expect_in(&mut self, buffer: SegmentMut) {
        let n = buffer.len();
        self.expect_at(buffer, 0, n);
    }

    /// The next `n` bytes go to that buffer from `at` on.
    ///
    /// # Panics
    /// If the buffer ends before.
    pub fn expect_at(&mut self, buffer: SegmentMut, at: usize, n: usize) {
        assert!(at + n <= buffer.len(), "the buffer has room for what is expected");
        self.ahead.message(n);
        self.body = Body::Placed(buffer, Place::new(at, n));
    }

    /// The next `n` bytes are dropped.
    pub fn expect_to_skip(&mut self, n: u64) {
        self.ahead.message(0);
        self.body = Body::Skipped(n);
    }

    /// What is behind the header, once all of it is here. Of what is dropped, nothing.
    pub fn body(&mut self) -> Option<List> {
        self.is_filled().then(|| match std::mem::take(&mut self.body) {
            Body::None | Body::Skipped(_) => List::new(),
            Body::Pieces(mut pieces, _) => pieces.take(),
            Body::Placed(buffer, _) => buffer.into(),
        })
    }

    /// The buffer that the bytes behind the header [were expected in](Self::expect_at), once all of them are.
    pub fn buffer(&mut self) -> Option<SegmentMut> {
        if self.is_filled() { self.take_buffer() } else { None }
    }

    /// The same buffer, if it is here, however much of it is filled: nothing more comes.
    pub fn take_buffer(&mut self) -> Option<SegmentMut> {
        match std::mem::take(&mut self.body) {
            Body::Placed(buffer, place) if !place.is_out() => Some(buffer),
            other => {
                self.body = other;
                None
            }
        }
    }

    /// Is a buffer out for a receive?
    pub fn is_out(&self) -> bool {
        matches!(&self.body, Body::Placed(_, place) if place.is_out())
    }

    /// Takes what is here of what is behind the header. Is that all of it?
    fn is_filled(&mut self) -> bool {
        while !self.body.is_whole() {
            let Some(bytes) = self.received.front_mut() else {
                if let Body::Pieces(pieces, _) = &mut self.body {
                    // What is here of a message must not keep the memory that many messages are received in.
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

    /// The message of which a part has come and a part has not.
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

    /// What was received is not looked at for a while: lets go of the memory that it shares with other messages, if it is
    /// the lesser part of that.
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
