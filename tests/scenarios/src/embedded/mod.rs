//! Ceph's programs on our embedded cluster.

mod ceph_test;
mod commands;
mod memory;
pub(crate) mod osds;
mod qemu_img;
mod rbd;
mod snapshots;
mod tools;

use crate::scenario::{Run, Scenario};
use crate::{documents, prometheus, upstream};
use onego_sandbox::Release::{self, Pacific, Reef, Tentacle};

const ALL: &[Release] = &[Reef, Pacific, Tentacle];

/// Checks that share a cluster.
type Checks = &'static [(&'static str, Run)];

const EVERYDAY: Checks = &[("ceph", tools::ceph), ("rados", tools::rados), ("rbd", tools::rbd)];
const LOADS: Checks = &[
    ("fio", tools::fio),
    ("rados-bench", tools::bench),
    ("qemu-img", qemu_img::without_keys),
    ("dns", tools::dns),
];
const KEYS: Checks = &[("qemu-img", qemu_img::with_keys), ("blocklist", tools::blocklist)];
const V1: Checks = &[("v1", tools::v1)];
const OSDS: Checks = &[("ceph", osds::tools), ("load", osds::come_and_go)];
const BINDINGS: Checks = &[("bindings", upstream::rados)];

pub(crate) fn scenarios() -> Vec<Scenario> {
    let (scenario, on_embedded) = (Scenario::new, Scenario::on_embedded);
    vec![
        scenario("test-rbd", "upstream's tests of librbd's Python bindings pass", upstream::rbd)
            .releases(&[Reef, Pacific])
            .smoke(),
        on_embedded("test-rados", "upstream's tests of librados's Python bindings pass", "", BINDINGS)
            .releases(ALL)
            .smoke(),
        scenario("ceph-test", "upstream's quick test programs, its model and its fsx pass", ceph_test::quick)
            .releases(&[Reef])
            .smoke(),
        scenario("ceph-test-all", "upstream's other test programs pass; longer models", ceph_test::all)
            .releases(&[Reef])
            .minutes(60),
        on_embedded("tools", "`ceph`, `rados` and `rbd` work", "", EVERYDAY).releases(ALL).smoke(),
        scenario("restart", "librbd continues after a stop or a crash of the cluster", osds::restart)
            .releases(ALL)
            .smoke(),
        on_embedded("tools-load", "fio, `rados bench` and QEMU verify data; DNS names monitors", "", LOADS)
            .releases(ALL),
        on_embedded(
            "tools-keys",
            "QEMU uses keys; blocklisted clients fail",
            "--auth cephx --memory 1G",
            KEYS,
        )
        .releases(ALL),
        on_embedded("tools-v1", "Ceph's programs work in messenger v1", "--messenger v1", V1).releases(ALL),
        on_embedded("osds", "OSDs stop and start, by `ceph` and under verified loads", "--osds 3", OSDS)
            .releases(ALL),
        scenario(
            "snapshots",
            "snapshots of a pool survive stops of OSDs and the cluster",
            snapshots::of_pools,
        )
        .releases(ALL),
        scenario("memory-limit", "writes wait for a full cluster and a pool at its quota", memory::limit)
            .releases(ALL),
        scenario("commands", "every command of Ceph's monitors is answered", commands::all).releases(ALL),
        scenario("rbd-tools", "`rbd` prints and does what it does on real Ceph", rbd::as_on_ceph)
            .releases(ALL),
        scenario("prometheus", "Prometheus and promtool accept our metrics", prometheus::metrics)
            .releases(&[Tentacle]),
        scenario("documents", "every line and program of README and the guides works", documents::run),
    ]
}
