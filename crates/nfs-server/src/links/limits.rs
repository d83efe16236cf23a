//! What connections of the NFS server may hold: who gives way, what is given up, whose turn it is.

use super::{Link, Links};
use crate::program::Program;
use onego_service::admission::Look;
use onego_wire::{Action, ConnId, Time};
use std::net::IpAddr;

impl Links {
    /// Sets how many connections there may be.
    pub(crate) fn limit_connections(&mut self, most: usize) {
        self.admission.limit_connections(most);
    }

    /// Makes room for a connection from that host. `false`: none gives way.
    pub(crate) fn make_room(&mut self, now: Time, host: IpAddr, rdma: bool) -> bool {
        let rdma_is_full = rdma && self.by_rdma >= self.by_rdma_max;
        (!rdma_is_full || self.give_way(now, host, true))
            && (!self.admission.is_full() || self.give_way(now, host, false))
    }

    /// Closes a connection, of those over RDMA or of all, for one from that host. `false`: none gives way.
    fn give_way(&mut self, now: Time, host: IpAddr, rdma: bool) -> bool {
        let may = |link: &Link| !link.over && link.jobs == 0 && (!rdma || link.transport.is_rdma());
        let picked = self.admission.pick(now, host, &self.table, |link| may(link).then_some(&link.account));
        let Some(conn) = picked else { return false };
        tracing::info!(?conn, "a connection that does nothing gives way to another");
        self.close(now, conn);
        true
    }

    /// Counts what has begun to come in, and what has ended.
    pub(super) fn progress(&mut self, now: Time, conn: ConnId, came: usize, whole: bool) {
        let Some(link) = self.table.get_mut(conn).filter(|link| !link.over) else { return };
        let unfinished = link.transport.unfinished();
        let is_too_much = self.admission.progress(now, conn, &mut link.account, came, whole, unfinished);
        self.admit(now);
        if is_too_much {
            let accounts = self.table.iter().filter(|(_, link)| !link.over);
            if let Some(heaviest) =
                self.admission.heaviest(accounts.map(|(conn, link)| (conn, &link.account)))
            {
                tracing::info!(conn = ?heaviest, "unfinished calls take too much memory: a client is given up");
                self.close(now, heaviest);
            }
        }
    }

    /// Lets messages come in that waited for a slot.
    pub(super) fn admit(&mut self, now: Time) {
        while self.admission.is_anybody_waiting()
            && let Some(next) = self.admission.next_waiting()
        {
            let Some(link) = self.table.get_mut(next).filter(|link| !link.over) else { continue };
            self.admission.grant(now, &mut link.account);
            self.actions.push_back(Action::Resume { conn: next });
        }
    }

    pub(super) fn wake_by(&mut self, deadline: Time) {
        self.wakeup = Some(self.wakeup.map_or(deadline, |wakeup| wakeup.min(deadline)));
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.wakeup.into_iter().chain(self.admission.deadline()).min()
    }

    /// Gives up connections that do not come to be, and looks at the others.
    pub(crate) fn timeout(&mut self, now: Time, program: &mut Program) {
        if self.wakeup.take_if(|wakeup| *wakeup <= now).is_some() {
            let waits = |(conn, link): (ConnId, &Link)| Some((conn, link.transport.deadline()?));
            let waits: Vec<_> = self.table.iter().filter_map(waits).collect();
            for (conn, deadline) in waits {
                if deadline <= now {
                    self.get(conn).into_iter().for_each(|link| link.transport.timeout(now));
                    self.work(now, conn, 0, program);
                } else {
                    self.wake_by(deadline);
                }
            }
        }
        if self.admission.is_due(now) {
            self.look_at_all(now, program);
        }
    }

    /// Gives up connections that are too slow or take no replies, and has messages that had their slot for long enough make
    /// room for others.
    fn look_at_all(&mut self, now: Time, program: &mut Program) {
        let (mut overdue, mut stalled, mut turns) = (Vec::new(), Vec::new(), Vec::new());
        for (conn, link) in self.table.iter_mut().filter(|(_, link)| !link.over) {
            let reads = link.reads();
            if !reads {
                link.transport.settle();
            }
            match self.admission.look(now, &mut link.account, reads) {
                Look::Fine => {}
                Look::Overdue => overdue.push(conn),
                Look::Stalled(held) => stalled.push((held, conn)),
                Look::HadItsTurn(since) => turns.push((since, conn)),
            }
        }
        for conn in overdue {
            tracing::info!(?conn, "a client has stopped in the middle of a message, or sends it too slowly");
            self.close(now, conn);
        }
        stalled.sort_unstable();
        while !self.admission.has_room_for_replies()
            && let Some((_, conn)) = stalled.pop()
        {
            tracing::info!(?conn, "a client does not take its replies, whose memory others need");
            self.close(now, conn);
        }
        self.admission.turns_to_end(&mut turns);
        for (_, conn) in turns {
            if let Some(link) = self.table.get_mut(conn).filter(|link| !link.over) {
                self.admission.end_turn(conn, &mut link.account);
            }
        }
        self.admit(now);
        if self.stopped > 0 {
            self.resume_all(now, program);
            self.admission.watch(now);
        }
    }
}
