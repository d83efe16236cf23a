//! How full pools are.

use super::scope::{Scope, Style, json};
use crate::ceph::errno::because;
use crate::failure::Failure;
use crate::output;
use onego::rados::{Cluster, PoolUsage};
use serde::Serialize;
use std::collections::BTreeMap;

/// The columns of the table; the first is aligned to the left.
const COLUMNS: [&str; 14] = [
    "POOL_NAME",
    "USED",
    "OBJECTS",
    "CLONES",
    "COPIES",
    "MISSING_ON_PRIMARY",
    "UNFOUND",
    "DEGRADED",
    "RD_OPS",
    "RD",
    "WR_OPS",
    "WR",
    "USED COMPR",
    "UNDER COMPR",
];

/// All as JSON has it.
#[derive(Serialize)]
struct Report {
    pools: Vec<PoolReport>,
    total_objects: u64,
    total_used: u64,
    total_avail: u64,
    total_space: u64,
}

/// A pool as JSON has it.
#[derive(Serialize)]
struct PoolReport {
    name: String,
    id: i64,
    size_bytes: u64,
    size_kb: u64,
    num_objects: u64,
    num_object_clones: u64,
    num_object_copies: u64,
    num_objects_missing_on_primary: u64,
    num_objects_unfound: u64,
    num_objects_degraded: u64,
    read_ops: u64,
    read_bytes: u64,
    write_ops: u64,
    write_bytes: u64,
    compress_bytes_used: u64,
    compress_under_bytes: u64,
}

pub(super) async fn show(cluster: &Cluster, scope: &Scope) -> Result<(), Failure> {
    if scope.pool.is_some() {
        scope.open_pool(cluster).await?;
    }
    let pools = cluster.pools().await.map_err(because("error listing pools"))?;
    let ids: BTreeMap<_, _> = pools.into_iter().map(|pool| (pool.name, pool.id)).collect();
    let names = scope.pool.as_ref().map_or_else(|| ids.keys().cloned().collect(), |name| vec![name.clone()]);
    let usage = cluster.pool_usage(names).await.map_err(because("error fetching pool stats"))?;
    let total = cluster.usage().await.map_err(because("error getting total cluster usage"))?;
    if scope.style()? == Style::Plain {
        let rows = usage.iter().map(|(name, usage)| row(name, usage));
        let rows: Vec<_> = std::iter::once(COLUMNS.map(str::to_owned)).chain(rows).collect();
        return output::lines(table(&rows).into_iter().chain([
            String::new(),
            format!("total_objects    {}", total.objects),
            format!("total_used       {}", bytes(total.used)),
            format!("total_avail      {}", bytes(total.available)),
            format!("total_space      {}", bytes(total.total)),
        ]));
    }
    let report = Report {
        pools: usage.iter().map(|(name, usage)| report(name, ids.get(name).copied(), usage)).collect(),
        total_objects: total.objects,
        total_used: total.used >> 10,
        total_avail: total.available >> 10,
        total_space: total.total >> 10,
    };
    output::bytes(json(&report, scope.style()?).as_bytes())
}

fn row(name: &str, usage: &PoolUsage) -> [String; COLUMNS.len()] {
    [
        name.to_owned(),
        bytes(usage.used),
        usage.objects.to_string(),
        usage.clones.to_string(),
        usage.copies.to_string(),
        usage.missing_on_primary.to_string(),
        usage.unfound.to_string(),
        usage.degraded.to_string(),
        usage.reads.0.to_string(),
        bytes(usage.reads.1 << 10),
        usage.writes.0.to_string(),
        bytes(usage.writes.1 << 10),
        bytes(usage.compressed.0),
        bytes(usage.compressed.1),
    ]
}

fn report(name: &str, id: Option<i64>, usage: &PoolUsage) -> PoolReport {
    PoolReport {
        name: name.to_owned(),
        // A pool may have gone between the two questions.
        id: id.unwrap_or(-1),
        size_bytes: usage.used,
        size_kb: usage.used.div_ceil(1 << 10),
        num_objects: usage.objects,
        num_object_clones: usage.clones,
        num_object_copies: usage.copies,
        num_objects_missing_on_primary: usage.missing_on_primary,
        num_objects_unfound: usage.unfound,
        num_objects_degraded: usage.degraded,
        read_ops: usage.reads.0,
        read_bytes: usage.reads.1 << 10,
        write_ops: usage.writes.0,
        write_bytes: usage.writes.1 << 10,
        compress_bytes_used: usage.compressed.0,
        compress_under_bytes: usage.compressed.1,
    }
}

/// Lines with columns as wide as their widest entry, two blanks apart.
fn table<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let entry = |(column, text): (usize, &String)| match column {
        0 => format!("{text:<0$}", widths[0]),
        _ => format!("{text:>0$}", widths[column]),
    };
    rows.iter().map(|row| row.iter().enumerate().map(entry).collect::<Vec<_>>().join("  ")).collect()
}

/// Bytes as Ceph prints them: at most seven characters, unless four digits before the unit need more.
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    const WIDTH: usize = 7;
    let index = (bytes.max(1).ilog2() / 10) as usize;
    let (unit, factor) = (UNITS[index], 1_u64 << (10 * index));
    if bytes.is_multiple_of(factor) {
        return format!("{} {unit}", bytes / factor);
    }
    let value = bytes as f64 / factor as f64;
    let shown = |precision: usize| format!("{value:.precision$} {unit}");
    (1..=2).rev().map(shown).find(|text| text.len() <= WIDTH).unwrap_or_else(|| shown(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_printed_as_ceph_prints_them() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1498, "1.5 KiB"),
            (139_776, "136 KiB"),
            (1_073_737_728, "1024 MiB"),
            (1 << 30, "1 GiB"),
            (10_737_418, "10 MiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_entry() {
        let rows = [["NAME", "N"], ["a", "100"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), ["NAME    N", "a     100"]);
    }
}
