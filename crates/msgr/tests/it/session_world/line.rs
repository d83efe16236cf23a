//! A transport between the two ends that breaks and corrupts bytes.

use super::ledger::Number;
use onego_wire::Time;
use std::collections::VecDeque;
use std::ops::Range;

pub(crate) enum Delivery {
    Bytes(Vec<u8>),
    Nothing,
    Over,
}

pub(crate) struct Line {
    pub(crate) opener: usize,
    pub(crate) lives: [u32; 2],
    pub(crate) accepted: bool,
    /// Bytes that it carries until it breaks.
    pub(crate) left: usize,
    pub(crate) held: [bool; 2],
    /// The end has sent its whole handshake.
    pub(crate) open: [bool; 2],
    /// Last message that the end's instance had received when the session began or resumed on this line, and reported
    /// to its peer.
    pub(crate) told: [Option<Number>; 2],
    /// Nothing is delivered before this time.
    pub(crate) sleeps_until: Time,
    to: [Way; 2],
}

#[derive(Default)]
struct Way {
    bytes: VecDeque<u8>,
    sent: u64,
    delivered: u64,
    /// From the corrupted byte to the end of its send.
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

    pub(crate) fn under_way(&self, end: usize) -> usize {
        self.to[end].bytes.len()
    }

    pub(crate) fn carried(&self) -> u64 {
        self.to.iter().map(|way| way.delivered).sum()
    }

    /// Sends to an end, corrupting the byte at `damaged`.
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

    /// Delivers up to `most` bytes to an end, never a corrupted byte together with any before it.
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

    /// Returns whether the end has received the corrupted byte.
    pub(crate) fn is_tainted(&self, end: usize) -> bool {
        let way = &self.to[end];
        way.damage.as_ref().is_some_and(|damage| damage.start < way.delivered)
    }

    /// Returns whether the end has received the whole send with the corrupted byte.
    pub(crate) fn must_be_over(&self, end: usize) -> bool {
        let way = &self.to[end];
        way.damage.as_ref().is_some_and(|damage| damage.end <= way.delivered)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Version 1 checksums.
    Sums,
    /// Version 1 checksums and signature.
    Signature,
    /// Version 2 checksums.
    Frames,
    Encryption,
}

/// Frame or other unit among the bytes of an open connection.
pub(crate) struct Frame {
    /// Range in which every flipped bit must be detected.
    pub(crate) protected: Range<usize>,
    /// Transaction of a readable message.
    pub(crate) tid: Option<u64>,
    /// Marked as compressed.
    pub(crate) compressed: bool,
}

impl Protection {
    /// Splits bytes into complete frames, as far as they are readable.
    ///
    /// Version 1 protects only messages, without their tag and final flags, and its signature field only if there is a
    /// signature. Version 2 ends messages with a status and three checksums; checksums of absent parts are unused.
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
