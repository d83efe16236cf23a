//! Block devices of the kernel and virtual disks on our servers, in guests.

mod block;
mod krbd;
mod library;
mod root;

use crate::scenario::Scenario;
use onego_sandbox::ADDRESS;
use onego_sandbox::Release::{Pacific, Reef, Tentacle};

/// Returns the scenarios with block devices in guests.
pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "block-devices-guest",
            "Linux 6.12 uses krbd, NBD, ublk and a vhost-user disk",
            block::all,
        )
        .smoke(),
        Scenario::new("krbd", "Linux 6.1 maps images of our cluster in every mode", krbd::modes),
        Scenario::new("krbd-cephx", "krbd authenticates, encrypts and signs", krbd::modes_with_key),
        Scenario::on_embedded(
            "krbd-shared",
            "krbd and our client share a clone on our cluster",
            "",
            &[("turns", krbd::shared)],
        ),
        Scenario::on_real_ceph(
            "krbd-shared",
            "krbd and our client share a clone on a real cluster",
            &[("turns", krbd::shared)],
        )
        .releases(&[Pacific, Reef]),
        Scenario::on_embedded(
            "root-guests",
            "a guest boots from an image of our cluster over NBD and vhost-user",
            "",
            &[("nbd", root::by_nbd), ("vhost-user", root::by_vhost_user)],
        ),
        Scenario::new(
            "capi-guest",
            "a guest boots from an image and its snapshots by our librbd",
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
