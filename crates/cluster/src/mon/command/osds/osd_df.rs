//! `ceph osd df`: how full each OSD is.
//!
//! Source: ceph `src/mon/PGMap.cc`, `OSDUtilizationDumper`.

use super::groups::by_osd;
use crate::mon::command::call::{Call, CommandOutcome};
use crate::mon::monitor::Mon;
use crate::mon::osds::ids;
use crate::mon::text::{self, Left, Right, Table};
use crate::mon::usage::OsdUsage;
use onego_ceph::osdmap::WEIGHT_IN;
use serde_json::{Value, json};

/// An OSD's line.
struct Line {
    osd: i32,
    usage: OsdUsage,
    groups: usize,
    /// How full it is, in relation to the average.
    variation: f64,
    reweight: f64,
    up: &'static str,
}

fn lines(mon: &Mon, call: &Call<'_>) -> Vec<Line> {
    let (map, average) = (mon.osdmap(), call.usage.ratio());
    let counts = by_osd(map);
    ids(map)
        .map(|osd| {
            let usage = call.usage.osds.get(&osd).copied().unwrap_or_default();
            Line {
                osd,
                usage,
                groups: counts.get(&osd).copied().unwrap_or(0),
                variation: if average == 0.0 { 1.0 } else { usage.ratio() / average },
                reweight: f64::from(map.osd_weight[osd as usize]) / f64::from(WEIGHT_IN),
                up: if map.is_up(osd) { "up" } else { "down" },
            }
        })
        .collect()
}

/// The least and the greatest variation, and the standard deviation of the shares that are taken, in percent.
fn spread(lines: &[Line], average: f64) -> (f64, f64, f64) {
    let least = lines.iter().map(|line| line.variation).fold(f64::INFINITY, f64::min);
    let most = lines.iter().map(|line| line.variation).fold(0.0, f64::max);
    let squares: f64 = lines.iter().map(|line| ((line.usage.ratio() - average) * 100.0).powi(2)).sum();
    (least.min(most), most, (squares / lines.len().max(1) as f64).sqrt())
}

pub(crate) fn df(mon: &mut Mon, call: &Call<'_>) -> CommandOutcome {
    let usage = call.usage;
    let lines = lines(mon, call);
    let (least, most, deviation) = spread(&lines, usage.ratio());
    let nodes: Vec<Value> = lines
        .iter()
        .map(|line| {
            let used = line.usage.used >> 10;
            json!({
                "id": line.osd, "name": format!("osd.{}", line.osd), "type": "osd", "type_id": 0,
                "crush_weight": 1, "depth": 2, "pool_weights": {}, "reweight": line.reweight,
                "kb": line.usage.total >> 10, "kb_used": used, "kb_used_data": used,
                "kb_used_omap": 0, "kb_used_meta": 0, "kb_avail": line.usage.available() >> 10,
                "utilization": line.usage.ratio() * 100.0, "var": line.variation, "pgs": line.groups,
                "status": line.up,
            })
        })
        .collect();
    let used = usage.used >> 10;
    let json = json!({
        "nodes": nodes,
        "stray": [],
        "summary": {
            "total_kb": usage.total >> 10, "total_kb_used": used, "total_kb_used_data": used,
            "total_kb_used_omap": 0, "total_kb_used_meta": 0, "total_kb_avail": usage.available() >> 10,
            "average_utilization": usage.ratio() * 100.0, "min_var": least, "max_var": most, "dev": deviation,
        },
    });
    let deviation = if deviation == 0.0 { "0".to_owned() } else { format!("{deviation:.2}") };
    let end = format!("MIN/MAX VAR: {least:.2}/{most:.2}  STDDEV: {deviation}\n");
    Ok(call.show(&json, table(call, &lines) + &end))
}

fn table(call: &Call<'_>, lines: &[Line]) -> String {
    let headings = [
        "ID", "CLASS", "WEIGHT", "REWEIGHT", "SIZE", "RAW USE", "DATA", "OMAP", "META", "AVAIL", "%USE",
        "VAR", "PGS", "STATUS",
    ];
    let mut table = Table::new(&headings.map(|heading| (heading, Left, Right)));
    let amounts = |usage: OsdUsage| {
        let [size, used, free] = [usage.total, usage.used, usage.available()].map(text::bytes);
        let zero = text::bytes(0);
        [size, used.clone(), used, zero.clone(), zero, free, format!("{:.2}", usage.ratio() * 100.0)]
    };
    for line in lines {
        let head = [line.osd.to_string(), String::new(), "1.00000".into(), format!("{:.5}", line.reweight)];
        let tail = [format!("{:.2}", line.variation), line.groups.to_string(), line.up.to_owned()];
        table.row(head.into_iter().chain(amounts(line.usage)).chain(tail));
    }
    let total = OsdUsage { total: call.usage.total, used: call.usage.used };
    let head = [String::new(), String::new(), String::new(), "TOTAL".into()];
    table.row(head.into_iter().chain(amounts(total)));
    table.render()
}
