//! Several machines that one driver drives as one.

use crate::conns::{ConnId, ConnTable};
use crate::machine::{Action, Disconnect, Landing, ListenerId, Machine};
use crate::time::Time;
use onego_buf::{List, Segment, SegmentMut};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

#[cfg(test)]
mod tests;

/// Machines that one driver drives as one, by number. They may pass work to each other in any call.
pub trait Members {
    /// How many there are. None is ever taken away; new ones come at the end.
    fn count(&self) -> usize;

    /// The member of that number, which is below [`count`](Self::count).
    fn member(&self, index: usize) -> &dyn Machine;

    /// The member of that number, which is below [`count`](Self::count).
    fn member_mut(&mut self, index: usize) -> &mut dyn Machine;

    /// Has a member passed work to another since this was last asked? One that has nothing for the driver may do so when it
    /// is asked for its next action, after the other has been asked: then all are asked once more, before the driver sleeps.
    fn passed_work(&mut self) -> bool;
}

/// A [`Machine`] made of several: their connections and listeners get names of its own, so that those of one member are
/// never taken for those of another.
///
/// A name is free again after [`Machine::disconnected`]. After [`Action::Close`] it stays until the member uses the same slot
/// for another connection, because the driver may still ask for what is to be sent; and as long as the driver has receive
/// buffers of the connection. So there are at most as many names as the members have slots, and one for each closed
/// connection with receive buffers out.
#[derive(Debug, Default)]
pub struct Joined<M> {
    members: M,
    conns: ConnTable<Joint>,
    /// By member: what the driver calls its connections.
    names: Vec<Names>,
    /// By the driver's number: the member that has the listener, and what it calls it. They are few.
    listeners: Vec<(usize, ListenerId)>,
    /// The member that is asked for the next action.
    turn: usize,
}

/// A connection that the driver knows.
#[derive(Debug)]
struct Joint {
    member: usize,
    /// The member's name for it.
    inner: ConnId,
    /// Receive buffers that the driver has.
    lent: usize,
    /// It is over. The driver may still ask for what is to be sent, and give receive buffers back.
    closed: bool,
}

/// What the driver calls the connections of a member, by the slots of the member's names.
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
    /// These members as one machine.
    pub fn new(members: M) -> Self {
        Self { members, conns: ConnTable::default(), names: Vec::new(), listeners: Vec::new(), turn: 0 }
    }

    /// The members.
    pub fn members(&self) -> &M {
        &self.members
    }

    /// The members, to be given work, or to become more.
    pub fn members_mut(&mut self) -> &mut M {
        &mut self.members
    }

    /// The members alone.
    pub fn into_members(self) -> M {
        self.members
    }

    /// What the driver calls a connection of a member, from now on.
    fn name(&mut self, member: usize, inner: ConnId) -> ConnId {
        let outer = self.conns.insert(Joint { member, inner, lent: 0, closed: false });
        if member >= self.names.len() {
            self.names.resize_with(member + 1, Names::default);
        }
        if let Some(before) = self.names[member].replace(inner, outer)
            && let Some(joint) = self.conns.get(before)
        {
            debug_assert!(joint.closed, "a member uses the name of a connection that the driver still has");
            if joint.lent == 0 {
                self.conns.remove(before);
            }
        }
        outer
    }

    /// What the driver calls a connection that the member has and that is not over.
    #[inline]
    fn outer(&self, member: usize, inner: ConnId) -> Option<ConnId> {
        let outer = self.names.get(member)?.get(inner)?;
        let joint = self.conns.get(outer)?;
        (joint.member == member && joint.inner == inner && !joint.closed).then_some(outer)
    }

    /// What the driver calls a listener of a member.
    fn listener(&mut self, member: usize, inner: ListenerId) -> ListenerId {
        let known = self.listeners.iter().position(|known| *known == (member, inner));
        let number = known.unwrap_or_else(|| {
            self.listeners.push((member, inner));
            self.listeners.len() - 1
        });
        ListenerId(u32::try_from(number).expect("listeners are few"))
    }

    /// An action of a member as the driver is to understand it. `None`: it is about a connection that is over.
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

    /// The member that has a connection which is not over, and the member's name for it.
    #[inline]
    fn open(&mut self, conn: ConnId) -> Option<(&mut dyn Machine, ConnId)> {
        let joint = self.conns.get(conn).filter(|joint| !joint.closed)?;
        Some((self.members.member_mut(joint.member), joint.inner))
    }
}

impl<M: Members> Machine for Joined<M> {
    /// Each member is asked until it has nothing more, then the next, until none of them has anything and none has passed
    /// work to another meanwhile.
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
        // What is left of a connection that the member has closed is asked for, too.
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

    /// Only members whose own deadline has passed are called, as a driver of each alone would do it.
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
