//! The comparison, for people.

use super::row::Row;
use super::{FLOOR, LIBRBD_CEPH, LIBRBD_OURS, Load, OURS};

/// Prints, load by load, everybody's figures and the ratios that count.
pub(crate) fn print(rows: &[Row], loads: &[Load]) {
    for load in loads {
        println!(
            "\n{:28} {:>10} {:>9} {:>12} {:>12} {:>10}",
            load.to_string(),
            "IOPS",
            "MiB/s",
            "client us/IO",
            "server us/IO",
            "p99 us"
        );
        let find = |who: &str| rows.iter().find(|row| row.who == who && row.is_of(load));
        for row in [OURS, LIBRBD_OURS, LIBRBD_CEPH, FLOOR].into_iter().filter_map(find) {
            println!(
                "{:28} {:>10.0} {:>9.0} {:>12.2} {:>12.2} {:>10.0}",
                row.who,
                row.iops,
                row.bytes_per_second / f64::from(1 << 20),
                row.cpu_us_per_io.client,
                row.cpu_us_per_io.server,
                row.latency_us.p99,
            );
        }
        if let (Some(ours), Some(peer)) = (find(OURS), find(LIBRBD_CEPH)) {
            println!("  IOPS, ours to librbd on Ceph:                 {:8.2}", ours.iops / peer.iops);
            println!("  client CPU an I/O, ours to librbd on Ceph:    {:8.3}", client(ours) / client(peer));
            println!("  server CPU an I/O, ours to Ceph's OSD:        {:8.3}", server(ours) / server(peer));
        }
        if let (Some(ours), Some(peer)) = (find(OURS), find(LIBRBD_OURS)) {
            println!("  client CPU an I/O, ours to librbd, same server: {:6.3}", client(ours) / client(peer));
        }
        if let (Some(ours), Some(floor)) = (find(OURS), find(FLOOR)) {
            println!("  IOPS, ours to the floor:                      {:8.2}", ours.iops / floor.iops);
        }
    }
}

fn client(row: &Row) -> f64 {
    row.cpu_us_per_io.client
}

fn server(row: &Row) -> f64 {
    row.cpu_us_per_io.server
}
