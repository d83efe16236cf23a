//! fio's librbd engine as the peer.

use super::row::{Latency, Row, Sides};
use super::{IMAGE_MIB, LOADS, Load};
use crate::cluster::{Stage, process};
use crate::sh;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs::{self, File};

/// Runs every load of the comparison on a fresh image in the pool `rbd`. `server_cpu` reads the server's CPU time.
pub(crate) fn measure(
    stage: &Stage,
    who: &'static str,
    seconds: u32,
    mut server_cpu: impl FnMut() -> Result<f64>,
) -> Result<Vec<Row>> {
    stage.ceph(&format!("rbd create --size {IMAGE_MIB}M --image-feature layering rbd/fio"))?;
    // Reads of what was never written are cheap and tell nothing.
    fio(stage, "--name=fill --rw=write --bs=4m --iodepth=8")?;
    let mut rows = Vec::new();
    for load in LOADS {
        sh::step(&format!("{who}: {load}"));
        let before = server_cpu()?;
        let line = format!(
            "--name=load --rw={} --bs={} --iodepth={} --time_based --runtime={seconds}",
            load.rw, load.block_size, load.io_depth
        );
        let (report, client) = fio(stage, &line)?;
        let cpu = Sides { client: Some(client), server: Some(server_cpu()? - before) };
        rows.push(row(who, load, &report, cpu)?);
    }
    Ok(rows)
}

/// Runs fio and returns its report, and its CPU time with that of all its threads.
fn fio(stage: &Stage, line: &str) -> Result<(Value, f64)> {
    let line = format!(
        "fio {line} --size={IMAGE_MIB}m --ioengine=rbd --clientname=admin --pool=rbd --rbdname=fio \
         --output-format=json --output=fio.json"
    );
    let mut command = stage.ceph_command(&line);
    let said = stage.path("fio.out");
    let log = File::create(&said)?;
    let mut child = command.stdout(log.try_clone()?).stderr(log).spawn().context("cannot start fio")?;
    let (status, cpu) = process::wait_measured(&mut child)?;
    ensure!(status.success(), "`{line}` failed: {status}\n{}", sh::tail(&fs::read(said)?));
    let text = fs::read_to_string(stage.path("fio.json"))?;
    // Before its JSON fio may say what it thinks of the options.
    let start = text.find('{').context("fio wrote no report")?;
    Ok((serde_json::from_str(&text[start..]).context("cannot read fio's report")?, cpu))
}

fn row(who: &'static str, load: &Load, report: &Value, cpu: Sides) -> Result<Row> {
    let job = &report["jobs"][0];
    let side = &job[if load.rw.ends_with("read") { "read" } else { "write" }];
    let number = |value: &Value| value.as_f64().context("fio's report lacks a figure");
    let ios = side["total_ios"].as_u64().context("fio's report lacks total_ios")?;
    let latency = &side["clat_ns"];
    let us = |name: &str| number(&latency["percentile"][name]).map(|ns| ns / 1e3);
    let an_io = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e6 / ios as f64);
    Ok(Row {
        who,
        bench: "rbd".into(),
        engine: "fio librbd".into(),
        mode: who.into(),
        rw: load.rw.into(),
        block_size: load.block_size,
        jobs: 1,
        io_depth: load.io_depth,
        seconds: number(&side["runtime"])? / 1e3,
        ios,
        // fio ends at the first error, and then it fails.
        errors: 0,
        iops: number(&side["iops"])?,
        bytes_per_second: number(&side["bw_bytes"])?,
        latency_us: Latency {
            mean: number(&latency["mean"])? / 1e3,
            p50: us("50.000000")?,
            p99: us("99.000000")?,
            p999: us("99.900000")?,
            max: number(&latency["max"])? / 1e3,
        },
        cpu_seconds: cpu,
        cpu_us_per_io: Sides { client: an_io(cpu.client), server: an_io(cpu.server) },
    })
}
