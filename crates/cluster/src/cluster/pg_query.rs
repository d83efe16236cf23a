//! A placement group as its primary describes it: `ceph pg PGID query`, `ceph tell PGID query`.
//!
//! Source: ceph `src/osd/PrimaryLogPG.cc` (do_command), `src/osd/osd_types.cc` (`pg_info_t::dump`, `pg_stat_t::dump`).

use super::daemons::Daemons;
use super::store_bench::Refusal;
use crate::errno::{EAGAIN, EINVAL, ENOENT};
use onego_ceph::types::{EVersion, PgId};
use serde_json::{Map, Value, json};

impl Daemons {
    /// Describes a group to a client of its primary. EAGAIN: the OSD is not its primary.
    pub(super) fn query_group(&self, osd: i32, fields: &Map<String, Value>) -> Result<Value, Refusal> {
        let text = fields.get("pgid").and_then(Value::as_str).unwrap_or_default();
        let raw: PgId = text.parse().map_err(|error| (EINVAL, format!("pgid '{text}': {error}")))?;
        let map = self.mon.osdmap();
        let pg = map.pool_pg(raw).filter(|pg| *pg == raw);
        let missing = || (ENOENT, format!("i don't have pgid {text}"));
        let (pg, pool) = pg.and_then(|pg| Some((pg, map.pools.get(&pg.pool)?))).ok_or_else(missing)?;
        let group = self.groups.get(pg).ok_or_else(missing)?;
        if group.primary != osd {
            return Err((EAGAIN, format!("not primary for pgid {text}: osd.{} is", group.primary)));
        }
        let report = self.usage().groups.get(&pg).copied().unwrap_or_default();
        let contents = report.contents;
        let place = map.place(pg);
        let stats = json!({
            "state": report.state.name(),
            "reported_epoch": map.epoch,
            "up": place.up,
            "acting": place.acting,
            "up_primary": place.up_primary,
            "acting_primary": place.acting_primary,
            "stat_sum": {
                "num_bytes": contents.bytes,
                "num_objects": contents.objects,
                "num_object_clones": contents.clones,
                "num_object_copies": contents.objects * u64::from(pool.size),
                "num_objects_degraded": report.degraded,
                "num_objects_misplaced": 0,
                "num_objects_unfound": 0,
            },
        });
        let peers = group.others(osd).into_iter().map(|peer| {
            let mut info = self.group_info(peer, pg, group.since);
            info["peer"] = peer.to_string().into();
            info
        });
        let peers: Vec<Value> = peers.collect();
        let mut info = self.group_info(osd, pg, group.since);
        info["stats"] = stats;
        let everyone: Vec<String> =
            group.acting.iter().chain(&group.targets).map(ToString::to_string).collect();
        let name = if group.active { "Started/Primary/Active" } else { "Started/Primary/Peering" };
        Ok(json!({
            "snap_trimq": "[]",
            "snap_trimq_len": 0,
            "state": report.state.name(),
            "epoch": map.epoch,
            "up": place.up,
            "acting": place.acting,
            "backfill_targets": group.targets.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "acting_recovery_backfill": everyone,
            "info": info,
            "peer_info": peers,
            "recovery_state": [{"name": name, "might_have_unfound": []}, {"name": "Started"}],
            "agent_state": {},
        }))
    }

    /// An OSD's knowledge of a group that its primary has served since an epoch.
    fn group_info(&self, osd: i32, pg: PgId, since: u32) -> Value {
        let known =
            self.osds.get(osd as usize).and_then(|daemon| daemon.osd.group(pg)).cloned().unwrap_or_default();
        let complete = if known.is_whole() { known.version } else { EVersion::default() };
        json!({
            "pgid": pg.to_string(),
            "last_update": known.version.to_string(),
            "last_complete": complete.to_string(),
            "log_tail": known.log_tail().to_string(),
            "last_user_version": known.version.version,
            "last_backfill": if known.is_backfilled() { "MIN" } else { "MAX" },
            "purged_snaps": [],
            "history": {"same_primary_since": since, "last_epoch_started": since},
            "empty": u8::from(known.version == EVersion::default()),
            "dne": 0,
            "incomplete": u8::from(!known.is_whole()),
            "last_epoch_started": since,
        })
    }
}
