//! Monitor requests in flight.

use crate::client::config::MonConfig;
use crate::client::error::{Error, Waiting};
use crate::client::hub::Hub;
use crate::client::request::Outcome;
use crate::messages::{
    CommandReply, GetPoolStats, GetPoolStatsReply, GetVersion, GetVersionReply, MonCommand, Ping, PoolOp,
    PoolOpReply, Statfs, StatfsReply, Tell, TellReply, kind,
};
use crate::types::{Epoch, Uuid};
use onego_msgr::Message;
use onego_wire::{ConnId, Time};
use std::collections::BTreeMap;

/// Monitor request. The cluster's id is filled in when it is sent.
#[derive(Debug)]
pub(crate) enum Ask {
    Command(MonCommand),
    Statfs(Statfs),
    PoolStats(GetPoolStats),
    Pool(PoolOp),
    Version(String),
    Ping,
    Tell(Tell),
}

#[derive(Debug)]
pub(crate) enum Asker<T> {
    Caller(T),
    /// The object client, for the newest epoch of the OSD map.
    Objecter,
}

#[derive(Debug)]
struct Request<T> {
    asker: Asker<T>,
    ask: Ask,
    since: Time,
    deadline: Option<Time>,
}

/// Monitor requests by transaction id. All are resent in a new session: it is unknown whether the last monitor
/// has executed them, as with Ceph's own clients (MonClient.cc, _resend_mon_commands).
#[derive(Debug)]
pub(crate) struct Requests<T> {
    waiting: BTreeMap<u64, Request<T>>,
    last_tid: u64,
}

