//! Random maps.

use onego_ceph::crush::{
    Bucket, ChooseArg, CrushMap, ITEM_NONE, Layout, Rule, Step, StepOp, WEIGHT_ONE, Weights,
};
use onego_ceph::osdmap::{
    HitSetParams, IntervalSet, OsdInfo, OsdMap, OsdXInfo, PeeringCrush, PgMerge, Pool, PoolKind, PoolOption,
    PoolSnap, Ratios, StretchMode, WEIGHT_IN, flag, pool_flag, release, state,
};
use onego_ceph::types::{EVersion, PgId, Utime, Uuid};
use onego_msgr::addr::{AddrVec, EntityAddr};
use rand::rngs::SmallRng;
use rand::seq::IteratorRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) seed: u64,
    pub(crate) osds: usize,
    pub(crate) osds_per_host: usize,
    pub(crate) pgs: u32,
}

/// Generates a map: OSDs that are up or down, in or out, or missing; pools of both kinds; and everything that moves
/// placement groups.
pub(crate) fn map(shape: Shape) -> OsdMap {
    let rng = &mut SmallRng::seed_from_u64(shape.seed);
    let mut map = OsdMap {
        epoch: rng.random_range(1..1000),
        fsid: Uuid(rng.random()),
        created: time(rng),
        modified: time(rng),
        last_up_change: time(rng),
        last_in_change: time(rng),
        flags: flag::SORTBITWISE | flag::RECOVERY_DELETES | flag::PURGED_SNAPDIRS | flag::PGLOG_HARDLIMIT,
        crush: Arc::new(crush(rng, shape)),
        crush_version: 7,
        require_osd_release: release::PACIFIC,
        require_min_compat_client: release::LUMINOUS,
        ratios: Ratios { nearfull: 0.85, full: 0.95, backfillfull: 0.9 },
        ..OsdMap::default()
    };
    map.set_max_osd(shape.osds);
    for osd in 0..shape.osds {
        random_osd(rng, &mut map, osd);
    }
    let pools = 4;
    for id in 1..=pools {
        map.pools.insert(id, pool(rng, shape, id, shape.pgs / pools as u32));
        map.pool_names.insert(id, format!("pool {id}"));
        map.pool_max = id;
    }
    move_groups(rng, &mut map);
    settings(rng, &mut map);
    map
}

fn time(rng: &mut SmallRng) -> Utime {
    Utime { sec: rng.random_range(1_000_000_000..2_000_000_000), nsec: rng.random_range(0..1_000_000_000) }
}

fn addrs(rng: &mut SmallRng) -> AddrVec {
    let ip: [u8; 4] = rng.random();
    let (port, nonce) = (rng.random_range(1..60_000), rng.random());
    AddrVec(vec![
        EntityAddr::msgr2((ip, port).into(), nonce),
        EntityAddr::legacy((ip, port + 1).into(), nonce),
    ])
}

fn random_osd(rng: &mut SmallRng, map: &mut OsdMap, osd: usize) {
    let kind = rng.random_range(0..20);
    map.osd_state[osd] = match kind {
        0 => 0,
        1 => state::EXISTS,
        2 => state::EXISTS | state::AUTOOUT | state::DESTROYED,
        _ => state::EXISTS | state::UP,
    };
    map.osd_weight[osd] = match rng.random_range(0..10) {
        0 => 0,
        1 | 2 => rng.random_range(1..WEIGHT_IN),
        _ => WEIGHT_IN,
    };
    match rng.random_range(0..6) {
        0 => map.set_primary_affinity(osd, 0),
        1 => map.set_primary_affinity(osd, rng.random_range(0..=WEIGHT_IN)),
        _ => {}
    }
    if kind == 0 {
        return;
    }
    map.client_addrs[osd] = addrs(rng);
    map.cluster_addrs[osd] = addrs(rng);
    map.heartbeat_back_addrs[osd] = addrs(rng);
    map.heartbeat_front_addrs[osd] = addrs(rng);
    map.osd_uuid[osd] = Uuid(rng.random());
    map.osd_info[osd] = OsdInfo {
        last_clean_begin: rng.random_range(0..100),
        last_clean_end: rng.random_range(0..100),
        up_from: rng.random_range(0..100),
        up_thru: rng.random_range(0..100),
        down_at: rng.random_range(0..100),
        lost_at: rng.random_range(0..100),
    };
    map.osd_xinfo[osd] = OsdXInfo {
        down_stamp: time(rng),
        laggy_probability: rng.random_range(0..1 << 20) << 12,
        laggy_interval: rng.random_range(0..100),
        features: rng.random_range(0..1 << 60),
        old_weight: rng.random_range(0..WEIGHT_IN),
        last_purged_snaps_scrub: time(rng),
        dead_epoch: rng.random_range(0..100),
    };
}

