//! Commands to an OSD itself, as `ceph tell` gives them.
//!
//! Source: ceph `src/osd/OSD.cc` ("bench", `run_osd_bench_test`).

use super::connections::ClusterConnections;
use super::daemons::Daemons;
use super::store_bench::{Refusal, StoreBench, json_reply};
use crate::errno::{EACCES, EBUSY, EINVAL, EOPNOTSUPP};
use crate::mon::version_json;
use onego_ceph::messages::{Tell, TellReply};
use onego_wire::{ConnId, Time};
use serde_json::{Value, json};

/// The commands that OSDs take, as the `ceph` program wants to know it before it sends one.
fn descriptions() -> Value {
    let number = |name: &str| json!({"name": name, "type": "CephInt", "req": "false"});
    json!({
        "cmd000": {"sig": ["version"], "help": "which version the OSD is", "module": "osd", "perm": "r", "flags": 0},
        "cmd001": {
            "sig": ["bench", number("count"), number("size")],
            "help": "write 'count' bytes in blocks of 'size' to memory, and say how fast that was",
            "module": "osd", "perm": "rw", "flags": 0,
        },
        "cmd002": {
            "sig": [
                "pg",
                {"name": "pgid", "type": "CephPgid"},
                {"name": "cmd", "type": "CephChoices", "strings": "query"},
            ],
            "help": "describe a placement group", "module": "osd", "perm": "r", "flags": 0,
        },
        "cmd003": {
            // Optional, because `ceph tell PGID` adds it after it has checked the words.
            "sig": ["query", {"name": "pgid", "type": "CephPgid", "req": "false"}],
            "help": "describe a placement group", "module": "osd", "perm": "r", "flags": 0,
        },
    })
}

impl Daemons {
    /// A command to an OSD. It is answered at once, or, a benchmark, when it is over.
    pub(super) fn tell_osd(
        &mut self,
        now: Time,
        osd: i32,
        from: (ConnId, u64),
        tell: &Tell,
        connections: &mut ClusterConnections,
    ) {
        let (conn, tid) = from;
        let reply = match self.run_tell(now, osd, from, tell, connections) {
            Ok(None) => return,
            Ok(Some(reply)) => reply,
            Err((result, status)) => TellReply { result, status, ..TellReply::default() },
        };
        connections.send_payload(now, conn, tid, &reply);
    }

    fn run_tell(
        &mut self,
        now: Time,
        osd: i32,
        from: (ConnId, u64),
        tell: &Tell,
        connections: &mut ClusterConnections,
    ) -> Result<Option<TellReply>, Refusal> {
        let session = connections.get(from.0).and_then(|connection| connection.session);
        let daemon = &self.osds[osd as usize];
        if !session.is_some_and(|session| daemon.osd.may_command(session)) {
            return Err((EACCES, "access denied".into()));
        }
        let Ok(Value::Object(fields)) = serde_json::from_str(&tell.command.concat()) else {
            return Err((EINVAL, "the command is not a JSON object".into()));
        };
        let prefix = fields.get("prefix").and_then(Value::as_str).unwrap_or_default();
        let pretty = fields.get("format").and_then(Value::as_str) != Some("json");
        match prefix {
            "get_command_descriptions" => Ok(Some(json_reply(&descriptions(), false))),
            "version" => Ok(Some(json_reply(&version_json(), pretty))),
            "query" => Ok(Some(json_reply(&self.query_group(osd, &fields)?, pretty))),
            "pg" if fields.get("cmd").and_then(Value::as_str) == Some("query") => {
                Ok(Some(json_reply(&self.query_group(osd, &fields)?, pretty)))
            }
            "bench" => {
                if self.benches.iter().any(|bench| bench.osd == osd) {
                    return Err((EBUSY, format!("osd.{osd} runs a benchmark already: wait for its end")));
                }
                self.benches.push(StoreBench::new(now, osd, from, &fields)?);
                self.benches_due = Some(now);
                Ok(None)
            }
            other => Err((
                EOPNOTSUPP,
                format!(
                    "osd.{osd} of this embedded cluster does not take '{other}': it takes 'version', 'query' and 'bench'"
                ),
            )),
        }
    }

    /// Goes on with benchmarks, and tells the results of those that are over.
    pub(super) fn go_on_with_benches(&mut self, now: Time, connections: &mut ClusterConnections) {
        if self.benches_due.is_none_or(|due| due > now) {
            return;
        }
        self.benches.retain_mut(|bench| {
            let is_wanted =
                connections.get(bench.conn).is_some_and(|connection| connection.session.is_some());
            if is_wanted && !bench.is_done() {
                bench.step();
                return true;
            }
            if is_wanted {
                connections.send_payload(now, bench.conn, bench.tid, &bench.result(now));
            }
            false
        });
        self.benches_due = (!self.benches.is_empty()).then_some(now);
    }
}
