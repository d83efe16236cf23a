//! Refreshes of the header after it may have changed.
//!
//! Source: ceph `src/librbd/image/RefreshRequest.cc`.

use super::machine::OpenImage;
use super::refresh_state::Waiter;
use crate::data::Ancestor;
use crate::error::Error;
use crate::facts::ImageState;
use crate::host::{Host, Purpose, Ticket};
use crate::request::Outcome;
use onego_buf::List;
use onego_ceph::client::{Error as ClientError, OpReply, Request, errno};
use onego_ceph::ops::Op;
use onego_ceph::rbd::Features;
use std::sync::Arc;

impl<T> OpenImage<T> {
    pub(super) fn header_request(&self, op: Op) -> Request {
        self.header_request_of([op])
    }

    pub(super) fn header_request_of(&self, ops: impl IntoIterator<Item = Op>) -> Request {
        let header = &self.facts.header;
        let mut request = Request::new(header.pool, header.object.clone()).in_namespace(&header.namespace);
        request.ops.extend(ops.into_iter().map(|op| (op, 0)));
        request.with_flags(self.facts.data.flags)
    }

    pub(super) fn refresh_for(&mut self, host: &mut impl Host<T>, waiter: Waiter<T>) {
        self.refresh.next.push(waiter);
        if !self.refresh.is_in_flight {
            self.send_refresh(host);
        }
    }

    fn send_refresh(&mut self, host: &mut impl Host<T>) {
        let refresh = &mut self.refresh;
        refresh.is_in_flight = true;
        refresh.current = std::mem::take(&mut refresh.next);
        // Nothing is written until the snapshots are known.
        self.is_open = false;
        let query = ImageState::query(self.facts.format, self.facts.data.snap);
        host.request(self.header_request_of(query), Ticket(Purpose::Refresh));
    }

    pub(super) fn refreshed(&mut self, host: &mut impl Host<T>, reply: Result<OpReply, ClientError>) {
        self.refresh.is_in_flight = false;
        let state = reply.and_then(|reply| {
            let outputs: Vec<&List> = reply.ops.iter().map(|op| &op.output).collect();
            let (format, snap) = (self.facts.format, self.facts.data.snap);
            ImageState::parse(format, snap, &outputs).map_err(ClientError::BadReply)
        });
        let result = match state {
            Ok(Some(state)) => {
                self.learn(state);
                Ok(())
            }
            Ok(None) => Err(self.poison(Error::Removed)),
            Err(error) if error.errno() == errno::ENOENT => Err(self.poison(Error::Removed)),
            Err(error) => {
                tracing::warn!(image = self.facts.id, %error, "cannot read the header of an image");
                Err(Error::from(error))
            }
        };
        for waiter in std::mem::take(&mut self.refresh.current) {
            match waiter {
                Waiter::Caller(token) => host.finished(token, result.clone().map(|()| Outcome::Done)),
                Waiter::Notifier(watch, id) => self.refresh.unanswered.push((watch, id)),
                Waiter::Lock => self.lock_refreshed(host, &result),
                Waiter::None => {}
            }
        }
        self.answer_notifiers(host);
        if !self.refresh.next.is_empty() {
            self.send_refresh(host);
        }
    }

    /// Acknowledges the notifications of header changes, unless a read of a former parent is in flight: the client that flattened
    /// the image may remove the parent next.
    pub(super) fn answer_notifiers(&mut self, host: &mut impl Host<T>) {
        if self.facts.parent.is_some() || self.ancestral.is_empty() {
            for (watch, id) in self.refresh.unanswered.drain(..) {
                host.acknowledge(watch, id, List::new());
            }
        }
    }

    fn learn(&mut self, state: ImageState) {
        let start = self.facts.data.start();
        // The source of a migration shows through the image; it is not the parent in the header. A client that only reads the image
        // keeps it until the end of the migration.
        let reads_source =
            self.migration.is_none() && self.facts.state.features.contains(Features::MIGRATING);
        self.learn_migration(state.features);
        if self.migration.is_some() || reads_source {
            self.facts.state = state;
            self.publish_size();
            return;
        }
        let is_same = state.parent == self.facts.state.parent;
        self.facts.parent = self.facts.parent.take().filter(|_| is_same && state.overlap > 0).map(|parent| {
            // The overlap never grows.
            let overlap = parent.overlap.min(state.overlap.saturating_sub(start));
            if parent.overlap == overlap {
                return parent;
            }
            Arc::new(Ancestor { overlap, ..Ancestor::clone(&parent) })
        });
        self.facts.state = state;
        self.publish_size();
    }
}
