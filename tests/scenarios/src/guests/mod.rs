//! Block devices of the kernel and virtual disks on our servers, in guests.

mod block;
mod krbd;
mod root;

use crate::scenario::Scenario;
use onego_sandbox::ADDRESS;
use onego_sandbox::Release::{Pacific, Reef, Tentacle};

/// Returns the scenarios with block devices in guests.
pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("block-devices-guest", "Linux uses krbd, NBD, ublk and a vhost-user disk", block::all)
            .smoke(),
        Scenario::new("krbd", "Linux 6.1 maps images of our cluster in every mode", krbd::modes),
        Scenario::new("krbd-cephx", "krbd authenticates, encrypts and signs", krbd::modes_with_key),
        Scenario::new(
            "krbd-shared",
            "krbd and our client share a clone on our cluster",
            krbd::shared_on_ours,
        ),
        Scenario::on_real_ceph("krbd-shared", "the same on a real cluster", &[("clone", krbd::shared)])
            .releases(&[Pacific, Reef]),
        Scenario::new("root-guests", "guests boot from an image over NBD and vhost-user", root::by_servers),
        Scenario::new(
            "capi-guest",
            "guests boot from an image and its snapshots by our librbd",
            root::by_librbd,
        )
        .releases(&[Pacific, Reef, Tentacle]),
        Scenario::new("tcmu-guest", "tcmu-runner serves an image as a SCSI disk by our librbd", block::scsi),
    ]
}

/// Returns a check with the functions of `steps.sh`, after lines that set variables.
pub(crate) fn script(variables: &str, check: &str) -> String {
    let steps = include_str!("steps.sh");
    format!(": ${{SERVER:={ADDRESS}}}\n{variables}\n{steps}\n{check}\nexit $result\n")
}
