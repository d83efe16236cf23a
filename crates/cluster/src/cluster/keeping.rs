//! What the daemons have to do with the journal: they note what changes, and hold replies until it is durable.

use super::connections::ClusterConnections;
use super::daemons::Daemons;
use super::notes::Durability;
use crate::journal::{Done, Entry, Held, Job, Snapshot};
use onego_msgr::addr::AddrVec;
use onego_wire::Time;

/// Bytes of a reply that is held back.
fn held_bytes(held: &Held) -> usize {
    match held {
        Held::Reply(_, reply, _) => reply.ops.iter().map(|op| op.output.len()).sum(),
        Held::Map(map) => map.incrementals.values().chain(map.full.values()).map(Vec::len).sum(),
        Held::Mon(message) => message.body_len(),
    }
}

impl Daemons {
    /// Notes a change.
    pub(super) fn note(&mut self, entry: &Entry) {
        if let Some(notes) = &mut self.notes {
            notes.add(entry);
        }
    }

    /// Notes that the OSDs go on by the newest map.
    pub(super) fn note_maps(&mut self) {
        let Some(notes) = &mut self.notes else { return };
        let maps = self.mon.maps();
        notes.maps = notes.journal.append(&Entry::Maps(maps.changes_since(notes.epoch)));
        notes.epoch = maps.epoch();
    }

    /// Notes what has changed of the monitor beside its maps, if anything has.
    pub(super) fn note_settings(&mut self) {
        let Some(notes) = &mut self.notes else { return };
        let settings = self.mon.settings();
        if settings != notes.settings {
            notes.journal.append(&Entry::Settings(settings.clone()));
            notes.settings = settings;
        }
    }

    /// Notes what was written to the cluster's log.
    pub(super) fn note_log(&mut self) {
        // Taken in any case, so that it does not pile up.
        let entries = self.mon.take_log();
        if !entries.is_empty() {
            self.note(&Entry::Log(entries));
        }
    }

    /// May a reply that depends on this be sent now?
    #[inline]
    pub(super) fn may_send(&self, durability: Durability) -> bool {
        self.notes.as_ref().is_none_or(|notes| notes.journal.is_durable(notes.record(durability)))
    }

    /// The journal holds a reply until what it depends on is durable.
    pub(super) fn hold(
        &mut self,
        now: Time,
        durability: Durability,
        conn: onego_wire::ConnId,
        held: Held,
        connections: &mut ClusterConnections,
    ) {
        let Some(notes) = &mut self.notes else { return };
        connections.promise(now, conn, |bytes| bytes + held_bytes(&held));
        notes.journal.hold(notes.record(durability), conn, held);
        if notes.journal.is_full() {
            connections.table.stall(true);
        }
    }

    /// Returns the reply if it may be sent now. Otherwise the journal holds it.
    pub(super) fn or_hold<T>(
        &mut self,
        now: Time,
        durability: Durability,
        conn: onego_wire::ConnId,
        answer: T,
        held: impl FnOnce(T) -> Held,
        connections: &mut ClusterConnections,
    ) -> Option<T> {
        if self.may_send(durability) {
            return Some(answer);
        }
        self.hold(now, durability, conn, held(answer), connections);
        None
    }

    /// The cluster was there before, and its OSDs begin new lives: as with OSDs of Ceph that were started again, there is
    /// an epoch in which they were down. Without it Ceph's clients do not send again what they had under way. Both epochs are
    /// in one record, so that the groups go on as they were.
    pub(super) fn rejoin(&mut self, now: Time, connections: &mut ClusterConnections) {
        let addrs: Vec<(i32, AddrVec)> = (0..).zip(self.addresses().osds).collect();
        let map = self.mon.osdmap();
        let up: Vec<_> = addrs.into_iter().filter(|(osd, _)| map.is_up(*osd)).collect();
        self.mon.osds_down(now, up.iter().map(|(osd, _)| *osd));
        self.mon.osds_up(now, &up);
        // What was to follow from the last map may not have been durable: it follows again.
        self.groups.look_again();
        self.map_changed(now, connections);
    }

    pub(super) fn has_job(&self) -> bool {
        self.notes.as_ref().is_some_and(|notes| notes.journal.has_job(self.stored()))
    }

    /// Bytes in the stores.
    fn stored(&self) -> u64 {
        self.osds.iter().map(|daemon| daemon.osd.used()).sum()
    }

    /// The next thing to be done with the files.
    pub(super) fn next_job(&mut self) -> Option<Job> {
        let stored = self.stored();
        let notes = self.notes.as_mut()?;
        if let Some(append) = notes.journal.take() {
            return Some(Job::Append(append));
        }
        if !notes.journal.wants_checkpoint(stored) {
            return None;
        }
        notes.journal.checkpoint_begun();
        let monitor = (self.mon.maps(), notes.settings.clone(), self.mon.kept_log());
        let osds = self.osds.iter().map(|daemon| &daemon.osd);
        let snapshot = Snapshot::new(notes.journal.next(), monitor, notes.life.clone(), &self.groups, osds);
        Some(Job::Checkpoint(Box::new(snapshot)))
    }

    /// A job is done.
    pub(super) fn done(&mut self, now: Time, done: Done, connections: &mut ClusterConnections) {
        let stored = self.stored();
        let Some(notes) = &mut self.notes else { return };
        match done {
            Done::Durable(record) => notes.journal.durable_up_to(record),
            Done::Checkpoint(size) => notes.journal.checkpoint_done(size),
            Done::NoCheckpoint => notes.journal.checkpoint_refused(stored),
            Done::Reserve(has_reserve) => {
                notes.journal.set_disk_full(!has_reserve);
                self.set_disk_full(now, !has_reserve, connections);
            }
        }
        let Some(notes) = &mut self.notes else { return };
        while let Some((conn, held)) = notes.journal.release() {
            connections.promise(now, conn, |bytes| bytes.saturating_sub(held_bytes(&held)));
            match held {
                Held::Reply(tid, reply, counted) => {
                    self.operations.end(now, &counted);
                    connections.send_payload(now, conn, tid, &*reply);
                }
                Held::Map(map) => connections.send_payload(now, conn, 0, &*map),
                Held::Mon(message) => connections.send(now, conn, message),
            }
        }
        connections.table.stall(notes.journal.is_full());
    }
}
