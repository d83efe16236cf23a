//! Calls are carried out, here or elsewhere, and answered.

use super::connection::{JOBS_MAX_ALL, NfsConnection, PayloadPlacer};
use super::table::NfsConnections;
use crate::duplicate_request_cache::RequestKey;
use crate::job::{Done, Job};
use crate::program::{Outcome, Program};
use onego_nfs::rpc::Record;
use onego_nfs::xdr::Reader;
use onego_service::connections::{Allowance, ServerConnection as _};
use onego_wire::{ConnId, Time};

impl NfsConnections {
    /// `came` bytes have come. Carries out the calls that are here, until there are replies enough for a send, or too many
    /// wait.
    pub(super) fn work(&mut self, now: Time, conn: ConnId, came: usize, program: &mut Program) {
        let mut whole = false;
        loop {
            let Some((connection, allowance)) = self.table.get_with_allowance(conn) else { return };
            if connection.has_batch() {
                connection.more = true;
                break;
            }
            if !connection.has_room(self.working) || !allowance.may_answer() {
                self.table.stop(now, conn);
                break;
            }
            let record = match connection.transport.next(&mut PayloadPlacer { program, allowance }) {
                Ok(record) => record,
                Err(error) => return self.give_up(now, conn, &error),
            };
            let Some(record) = record else {
                connection.all_handled();
                break;
            };
            whole = true;
            self.answer(now, conn, record, program);
        }
        self.table.count_replies(now, conn);
        if let Some(heaviest) = self.table.progress(now, conn, came, whole) {
            tracing::info!(conn = ?heaviest, "unfinished calls take too much memory: a client is given up");
            self.close(now, heaviest);
        }
        self.table.announce(conn);
        self.finish_if_over(now, conn);
    }

    /// Answers a call, or has it carried out elsewhere.
    fn answer(&mut self, now: Time, conn: ConnId, record: Record, program: &mut Program) {
        let Some(connection) = self.table.get(conn) else { return };
        let xid = Reader::new(&record.front).u32("xid").unwrap_or_default();
        match program.answer(now, &mut connection.peer, record) {
            Outcome::Reply(front, payload) => {
                connection.answered += 1;
                connection.transport.send(front, payload);
            }
            Outcome::InProgress(key) => return self.wait_for(key, conn, xid),
            Outcome::Job(mut job) => {
                job.conn = Some(conn);
                connection.jobs += 1;
                connection.to_come += job.reply_max();
                self.working += 1;
                self.jobs.push_back(*job);
            }
            Outcome::NoCall => {
                // Where the next message begins is known all the same.
                tracing::debug!(?conn, "a client sent what is no call");
                connection.transport.forget(xid);
            }
        }
        self.table.count_replies(now, conn);
    }

    /// A call is in work that has come again. Its client waits for the reply on this connection, and no longer on the one
    /// before. There are no more of them than calls in work.
    fn wait_for(&mut self, key: RequestKey, conn: ConnId, xid: u32) {
        if let Some((before, xid)) = self.again.insert(key, (conn, xid))
            && before != conn
            && let Some(connection) = self.table.get(before)
        {
            connection.transport.forget(xid);
        }
    }

    /// Carries out the calls that waited for replies to be sent, if these are, until there is something to send again. (Over
    /// RDMA a reply may have to wait for something that has yet to be received.)
    pub(super) fn work_on(&mut self, now: Time, conn: ConnId, program: &mut Program) {
        while let Some(connection) = self.table.get(conn)
            && connection.more
            && !connection.has_output()
        {
            (connection.more, connection.answered) = (false, 0);
            self.work(now, conn, 0, program);
            self.table.read_again(conn);
        }
    }

    /// The next call to be carried out elsewhere.
    pub(crate) fn next_job(&mut self) -> Option<Job> {
        self.jobs.pop_front()
    }

    pub(crate) fn has_job(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// A call has been carried out elsewhere.
    pub(crate) fn done(&mut self, now: Time, mut done: Done, program: &mut Program) {
        program.done(now, &mut done);
        self.working -= 1;
        let Some(conn) = done.conn else { return };
        let again = done.key.and_then(|key| self.again.remove(&key)).map(|(conn, _)| conn);
        if let Some(connection) = self.table.get(conn) {
            connection.jobs -= 1;
            connection.to_come -= done.reply_max;
            self.table.count_replies(now, conn);
        }
        for conn in [Some(conn), again.filter(|again| *again != conn)].into_iter().flatten() {
            if let Some(connection) = self.table.get(conn) {
                connection.transport.send(done.front.as_slice(), done.payload.clone());
                let failed = connection.transport.has_failed();
                self.table.count_replies(now, conn);
                self.table.announce(conn);
                if failed {
                    // Nothing will come in that would lead to another look.
                    self.work(now, conn, 0, program);
                }
                self.finish_if_over(now, conn);
            }
        }
        if self.table.has_stopped() {
            self.resume(now, conn, program);
            if self.working == JOBS_MAX_ALL / 2 {
                for conn in self.table.all_stopped() {
                    self.resume(now, conn, program);
                }
            }
        }
    }

    /// Something of the connection was sent; before, there was room for replies or not (`had_room`). Goes on with the
    /// connections that were stopped.
    pub(super) fn resume_after(&mut self, now: Time, conn: ConnId, had_room: bool, program: &mut Program) {
        if self.table.has_stopped() {
            for conn in self.table.all_to_resume(conn, had_room) {
                self.resume(now, conn, program);
            }
        }
    }

    /// Goes on with a connection that was stopped, if half of what may wait is gone.
    pub(super) fn resume(&mut self, now: Time, conn: ConnId, program: &mut Program) {
        let working = self.working;
        let may = |connection: &NfsConnection, allowance: Allowance<'_>| {
            connection.has_half(working) && allowance.may_answer()
        };
        if self.table.resume(now, conn, may) {
            // Calls are here that were not carried out.
            self.work(now, conn, 0, program);
            self.table.read_again(conn);
        }
    }
}