impl<T> Requests<T> {
    pub(crate) fn new() -> Self {
        Self { waiting: BTreeMap::new(), last_tid: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn add(&mut self, now: Time, config: &MonConfig, asker: Asker<T>, ask: Ask) -> u64 {
        self.last_tid += 1;
        // The object client's own query ends only with its answer: requests with deadlines wait for it.
        let deadline = match asker {
            Asker::Caller(_) => config.request_timeout.map(|timeout| now + timeout),
            Asker::Objecter => None,
        };
        self.waiting.insert(self.last_tid, Request { asker, ask, since: now, deadline });
        self.last_tid
    }

    pub(crate) fn send(&mut self, hub: &mut Hub<T>, conn: ConnId, fsid: Uuid, tid: u64) {
        let Some(request) = self.waiting.get_mut(&tid) else { return };
        match &mut request.ask {
            Ask::Command(command) => {
                command.fsid = fsid;
                hub.send(conn, tid, command);
            }
            Ask::Statfs(statfs) => {
                statfs.fsid = fsid;
                hub.send(conn, tid, statfs);
            }
            Ask::PoolStats(stats) => {
                stats.fsid = fsid;
                hub.send(conn, tid, stats);
            }
            Ask::Pool(pool) => {
                pool.fsid = fsid;
                hub.send(conn, tid, pool);
            }
            Ask::Version(what) => {
                hub.send(conn, tid, &GetVersion { handle: tid, what: what.clone() });
            }
            Ask::Ping => hub.send(conn, tid, &Ping::default()),
            Ask::Tell(tell) => {
                tell.fsid = fsid;
                hub.send(conn, tid, tell);
            }
        }
    }

    /// Sends all requests to the monitor at `conn`, in the order of their submission.
    pub(crate) fn send_all(&mut self, hub: &mut Hub<T>, conn: ConnId, fsid: Uuid) {
        let tids: Vec<u64> = self.waiting.keys().copied().collect();
        tids.into_iter().for_each(|tid| self.send(hub, conn, fsid, tid));
    }

    /// Handles an answer. Returns the newest epoch of the OSD map if the object client has queried it.
    pub(crate) fn answer(&mut self, hub: &mut Hub<T>, message: &mut Message) -> Option<Epoch> {
        let kind = message.header.kind;
        let (mut tid, outcome) = match decode(message) {
            Ok(decoded) => decoded,
            Err((tid, error)) => (tid, Err(error)),
        };
        if kind == kind::PING {
            // It does not identify its request: all pings are alike.
            let pings = self.waiting.iter().filter(|(_, request)| matches!(request.ask, Ask::Ping));
            tid = pings.map(|(tid, _)| *tid).next().unwrap_or(tid);
        }
        let Some(request) = self.waiting.remove(&tid) else {
            tracing::debug!(tid, kind, "a monitor's answer matches no request");
            return None;
        };
        match request.asker {
            Asker::Caller(ticket) => hub.complete(ticket, outcome, None),
            Asker::Objecter => {
                if let Ok(Outcome::Version(newest)) = outcome {
                    return Some(Epoch::try_from(newest).unwrap_or(Epoch::MAX));
                }
            }
        }
        None
    }

    pub(crate) fn oldest(&self) -> Option<Time> {
        let callers = self.waiting.values().filter(|request| matches!(request.asker, Asker::Caller(_)));
        callers.map(|request| request.since).next()
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.waiting.values().filter_map(|request| request.deadline).min()
    }

    /// Fails requests that have timed out. `waiting` is their target.
    pub(crate) fn timeout(
        &mut self,
        now: Time,
        hub: &mut Hub<T>,
        config: &MonConfig,
        waiting: Option<Waiting>,
    ) {
        let waiting = waiting.map(Box::new);
        let late = |request: &Request<T>| request.deadline.is_some_and(|at| at <= now);
        let tids: Vec<u64> =
            self.waiting.iter().filter(|(_, request)| late(request)).map(|(tid, _)| *tid).collect();
        for tid in tids {
            if let Some(Request { asker: Asker::Caller(ticket), .. }) = self.waiting.remove(&tid) {
                let after = config.request_timeout.unwrap_or_default();
                hub.complete(ticket, Err(Error::Timeout { after, waiting: waiting.clone() }), None);
            }
        }
    }

    pub(crate) fn cancel_where(&mut self, hub: &mut Hub<T>, unwanted: &impl Fn(&T) -> bool) {
        let of_them =
            |request: &Request<T>| matches!(&request.asker, Asker::Caller(ticket) if unwanted(ticket));
        let tids: Vec<u64> =
            self.waiting.iter().filter(|(_, request)| of_them(request)).map(|(tid, _)| *tid).collect();
        for tid in tids {
            if let Some(Request { asker: Asker::Caller(ticket), .. }) = self.waiting.remove(&tid) {
                hub.complete(ticket, Err(Error::Cancelled), None);
            }
        }
    }

    pub(crate) fn close(&mut self, hub: &mut Hub<T>) {
        for (_, request) in std::mem::take(&mut self.waiting) {
            if let Asker::Caller(ticket) = request.asker {
                hub.complete(ticket, Err(Error::Closed), None);
            }
        }
    }
}

type Answer = (u64, Result<Outcome, Error>);

/// Decodes an answer, with the transaction id of its request.
fn decode(message: &mut Message) -> Result<Answer, (u64, Error)> {
    let tid = message.header.tid;
    let failed = |error| (tid, Error::BadReply(error));
    Ok(match message.header.kind {
        kind::MON_COMMAND_ACK => {
            (tid, Ok(Outcome::Command(message.decode::<CommandReply>().map_err(failed)?)))
        }
        kind::STATFS_REPLY => (tid, Ok(Outcome::Statfs(message.decode::<StatfsReply>().map_err(failed)?))),
        kind::GET_POOL_STATS_REPLY => {
            (tid, Ok(Outcome::PoolStats(message.decode::<GetPoolStatsReply>().map_err(failed)?)))
        }
        kind::COMMAND_REPLY => {
            let TellReply { result, status, output } = message.decode().map_err(failed)?;
            (tid, Ok(Outcome::Command(CommandReply { result, status, output, command: Vec::new() })))
        }
        kind::PING => (tid, Ok(Outcome::Pong(message.decode::<Ping>().map_err(failed)?.said))),
        kind::POOL_OP_REPLY => (tid, Ok(Outcome::Pool(message.decode::<PoolOpReply>().map_err(failed)?))),
        _ => {
            // This one has the id in a field of its own: monitors do not set the header's.
            let reply = message.decode::<GetVersionReply>().map_err(failed)?;
            (reply.handle, Ok(Outcome::Version(reply.newest)))
        }
    })
}
