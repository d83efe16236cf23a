//! Requests in protocol terms, for crates that build another interface on the client.

use super::cluster::{Cluster, CommandReply};
use super::pool::Pool;
use crate::ceph::commands::{CephCommand, Question, SessionInfo};
use crate::ceph::done::OTHER_KIND;
use crate::ceph::error::{Error, check, undecodable};
use futures_channel::oneshot;
use onego_buf::{List, SegmentMut};
use onego_ceph::client::{OpReply, Outcome, Request};
use onego_ceph::messages::{PoolOp, PoolOpReply, StatfsReply};
use onego_ceph::ops::Op;
use onego_ceph::osdmap::OsdMap;
use onego_ceph::outputs::Listing;
use onego_ceph::types::HObject;
use onego_msgr::addr::EntityAddr;
use onego_msgr::encoding::Decode as _;
use onego_wire::text;
use std::sync::Arc;

/// A monitor of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonitorInfo {
    /// Name without the prefix `mon.`.
    pub name: String,
    /// Addresses in the syntax of configuration files.
    pub addrs: String,
}

impl Pool {
    /// Returns at most `max` objects of this namespace from a cursor on, and the next cursor, which is
    /// [`HObject::max`] at the end. A non-empty `filter` selects objects on the OSD.
    pub async fn list_page(&self, from: &HObject, max: u64, filter: &[u8]) -> Result<Listing, Error> {
        let mut request = Listing::request(self.id(), &text::to_bytes(self.namespace()), from, max);
        if let Some((op, _)) = request.ops.first_mut()
            && let Op::PgNls { count, epoch, cursor } = op
            && !filter.is_empty()
        {
            let mut input = List::from(filter.to_vec());
            input.append(std::mem::take(cursor));
            *op = Op::PgNlsFilter { count: *count, epoch: *epoch, input };
        }
        let what = || format!("the objects of pool {}", self.name());
        let (reply, _) = self.cluster().request(request).await;
        let reply = reply?;
        check(reply.result, what)?;
        let output = reply.ops.first().map(|op| op.output.to_segment());
        Listing::from_bytes(output.as_deref().unwrap_or_default()).map_err(|error| undecodable(what(), error))
    }
}

impl Cluster {
    /// Submits a request. Returns the reply, whose result code may be an error, and the request's buffer if the
    /// request was sent.
    pub async fn request(&self, request: Request) -> (Result<OpReply, Error>, Option<SegmentMut>) {
        let (done, answer) = oneshot::channel();
        if let Err(error) = self.send(CephCommand::Request { request: Box::new(request), done }).await {
            return (Err(error), None);
        }
        match self.answer(answer).await {
            Ok((Ok(Outcome::Reply(reply)), buffer)) => (Ok(reply), buffer),
            Ok((Ok(_), buffer)) => (Err(OTHER_KIND.into()), buffer),
            Ok((Err(error), buffer)) => (Err(error.into()), buffer),
            Err(closed) => (Err(closed.into()), None),
        }
    }

    /// Returns this client's newest map.
    pub async fn osd_map(&self) -> Result<Arc<OsdMap>, Error> {
        self.map(1).await
    }

    /// Returns the monitors' newest map.
    pub async fn newest_osd_map(&self) -> Result<Arc<OsdMap>, Error> {
        self.newest_map().await
    }

    /// Requests a pool change from the monitors, and waits for the map that contains it.
    pub async fn pool_op(&self, op: PoolOp) -> Result<PoolOpReply, Error> {
        let Outcome::Pool(reply) = self.ask(Question::Pool(op)).await? else { return Err(OTHER_KIND.into()) };
        if reply.result >= 0 {
            self.map(reply.epoch).await?;
        }
        Ok(reply)
    }

    async fn session_info(&self) -> Result<SessionInfo, Error> {
        let (done, answer) = oneshot::channel();
        self.send(CephCommand::SessionInfo { done }).await?;
        Ok(self.answer(answer).await?)
    }

    /// Returns this client's global id.
    pub async fn global_id(&self) -> Result<u64, Error> {
        Ok(self.session_info().await?.global_id)
    }

    /// Returns this client's address as the cluster sees it.
    pub async fn own_addr(&self) -> Result<EntityAddr, Error> {
        self.ready().await?;
        self.session_info().await?.addr.ok_or(Error::Closed)
    }

    /// Lists the cluster's monitors by rank.
    pub async fn monitors(&self) -> Result<Vec<MonitorInfo>, Error> {
        self.ready().await?;
        let map = self.session_info().await?.monitors.ok_or(Error::Closed)?;
        let info = |name: &String| {
            let addrs = map.monitors.get(name)?.public_addrs.to_string();
            Some(MonitorInfo { name: name.clone(), addrs })
        };
        Ok(map.ranks.iter().filter_map(info).collect())
    }

    /// Pings the session's monitor; returns its health and state as JSON.
    pub async fn ping_monitor(&self) -> Result<String, Error> {
        let Outcome::Pong(said) = self.ask(Question::Ping).await? else { return Err(OTHER_KIND.into()) };
        Ok(said)
    }

    /// Sends a command to the session's monitor itself, as `ceph tell` does. A refusal is a reply, not an error.
    pub async fn monitor_command_reply(&self, json: &str, input: List) -> Result<CommandReply, Error> {
        match self.ask(Question::ThisMonitor(json.to_owned(), input)).await? {
            Outcome::Command(reply) => Ok(reply.into()),
            _ => Err(OTHER_KIND.into()),
        }
    }

    /// Sends a command to an OSD itself, as `ceph tell` does. A refusal is a reply, not an error.
    pub async fn osd_command_reply(&self, osd: i32, json: &str, input: List) -> Result<CommandReply, Error> {
        match self.ask(Question::Osd(osd, json.to_owned(), input)).await? {
            Outcome::Command(reply) => Ok(reply.into()),
            _ => Err(OTHER_KIND.into()),
        }
    }

    /// Lists a pool's placement groups with inconsistent copies, by name.
    pub async fn inconsistent_groups(&self, pool: i64) -> Result<Vec<String>, Error> {
        let what = "pg ls";
        let command = serde_json::json!({
            "prefix": what, "pool": pool, "states": ["inconsistent"], "format": "json"
        });
        let reply = self.command(&command.to_string(), List::new()).await?;
        let listed: serde_json::Value = serde_json::from_slice(&reply.output)
            .map_err(|error| Error::Answer { what: what.to_owned(), reason: error.to_string() })?;
        // Releases before Nautilus return the bare list.
        let groups = listed.get("pg_stats").unwrap_or(&listed).as_array().into_iter().flatten();
        Ok(groups.filter_map(|group| Some(group.get("pgid")?.as_str()?.to_owned())).collect())
    }

    /// Returns the space usage of one pool, by its number, or of the cluster.
    pub async fn statfs(&self, pool: Option<i64>) -> Result<StatfsReply, Error> {
        match self.ask(Question::Statfs(pool)).await? {
            Outcome::Statfs(reply) => Ok(reply),
            _ => Err(OTHER_KIND.into()),
        }
    }
}