/// Hosts with disks of different sizes below one root. Rule 0 is for replicas, 1 for shards, each on its own host
/// as long as there are enough; rule 2 is for shards on disks.
fn crush(rng: &mut SmallRng, shape: Shape) -> CrushMap {
    let disks: Vec<i32> = (0..shape.osds as i32).collect();
    let mut map = CrushMap::flat(&[], Layout::HostPerDevice);
    let (host, root) = (map.type_id("host").unwrap() as u16, map.type_id("root").unwrap() as u16);
    let hosts: Vec<Bucket> = (0..)
        .zip(disks.chunks(shape.osds_per_host))
        .map(|(n, disks)| {
            let weights: Vec<(i32, u32)> =
                disks.iter().map(|disk| (*disk, rng.random_range(1..8) * WEIGHT_ONE / 2)).collect();
            Bucket::straw2(-2 - n, host, weights)
        })
        .collect();
    map.max_devices = shape.osds as i32;
    map.item_names.extend(disks.iter().map(|disk| (*disk, format!("osd.{disk}"))));
    map.item_names.extend(hosts.iter().map(|host| (host.id, format!("host{}", -host.id))));
    let root = Bucket::straw2(-1, root, hosts.iter().map(|host| (host.id, host.weight)));
    map.buckets = std::iter::once(root).chain(hosts).map(Some).collect();
    let step = |op, arg1, arg2| Step { op, arg1, arg2 };
    for (kind, number) in [(host, 1), (0, 2)] {
        let mut rule = Rule::replicated(number, -1, kind);
        rule.kind = Rule::ERASURE;
        let choose = if kind == 0 { StepOp::CHOOSE_INDEP } else { StepOp::CHOOSELEAF_INDEP };
        rule.steps = vec![
            step(StepOp::SET_CHOOSELEAF_TRIES, 5, 0),
            step(StepOp::SET_CHOOSE_TRIES, 100, 0),
            step(StepOp::TAKE, -1, 0),
            step(choose, 0, kind.into()),
            step(StepOp::EMIT, 0, 0),
        ];
        map.rules.resize(number.into(), None);
        map.rules.push(Some(rule));
        map.rule_names.insert(number.into(), format!("shards{number}"));
    }
    if rng.random_bool(0.5) {
        choose_args(rng, &mut map);
    }
    map
}

fn choose_args(rng: &mut SmallRng, map: &mut CrushMap) {
    for key in [-1, 2] {
        let mut args = BTreeMap::new();
        for (index, bucket) in (0..).zip(&map.buckets) {
            let Some(Bucket { weights: Weights::Straw2 { items }, .. }) = bucket else { continue };
            let mut changed = || items.iter().map(|weight| weight / 4 * rng.random_range(1..8)).collect();
            args.insert(index, ChooseArg { weight_set: vec![changed(), changed()], ids: Vec::new() });
        }
        map.choose_args.insert(key, args);
    }
}

fn pool(rng: &mut SmallRng, shape: Shape, id: i64, pgs: u32) -> Pool {
    let erasure = id % 2 == 0;
    let pg_num = pgs / 2 + rng.random_range(0..=pgs);
    let hosts = shape.osds / shape.osds_per_host;
    let mut pool = Pool {
        kind: if erasure { PoolKind::Erasure } else { PoolKind::Replicated },
        size: if erasure { rng.random_range(3..10) } else { rng.random_range(1..6) },
        min_size: 2,
        crush_rule: if !erasure {
            0
        } else if hosts > 6 {
            1
        } else {
            2
        },
        flags: if rng.random_bool(0.8) { pool_flag::HASHPSPOOL } else { 0 },
        pg_num,
        pgp_num: if rng.random() { pg_num } else { pg_num - pg_num / 3 },
        pg_num_target: pg_num + 1,
        pgp_num_target: pg_num,
        pg_num_pending: pg_num,
        pg_autoscale_mode: rng.random_range(0..3),
        create_time: time(rng),
        last_change: rng.random_range(0..1000),
        snap_seq: 9,
        snap_epoch: 8,
        quota_max_bytes: rng.random_range(0..1 << 50),
        quota_max_objects: rng.random_range(0..1 << 50),
        stripe_width: if erasure { 8192 } else { 0 },
        ..Pool::default()
    };
    describe(rng, &mut pool, id);
    pool
}

