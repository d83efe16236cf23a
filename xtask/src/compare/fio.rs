//! fio's librbd engine as the peer.

use super::load::{IMAGE_MIB, Load};
use super::row::{Latency, Row, Sides, Taken};
use crate::cluster::{Stage, process};
use crate::sh;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs::{self, File};

/// Makes an image in the pool `rbd` and writes all of it: reads of what was never written are cheap and tell nothing.
pub(super) fn fill(stage: &Stage) -> Result<()> {
    fill_image(stage, IMAGE, "--image-feature layering")
}

/// The same of another image, which is made with these options.
pub(super) fn fill_image(stage: &Stage, image: &str, options: &str) -> Result<()> {
    stage.ceph(&format!("rbd create --size {IMAGE_MIB}M {options} rbd/{image}"))?;
    fio(stage, "", image, "--name=fill --rw=write --bs=4m --iodepth=8").map(drop)
}

/// The image that is measured where there is one.
pub(super) const IMAGE: &str = "fio";

/// fio with librbd as the client of a cluster.
#[derive(Clone, Copy)]
pub(super) struct Peer<'a> {
    pub(super) stage: &'a Stage,
    pub(super) who: &'static str,
    /// What stands before the line that runs fio, to have it find another library than Ceph's.
    pub(super) prefix: &'a str,
    pub(super) image: &'a str,
    /// How long a load is measured.
    pub(super) seconds: u32,
}

impl Peer<'_> {
    /// Runs a load on the image that was [filled](fill). `server_cpu` reads the server's CPU time.
    pub(super) fn measure(self, load: &Load, mut server_cpu: impl FnMut() -> Result<f64>) -> Result<Taken> {
        let before = server_cpu()?;
        let line = format!(
            "--name=load --rw={} --bs={} --iodepth={} --thread --numjobs={} --group_reporting --time_based --runtime={}",
            load.rw, load.block_size, load.io_depth, load.jobs, self.seconds
        );
        let (report, client) = fio(self.stage, self.prefix, self.image, &line)?;
        let cpu = Sides { client: Some(client), server: Some(server_cpu()? - before) };
        Ok(Taken { who: self.who.to_owned(), load: *load, row: row(load, &report, cpu)? })
    }
}

/// Runs fio on an image.
fn fio(stage: &Stage, prefix: &str, image: &str, line: &str) -> Result<(Value, f64)> {
    let on = format!("--ioengine=rbd --clientname=admin --pool=rbd --rbdname={image}");
    run_on(stage, prefix, &format!("{line} --size={IMAGE_MIB}m {on}"))
}

/// Runs fio and returns its report, and its CPU time with that of all its threads.
pub(super) fn run(stage: &Stage, line: &str) -> Result<(Value, f64)> {
    run_on(stage, "", line)
}

fn run_on(stage: &Stage, prefix: &str, line: &str) -> Result<(Value, f64)> {
    let line = format!("{prefix}fio {line} --output-format=json --output=fio.json");
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

fn row(load: &Load, report: &Value, cpu: Sides) -> Result<Row> {
    let what = Row {
        bench: "rbd".into(),
        engine: "fio librbd".into(),
        mode: load.mode.to_string(),
        rw: load.rw.into(),
        block_size: load.block_size,
        jobs: load.jobs,
        io_depth: load.io_depth,
        ..Row::default()
    };
    filled_in(what, report, cpu)
}

/// The figures of a report, in a row that says what was measured.
pub(super) fn filled_in(what: Row, report: &Value, cpu: Sides) -> Result<Row> {
    let job = &report["jobs"][0];
    let side = &job[if what.rw.ends_with("read") { "read" } else { "write" }];
    let number = |value: &Value| value.as_f64().context("fio's report lacks a figure");
    let ios = side["total_ios"].as_u64().context("fio's report lacks total_ios")?;
    let latency = &side["clat_ns"];
    let us = |name: &str| number(&latency["percentile"][name]).map(|ns| ns / 1e3);
    let an_io = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e6 / ios as f64);
    Ok(Row {
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
        ..what
    })
}
