//! Room for large messages that come in, and the order in which they get it.

use super::peers::PeerId;
use onego_wire::ConnId;
use std::collections::VecDeque;

/// How a large message of a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Slot {
    /// None is coming in.
    #[default]
    None,
    /// It has room for this number of bytes.
    Held(usize),
    /// It waits for room, and its connection is not read from.
    Waiting(usize),
}

/// A connection that waits.
#[derive(Debug)]
struct Waiting {
    conn: ConnId,
    bytes: usize,
}

/// The connections of one peer that wait, first come, first served.
#[derive(Debug)]
struct Line {
    peer: PeerId,
    waiting: VecDeque<Waiting>,
}

/// The room. Peers take turns, so that one with many connections does not hold up one with few.
#[derive(Debug)]
pub(super) struct Slots {
    /// Bytes that messages may have together. A message that is longer gets in when there is no other.
    most: usize,
    held: usize,
    lines: VecDeque<Line>,
}

impl Slots {
    pub(super) fn new(most: usize) -> Self {
        Self { most, held: 0, lines: VecDeque::new() }
    }

    fn fits(&self, bytes: usize) -> bool {
        self.held == 0 || self.held + bytes <= self.most
    }

    /// Is there room for a message that comes now?
    #[inline]
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.lines.is_empty() && self.fits(bytes)
    }

    pub(super) fn is_anybody_waiting(&self) -> bool {
        !self.lines.is_empty()
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.lines.iter().map(|line| line.waiting.len()).sum()
    }

    pub(super) fn take(&mut self, bytes: usize) {
        self.held += bytes;
    }

    pub(super) fn give_back(&mut self, bytes: usize) {
        self.held -= bytes;
    }

    /// A message joins the end of its peer's line.
    pub(super) fn wait(&mut self, peer: PeerId, conn: ConnId, bytes: usize) {
        let waiting = Waiting { conn, bytes };
        match self.lines.iter_mut().find(|line| line.peer == peer) {
            Some(line) => line.waiting.push_back(waiting),
            None => self.lines.push_back(Line { peer, waiting: [waiting].into() }),
        }
    }

    /// A connection that waited is gone, or has what it waited for.
    pub(super) fn leave(&mut self, peer: PeerId, conn: ConnId) {
        let Some(at) = self.lines.iter().position(|line| line.peer == peer) else { return };
        self.lines[at].waiting.retain(|waiting| waiting.conn != conn);
        if self.lines[at].waiting.is_empty() {
            self.lines.remove(at);
        }
    }

    /// The next connection whose turn it is, if there is room for its message.
    pub(super) fn next(&mut self) -> Option<ConnId> {
        let mut line = self.lines.pop_front()?;
        let first = line.waiting.front().map(|waiting| waiting.bytes);
        if !first.is_some_and(|bytes| self.fits(bytes)) {
            self.lines.push_front(line);
            return None;
        }
        let next = line.waiting.pop_front();
        if !line.waiting.is_empty() {
            self.lines.push_back(line);
        }
        next.map(|waiting| waiting.conn)
    }
}
