//! What was sent, received, acknowledged, and told to be lost: the two ends' books of messages.

use std::collections::BTreeSet;

/// A message: the life of its sender, and its number among that life's messages, from 1 on.
pub(crate) type Number = (u32, u64);

/// The messages that one end sends to the other.
#[derive(Default)]
pub(crate) struct Ledger {
    /// What was received by any life of the other end.
    received: BTreeSet<Number>,
    /// What the sender was told to be lost.
    lost: BTreeSet<Number>,
    /// The last message that the receiver has got in its life.
    last: Option<Number>,
    /// Of the sender's life: how many messages it has sent, how many of them it need not send any more, and how often it
    /// was told that messages were lost.
    sent: u64,
    settled: u64,
    resets: u64,
}

impl Ledger {
    /// A message arrives.
    pub(crate) fn receive(&mut self, got: Number) {
        assert!(self.last < Some(got), "{got:?} comes after {:?}", self.last);
        let (life, n) = got;
        let before = self.last.filter(|(last, _)| *last == life).map_or(0, |(_, last)| last);
        for skipped in (before + 1..n).map(|n| (life, n)) {
            assert!(self.is_settled(skipped), "{skipped:?} is lost on the way, {got:?} is not");
        }
        assert!(!self.lost.contains(&got), "{got:?} arrives, of which its sender was told that it is lost");
        self.last = Some(got);
        self.received.insert(got);
    }

    /// Received, or told to be lost.
    fn is_settled(&self, number: Number) -> bool {
        self.received.contains(&number) || self.lost.contains(&number)
    }

    /// What the sender knows: of the messages that it has `sent` in that `life` it still `holds` some, and it was told
    /// so often that all which it held were lost.
    pub(crate) fn look(&mut self, life: u32, sent: u64, holds: u64, resets: u64) {
        if resets > self.resets {
            self.resets = resets;
            self.lose(life);
        }
        self.sent = sent;
        for n in self.settled + 1..=sent - holds {
            assert!(self.is_settled((life, n)), "message {n} was let go of, and nobody has it");
        }
        self.settled = self.settled.max(sent - holds);
    }

    /// What the sender still has in that life is lost.
    fn lose(&mut self, life: u32) {
        let held = (self.settled + 1..=self.sent).map(|n| (life, n));
        let unseen: Vec<Number> = held.filter(|number| !self.received.contains(number)).collect();
        self.lost.extend(unseen);
    }

    /// The sender has given up its session, in that life, and begins another with a later life of the receiver.
    pub(crate) fn give_up(&mut self, life: u32) {
        self.lose(life);
        (self.settled, self.resets) = (self.sent, 0);
    }

    /// The sender lives again: nobody needs what it still had.
    pub(crate) fn sender_died(&mut self) {
        (self.sent, self.settled, self.resets) = (0, 0, 0);
    }

    /// What the receiver has got last, in its life.
    pub(crate) fn last(&self) -> Option<Number> {
        self.last
    }

    /// The receiver lives again: it knows nothing of what it had.
    pub(crate) fn receiver_died(&mut self) {
        self.last = None;
    }

    /// Messages that were lost without a fault of the protocol.
    pub(crate) fn lost(&self) -> usize {
        self.lost.len()
    }

    /// Is everything settled that was sent?
    pub(crate) fn is_done(&self) -> bool {
        self.settled == self.sent
    }
}
