//! Queue of messages to send.

use super::fronts::Fronts;
use crate::message::{Header, Message};
use crate::types::Payload;
use onego_buf::{List, Segment};
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) header: Header,
    pub(crate) front: Front,
    pub(crate) middle: Option<Segment>,
    pub(crate) data: List,
}

#[derive(Debug)]
pub(crate) enum Front {
    /// Encoded in the queue's [`Fronts`], with this length, after the fronts of earlier messages.
    Encoded(usize),
    Own(Segment),
}

impl From<Message> for Queued {
    fn from(message: Message) -> Self {
        let Message { header, front, middle, data, placed: _, discarded: _ } = message;
        Self { header, front: Front::Own(front), middle, data }
    }
}

impl Queued {
    fn front_len(&self) -> usize {
        match &self.front {
            Front::Encoded(len) => *len,
            Front::Own(front) => front.len(),
        }
    }

    pub(crate) fn lens(&self) -> [u32; 3] {
        let middle = self.middle.as_deref().map_or(0, <[u8]>::len);
        [self.front_len(), middle, self.data.len()]
            .map(|len| u32::try_from(len).expect("a part of a message has less than 4 GiB"))
    }

    /// Returns a second instance for retransmission; front and payload are shared.
    pub(crate) fn keep(&mut self, fronts: &mut Fronts) -> Self {
        let front = match &self.front {
            Front::Encoded(len) => Segment::copy_from(fronts.take(*len)),
            Front::Own(front) => front.clone(),
        };
        self.front = Front::Own(front.clone());
        let (middle, data) = (self.middle.clone(), self.data.clone());
        Self { header: self.header, front: Front::Own(front), middle, data }
    }

    pub(crate) fn body_len(&self) -> usize {
        self.front_len() + self.middle.as_deref().map_or(0, <[u8]>::len) + self.data.len()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    messages: VecDeque<Queued>,
    fronts: Fronts,
    bytes: usize,
}

impl Queue {
    pub(crate) fn push(&mut self, message: Message) {
        let message = Queued::from(message);
        self.bytes += message.body_len();
        self.messages.push_back(message);
    }

    pub(crate) fn push_first(&mut self, message: Queued) {
        self.bytes += message.body_len();
        self.messages.push_front(message);
    }

    /// Queues a message with this content, without allocating memory for its front.
    #[inline]
    pub(crate) fn push_payload<P: Payload>(&mut self, tid: u64, payload: &P) {
        // Encode in place.
        let message = self.messages.push_back_mut(Queued {
            header: Header::of::<P>(tid),
            front: Front::Encoded(0),
            middle: None,
            data: List::new(),
        });
        let front = self.fronts.add(|writer| payload.encode(writer, &mut message.data));
        message.front = Front::Encoded(front);
        self.bytes += message.body_len();
    }

    /// Passes the first message to `send` in place, because moving it would cost as much as writing its header, and
    /// removes it. Returns `false` if the queue is empty.
    #[inline]
    pub(crate) fn pop(&mut self, send: impl FnOnce(&mut Queued, &mut Fronts)) -> bool {
        let Some(message) = self.messages.front_mut() else { return false };
        self.bytes -= message.body_len();
        send(message, &mut self.fronts);
        self.messages.pop_front();
        if self.messages.is_empty() {
            self.fronts.clear();
        }
        true
    }

    pub(crate) fn clear(&mut self) {
        self.messages.clear();
        self.fronts.clear();
        self.bytes = 0;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}
