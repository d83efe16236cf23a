//! Several machines driven as one.

use crate::conns::{ConnId, ConnTable};
use crate::machine::{Action, Disconnect, Landing, ListenerId, Machine};
use crate::time::Time;
use onego_buf::{List, Segment, SegmentMut};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

#[cfg(test)]
mod tests;

/// Numbered machines that one driver drives as one. They may pass work to each other in any call.
pub trait Members {
    /// Returns the number of members. Members are never removed; new ones are added at the end.
    fn count(&self) -> usize;

    /// Returns member `index`, which is below [`count`](Self::count).
    fn member(&self, index: usize) -> &dyn Machine;

    /// Returns member `index`, which is below [`count`](Self::count).
    fn member_mut(&mut self, index: usize) -> &mut dyn Machine;

    /// Returns whether a member passed work to another since the last call. An idle member may do so when asked for its
    /// next action, after the other was asked: then all are asked again before the driver sleeps.
    fn passed_work(&mut self) -> bool;
}

/// A [`Machine`] made of several. It assigns its own ids to their connections and listeners, so that ids of different
/// members never collide.
///
/// An id is free again after [`Machine::disconnected`]. After [`Action::Close`] it is kept until the member reuses the
/// slot for another connection, because the driver may still ask for output, and as long as the driver holds receive
/// buffers of the connection. The number of ids is therefore at most the number of member slots plus one for each
/// closed connection with receive buffers out.
#[derive(Debug, Default)]
pub struct Joined<M> {
    members: M,
    conns: ConnTable<Joint>,
    /// Driver's connection ids, by member.
    names: Vec<Names>,
    /// Member and inner id of each listener, by the driver's number. There are few.
    listeners: Vec<(usize, ListenerId)>,
    /// Member asked for the next action.
    turn: usize,
}

#[derive(Debug)]
struct Joint {
    member: usize,
    /// Member's id of the connection.
    inner: ConnId,
    /// Receive buffers that the driver holds.
    lent: usize,
    /// Closed, but the driver may still ask for output and return receive buffers.
    closed: bool,
}

/// Driver's ids of a member's connections, by the member's slots.
#[derive(Debug, Default)]
struct Names(Vec<Option<ConnId>>);

impl Names {
    #[inline]
    fn get(&self, inner: ConnId) -> Option<ConnId> {
        *self.0.get(inner.slot())?
    }

    fn replace(&mut self, inner: ConnId, outer: ConnId) -> Option<ConnId> {
        if inner.slot() >= self.0.len() {
            self.0.resize(inner.slot() + 1, None);
        }
        self.0[inner.slot()].replace(outer)
    }
}

impl<M: Members> Joined<M> {
    /// Combines members into one machine.
    pub fn new(members: M) -> Self {
        Self { members, conns: ConnTable::default(), names: Vec::new(), listeners: Vec::new(), turn: 0 }
    }

    /// Returns the members.
    pub fn members(&self) -> &M {
        &self.members
    }

    /// Returns the members, to pass them work or add new ones.
    pub fn members_mut(&mut self) -> &mut M {
        &mut self.members
    }

    /// Returns the members and drops the combination.
    pub fn into_members(self) -> M {
        self.members
    }

    /// Assigns a driver's id to a member's connection.
    fn name(&mut self, member: usize, inner: ConnId) -> ConnId {
        let outer = self.conns.insert(Joint { member, inner, lent: 0, closed: false });
        if member >= self.names.len() {
            self.names.resize_with(member + 1, Names::default);
        }
        if let Some(before) = self.names[member].replace(inner, outer)
            && let Some(joint) = self.conns.get(before)
        {
            debug_assert!(joint.closed, "a member reused the id of a connection that the driver still has");
            if joint.lent == 0 {
                self.conns.remove(before);
            }
        }
        outer
    }

    #[inline]
    fn outer(&self, member: usize, inner: ConnId) -> Option<ConnId> {
        let outer = self.names.get(member)?.get(inner)?;
        let joint = self.conns.get(outer)?;
        (joint.member == member && joint.inner == inner && !joint.closed).then_some(outer)
    }

    /// Returns the driver's id of a member's listener.
    fn listener(&mut self, member: usize, inner: ListenerId) -> ListenerId {
        let known = self.listeners.iter().position(|known| *known == (member, inner));
        let number = known.unwrap_or_else(|| {
            self.listeners.push((member, inner));
            self.listeners.len() - 1
        });
        ListenerId(u32::try_from(number).expect("listeners are few"))
    }

    /// Translates a member's action for the driver. Returns `None` if it concerns a closed connection.
    #[inline]
    fn translate(&mut self, member: usize, action: Action) -> Option<Action> {
        Some(match action {
            Action::Transmit { conn } => Action::Transmit { conn: self.outer(member, conn)? },
            Action::Resume { conn } => Action::Resume { conn: self.outer(member, conn)? },
            Action::LowWater { conn, bytes } => Action::LowWater { conn: self.outer(member, conn)?, bytes },
            Action::Close { conn } => {
                let conn = self.outer(member, conn)?;
                self.conns.get_mut(conn)?.closed = true;
                Action::Close { conn }
            }
            Action::Connect { conn, addr, local } => {
                Action::Connect { conn: self.name(member, conn), addr, local }
            }
            Action::Attach { conn, socket } => Action::Attach { conn: self.name(member, conn), socket },
            Action::Watch { conn, descriptor } => Action::Watch { conn: self.name(member, conn), descriptor },
            Action::WatchSignals { conn, eventfd } => {
                Action::WatchSignals { conn: self.name(member, conn), eventfd }
            }
            Action::Signal { eventfd } => Action::Signal { eventfd },
            Action::SendDescriptor { conn, message, descriptor } => {
                Action::SendDescriptor { conn: self.outer(member, conn)?, message, descriptor }
            }
            Action::Adopt { listener, socket } => {
                Action::Adopt { listener: self.listener(member, listener), socket }
            }
            Action::Listen { listener, addr } => {
                Action::Listen { listener: self.listener(member, listener), addr }
            }
        })
    }

