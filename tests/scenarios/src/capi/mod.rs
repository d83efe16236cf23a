//! Programs that were built for librados and librbd, on our library under these names.

mod daemons;
pub(crate) mod library;
mod memory;
mod names;
mod programs;
mod python;
mod relied_on;
mod soak;

use crate::scenario::Scenario;
use onego_sandbox::Release::{Pacific, Reef, Tentacle};

/// Arguments of the embedded cluster.
const CLUSTER: &str = "--memory 1G";

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::on_embedded(
            "capi",
            "fio, QEMU, Python and C programs use our embedded cluster through our librados and librbd",
            CLUSTER,
            &[
                ("names", names::are_the_same),
                ("programs", programs::work),
                ("relied-on", |sandbox| relied_on::holds(sandbox, relied_on::PROGRAMS)),
            ],
        )
        .smoke()
        .releases(&[Pacific, Reef, Tentacle]),
        Scenario::on_real_ceph(
            "capi-real",
            "fio, QEMU, Python and C programs use a real cluster through our librados and librbd",
            &[
                ("names", names::are_the_same),
                ("programs", programs::work),
                ("relied-on", |sandbox| relied_on::holds(sandbox, relied_on::OF_CLASSES)),
            ],
        )
        .releases(&[Reef, Pacific]),
        Scenario::on_embedded(
            "capi-test-rados",
            "upstream's Python tests of librados pass on our library and our embedded cluster",
            "",
            &[("rados", python::rados)],
        )
        .smoke()
        .releases(&[Reef, Pacific]),
        Scenario::on_embedded(
            "capi-test-rbd",
            "upstream's Python tests of librbd pass on our library and our embedded cluster",
            "",
            &[("rbd", python::rbd)],
        )
        .smoke()
        .releases(&[Reef, Pacific]),
        Scenario::on_real_ceph(
            "capi-test-real",
            "upstream's Python tests of librados and librbd pass on our library and a real cluster",
            &[("rados", python::rados_on_real_ceph), ("rbd", python::rbd)],
        )
        .releases(&[Reef]),
        Scenario::on_embedded(
            "capi-daemons",
            "tgt, libvirt, rbd-fuse and helpers of Ganesha and ctdb work alike on our librados and librbd and on Ceph's",
            CLUSTER,
            daemons::CHECKS,
        )
        .releases(&[Reef]),
        Scenario::on_real_ceph(
            "capi-daemons-real",
            "the same daemons on a real cluster",
            daemons::CHECKS,
        )
        .releases(&[Reef]),
        Scenario::on_embedded(
            "capi-memcheck",
            "valgrind finds no fault with our library's use of memory under programs in C",
            CLUSTER,
            &[("memcheck", memory::under_valgrind)],
        )
        .minutes(40),
        Scenario::on_embedded(
            "capi-address-sanitizer",
            "programs in C and our library run with the address sanitizer",
            CLUSTER,
            &[("address-sanitizer", memory::with_address_sanitizer)],
        )
        .minutes(40),
        Scenario::new(
            "capi-soak",
            "fio with 8 jobs verifies an image through our librbd while OSDs restart, in constant memory",
            soak::run,
        )
        .releases(&[Reef])
        .soak(),
    ]
}
