//! Sends commands to OSDs, and handles their answers.

use super::objects::Objecter;
use super::tells::{MAX_TELLS, PendingTell};
use crate::client::error::{Error, errno};
use crate::client::hub::Hub;
use crate::client::request::Outcome;
use crate::messages::{CommandReply, Tell, TellReply};
use onego_msgr::Message;
use onego_wire::{ConnId, Time};

impl<T> Objecter<T> {
    pub(crate) fn tell(&mut self, now: Time, hub: &mut Hub<T>, osd: i32, mut message: Tell, ticket: T) {
        let taken = if self.closed {
            Err(Error::Closed)
        } else if self.tells.pending.len() >= MAX_TELLS {
            Err(Error::Busy { what: "commands to OSDs", bound: MAX_TELLS as u64 })
        } else {
            self.can_be_told(osd)
        };
        if let Err(error) = taken {
            return hub.complete(ticket, Err(error), None);
        }
        message.fsid = self.map().map(|map| map.fsid).unwrap_or_default();
        let deadline = self.config.request_timeout.map(|timeout| (now + timeout, timeout));
        self.wake_by(deadline.map(|(deadline, _)| deadline));
        self.tells.last_tid += 1;
        let tid = self.tells.last_tid;
        self.tells.pending.insert(tid, PendingTell { ticket, osd, message, sent_on: None, deadline });
        self.send_tell(now, hub, tid);
        self.start_tick(now);
    }

    /// Fails with ENOENT if the OSD does not exist, with ENXIO if it is down.
    fn can_be_told(&self, osd: i32) -> Result<(), Error> {
        let Some(map) = self.map() else { return Err(Error::Refused { errno: errno::ENOTCONN }) };
        match (map.exists(osd), map.is_up(osd)) {
            (false, _) => Err(Error::Refused { errno: errno::ENOENT }),
            (true, false) => Err(Error::Refused { errno: errno::ENXIO }),
            (true, true) => Ok(()),
        }
    }

    fn send_tell(&mut self, now: Time, hub: &mut Hub<T>, tid: u64) {
        let Some(tell) = self.tells.pending.get(&tid).filter(|tell| tell.sent_on.is_none()) else { return };
        let osd = tell.osd;
        let Some(session) = self.session(osd) else { return self.open(now, hub, osd) };
        let Some(conn) = session.conn else { return self.open(now, hub, osd) };
        if !session.ready {
            return;
        }
        session.used_at = now;
        if let Some(tell) = self.tells.pending.get_mut(&tid) {
            tell.sent_on = Some(conn);
            hub.send(conn, tid, &tell.message);
        }
    }

    pub(super) fn send_tells(&mut self, now: Time, hub: &mut Hub<T>, osd: i32) {
        let on_it = self.tells.pending.iter().filter(|(_, tell)| tell.osd == osd);
        let tids: Vec<u64> = on_it.map(|(tid, _)| *tid).collect();
        tids.into_iter().for_each(|tid| self.send_tell(now, hub, tid));
    }

    /// Handles a new map: fails commands to OSDs that are down or gone, and resends those to OSDs with another
    /// address.
    pub(super) fn recheck_tells(&mut self, now: Time, hub: &mut Hub<T>) {
        let osds: Vec<i32> = self.tells.pending.values().map(|tell| tell.osd).collect();
        for osd in osds {
            match self.can_be_told(osd) {
                Ok(()) => self.send_tells(now, hub, osd),
                Err(error) => self.tells.end_where(hub, |tell| (tell.osd == osd).then(|| error.clone())),
            }
        }
    }

    pub(super) fn tell_reply(&mut self, hub: &mut Hub<T>, conn: ConnId, message: &mut Message) {
        let tid = message.header.tid;
        if self.tells.pending.get(&tid).is_none_or(|tell| tell.sent_on != Some(conn)) {
            tracing::debug!(tid, "an answer matches no command");
            return;
        }
        let Some(tell) = self.tells.pending.remove(&tid) else { return };
        let outcome = message.decode().map_err(Error::BadReply).map(|reply| {
            let TellReply { result, status, output } = reply;
            Outcome::Command(CommandReply { result, status, output, command: Vec::new() })
        });
        hub.complete(tell.ticket, outcome, None);
    }
}
