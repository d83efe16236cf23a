//! Messages that wait for their connections.

use super::session::{SessionId, UserId};
use super::watch::WatchKey;
use onego_ceph::messages::WatchNotify;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// A message to a watcher or notifier, as small as it can be until its connection takes it.
pub(super) enum Event {
    /// A notification; its payload is kept with it.
    Notify { key: WatchKey, id: u64 },
    /// A watch is over.
    Disconnect { cookie: u64 },
    /// A notification is over. Its bytes count as its notifier's until the message is taken.
    Complete { user: UserId, bytes: u64, message: Box<WatchNotify> },
}

/// A queue for each connection. Connections take turns, and one that takes no messages does not delay the others.
#[derive(Default)]
pub(super) struct Events {
    queues: FxHashMap<SessionId, Queue>,
    /// Connections that have messages and may take them.
    ready: VecDeque<SessionId>,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    /// The connection took no messages when it was last asked.
    held: bool,
}

impl Events {
    pub(super) fn push(&mut self, session: SessionId, event: Event) {
        let ready = &mut self.ready;
        let queue = self.queues.entry(session).or_insert_with(|| {
            ready.push_back(session);
            Queue::default()
        });
        queue.events.push_back(event);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Returns whether there are messages for connections that may take them.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next message, for a connection that takes it.
    pub(super) fn next(&mut self, takes: impl Fn(SessionId) -> bool) -> Option<(SessionId, Event)> {
        while let Some(session) = self.ready.pop_front() {
            // The connection may be closed.
            let Some(queue) = self.queues.get_mut(&session) else { continue };
            if !takes(session) {
                queue.held = true;
                continue;
            }
            let event = queue.events.pop_front();
            if queue.events.is_empty() {
                self.queues.remove(&session);
            } else {
                self.ready.push_back(session);
            }
            if let Some(event) = event {
                return Some((session, event));
            }
        }
        None
    }

    /// A connection takes messages again.
    pub(super) fn resume(&mut self, session: SessionId) {
        if let Some(queue) = self.queues.get_mut(&session)
            && std::mem::take(&mut queue.held)
        {
            self.ready.push_back(session);
        }
    }

    /// A connection is gone: gives what it did not take.
    pub(super) fn close(&mut self, session: SessionId) -> VecDeque<Event> {
        self.queues.remove(&session).unwrap_or_default().events
    }
}
