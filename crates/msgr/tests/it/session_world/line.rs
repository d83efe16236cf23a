//! A transport between the two ends, which breaks and damages what it carries.

use super::ledger::Number;
use onego_wire::Time;
use std::collections::VecDeque;
use std::ops::Range;

/// What there is to be received from a line.
pub(crate) enum Delivery {
    Bytes(Vec<u8>),
    /// Something may come later.
    Nothing,
    /// The line is over.
    Over,
}

/// A transport.
pub(crate) struct Line {
    /// The end that opened it, and its life.
    pub(crate) opener: usize,
    /// The lives of the ends at it.
    pub(crate) lives: [u32; 2],
    /// Has the other end accepted it?
    pub(crate) accepted: bool,
    /// How many bytes it carries until it breaks.
    pub(crate) left: usize,
    /// Does the end still have it?
    pub(crate) held: [bool; 2],
    /// Has the end sent all of the handshake?
    pub(crate) open: [bool; 2],
    /// What the end has received, in its life, when the session went on or began on this line: the other end was told.
    pub(crate) told: [Option<Number>; 2],
    /// Nothing is delivered before.
    pub(crate) sleeps_until: Time,
    to: [Way; 2],
}

/// What is on its way to an end.
#[derive(Default)]
struct Way {
    bytes: VecDeque<u8>,
    sent: u64,
    delivered: u64,
    /// From the damaged byte to the end of what it was sent with.
    damage: Option<Range<u64>>,
}

impl Line {
    pub(crate) fn new(opener: usize, lives: [u32; 2], left: usize) -> Self {
        Self {
            opener,
            lives,
            accepted: false,
            left,
            held: [true; 2],
            open: [false; 2],
            told: [None; 2],
            sleeps_until: Time::default(),
            to: <[Way; 2]>::default(),
        }
    }

    /// Bytes on their way to an end.
    pub(crate) fn under_way(&self, end: usize) -> usize {
        self.to[end].bytes.len()
    }

    /// Bytes that were received by either end.
    pub(crate) fn carried(&self) -> u64 {
        self.to.iter().map(|way| way.delivered).sum()
    }

    /// Sends to an end, with damage done to the byte at `damaged`.
    pub(crate) fn send(&mut self, end: usize, mut bytes: Vec<u8>, damaged: Option<usize>) {
        if !self.held[end] {
            return;
        }
        let way = &mut self.to[end];
        if let Some(at) = damaged.filter(|_| way.damage.is_none()) {
            bytes[at] ^= 1 << (at % 8);
            way.damage = Some(way.sent + at as u64..way.sent + bytes.len() as u64);
        }
        way.sent += bytes.len() as u64;
        way.bytes.extend(bytes);
    }

    /// Up to `most` bytes for an end: never a damaged byte together with any before it.
    pub(crate) fn deliver(&mut self, now: Time, end: usize, most: usize) -> Delivery {
        if now < self.sleeps_until {
            return Delivery::Nothing;
        }
        let way = &mut self.to[end];
        if self.left == 0 || (way.bytes.is_empty() && !self.held[1 - end]) {
            return Delivery::Over;
        }
        let whole = match &way.damage {
            Some(damage) if damage.start > way.delivered => (damage.start - way.delivered) as usize,
            _ => usize::MAX,
        };
        let n = most.min(way.bytes.len()).min(self.left).min(whole);
        self.left -= n;
        way.delivered += n as u64;
        if n == 0 { Delivery::Nothing } else { Delivery::Bytes(way.bytes.drain(..n).collect()) }
    }

    /// Has the end received the damaged byte?
    pub(crate) fn is_tainted(&self, end: usize) -> bool {
        let way = &self.to[end];
        way.damage.as_ref().is_some_and(|damage| damage.start < way.delivered)
    }

    /// Has the end received all that the damaged byte was sent with?
    pub(crate) fn must_be_over(&self, end: usize) -> bool {
        let way = &self.to[end];
        way.damage.as_ref().is_some_and(|damage| damage.end <= way.delivered)
    }
}

/// How messages are protected on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    /// The checksums of version 1.
    Sums,
    /// These, and a signature.
    Signature,
    /// The checksums of version 2.
    Frames,
    Encryption,
}

/// A frame, or what else stands by itself, among the bytes of an open connection.
pub(crate) struct Frame {
    /// The part of it in which no changed bit may pass unnoticed.
    pub(crate) protected: Range<usize>,
    /// If it is a message, and that can be seen: its transaction.
    pub(crate) tid: Option<u64>,
    /// Does it say that it is compressed?
    pub(crate) compressed: bool,
}

impl Protection {
    /// Takes some whole frames apart, as far as they can be read.
    ///
    /// Version 1 protects nothing but messages, of those neither the tag nor the flags at their end, and uses what it
    /// keeps free for a signature only if there is one. Version 2 ends messages with a status and three checksums, of
    /// which those may be unused that stand for parts which the message does not have.
    pub(crate) fn frames(self, bytes: &[u8]) -> Vec<Frame> {
        let le32 = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let le64 = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let mut frames = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let compressed = self == Self::Frames && bytes[at + 26] & 1 != 0;
            let (end, protected, tid) = match self {
                Self::Encryption => (bytes.len(), at..bytes.len(), None),
                Self::Frames => {
                    let lens: Vec<usize> =
                        (0..bytes[at + 1] as usize).map(|i| le32(at + 2 + 6 * i)).collect();
                    let first = at + 32 + lens[0] + if lens[0] > 0 { 4 } else { 0 };
                    let body = first + lens[1..].iter().sum::<usize>();
                    let end = if lens.len() > 1 { body + 13 } else { body };
                    (end, at..body, (bytes[at] == 17 && !compressed).then(|| le64(at + 40)))
                }
                Self::Sums | Self::Signature if bytes[at] == 7 => {
                    let lens = [23, 27, 31].map(|field| le32(at + field));
                    let end = at + 54 + lens.iter().sum::<usize>() + 21;
                    let unprotected = if self == Self::Signature { 1 } else { 9 };
                    (end, at + 1..end - unprotected, Some(le64(at + 9)))
                }
                Self::Sums | Self::Signature => (at + if bytes[at] == 9 { 1 } else { 9 }, at..at, None),
            };
            frames.push(Frame { protected, tid, compressed });
            at = end;
        }
        assert_eq!(at, bytes.len(), "whole frames");
        frames
    }
}
