//! A benchmark of an OSD (`ceph tell osd.0 bench`).

use crate::errno::EINVAL;
use crate::osd::State;
use onego_buf::{List, Segment};
use onego_ceph::messages::TellReply;
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
/// Bytes that are written, and bytes of a block, unless the command says otherwise.
const BENCH_COUNT: u64 = 1 << 30;
const BENCH_BLOCK: u64 = 4 << 20;

/// Bytes and blocks that a benchmark writes in one turn: clients of the OSD wait for about a millisecond.
const BENCH_TURN_BYTES: u64 = 4 << 20;
const BENCH_TURN_BLOCKS: u64 = 256;

/// A benchmark of an OSD: blocks go to an object of its own, one over the other, so that it takes the memory of one.
pub(super) struct StoreBench {
    pub(super) osd: i32,
    pub(super) conn: ConnId,
    pub(super) tid: u64,
    count: u64,
    block: u64,
    written: u64,
    began: Time,
    object: State,
    payload: Segment,
    pretty: bool,
}

/// Why a command is not carried out.
pub(super) type Refusal = (i32, String);

impl StoreBench {
    pub(super) fn new(
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
    pub(super) fn step(&mut self) {
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

    pub(super) fn is_done(&self) -> bool {
        self.written >= self.count
    }

    pub(super) fn result(&self, now: Time) -> TellReply {
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
        json_reply(&json, self.pretty)
    }
}

/// The reply to a command, with this output.
pub(super) fn json_reply(json: &Value, pretty: bool) -> TellReply {
    let text = if pretty { format!("{json:#}\n") } else { json.to_string() };
    TellReply { output: text.into_bytes().into(), ..TellReply::default() }
}
