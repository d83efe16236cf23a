use crate::conns::ConnId;
use crate::machine::{Action, Disconnect, Landing, ListenerId, Machine};
use crate::time::Time;
use onego_buf::{List, Segment, SegmentMut};
use std::io;
use std::net::SocketAddr;

/// A [`Machine`] without connections: the inner machine of a [`Layer`](crate::Layer) that moves no bytes itself,
/// because other machines or threads do.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoConnections;

impl Machine for NoConnections {
    fn next_action(&mut self, _now: Time) -> Option<Action> {
        None
    }

    fn listening(&mut self, _now: Time, _listener: ListenerId, _result: io::Result<SocketAddr>) {}

    fn accepted(
        &mut self,
        _now: Time,
        _listener: ListenerId,
        _peer: SocketAddr,
        _local: SocketAddr,
    ) -> Option<ConnId> {
        None
    }

    fn connected(&mut self, _now: Time, _conn: ConnId, _local: SocketAddr) {}

    fn disconnected(&mut self, _now: Time, _conn: ConnId, _cause: Disconnect) {}

    fn landing(&mut self, _conn: ConnId) -> Landing {
        Landing::default()
    }

    fn landed(&mut self, _now: Time, _conn: ConnId, _place: SegmentMut, _filled: usize) {}

    fn received(&mut self, _now: Time, _conn: ConnId, _bytes: Segment) {}

    fn transmit(&mut self, _now: Time, _conn: ConnId, _out: &mut List, _limit: usize) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn timeout(&mut self, _now: Time) {}
}
