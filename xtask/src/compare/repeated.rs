//! Programs that make a number of requests and end, as a load.

use super::row::{Row, Sides};
use crate::cluster::Stage;
use crate::cluster::process::wait_measured;
use anyhow::{Context as _, Result, ensure};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Runs a line that makes that many requests, until the time is over, and fills its figures into `what`.
pub(super) fn repeated(
    stage: &Stage,
    what: Row,
    line: &str,
    ios_of_one: u64,
    seconds: u32,
    mut server_cpu: impl FnMut() -> Result<f64>,
) -> Result<Row> {
    let (start, before) = (Instant::now(), server_cpu()?);
    let (mut ios, mut client) = (0, 0.0);
    while ios == 0 || start.elapsed() < Duration::from_secs(seconds.into()) {
        let mut command = stage.ceph_command(line);
        let mut child =
            command.stdout(Stdio::null()).spawn().with_context(|| format!("cannot start {line}"))?;
        let (status, cpu) = wait_measured(&mut child)?;
        ensure!(status.success(), "`{line}` failed: {status}");
        ios += ios_of_one;
        client += cpu;
    }
    let (seconds, server) = (start.elapsed().as_secs_f64(), server_cpu()? - before);
    let an_io = |seconds: f64| Some(seconds * 1e6 / ios as f64);
    Ok(Row {
        seconds,
        ios,
        iops: ios as f64 / seconds,
        bytes_per_second: (ios * what.block_size) as f64 / seconds,
        cpu_seconds: Sides { client: Some(client), server: Some(server) },
        cpu_us_per_io: Sides { client: an_io(client), server: an_io(server) },
        ..what
    })
}
