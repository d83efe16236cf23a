use super::commands::{MapDone, WatchDone, WatchNotice};
use super::done::RequestOutcome;
use super::image_key::ImageKey;
use futures_channel::{mpsc, oneshot};
use onego_ceph::client::{self, Client, Completion, Rejected, Request};
use onego_wire::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Token that the protocol client returns with a completion.
pub struct Ticket(pub(super) Purpose);

pub(super) enum Purpose {
    Future(oneshot::Sender<RequestOutcome>),
    Image { key: ImageKey, ticket: onego_rbd::Ticket },
    Watch(WatchDone, mpsc::Sender<WatchNotice>),
    Unwatch(Option<oneshot::Sender<RequestOutcome>>),
}

pub(super) struct MapWaiter {
    pub(super) epoch: u32,
    pub(super) deadline: Time,
    pub(super) timeout: Duration,
    pub(super) done: MapReply,
}

pub(super) enum MapReply {
    Future(MapDone),
    Ticket(Ticket),
}

impl MapWaiter {
    pub(super) fn image(now: Time, epoch: u32, timeout: Duration, ticket: Ticket) -> Self {
        Self { epoch, deadline: now + timeout, timeout, done: MapReply::Ticket(ticket) }
    }

    pub(super) fn is_canceled(&self) -> bool {
        matches!(&self.done, MapReply::Future(done) if done.is_canceled())
    }
}

/// Submits a request, or parks it until there is room. Returns it as completed if it can never be submitted.
#[inline]
pub(super) fn submit_or_park(
    client: &mut Client<Ticket>,
    parked: &mut VecDeque<(Request, Ticket)>,
    now: Time,
    request: Request,
    ticket: Ticket,
) -> Option<Completion<Ticket>> {
    if !parked.is_empty() {
        parked.push_back((request, ticket));
        return None;
    }
    let rejected = client.submit(now, request, ticket).err()?;
    if let client::Error::Busy { .. } = rejected.error {
        parked.push_back((rejected.request, rejected.ticket));
        return None;
    }
    Some(refused(rejected))
}

pub(super) fn refused(rejected: Box<Rejected<Ticket>>) -> Completion<Ticket> {
    Completion { ticket: rejected.ticket, outcome: Err(rejected.error), buffer: rejected.request.read_into }
}
