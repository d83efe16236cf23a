use crate::conns::ConnId;
use crate::machine::{Action, Disconnect, Landing, ListenerId, Machine};
use crate::time::Time;
use onego_buf::{List, Segment, SegmentMut};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Adds behavior to another [`Machine`], whose connections it uses; it has none of its own.
pub trait Layer {
    /// Machine that has the connections.
    type Below: Machine;

    /// Returns the inner machine.
    fn below(&self) -> &Self::Below;

    /// Returns the inner machine.
    fn below_mut(&mut self) -> &mut Self::Below;

    /// Processes events of the inner machine and passes it work. Called before each action.
    fn settle(&mut self, now: Time);

    /// Returns when to call [`due`](Self::due), at the latest.
    fn due_at(&self) -> Option<Time> {
        None
    }

    /// Handles the passage of time, possibly before the deadline.
    fn due(&mut self, _now: Time) {}
}

impl<L: Layer> Machine for L {
    fn next_action(&mut self, now: Time) -> Option<Action> {
        self.settle(now);
        self.below_mut().next_action(now)
    }

    fn listening(&mut self, now: Time, listener: ListenerId, result: io::Result<SocketAddr>) {
        self.below_mut().listening(now, listener, result);
    }

    fn accepted(
        &mut self,
        now: Time,
        listener: ListenerId,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Option<ConnId> {
        self.below_mut().accepted(now, listener, peer, local)
    }

    fn connected(&mut self, now: Time, conn: ConnId, local: SocketAddr) {
        self.below_mut().connected(now, conn, local);
    }

    fn disconnected(&mut self, now: Time, conn: ConnId, cause: Disconnect) {
        self.below_mut().disconnected(now, conn, cause);
    }

    fn half_closed(&mut self, now: Time, conn: ConnId) -> bool {
        self.below_mut().half_closed(now, conn)
    }

    fn landing(&mut self, conn: ConnId) -> Landing {
        self.below_mut().landing(conn)
    }

    fn landed(&mut self, now: Time, conn: ConnId, place: SegmentMut, filled: usize) {
        self.below_mut().landed(now, conn, place, filled);
    }

    fn received(&mut self, now: Time, conn: ConnId, bytes: Segment) {
        self.below_mut().received(now, conn, bytes);
    }

    fn descriptors(&mut self, now: Time, conn: ConnId, descriptors: Vec<OwnedFd>) {
        self.below_mut().descriptors(now, conn, descriptors);
    }

    fn transmit(&mut self, now: Time, conn: ConnId, out: &mut List, limit: usize) {
        self.below_mut().transmit(now, conn, out, limit);
    }

    fn ready(&mut self, now: Time, conn: ConnId) {
        self.below_mut().ready(now, conn);
    }

    fn deadline(&self) -> Option<Time> {
        self.due_at().into_iter().chain(self.below().deadline()).min()
    }

    fn timeout(&mut self, now: Time) {
        self.below_mut().timeout(now);
        self.due(now);
    }

    fn woken(&mut self, now: Time) {
        self.below_mut().woken(now);
    }
}
