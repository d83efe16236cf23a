//! Outgoing messages: those waiting to be sent and, on a lossless connection, those sent but not yet acknowledged.

use super::fronts::Fronts;
use super::queue::{Queue, Queued};
use crate::error::Error;
use crate::message::Message;
use crate::types::Payload;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Outbox {
    queue: Queue,
    seq: u64,
    keeps: bool,
    /// Messages sent and not acknowledged; the last one has the number `seq`.
    sent: VecDeque<Queued>,
    sent_bytes: usize,
    /// Messages at the front of the queue that were already sent on an earlier connection.
    again: usize,
}

impl Outbox {
    pub(crate) fn new(keeps: bool) -> Self {
        Self { queue: Queue::default(), seq: 0, keeps, sent: VecDeque::new(), sent_bytes: 0, again: 0 }
    }

    pub(crate) fn push(&mut self, message: Message) {
        self.queue.push(message);
    }

    /// Queues a message before all others, on a connection that has sent none.
    pub(crate) fn push_first(&mut self, message: Message) {
        self.queue.push_first(Queued::from(message));
    }

    #[inline]
    pub(crate) fn push_payload<P: Payload>(&mut self, tid: u64, payload: &P) {
        self.queue.push_payload(tid, payload);
    }

    /// Numbers a message that bypasses the queue, as the first on its connection.
    pub(crate) fn number(&mut self, message: &mut Queued) {
        self.seq += 1;
        message.header.seq = self.seq;
    }

    /// Numbers the next message and passes it to `send`. Returns `false` if the queue is empty.
    #[inline]
    pub(crate) fn pop(&mut self, send: impl FnOnce(&mut Queued, &mut Fronts)) -> bool {
        let Self { queue, seq, keeps, sent, sent_bytes, again } = self;
        queue.pop(|message, fronts| {
            *seq += 1;
            message.header.seq = *seq;
            if *keeps {
                *again = again.saturating_sub(1);
                *sent_bytes += message.body_len();
                keep(sent, message, fronts);
            }
            send(message, fronts);
        })
    }

    pub(crate) fn acknowledged(&mut self, seq: u64) -> Result<(), Error> {
        if !self.keeps {
            return Ok(());
        }
        let last = self.seq + self.again as u64;
        if seq > last {
            return Err(Error::NeverSent { seq, last });
        }
        while self.seq - (self.sent.len() as u64) < seq
            && let Some(message) = self.sent.pop_front()
        {
            self.sent_bytes -= message.body_len();
        }
        // Where a session is resumed without exchanging sequence numbers (version 1, with old peers), the peer may
        // acknowledge messages that are queued for retransmission.
        self.resume(seq)
    }

    /// Requeues unacknowledged messages after the connection broke: the next one sends them first, with the same
    /// numbers. A lossy connection drops everything.
    pub(crate) fn requeue(&mut self) {
        if !self.keeps {
            return self.reset();
        }
        self.again += self.sent.len();
        self.seq -= self.sent.len() as u64;
        self.sent_bytes = 0;
        while let Some(message) = self.sent.pop_back() {
            self.queue.push_first(message);
        }
    }

    /// Resumes the session with a peer that has the messages up to `seq`: these are not resent.
    pub(crate) fn resume(&mut self, seq: u64) -> Result<(), Error> {
        while self.seq < seq {
            if self.again == 0 {
                return Err(Error::NeverSent { seq, last: self.seq });
            }
            self.again -= 1;
            self.seq += 1;
            self.queue.pop(|_, _| {});
        }
        Ok(())
    }

    pub(crate) fn begin(&mut self, keeps: bool) {
        self.keeps = keeps;
        if self.again == 0 {
            self.seq = 0;
        }
    }

    pub(crate) fn reset(&mut self) {
        self.queue.clear();
        self.sent.clear();
        (self.seq, self.sent_bytes, self.again) = (0, 0, 0);
    }

