//! The comparison, for people: medians of all rounds, and ratios of medians.

use super::row::Row;
use super::{FLOOR, LIBRBD_CEPH, LIBRBD_OURS, Load, OURS};

/// Prints, load by load, everybody's figures and the ratios that count.
pub(crate) fn print(rows: &[Row], loads: &[Load]) {
    for load in loads {
        println!(
            "\n{:28}{:>10}{:>9}{:>14}{:>14}{:>9}",
            load.to_string(),
            "IOPS",
            "MiB/s",
            "client us/IO",
            "server us/IO",
            "p99 us"
        );
        let [ours, same_server, peer, floor] = [OURS, LIBRBD_OURS, LIBRBD_CEPH, FLOOR].map(|who| {
            let figures = Figures::median(rows.iter().filter(|row| row.who == who && row.is_of(load)));
            figures.print(who);
            figures
        });
        ratio("IOPS, ours to librbd with Ceph's OSD", ours.iops, peer.iops);
        ratio("client CPU an I/O, ours to that", ours.client, peer.client);
        ratio("server CPU an I/O, ours to that", ours.server, peer.server);
        ratio("client CPU an I/O, ours to librbd on our server", ours.client, same_server.client);
        ratio("IOPS, ours to the floor", ours.iops, floor.iops);
    }
}

/// One program's figures under one load. A figure that was not taken is absent.
struct Figures {
    iops: Option<f64>,
    bytes_per_second: Option<f64>,
    client: Option<f64>,
    server: Option<f64>,
    p99: Option<f64>,
}

impl Figures {
    /// The median of each figure by itself.
    fn median<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> Self {
        let of = |figure: fn(&Row) -> Option<f64>| median(rows.clone().filter_map(figure).collect());
        Self {
            iops: of(|row| Some(row.iops)),
            bytes_per_second: of(|row| Some(row.bytes_per_second)),
            client: of(|row| row.cpu_us_per_io.client),
            server: of(|row| row.cpu_us_per_io.server),
            p99: of(|row| Some(row.latency_us.p99)),
        }
    }

    fn print(&self, who: &str) {
        let mib = self.bytes_per_second.map(|bytes| bytes / f64::from(1 << 20));
        println!(
            "{who:28}{}{}{}{}{}",
            column(self.iops, 10, 0),
            column(mib, 9, 0),
            column(self.client, 14, 2),
            column(self.server, 14, 2),
            column(self.p99, 9, 0)
        );
    }
}

/// The middle value, or the mean of the two in the middle.
fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let last = figures.len().checked_sub(1)?;
    Some(f64::midpoint(figures[last / 2], figures[last.div_ceil(2)]))
}

fn ratio(what: &str, ours: Option<f64>, theirs: Option<f64>) {
    if let (Some(ours), Some(theirs)) = (ours, theirs) {
        println!("  {what:50}{:>9.3}", ours / theirs);
    }
}

fn column(figure: Option<f64>, width: usize, decimals: usize) -> String {
    figure.map_or_else(|| format!("{:>width$}", "-"), |figure| format!("{figure:>width$.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn a_median_is_the_middle_or_between_the_two_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0, 9.0, 2.0]), Some(3.0));
    }
}
