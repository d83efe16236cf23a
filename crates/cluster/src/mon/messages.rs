//! Messages to the monitor, and its answers.

use super::command::{self, Audience};
use super::monitor::Mon;
use super::refusal::Refusal;
use super::session::Role;
use super::space::PoolSpace;
use super::usage::Usage;
use crate::errno::EFBIG;
use onego_ceph::caps::MonAccess;
use onego_ceph::messages::{
    Auth, AuthReply, CommandReply, GetPoolStats, GetPoolStatsReply, GetVersion, GetVersionReply, MonCommand,
    Ping, Statfs, StatfsReply, Tell, TellReply, kind,
};
use onego_msgr::Message;
use onego_msgr::auth::method;
use onego_wire::{ConnId, Decoded, Time};

/// Bytes of a command's input: whole keyrings and maps. Longer ones are discarded as they come, and answered.
pub(crate) const MAX_INPUT: u32 = 16 << 20;

impl Mon {
    /// A message came in. An error is one of the peer, and an end to its session.
    pub(crate) fn message(
        &mut self,
        now: Time,
        session: ConnId,
        message: &mut Message,
        usage: &Usage,
    ) -> Decoded<()> {
        if self.sessions.get(&session).is_some_and(|session| session.role == Role::Manager) {
            return self.manager_message(now, session, message, usage);
        }
        let tid = message.header.tid;
        match message.header.kind {
            kind::AUTH => self.renew_tickets(now, session, tid, &message.decode()?),
            kind::MON_GET_MAP => self.reply(session, tid, &self.monmap_message()),
            kind::MON_SUBSCRIBE => self.subscribe(session, &message.decode()?),
            kind::GET_CONFIG => self.send_config(session),
            kind::MON_GET_VERSION => {
                let answer = self.version(&message.decode()?);
                self.reply(session, tid, &answer);
            }
            kind::MON_COMMAND => {
                let answer = self.command(
                    now,
                    usage,
                    session,
                    message.decode()?,
                    Audience::Cluster,
                    message.discarded,
                );
                self.reply(session, tid, &answer);
            }
            kind::COMMAND => {
                let Tell { fsid, command, input } = message.decode()?;
                let command = MonCommand { fsid, command, input };
                let CommandReply { result, status, output, .. } =
                    self.command(now, usage, session, command, Audience::Monitor, message.discarded);
                self.reply(session, tid, &TellReply { result, status, output });
            }
            // Neither message has an answer that says no (ceph `src/mon/MgrStatMonitor.cc`).
            kind::STATFS | kind::GET_POOL_STATS if !self.cap(session).allows("pg", MonAccess::READ) => {
                tracing::warn!(
                    ?session,
                    "a client asks how full the cluster is, and has no capability for it"
                );
            }
            kind::STATFS => {
                let answer = self.statfs(&message.decode()?, usage);
                self.reply(session, tid, &answer);
            }
            kind::GET_POOL_STATS => {
                let answer = self.pool_stats(message.decode()?, usage);
                self.reply(session, tid, &answer);
            }
            kind::POOL_OP => {
                let answer = self.pool_op(now, session, &message.decode()?);
                self.reply(session, tid, &answer);
            }
            kind::PING => {
                let said = command::ping_answer(self, now, usage);
                self.reply(session, tid, &Ping { said });
            }
            // Logs, beacons and reports of daemons have no reader.
            other => tracing::debug!(kind = other, "the monitor passes over a message"),
        }
        Ok(())
    }

    /// A client wants new tickets.
    fn renew_tickets(&mut self, now: Time, session: ConnId, tid: u64, request: &Auth) {
        let renewals = self.sessions.get(&session).and_then(|session| session.peer.renewals.clone());
        // A client that has proved nothing has no ticket to renew.
        let Some(renewals) = renewals else { return };
        let global_id = self.sessions[&session].peer.global_id;
        let mut reply = AuthReply { method: method::CEPHX, global_id, ..AuthReply::default() };
        match renewals.renew(now, &request.payload) {
            Ok(payload) => reply.payload = payload,
            Err(error) => reply.result = error,
        }
        self.reply(session, tid, &reply);
    }

    fn version(&self, question: &GetVersion) -> GetVersionReply {
        let (newest, oldest) = match question.what.as_str() {
            "osdmap" => (self.maps.epoch(), self.maps.oldest_epoch()),
            "monmap" => (self.monmap.epoch, self.monmap.epoch),
            "mgrmap" => (self.mgrmap.epoch, self.mgrmap.epoch),
            // Ceph leaves this unanswered, and the client waits.
            _ => (0, 0),
        };
        GetVersionReply { handle: question.handle, newest: newest.into(), oldest: oldest.into() }
    }

    pub(in crate::mon) fn command(
        &mut self,
        now: Time,
        usage: &Usage,
        session: ConnId,
        command: MonCommand,
        audience: Audience,
        discarded: usize,
    ) -> CommandReply {
        let outcome = if discarded > 0 {
            let text = format!("the command's input has {discarded} bytes, the most is {MAX_INPUT}");
            Err(Refusal::new(EFBIG, text))
        } else if command.fsid.is_zero() || command.fsid == self.fsid {
            let peer = self.sessions.get(&session).map(|session| &session.peer);
            let caller = command::Caller::of(peer);
            let cap = self.cap(session);
            let asked =
                command::Asked { now, usage, cap: &cap, caller: &caller, audience, input: &command.input };
            command::run(self, &asked, &command.command)
        } else {
            Err(Refusal::invalid(format!("this is cluster {}, not {}", self.fsid, command.fsid)))
        };
        let (result, reply) = match outcome {
            Ok(reply) => (0, reply),
            Err(refusal) => (refusal.errno, command::Reply::done(refusal.text)),
        };
        tracing::debug!(?command.command, result, status = reply.status, "command");
        CommandReply { result, status: reply.status, command: command.command, output: reply.output.into() }
    }

    fn statfs(&self, question: &Statfs, usage: &Usage) -> StatfsReply {
        let mut reply = StatfsReply {
            fsid: self.fsid,
            version: self.maps.epoch().into(),
            kb: usage.total >> 10,
            kb_used: usage.used.div_ceil(1 << 10),
            kb_avail: usage.available() >> 10,
            objects: usage.objects(),
        };
        if let Some(pool) = question.data_pool {
            let space = PoolSpace::of(self.osdmap(), usage, pool);
            reply.kb_used = space.usage.bytes.div_ceil(1 << 10);
            reply.kb_avail = space.available >> 10;
            reply.kb = reply.kb_used + reply.kb_avail;
            reply.objects = space.usage.objects;
        }
        reply
    }

    fn pool_stats(&self, question: GetPoolStats, usage: &Usage) -> GetPoolStatsReply {
        let pools = question.pools.into_iter().filter_map(|name| {
            let id = self.osdmap().pool_id(&name)?;
            Some((name, PoolSpace::of(self.osdmap(), usage, id).stat()))
        });
        GetPoolStatsReply { fsid: self.fsid, pools: pools.collect(), per_pool: true }
    }
}
