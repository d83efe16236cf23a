//! The comparison, for people: medians of all rounds, and ratios of medians.

use super::load::Load;
use super::row::{Row, Taken};
use super::subject::{BASELINE, FLOOR, LIBRBD_CEPH, LIBRBD_OURS, OURS};

/// Prints, load by load, everybody's figures and the ratios that count.
pub(super) fn print(taken: &[Taken], loads: &[Load]) {
    for load in loads {
        Figures::head(&load.to_string());
        let all = by_name(taken.iter().filter(|taken| taken.load == *load));
        for (who, figures) in &all {
            figures.print(who);
        }
        let of = |name: &str| all.iter().find(|(who, _)| *who == name).map(|(_, figures)| figures);
        let Some(ours) = of(OURS) else { continue };
        let rows = |name: &str| -> Vec<&Row> {
            taken.iter().filter(|t| t.load == *load && t.who == name).map(|t| &t.row).collect()
        };
        for (who, _) in all.iter().filter(|(who, _)| who.starts_with(BASELINE)) {
            round_by_round("ours", who, &rows(OURS), &rows(who));
        }
        if let Some(peer) = of(LIBRBD_CEPH) {
            ratio("IOPS, ours to librbd with Ceph's OSD", ours.iops, peer.iops);
            ratio("client CPU an I/O, ours to that", ours.client, peer.client);
            ratio("server CPU an I/O, ours to that", ours.server, peer.server);
        }
        if let Some(same_server) = of(LIBRBD_OURS) {
            ratio("client CPU an I/O, ours to librbd on our server", ours.client, same_server.client);
        }
        if let Some(floor) = of(FLOOR) {
            ratio("IOPS, ours to the floor", ours.iops, floor.iops);
        }
    }
}

/// Prints the median of what each round says of one that was measured right beside another: the machine may be twice as fast a
/// round later, so that medians of each by itself say less.
pub(super) fn round_by_round(one: &str, other: &str, ours: &[&Row], theirs: &[&Row]) {
    let of_rounds = |figure: fn(&Row) -> Option<f64>| {
        median(
            ours.iter()
                .zip(theirs)
                .filter_map(|(ours, theirs)| Some(figure(ours)? / figure(theirs)?))
                .collect(),
        )
    };
    line(&format!("IOPS, {one} to {other}, round by round"), of_rounds(|row| Some(row.iops)));
    line("CPU an I/O of both ends, the same", of_rounds(Row::cpu_us_per_io));
}

/// Everybody's medians, in the order in which they were measured.
fn by_name<'a>(taken: impl Iterator<Item = &'a Taken> + Clone) -> Vec<(&'a str, Figures)> {
    let mut names: Vec<&str> = Vec::new();
    for taken in taken.clone() {
        if !names.contains(&taken.who.as_str()) {
            names.push(&taken.who);
        }
    }
    let rows_of = |who| taken.clone().filter(move |taken| taken.who == who).map(|taken| &taken.row);
    let figures = |who| Figures::median(rows_of(who));
    names.into_iter().map(|who| (who, figures(who))).collect()
}

/// One program's figures under one load. A figure that was not taken is absent.
pub(super) struct Figures {
    pub(super) iops: Option<f64>,
    bytes_per_second: Option<f64>,
    pub(super) client: Option<f64>,
    pub(super) server: Option<f64>,
    p99: Option<f64>,
}

impl Figures {
    /// The median of each figure by itself.
    pub(super) fn median<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> Self {
        let of = |figure: fn(&Row) -> Option<f64>| median(rows.clone().filter_map(figure).collect());
        Self {
            iops: of(|row| Some(row.iops)),
            bytes_per_second: of(|row| Some(row.bytes_per_second)),
            client: of(|row| row.cpu_us_per_io.client),
            server: of(|row| row.cpu_us_per_io.server),
            p99: of(|row| Some(row.latency_us.p99)),
        }
    }

    /// Prints what stands above the lines of a load.
    pub(super) fn head(load: &str) {
        let [iops, mib, client, server, p99] = ["IOPS", "MiB/s", "client us/IO", "server us/IO", "p99 us"];
        println!("\n{load:34}{iops:>10}{mib:>9}{client:>14}{server:>14}{p99:>9}");
    }

    /// Prints a line.
    pub(super) fn print(&self, who: &str) {
        println!(
            "{who:34}{}{}{}{}{}",
            self.iops(10),
            self.mib(9),
            column(self.client, 14, 2),
            column(self.server, 14, 2),
            column(self.p99, 9, 0)
        );
    }

    pub(super) fn iops(&self, width: usize) -> String {
        column(self.iops, width, 0)
    }

    pub(super) fn mib(&self, width: usize) -> String {
        column(self.bytes_per_second.map(|bytes| bytes / f64::from(1 << 20)), width, 0)
    }

    /// CPU microseconds an I/O, client and server together.
    pub(super) fn both_ends(&self, width: usize) -> String {
        column(self.cpu(), width, 2)
    }

    fn cpu(&self) -> Option<f64> {
        Some(self.client? + self.server?)
    }
}

/// The middle value, or the mean of the two in the middle.
fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let last = figures.len().checked_sub(1)?;
    Some(f64::midpoint(figures[last / 2], figures[last.div_ceil(2)]))
}

pub(super) fn ratio(what: &str, ours: Option<f64>, theirs: Option<f64>) {
    line(what, ours.zip(theirs).map(|(ours, theirs)| ours / theirs));
}

fn line(what: &str, ratio: Option<f64>) {
    if let Some(ratio) = ratio {
        println!("  {what:50}{ratio:>9.3}");
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
