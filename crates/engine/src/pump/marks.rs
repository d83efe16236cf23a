//! Low-water marks of the pump's connections: set before it sleeps, released when their delay ends.

use super::Pump;
use super::conn::Conn;
use crate::engine::Engine;
use crate::wait::Wait;
use onego_wire::{ConnId, Machine, Time};
use std::time::Duration;

/// Maximum time that fewer bytes than the mark may wait. In a virtual machine a shorter timer costs more than it saves.
const DELAY: Duration = Duration::from_millis(1);

impl<E: Engine, M: Machine> Pump<E, M> {
    pub(super) fn set_mark(&mut self, conn: ConnId, bytes: usize) {
        let Some(&mut socket) = self.names.get_mut(conn) else { return };
        let Some(conn) = self.conns.get_mut(socket) else { return };
        conn.low_water.mark = bytes;
        conn.budget.expect(bytes);
        if !self.marked.contains(&socket) {
            self.marked.push(socket);
        }
    }

    /// Sets the marks before the pump sleeps, and returns the wait shortened to the delays. The machine's mark changes
    /// with each request; it costs a system call only if it differs from that of the last sleep.
    pub(super) fn apply_marks(&mut self, now: Time, wait: Wait, spins: bool) -> Wait {
        self.marked.retain(|&socket| {
            let Some(Conn { low_water, .. }) = self.conns.get_mut(socket) else { return false };
            let next = if spins { low_water.unmarked() } else { low_water.next() };
            if next != low_water.set.max(1) && !self.engine.set_low_water(socket, next) {
                return false;
            }
            low_water.set = next;
            low_water.mark > 1
        });
        self.begin_delays(now);
        match (wait, self.delay_ends()) {
            (Wait::Until(time), Some(until)) => Wait::Until(time.min(until)),
            (Wait::Forever, Some(until)) => Wait::Until(until),
            (wait, _) => wait,
        }
    }

    /// Starts the delays of bytes that the engine holds back: they count towards the pump's deadline if the caller
    /// sleeps.
    pub(super) fn begin_delays(&mut self, now: Time) {
        for &socket in &self.marked {
            if let Some(Conn { low_water, .. }) = self.conns.get_mut(socket)
                && low_water.set > 1
            {
                low_water.until.get_or_insert(now + DELAY);
            }
        }
    }

    pub(super) fn delay_ends(&self) -> Option<Time> {
        let conns = self.marked.iter().filter_map(|&socket| self.conns.get(socket));
        conns.filter_map(|conn| conn.low_water.until).min()
    }

    pub(super) fn end_delays(&mut self, now: Time) {
        for index in 0..self.marked.len() {
            let socket = self.marked[index];
            if let Some(conn) = self.conns.get_mut(socket)
                && conn.low_water.is_late(now)
            {
                conn.set_readable();
                self.want_receive(socket);
            }
        }
    }
}
