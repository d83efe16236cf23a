//! The placement groups, all in the one OSD.
//!
//! Source: ceph `src/mon/PGMap.cc`, `process_pg_map_command`; `src/mon/OSDMonitor.cc`, "pg map".

use super::status::{pgs, usage_summary};
use super::{Call, Outcome, Refusal};
use crate::mon::Mon;
use crate::mon::first_map::OSD_ID;
use crate::mon::text::{self, Left, Right, Table};
use onego_ceph::types::PgId;
use serde_json::{Value, json};

/// Groups that are listed one by one; the groups of a large pool say nothing that its first do not.
const MAX_LISTED: usize = 4096;

pub(super) fn stat(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let usage = call.usage;
    let (count, state) = pgs(mon);
    let states = if count == 0 { json!([]) } else { json!([{"name": state, "num": count}]) };
    let json = json!({
        "pg_ready": true,
        "pg_summary": {
            "num_pg_by_state": states,
            "num_pgs": count,
            "num_bytes": usage.bytes(),
            "total_bytes": usage.total,
            "total_avail_bytes": usage.available(),
            "total_used_bytes": usage.used,
            "total_used_raw_bytes": usage.used,
        },
    });
    let states = if count == 0 { String::new() } else { format!("{count} {state}") };
    let plain =
        format!("{count} pgs: {states}; {} data, {}\n", text::bytes(usage.bytes()), usage_summary(usage));
    Ok(call.show(&json, plain))
}

/// The groups with what they are: "active+clean".
fn list(mon: &Mon) -> Vec<(PgId, &'static str)> {
    let (_, state) = pgs(mon);
    let pools = mon.osdmap().pools.iter();
    let groups = pools.flat_map(|(&pool, one)| (0..one.pg_num).map(move |seed| PgId { pool, seed }));
    groups.take(MAX_LISTED).map(|pg| (pg, state)).collect()
}

pub(super) fn dump(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let usage = call.usage;
    let groups: Vec<Value> = list(mon)
        .iter()
        .map(|(pg, state)| {
            json!({"pgid": pg.to_string(), "state": state, "up": [OSD_ID], "acting": [OSD_ID],
                "up_primary": OSD_ID, "acting_primary": OSD_ID})
        })
        .collect();
    let pools: Vec<Value> = mon
        .osdmap()
        .pools
        .iter()
        .map(|(id, pool)| {
            let used = usage.pool(*id);
            json!({"poolid": id, "num_pg": pool.pg_num, "stat_sum": {
                "num_bytes": used.bytes, "num_objects": used.objects, "num_object_copies": used.objects,
                "num_read": used.reads, "num_read_kb": used.read_bytes >> 10,
                "num_write": used.writes, "num_write_kb": used.written_bytes >> 10,
            }})
        })
        .collect();
    let osd = json!({"osd": OSD_ID, "num_pgs": pgs(mon).0, "kb": usage.total >> 10,
        "kb_used": usage.used >> 10, "kb_avail": usage.available() >> 10});
    let json = json!({"pg_ready": true, "pg_map": {
        "version": mon.osdmap().epoch,
        "stamp": text::stamp(call.now.into()),
        "pg_stats": groups,
        "pool_stats": pools,
        "osd_stats": [osd],
    }});
    let mut table = Table::new(&[
        ("PG_STAT", Left, Left),
        ("STATE", Left, Right),
        ("UP", Left, Left),
        ("UP_PRIMARY", Left, Right),
        ("ACTING", Left, Left),
        ("ACTING_PRIMARY", Left, Right),
    ]);
    for (pg, state) in list(mon) {
        let (set, osd) = (format!("[{OSD_ID}]"), OSD_ID.to_string());
        table.row([pg.to_string(), state.into(), set.clone(), osd.clone(), set, osd]);
    }
    Ok(call.show(&json, table.render()).with_status("dumped pgs"))
}

pub(super) fn map(mon: &mut Mon, call: &Call<'_>) -> Outcome {
    let text = call.text("pgid");
    let raw: PgId = text.parse().map_err(|error| Refusal::invalid(format!("{error}")))?;
    let map = mon.osdmap();
    let Some(pg) = map.pool_pg(raw) else {
        return Err(Refusal::missing(format!("pg '{text}' does not exist")));
    };
    let place = map.place(pg);
    let json = json!({"epoch": map.epoch, "raw_pgid": raw.to_string(), "pgid": pg.to_string(),
        "up": place.up, "acting": place.acting});
    let plain =
        format!("osdmap e{} pg {raw} ({pg}) -> up {:?} acting {:?}\n", map.epoch, place.up, place.acting);
    Ok(call.show(&json, plain))
}