/// Sets the fields that do not affect placement.
fn describe(rng: &mut SmallRng, pool: &mut Pool, id: i64) {
    if pool.kind == PoolKind::Erasure {
        pool.erasure_code_profile = "default".into();
        pool.removed_snaps.insert(3, 4);
        pool.flags |= pool_flag::SELFMANAGED_SNAPS;
    } else {
        pool.flags |= pool_flag::POOL_SNAPS;
        pool.snaps.insert(4, PoolSnap { id: 4, stamp: time(rng), name: "before".into() });
        pool.tiers = [7, 8].into();
        pool.tier_of = 5;
        pool.read_tier = 7;
        pool.write_tier = 8;
        pool.cache_mode = 1;
        pool.hit_set_params = HitSetParams::Bloom { fpp_micro: 50_000, target_size: 6, seed: 1 };
    }
    if rng.random() {
        // Older releases encode stretched pools in their own version.
        pool.version = 30;
        pool.peering_crush =
            Some(PeeringCrush { bucket_count: 2, bucket_target: 3, bucket_barrier: 1, mandatory_member: -1 });
    }
    pool.hit_set_period = rng.random_range(0..9);
    pool.hit_set_count = rng.random_range(0..9);
    pool.hit_set_grade_decay_rate = rng.random_range(0..9);
    pool.hit_set_search_last_n = rng.random_range(0..9);
    pool.min_read_recency_for_promote = rng.random_range(0..9);
    pool.min_write_recency_for_promote = rng.random_range(0..9);
    pool.target_max_bytes = rng.random_range(0..1 << 40);
    pool.target_max_objects = rng.random_range(0..1 << 40);
    pool.cache_min_flush_age = rng.random_range(0..99);
    pool.cache_min_evict_age = rng.random_range(0..99);
    pool.expected_num_objects = rng.random_range(0..99);
    pool.last_force_op_resend = 1;
    pool.last_force_op_resend_prenautilus = 2;
    pool.last_force_op_resend_preluminous = 3;
    pool.use_gmt_hitset = rng.random();
    pool.fast_read = rng.random();
    pool.auid = rng.random_range(0..99);
    pool.options = [
        (6, PoolOption::Text("aggressive".into())),
        (8, PoolOption::Float(0.875)),
        (9, PoolOption::Int(1 << 33)),
    ]
    .into();
    let application = BTreeMap::from([("key".to_owned(), "value".to_owned())]);
    pool.application_metadata.insert("rbd".into(), application);
    let version = |epoch| EVersion { version: 77, epoch };
    pool.last_pg_merge = PgMerge {
        source: PgId { pool: id, seed: 1 },
        ready_epoch: 2,
        last_epoch_started: 3,
        last_epoch_clean: 4,
        source_version: version(5),
        target_version: version(6),
    };
}

fn move_groups(rng: &mut SmallRng, map: &mut OsdMap) {
    let max = map.max_osd as i32;
    for (&id, pool) in &map.pools {
        let size: usize = pool.size.into();
        let choose = |rng: &mut SmallRng| {
            let mut osds = (0..max).choose_multiple(rng, size);
            if pool.kind == PoolKind::Erasure && rng.random_bool(0.2) {
                osds[0] = ITEM_NONE;
            }
            osds
        };
        for seed in 0..pool.pg_num {
            let pg = PgId { pool: id, seed };
            if rng.random_bool(0.1) {
                map.pg_temp.insert(pg, choose(rng));
            }
            if rng.random_bool(0.1) {
                map.primary_temp.insert(pg, rng.random_range(0..max));
            }
            if rng.random_bool(0.1) {
                map.pg_upmap.insert(pg, choose(rng));
            }
            if rng.random_bool(0.2) {
                let pairs = (0..10).map(|_| (rng.random_range(0..max), rng.random_range(0..max))).collect();
                map.pg_upmap_items.insert(pg, pairs);
            }
        }
    }
}

fn settings(rng: &mut SmallRng, map: &mut OsdMap) {
    let profile = [("k", "2"), ("m", "1")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    map.erasure_code_profiles.insert("default".into(), profile.into());
    for _ in 0..5 {
        let addr = addrs(rng).0[0];
        map.blocklist.insert(addr, time(rng));
    }
    if rng.random() {
        let network = "any:10.0.0.0:0/8".parse().unwrap();
        map.range_blocklist.insert(network, time(rng));
    }
    if rng.random() {
        map.stretch_mode =
            StretchMode { enabled: true, bucket_count: 2, degraded: 1, recovering: 0, bucket: 8 };
    }
    let mut snaps = IntervalSet::default();
    snaps.insert(rng.random_range(0..100), 5);
    for queue in [&mut map.new_removed_snaps, &mut map.new_purged_snaps, &mut map.removed_snaps_queue] {
        queue.insert(1, snaps.clone());
    }
    map.crush_node_flags.insert(-1, 1 << 11);
    map.cluster_snapshot = "evening".into();
    map.cluster_snapshot_epoch = map.epoch;
    map.version = if rng.random() { OsdMap::VERSION } else { OsdMap::VERSION_NAUTILUS };
}
