//! What servers of NBD need, for people.

use super::load::NbdLoad;
use super::subject::{BARE, DIRECT, NBDKIT, QEMU, QEMU_CEPH, QEMU_DISK, QEMU_LIBRBD, TWO_REACTORS, TakenNbd};
use crate::compare::report::{Figures, ratio, round_by_round};
use crate::compare::row::Row;
use crate::compare::subject::{BASELINE, FLOOR, LIBRBD_CEPH};

/// Prints, load by load, everybody's figures and the ratios that count. `ours` is our server's name.
pub(super) fn print(title: &str, taken: &[TakenNbd], loads: &[NbdLoad], ours: &str) {
    println!("\n==== {title} ====");
    for load in loads {
        print_load(taken.iter().filter(|taken| taken.load == *load).collect(), load, ours);
    }
}

fn print_load(taken: Vec<&TakenNbd>, load: &NbdLoad, ours: &str) {
    let rows = |who: &str| -> Vec<&Row> {
        taken.iter().filter(|taken| taken.who == who).map(|taken| &taken.row).collect()
    };
    let mut all: Vec<&str> = Vec::new();
    for taken in &taken {
        if !all.contains(&taken.who.as_str()) {
            all.push(&taken.who);
        }
    }
    let of = |who: &str| all.contains(&who).then(|| Figures::median(rows(who).into_iter()));
    Figures::head(&load.to_string());
    all.iter().for_each(|who| Figures::median(rows(who).into_iter()).print(who));
    all.iter()
        .filter(|who| who.starts_with(BASELINE))
        .for_each(|who| round_by_round("ours", who, &rows(ours), &rows(who)));
    let Some(our) = of(ours) else { return };
    for peer in [NBDKIT, QEMU, QEMU_LIBRBD, QEMU_DISK] {
        let Some(theirs) = of(peer) else { continue };
        ratio(&format!("operations, ours to {peer}"), our.iops, theirs.iops);
        ratio("operations a CPU second of the server, ours to that", theirs.server, our.server);
    }
    for peer in [QEMU_CEPH, LIBRBD_CEPH] {
        let Some(theirs) = of(peer) else { continue };
        ratio(&format!("operations, ours to {peer}"), our.iops, theirs.iops);
    }
    if let (None, Some(bare)) = (of(DIRECT), of(FLOOR)) {
        ratio("CPU of the server, to that of a bare one", our.server, bare.server);
    }
    for (hop, name) in [(FLOOR, "a bare hop"), (BARE, "a bare server of NBD")] {
        let (Some(direct), Some(hop)) = (of(DIRECT), of(hop)) else { continue };
        let both = direct.client.zip(hop.server).map(|(client, hop)| client + hop);
        ratio(&format!("CPU of the server, to ours without NBD and {name}"), our.server, both);
    }
    if let Some(two) = of(TWO_REACTORS) {
        ratio("operations a CPU second, two reactors to one", our.server, two.server);
    }
}
