use crate::conns::ConnId;
use crate::machine::{Action, Disconnect, Landing, ListenerId, Machine};
use crate::time::Time;
use onego_buf::{List, Segment, SegmentMut};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// A [`Machine`] that has no connections of its own: those of another machine, to which it adds something.
pub trait Layer {
    /// The machine that has the connections.
    type Below: Machine;

    /// The machine below.
    fn below(&self) -> &Self::Below;

    /// The machine below.
    fn below_mut(&mut self) -> &mut Self::Below;

    /// Takes what the machine below has for it, and gives it what there is to do. Called before each action that is asked
    /// for.
    fn settle(&mut self, now: Time);

    /// When [`due`](Self::due) wants to be called, at the latest.
    fn due_at(&self) -> Option<Time> {
        None
    }

    /// Time has passed, maybe up to that.
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
