//! The header is read again when it may have changed.
//!
//! Source: ceph `src/librbd/image/RefreshRequest.cc`.

use super::machine::OpenImage;
use super::refresh_state::Waiter;
use crate::error::Error;
use crate::facts::{Ancestor, ImageState};
use crate::host::{Host, Purpose, Ticket};
use crate::request::Outcome;
use onego_buf::List;
use onego_ceph::client::{Error as ClientError, OpReply, Request, errno};
use onego_ceph::cls::Method;
use onego_ceph::cls::rbd::{GetFeatures, GetFlags, GetSize, GetSnapContext, ParentGet, ParentOverlapGet};
use onego_ceph::ops::Op;
use onego_ceph::rbd::Features;
use onego_wire::Decoded;
use std::sync::Arc;

impl ImageState {
    /// Number of the operations of [`query`](Self::query).
    pub const QUERY_OPS: usize = 6;

    /// The operations on a header that give its state, at a snapshot or without one.
    pub fn query(snap: u64) -> [Op; Self::QUERY_OPS] {
        [
            GetSize { snap }.call(),
            GetFeatures { snap, read_only: true }.call(),
            GetFlags { snap }.call(),
            GetSnapContext {}.call(),
            ParentGet {}.call(),
            ParentOverlapGet { snap }.call(),
        ]
    }

    /// Reads what the operations gave.
    pub fn parse(outputs: &[&List; Self::QUERY_OPS]) -> Decoded<Self> {
        let [size, features, flags, snap_context, parent, overlap] = outputs;
        Ok(Self {
            size: GetSize::reply(size)?.size,
            features: Features(GetFeatures::reply(features)?.features),
            flags: GetFlags::reply(flags)?,
            snap_context: GetSnapContext::reply(snap_context)?,
            parent: ParentGet::reply(parent)?,
            overlap: ParentOverlapGet::reply(overlap)?.unwrap_or(0),
        })
    }
}

impl<T> OpenImage<T> {
    /// A request to the header.
    pub(super) fn header_request(&self, op: Op) -> Request {
        let header = &self.facts.header;
        let request = Request::one(header.pool, header.object.clone(), op).in_namespace(&header.namespace);
        request.with_flags(self.facts.data.flags)
    }

    /// Reads the header for somebody who waits for it.
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
        // Until it is known which snapshots there are, nothing is written.
        self.is_open = false;
        let header = &self.facts.header;
        let mut request = Request::new(header.pool, header.object.clone()).in_namespace(&header.namespace);
        request.ops.extend(ImageState::query(self.facts.data.snap).map(|op| (op, 0)));
        host.request(request, Ticket(Purpose::Refresh));
    }

    /// The header is read, or cannot be.
    pub(super) fn refreshed(&mut self, host: &mut impl Host<T>, reply: Result<OpReply, ClientError>) {
        self.refresh.is_in_flight = false;
        let state = reply.and_then(|reply| {
            let outputs: Vec<&List> = reply.ops.iter().map(|op| &op.output).collect();
            let outputs: &[&List; ImageState::QUERY_OPS] =
                outputs.as_slice().try_into().map_err(|_| ClientError::Mismatch("it has not all outputs"))?;
            ImageState::parse(outputs).map_err(ClientError::BadReply)
        });
        let result = match state {
            Ok(state) => {
                self.learn(state);
                Ok(())
            }
            Err(error) if error.errno() == errno::ENOENT => Err(self.die(Error::Removed)),
            Err(error) => {
                tracing::warn!(image = self.facts.id, %error, "the header of an image cannot be read");
                Err(Error::from(error))
            }
        };
        for waiter in std::mem::take(&mut self.refresh.current) {
            match waiter {
                Waiter::Caller(token) => host.finished(token, result.clone().map(|()| Outcome::Done)),
                Waiter::Notifier(watch, id) => self.refresh.unanswered.push((watch, id)),
                Waiter::Lock => self.lock_refreshed(host, &result),
                Waiter::Nobody => {}
            }
        }
        self.answer_notifiers(host);
        if !self.refresh.next.is_empty() {
            self.send_refresh(host);
        }
    }

    /// Answers those who said that the header has changed, unless bytes are on their way of a parent that the image had: whoever
    /// flattened it may remove the parent next.
    pub(super) fn answer_notifiers(&mut self, host: &mut impl Host<T>) {
        if self.facts.parent.is_some() || self.ancestral.is_empty() {
            for (watch, id) in self.refresh.unanswered.drain(..) {
                host.acknowledge(watch, id, List::new());
            }
        }
    }

    /// Takes over what the header says.
    fn learn(&mut self, state: ImageState) {
        let start = self.facts.data.start();
        // What shows through an image that is being moved here is its source, of which the parent in the header says nothing. Who
        // only reads the image keeps it until the move is over.
        let reads_source =
            self.migration.is_none() && self.facts.state.features.contains(Features::MIGRATING);
        self.learn_migration(state.features);
        self.view.set_size(state.data_size(start));
        if self.migration.is_some() || reads_source {
            self.facts.state = state;
            return;
        }
        let is_same = state.parent == self.facts.state.parent;
        self.facts.parent = self.facts.parent.take().filter(|_| is_same && state.overlap > 0).map(|parent| {
            // It never grows.
            let overlap = parent.overlap.min(state.overlap.saturating_sub(start));
            if parent.overlap == overlap {
                return parent;
            }
            Arc::new(Ancestor { overlap, ..Ancestor::clone(&parent) })
        });
        self.facts.state = state;
    }
}
