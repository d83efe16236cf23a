//! Clients that put a load on a server, with their CPU time: `onego bench`, fio, and programs that run repeatedly.

use crate::row::{FLOOR, Latency, Load, Row, Sides};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{Sandbox, sh, wait_measured};
use serde_json::Value;
use std::fs::{self, File};
use std::process::Command;
use std::time::{Duration, Instant};

/// Size of the images that fio and `onego bench` measure.
pub(crate) const IMAGE_MIB: u64 = 1024;

/// Image that fio measures where there is one.
pub(crate) const IMAGE: &str = "fio";

/// Runs a line of `onego bench`; names its rows `who`, and those of bare sockets [`FLOOR`].
pub(crate) fn onego_bench(sandbox: &Sandbox, who: &str, line: &str) -> Result<Vec<Row>> {
    sandbox.onego(&format!("{line} --json rows.json"))?;
    let mut rows = Vec::new();
    for line in sandbox.read("rows.json")?.lines() {
        let row: Row = serde_json::from_str(line).with_context(|| format!("cannot parse row {line}"))?;
        let who = if row.is_floor() { FLOOR } else { who };
        rows.push(Row { who: who.to_owned(), ..row });
    }
    ensure!(rows.iter().any(|row| row.who == who), "`onego {line}` wrote no row of its own");
    Ok(rows)
}

/// fio with a device that it reads and writes.
pub(crate) struct Fio<'a> {
    pub(crate) sandbox: &'a Sandbox,
    /// Start of the line, such as `env NAME=VALUE`.
    pub(crate) prefix: &'a str,
    pub(crate) device: String,
}

impl<'a> Fio<'a> {
    /// An image in the pool `rbd`, by librbd.
    pub(crate) fn rbd(sandbox: &'a Sandbox, image: &str) -> Self {
        let size = format!("--size={IMAGE_MIB}m --thread");
        let device = format!("--ioengine=rbd --clientname=admin --pool=rbd --rbdname={image} {size}");
        Self { sandbox, prefix: "", device }
    }

    /// An NBD export of `size` bytes.
    pub(crate) fn nbd(sandbox: &'a Sandbox, uri: &str, size: u64) -> Self {
        let random = "--norandommap --randrepeat=0";
        Self { sandbox, prefix: "", device: format!("--ioengine=nbd --uri={uri} --size={size} {random}") }
    }

    /// Writes the whole device: reads of unwritten blocks cost less.
    pub(crate) fn fill(&self) -> Result<()> {
        self.run("--name=fill --rw=write --bs=1m --iodepth=8").map(drop)
    }

    /// Measures a load and returns `row` with its figures. `server_cpu` returns the server's CPU time so far.
    pub(crate) fn measure(
        &self,
        row: Row,
        load: &Load,
        mut server_cpu: impl FnMut() -> Result<f64>,
    ) -> Result<Row> {
        let before = server_cpu()?;
        let line = format!("--name=load {} --group_reporting --time_based", load.options());
        let (report, client) = self.run(&line)?;
        let cpu = Sides { client: Some(client), server: Some(server_cpu()? - before) };
        let side = &report["jobs"][0][if row.rw.ends_with("read") { "read" } else { "write" }];
        let number = |value: &Value| value.as_f64().context("fio's report lacks a figure");
        let ios = side["total_ios"].as_u64().context("fio's report lacks total_ios")?;
        let latency = &side["clat_ns"];
        let us = |value: &Value| number(value).map(|ns| ns / 1e3);
        let latency_us = Latency {
            mean: us(&latency["mean"])?,
            p50: us(&latency["percentile"]["50.000000"])?,
            p99: us(&latency["percentile"]["99.000000"])?,
            p999: us(&latency["percentile"]["99.900000"])?,
            max: us(&latency["max"])?,
        };
        // fio fails at the first I/O error, so there are none.
        Ok(Row { latency_us, ..row.counted(number(&side["runtime"])? / 1e3, ios, cpu) })
    }

    /// Runs fio; returns its report and its CPU seconds.
    fn run(&self, line: &str) -> Result<(Value, f64)> {
        let Self { sandbox, prefix, device } = self;
        let line = format!("{prefix} fio {line} {device} --output-format=json --output=fio.json");
        let cpu = run_measured(sandbox, sandbox.ceph_daemon(&line))?;
        let text = sandbox.read("fio.json")?;
        // Notes on options may precede the report.
        let start = text.find('{').context("fio wrote no report")?;
        Ok((serde_json::from_str(&text[start..]).context("cannot parse fio's report")?, cpu))
    }
}

/// Measures a line of a program that makes `ios` requests and ends, again and again until the load's time is over.
pub(crate) fn repeated(
    sandbox: &Sandbox,
    row: Row,
    load: &Load,
    (line, ios): (&str, u64),
    mut server_cpu: impl FnMut() -> Result<f64>,
) -> Result<Row> {
    let (start, before) = (Instant::now(), server_cpu()?);
    let (mut runs, mut client) = (0, 0.0);
    while runs == 0 || start.elapsed() < Duration::from_secs(load.seconds.into()) {
        client += run_measured(sandbox, sandbox.ceph_daemon(line))?;
        runs += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    let cpu = Sides { client: Some(client), server: Some(server_cpu()? - before) };
    Ok(row.counted(seconds, runs * ios, cpu))
}

/// Returns a line of `qemu-img bench` on `disk` and its number of requests, none next to the one before.
pub(crate) fn qemu_img_bench(load: &Load, disk: &str) -> (String, u64) {
    let Load { rw, block_size, io_depth, .. } = load;
    // Tenths of a second: the program starts in hundredths.
    let ios = if *io_depth == 1 { 10_000 } else { (1 << 30) / block_size.max(&(32 << 10)) };
    let (write, step) = (if *rw == "write" { "-w" } else { "" }, (1 << 20) + block_size);
    let blocks = format!("-c {ios} -d {io_depth} -s {block_size} -S {step}");
    (format!("qemu-img bench {write} {blocks} -t none {disk}"), ios)
}

/// Runs a command of a sandbox to its end and returns its CPU seconds, those of all its processes included.
pub(crate) fn run_measured(sandbox: &Sandbox, mut command: Command) -> Result<f64> {
    let path = sandbox.path("load.out");
    let log = File::create(&path)?;
    let child = command.stdout(log.try_clone()?).stderr(log).spawn();
    let mut child = child.with_context(|| format!("cannot start `{}`", sh::line(&command)))?;
    let (status, cpu) = wait_measured(&mut child)?;
    ensure!(status.success(), "`{}` failed: {status}\n{}", sh::line(&command), sh::tail(&fs::read(path)?));
    Ok(cpu)
}
