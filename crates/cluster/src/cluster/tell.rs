//! Commands to an OSD itself, as `ceph tell` gives them.
//!
//! Source: ceph `src/osd/OSD.cc` ("bench", `run_osd_bench_test`).

use super::connections::ClusterConnections;
use super::daemons::Daemons;
use crate::errno::{EACCES, EBUSY, EINVAL, EOPNOTSUPP};
use crate::mon::{Tell, TellReply, version_json};
use crate::osd::State;
use onego_buf::{List, Segment};
use onego_wire::{ConnId, Time};
use serde_json::{Map, Value, json};

/// Seconds that a benchmark may take on the slow devices that Ceph's bounds are for (`osd_bench_duration`), and what
/// these do in a second: small writes, and bytes of large ones.
const BENCH_SECONDS: u64 = 30;
const BENCH_SMALL_IOPS: u64 = 100;
const BENCH_BYTES_PER_SECOND: u64 = 100 << 20;
/// Writes below this size are small.
const BENCH_SMALL: u64 = 1 << 20;
/// The largest block (`osd_bench_max_block_size`).
const BENCH_MAX_BLOCK: u64 = 64 << 20;
/// What is written unless somebody says how much, and in what blocks.
const BENCH_COUNT: u64 = 1 << 30;
const BENCH_BLOCK: u64 = 4 << 20;

/// Bytes and blocks that a benchmark writes in one turn: clients of the OSD wait for about a millisecond.
const BENCH_TURN_BYTES: u64 = 4 << 20;
const BENCH_TURN_BLOCKS: u64 = 256;

/// A benchmark of an OSD: blocks go to an object of its own, one over the other, so that it takes the memory of one.
pub(super) struct StoreBench {
    osd: i32,
    conn: ConnId,
    tid: u64,
    count: u64,
    block: u64,
    written: u64,
    began: Time,
    object: State,
    payload: Segment,
    pretty: bool,
}

/// Why a command is not carried out.
type Refusal = (i32, String);

impl StoreBench {
    fn new(
        now: Time,
        osd: i32,
        (conn, tid): (ConnId, u64),
        fields: &Map<String, Value>,
    ) -> Result<Self, Refusal> {
        let number = |name: &str, default: u64| match fields.get(name) {
            None => Ok(default),
            Some(value) => {
                let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
                number.ok_or_else(|| (EINVAL, format!("'{name}' must be a whole number, not {value}")))
            }
        };
        let (count, block) = (number("count", BENCH_COUNT)?, number("size", BENCH_BLOCK)?);
        if block == 0 || block > BENCH_MAX_BLOCK {
            let text = format!(
                "'size' is from 1 to {BENCH_MAX_BLOCK} bytes (osd_bench_max_block_size), not {block}"
            );
            return Err((EINVAL, text));
        }
        let most = BENCH_SECONDS
            * if block < BENCH_SMALL { block * BENCH_SMALL_IOPS } else { BENCH_BYTES_PER_SECOND };
        if count == 0 || count > most {
            let text = format!("'count' is from 1 to {most} bytes for blocks of {block}, not {count}");
            return Err((EINVAL, text));
        }
        let payload = Segment::from(vec![0xa5; block as usize]);
        let pretty = fields.get("format").and_then(Value::as_str) != Some("json");
        Ok(Self {
            osd,
            conn,
            tid,
            count,
            block,
            written: 0,
            began: now,
            object: State::default(),
            payload,
            pretty,
        })
    }

    /// Writes a few blocks.
    fn step(&mut self) {
        let end = (self.written + BENCH_TURN_BYTES.max(self.block)).min(self.count);
        let mut blocks = 0;
        while self.written < end && blocks < BENCH_TURN_BLOCKS {
            let len = self.block.min(self.count - self.written);
            // The store keeps what it received: a copy stands for that.
            let copy = Segment::copy_from(&self.payload.as_ref()[..len as usize]);
            self.object.create();
            self.object.write(0, List::from(copy));
            self.written += len;
            blocks += 1;
        }
    }

    fn is_done(&self) -> bool {
        self.written >= self.count
    }

    fn result(&self, now: Time) -> TellReply {
        // A clock that does not move between two turns is no reason to divide by zero.
        let seconds = now.since(self.began).as_secs_f64().max(1e-9);
        let rate = self.count as f64 / seconds;
        let json = json!({
            "bytes_written": self.count,
            "blocksize": self.block,
            "elapsed_sec": seconds,
            "bytes_per_sec": rate,
            "iops": rate / self.block as f64,
        });
        done(&json, self.pretty)
    }
}

fn done(json: &Value, pretty: bool) -> TellReply {
    let text = if pretty { format!("{json:#}\n") } else { json.to_string() };
    TellReply { output: text.into_bytes().into(), ..TellReply::default() }
}

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
            "get_command_descriptions" => Ok(Some(done(&descriptions(), false))),
            "version" => Ok(Some(done(&version_json(), pretty))),
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
                    "osd.{osd} of this embedded cluster does not take '{other}': it takes 'version' and 'bench'"
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
