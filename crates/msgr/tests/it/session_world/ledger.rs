//! Ledger of the messages sent, received, acknowledged and reported lost.

use std::collections::BTreeSet;

/// Identifies a message: the instance of its sender, and its number in that instance, from 1.
pub(crate) type Number = (u32, u64);

/// Messages from one end to the other.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Messages received by any instance of the other end.
    received: BTreeSet<Number>,
    /// Messages that the sender knows to be lost.
    lost: BTreeSet<Number>,
    /// Last message that the receiver's current instance has received.
    last: Option<Number>,
    /// State of the sender's current instance: messages sent, messages that it need not resend, and losses reported to
    /// it.
    sent: u64,
    settled: u64,
    resets: u64,
}

impl Ledger {
    pub(crate) fn receive(&mut self, got: Number) {
        assert!(self.last < Some(got), "{got:?} comes after {:?}", self.last);
        let (life, n) = got;
        let before = self.last.filter(|(last, _)| *last == life).map_or(0, |(_, last)| last);
        for skipped in (before + 1..n).map(|n| (life, n)) {
            assert!(self.is_settled(skipped), "{skipped:?} is lost in transit, {got:?} is not");
        }
        assert!(!self.lost.contains(&got), "{got:?} arrives, but was reported lost to its sender");
        self.last = Some(got);
        self.received.insert(got);
    }

    fn is_settled(&self, number: Number) -> bool {
        self.received.contains(&number) || self.lost.contains(&number)
    }

    /// Checks the sender's view: instance `life` has `sent` that many messages, still `holds` some, and counts
    /// `resets`, each of which lost everything held.
    pub(crate) fn look(&mut self, life: u32, sent: u64, holds: u64, resets: u64) {
        if resets > self.resets {
            self.resets = resets;
            self.lose(life);
        }
        self.sent = sent;
        for n in self.settled + 1..=sent - holds {
            assert!(self.is_settled((life, n)), "message {n} was released but never received");
        }
        self.settled = self.settled.max(sent - holds);
    }

    /// Marks all messages that the sender's instance still holds as lost.
    fn lose(&mut self, life: u32) {
        let held = (self.settled + 1..=self.sent).map(|n| (life, n));
        let unseen: Vec<Number> = held.filter(|number| !self.received.contains(number)).collect();
        self.lost.extend(unseen);
    }

    /// Records that the sender's instance gave up its session and begins another with a later instance of the receiver.
    pub(crate) fn give_up(&mut self, life: u32) {
        self.lose(life);
        (self.settled, self.resets) = (self.sent, 0);
    }

    /// Records a restart of the sender: the messages that it held are not needed any more.
    pub(crate) fn sender_died(&mut self) {
        (self.sent, self.settled, self.resets) = (0, 0, 0);
    }

    pub(crate) fn last(&self) -> Option<Number> {
        self.last
    }

    /// Records a restart of the receiver, which loses all state.
    pub(crate) fn receiver_died(&mut self) {
        self.last = None;
    }

    /// Returns the number of messages lost without a protocol violation.
    pub(crate) fn lost(&self) -> usize {
        self.lost.len()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.settled == self.sent
    }
}
