//! The comparison, for people.

use super::row::Row;
use super::{FLOOR, LIBRBD_CEPH, LIBRBD_OURS, Load, OURS};

/// Prints, load by load, everybody's figures and the ratios that count.
pub(crate) fn print(rows: &[Row], loads: &[Load]) {
    for load in loads {
        let find = |who: &str| rows.iter().find(|row| row.who == who && row.is_of(load));
        println!(
            "\n{:28}{:>10}{:>9}{:>14}{:>14}{:>9}",
            load.to_string(),
            "IOPS",
            "MiB/s",
            "client us/IO",
            "server us/IO",
            "p99 us"
        );
        for row in [OURS, LIBRBD_OURS, LIBRBD_CEPH, FLOOR].into_iter().filter_map(find) {
            println!(
                "{:28}{:>10.0}{:>9.0}{}{}{:>9.0}",
                row.who,
                row.iops,
                row.bytes_per_second / f64::from(1 << 20),
                column(client(row)),
                column(server(row)),
                row.latency_us.p99,
            );
        }
        let (ours, floor) = (find(OURS), find(FLOOR));
        let (peer, same_server) = (find(LIBRBD_CEPH), find(LIBRBD_OURS));
        ratio("IOPS, ours to librbd with Ceph's OSD", ours.map(iops), peer.map(iops));
        ratio("client CPU an I/O, ours to that", ours.and_then(client), peer.and_then(client));
        ratio("server CPU an I/O, ours to that", ours.and_then(server), peer.and_then(server));
        ratio(
            "client CPU an I/O, ours to librbd on our server",
            ours.and_then(client),
            same_server.and_then(client),
        );
        ratio("IOPS, ours to the floor", ours.map(iops), floor.map(iops));
    }
}

fn ratio(what: &str, ours: Option<f64>, theirs: Option<f64>) {
    if let (Some(ours), Some(theirs)) = (ours, theirs) {
        println!("  {what:50}{:>9.3}", ours / theirs);
    }
}

fn column(figure: Option<f64>) -> String {
    figure.map_or_else(|| format!("{:>14}", "-"), |figure| format!("{figure:>14.2}"))
}

fn iops(row: &Row) -> f64 {
    row.iops
}

fn client(row: &Row) -> Option<f64> {
    row.cpu_us_per_io.client
}

fn server(row: &Row) -> Option<f64> {
    row.cpu_us_per_io.server
}