    pub(crate) fn queued_bytes(&self) -> usize {
        self.queue.bytes()
    }

    pub(crate) fn queued_messages(&self) -> usize {
        self.queue.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the number of unsent and unacknowledged messages, and their bytes.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.queue.len() + self.sent.len(), self.queue.bytes() + self.sent_bytes)
    }
}

/// Keeps a message about to be sent. Cold, to stay off the path of lossy connections.
#[cold]
fn keep(sent: &mut VecDeque<Queued>, message: &mut Queued, fronts: &mut Fronts) {
    sent.push_back(message.keep(fronts));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbox(messages: u64) -> Outbox {
        let mut outbox = Outbox::new(true);
        for tid in 1..=messages {
            outbox.push(Message::new(1, 1, 1, vec![0; 10]).with_tid(tid));
        }
        outbox
    }

    /// Sends up to `n` messages. Returns their sequence and transaction numbers.
    fn send(outbox: &mut Outbox, n: usize) -> Vec<(u64, u64)> {
        let mut sent = Vec::new();
        while sent.len() < n && outbox.pop(|message, _| sent.push((message.header.seq, message.header.tid))) {
        }
        sent
    }

    #[test]
    fn unacknowledged_messages_are_resent_with_the_same_numbers() {
        let mut outbox = outbox(5);
        assert_eq!(send(&mut outbox, 4), [(1, 1), (2, 2), (3, 3), (4, 4)]);
        assert_eq!(outbox.acknowledged(2), Ok(()));
        assert_eq!(outbox.held(), (3, 30));
        outbox.requeue();
        assert_eq!(outbox.held(), (3, 30));
        assert_eq!(outbox.resume(3), Ok(()));
        assert_eq!(send(&mut outbox, 9), [(4, 4), (5, 5)]);
        assert_eq!(outbox.acknowledged(5), Ok(()));
        assert_eq!(outbox.held(), (0, 0));
    }

    #[test]
    fn a_peer_cannot_acknowledge_an_unsent_message() {
        let mut outbox = outbox(3);
        send(&mut outbox, 2);
        assert_eq!(outbox.acknowledged(3), Err(Error::NeverSent { seq: 3, last: 2 }));
        outbox.requeue();
        assert_eq!(outbox.resume(3), Err(Error::NeverSent { seq: 3, last: 2 }));
    }

    #[test]
    fn a_message_acknowledged_before_its_retransmission_is_not_resent() {
        let mut outbox = outbox(6);
        send(&mut outbox, 5);
        outbox.requeue();
        assert_eq!(send(&mut outbox, 1), [(1, 1)]);
        assert_eq!(outbox.acknowledged(6), Err(Error::NeverSent { seq: 6, last: 5 }));
        assert_eq!(outbox.held(), (6, 60));
        assert_eq!(outbox.acknowledged(4), Ok(()));
        assert_eq!(outbox.held(), (2, 20));
        assert_eq!(send(&mut outbox, 9), [(5, 5), (6, 6)]);
    }

    #[test]
    fn messages_encoded_into_the_queue_are_kept_too() {
        use crate::auth::messages::AuthReply;
        let mut outbox = Outbox::new(true);
        outbox.push_payload(1, &AuthReply { global_id: 2, ..AuthReply::default() });
        let bytes = outbox.held().1;
        send(&mut outbox, 1);
        outbox.requeue();
        assert_eq!(outbox.held(), (1, bytes));
        assert_eq!(send(&mut outbox, 1), [(1, 1)]);
    }

    #[test]
    fn a_lossy_connection_keeps_nothing() {
        let mut outbox = Outbox::new(false);
        outbox.push(Message::new(1, 1, 1, vec![0; 10]));
        send(&mut outbox, 1);
        assert_eq!(outbox.held(), (0, 0));
        outbox.push(Message::new(1, 1, 1, vec![0; 10]));
        outbox.requeue();
        assert_eq!(outbox.held(), (0, 0));
    }
}
