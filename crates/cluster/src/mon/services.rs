//! Daemons of services, which register with the manager: iSCSI gateways, mirroring daemons, programs of users.
//!
//! Each is shown as long as its session lasts. Source: ceph `src/mgr/{DaemonServer.cc,ServiceMap.h}`,
//! `src/mon/Monitor.cc` (`get_cluster_status`).

use super::monitor::Mon;
use super::text;
use onego_ceph::messages::{Properties, ReportConfig, ServiceClose, ServiceOpen, ServiceReport};
use onego_msgr::Message;
use onego_wire::{ConnId, Decoded, Time};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Seconds between two reports of a daemon (`mgr_stats_period`).
const PERIOD: u32 = 5;

/// Least priority of counters that are reported. No counter has it, because none is kept here.
const THRESHOLD: u32 = 255;

/// Most bytes of a daemon's properties. What has more is shown without any.
const MAX_PROPERTIES: usize = 64 << 10;

/// A daemon of a service.
#[derive(Debug)]
pub(super) struct ServiceDaemon {
    service: String,
    daemon: String,
    metadata: Properties,
    status: Properties,
    since: Time,
    reported: Time,
}

/// The daemons of each service by their names, with their sessions.
type Services<'a> = BTreeMap<&'a str, BTreeMap<&'a str, (ConnId, &'a ServiceDaemon)>>;

fn bounded(properties: Properties) -> Properties {
    let bytes: usize = properties.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes <= MAX_PROPERTIES { properties } else { Properties::new() }
}

impl Mon {
    /// A message to the manager. Returns whether it was one of a daemon. What does not decode is passed over: a daemon whose
    /// session ended would send it again.
    pub(super) fn service_message(&mut self, now: Time, conn: ConnId, message: &mut Message) -> bool {
        self.try_service_message(now, conn, message).unwrap_or_else(|error| {
            tracing::debug!(kind = message.header.kind, %error, "the manager passes over a message");
            true
        })
    }

    fn try_service_message(&mut self, now: Time, conn: ConnId, message: &mut Message) -> Decoded<bool> {
        use onego_msgr::types::Payload as _;
        let tid = message.header.tid;
        let Some(session) = self.sessions.get_mut(&conn) else { return Ok(false) };
        match message.header.kind {
            ServiceOpen::KIND => {
                let ServiceOpen { daemon, service, registration } = message.decode()?;
                session.service = registration.map(|(metadata, status)| {
                    let (metadata, status) = (bounded(metadata), bounded(status));
                    ServiceDaemon { service, daemon, metadata, status, since: now, reported: now }
                });
                self.reply(conn, tid, &ReportConfig { period: PERIOD, threshold: THRESHOLD });
            }
            ServiceReport::KIND => {
                let report: ServiceReport = message.decode()?;
                if let Some(daemon) = &mut session.service {
                    daemon.reported = now;
                    daemon.status = report.status.map_or_else(|| std::mem::take(&mut daemon.status), bounded);
                }
            }
            ServiceClose::KIND => {
                let close: ServiceClose = message.decode()?;
                session.service = None;
                self.reply(conn, tid, &close);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn services(&self) -> Services<'_> {
        let mut services = Services::new();
        for (conn, session) in &self.sessions {
            if let Some(daemon) = &session.service {
                // Of two with one name the newer is shown.
                services.entry(&daemon.service).or_default().insert(&daemon.daemon, (*conn, daemon));
            }
        }
        services
    }

    /// The services with a line about each.
    pub(super) fn service_lines(&self) -> Vec<(String, String)> {
        let services = self.services().into_iter();
        services
            .map(|(name, daemons)| (name.to_owned(), summary(daemons.values().map(|(_, one)| *one))))
            .collect()
    }

    /// The map of services.
    pub(super) fn services_json(&self) -> Value {
        let services = self.services().into_iter().map(|(service, daemons)| {
            let mut shown = Map::from_iter([("summary".to_owned(), "".into())]);
            for (name, (conn, daemon)) in daemons {
                let peer = self.sessions.get(&conn).map(|session| &session.peer);
                let one = json!({
                    "start_epoch": 1,
                    "start_stamp": text::stamp_utc(daemon.since.into()),
                    "gid": peer.map_or(0, |peer| peer.global_id),
                    "addr": peer.map_or_else(String::new, |peer| super::command::addr_text(&peer.addrs)),
                    "metadata": daemon.metadata,
                    "task_status": {},
                });
                shown.insert(name.to_owned(), one);
            }
            (service.to_owned(), json!({ "daemons": shown }))
        });
        Value::Object(services.collect())
    }

    /// The states that daemons have reported.
    pub(super) fn service_states(&self) -> Value {
        let services = self.services().into_iter().map(|(service, daemons)| {
            let states = daemons.into_iter().map(|(name, (_, daemon))| {
                let stamp = text::stamp_utc(daemon.reported.into());
                (
                    name.to_owned(),
                    json!({"status_stamp": stamp, "last_beacon": stamp, "status": daemon.status}),
                )
            });
            (service.to_owned(), Value::Object(states.collect()))
        });
        Value::Object(services.collect())
    }
}

/// How many daemons a service has, and on how many hosts and in how many zones (`ServiceMap::Service::get_summary`).
fn summary<'a>(daemons: impl Iterator<Item = &'a ServiceDaemon>) -> String {
    let (mut count, mut kind) = (0, "daemon");
    let (mut hosts, mut zones) = (BTreeSet::new(), BTreeSet::new());
    for daemon in daemons {
        count += 1;
        let get = |name: &str| daemon.metadata.get(name);
        kind = get("daemon_type").map_or(kind, String::as_str);
        hosts.extend(get("hostname"));
        zones.extend(get("zone_id"));
    }
    let groups = [("hosts", hosts.len()), ("zones", zones.len())];
    let groups: Vec<String> = groups
        .iter()
        .filter(|(_, number)| *number > 0)
        .map(|(name, number)| format!("{number} {name}"))
        .collect();
    let plural = if count > 1 { "s" } else { "" };
    let places = if groups.is_empty() { String::new() } else { format!(" ({})", groups.join(", ")) };
    format!("{count} {kind}{plural} active{places}")
}