    /// Returns the member and the inner id of an open connection.
    #[inline]
    fn open(&mut self, conn: ConnId) -> Option<(&mut dyn Machine, ConnId)> {
        let joint = self.conns.get(conn).filter(|joint| !joint.closed)?;
        Some((self.members.member_mut(joint.member), joint.inner))
    }
}

impl<M: Members> Machine for Joined<M> {
    /// Asks each member until it is idle, then the next, until all are idle and none has passed work to another in the
    /// meantime.
    fn next_action(&mut self, now: Time) -> Option<Action> {
        let count = self.members.count();
        let mut silent = 0;
        while silent < count {
            if let Some(action) = self.members.member_mut(self.turn).next_action(now) {
                silent = 0;
                if let Some(action) = self.translate(self.turn, action) {
                    return Some(action);
                }
                continue;
            }
            self.turn = if self.turn + 1 < count { self.turn + 1 } else { 0 };
            silent += 1;
            if silent == count && self.members.passed_work() {
                silent = 0;
            }
        }
        None
    }

    fn listening(&mut self, now: Time, listener: ListenerId, result: io::Result<SocketAddr>) {
        let Some(&(member, inner)) = self.listeners.get(listener.0 as usize) else { return };
        self.members.member_mut(member).listening(now, inner, result);
    }

    fn accepted(
        &mut self,
        now: Time,
        listener: ListenerId,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Option<ConnId> {
        let &(member, inner) = self.listeners.get(listener.0 as usize)?;
        let conn = self.members.member_mut(member).accepted(now, inner, peer, local)?;
        Some(self.name(member, conn))
    }

    fn connected(&mut self, now: Time, conn: ConnId, local: SocketAddr) {
        if let Some((member, inner)) = self.open(conn) {
            member.connected(now, inner, local);
        }
    }

    fn disconnected(&mut self, now: Time, conn: ConnId, cause: Disconnect) {
        let Some(joint) = self.conns.get_mut(conn).filter(|joint| !joint.closed) else { return };
        let (member, inner) = (joint.member, joint.inner);
        joint.closed = true;
        if joint.lent == 0 {
            self.conns.remove(conn);
        }
        self.members.member_mut(member).disconnected(now, inner, cause);
    }

    fn half_closed(&mut self, now: Time, conn: ConnId) -> bool {
        self.open(conn).is_some_and(|(member, inner)| member.half_closed(now, inner))
    }

    #[inline]
    fn landing(&mut self, conn: ConnId) -> Landing {
        let Some(joint) = self.conns.get_mut(conn).filter(|joint| !joint.closed) else {
            return Landing::default();
        };
        let landing = self.members.member_mut(joint.member).landing(joint.inner);
        joint.lent = landing.places();
        landing
    }

    #[inline]
    fn landed(&mut self, now: Time, conn: ConnId, place: SegmentMut, filled: usize) {
        let Some(joint) = self.conns.get_mut(conn) else { return };
        let (member, inner) = (joint.member, joint.inner);
        joint.lent = joint.lent.saturating_sub(1);
        if joint.closed && joint.lent == 0 && self.names[member].get(inner) != Some(conn) {
            self.conns.remove(conn);
        }
        self.members.member_mut(member).landed(now, inner, place, filled);
    }

    #[inline]
    fn received(&mut self, now: Time, conn: ConnId, bytes: Segment) {
        if let Some((member, inner)) = self.open(conn) {
            member.received(now, inner, bytes);
        }
    }

    fn descriptors(&mut self, now: Time, conn: ConnId, descriptors: Vec<OwnedFd>) {
        if let Some((member, inner)) = self.open(conn) {
            member.descriptors(now, inner, descriptors);
        }
    }

    #[inline]
    fn transmit(&mut self, now: Time, conn: ConnId, out: &mut List, limit: usize) {
        // The output left by a connection that the member has closed is requested, too.
        if let Some(joint) = self.conns.get(conn) {
            self.members.member_mut(joint.member).transmit(now, joint.inner, out, limit);
        }
    }

    fn ready(&mut self, now: Time, conn: ConnId) {
        if let Some((member, inner)) = self.open(conn) {
            member.ready(now, inner);
        }
    }

    fn deadline(&self) -> Option<Time> {
        (0..self.members.count()).filter_map(|index| self.members.member(index).deadline()).min()
    }

    /// Calls only members whose own deadline has passed, as separate drivers would.
    fn timeout(&mut self, now: Time) {
        for index in 0..self.members.count() {
            if self.members.member(index).deadline().is_some_and(|deadline| deadline <= now) {
                self.members.member_mut(index).timeout(now);
            }
        }
    }

    fn woken(&mut self, now: Time) {
        for index in 0..self.members.count() {
            self.members.member_mut(index).woken(now);
        }
    }
}
