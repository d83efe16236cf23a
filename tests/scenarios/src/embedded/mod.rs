//! Ceph's programs on our embedded cluster.

mod commands;
mod memory;
mod metrics;
pub(crate) mod osds;
mod qemu_img;
mod rbd;
mod snapshots;
mod tools;

use crate::scenario::Scenario;
use crate::{documents, upstream};
use onego_sandbox::Release::{Pacific, Reef, Tentacle};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let on_embedded = Scenario::on_embedded;
    vec![
        Scenario::new("test-rbd", "upstream's tests of librbd's Python bindings pass", upstream::rbd)
            .smoke()
            .releases(&[Reef, Pacific]),
        on_embedded(
            "test-rados",
            "upstream's tests of librados's Python bindings pass",
            "",
            &[("bindings", upstream::rados)],
        )
        .smoke()
        .releases(&[Reef, Pacific, Tentacle]),
        on_embedded(
            "tools",
            "`ceph`, `rados` and `rbd` work",
            "",
            &[("ceph", tools::ceph), ("rados", tools::rados), ("rbd", tools::rbd)],
        )
        .smoke()
        .releases(&[Reef, Pacific, Tentacle]),
        on_embedded(
            "tools-load",
            "fio, `rados bench` and QEMU's driver verify data; monitors are found by SRV records alone",
            "--memory 1G",
            &[
                ("fio", tools::fio),
                ("rados-bench", tools::bench),
                ("qemu-img", qemu_img::without_keys),
                ("dns", tools::dns),
            ],
        )
        .releases(&[Reef, Pacific, Tentacle]),
        on_embedded(
            "tools-keys",
            "QEMU's driver works with keys, in every mode; blocklisted clients fail with the reason",
            "--auth cephx --memory 1G",
            &[("qemu-img", qemu_img::with_keys), ("blocklist", tools::blocklist)],
        )
        .releases(&[Reef, Pacific, Tentacle]),
        on_embedded(
            "tools-v1",
            "Ceph's programs work in version 1 of the messenger's protocol",
            "--messenger v1",
            &[("v1", tools::v1)],
        )
        .releases(&[Reef, Pacific, Tentacle]),
        on_embedded(
            "osds",
            "OSDs stop and start, by `ceph` and under our and fio's verified load",
            "--osds 3 --pool-size 2",
            &[("load", osds::come_and_go)],
        )
        .releases(&[Reef, Pacific, Tentacle]),
        on_embedded("osds-tools", "`ceph` sees and changes the OSDs", "--osds 3", &[("ceph", osds::tools)])
            .releases(&[Reef, Pacific, Tentacle]),
        Scenario::new(
            "restart",
            "librbd continues after a stop and a crash of a cluster with --data",
            osds::restart,
        )
        .smoke()
        .releases(&[Reef, Pacific, Tentacle]),
        Scenario::new(
            "snapshots",
            "`rados` makes, reads and removes snapshots while OSDs and the cluster stop and start",
            snapshots::of_pools,
        )
        .releases(&[Reef, Pacific, Tentacle]),
        Scenario::new(
            "memory-limit",
            "writes wait for a full cluster and a pool at its quota",
            memory::limit,
        )
        .releases(&[Reef, Pacific, Tentacle]),
        Scenario::new("commands", "every command of Ceph's monitors is answered", commands::all)
            .releases(&[Reef, Pacific, Tentacle]),
        Scenario::new(
            "rbd-tools",
            "`rbd` prints and does what it does on real Ceph, and shares images of format 1 with ours",
            rbd::as_on_ceph,
        )
        .releases(&[Reef, Pacific, Tentacle]),
        Scenario::new(
            "prometheus",
            "Prometheus reads the metrics of our commands, and promtool accepts their format",
            metrics::prometheus,
        )
        .releases(&[Tentacle]),
        Scenario::new("documents", "every line and program of README and the guides works", documents::run),
    ]
}
