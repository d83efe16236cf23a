//! A load that lasts, on our library.

use super::library::{self, environment};
use crate::cluster::process::Daemon;
use crate::cluster::{Embedded, Stage};
use crate::interop::embedded::osds::{trouble, wait_until_healthy};
use crate::interop::steps::{ensure_pool, fio_without_errors};
use crate::long;
use anyhow::{Result, ensure};
use std::fs;

/// How long it lasts: ten minutes, and in the long form an hour.
const SECONDS: u32 = 600;
const LONG_SECONDS: u32 = 3600;

/// Jobs of fio, each with a part of the image, in MiB.
const JOBS: u32 = 8;
const PART: u32 = 8;

/// What fio's process may grow by from the first half of its run to the second, in bytes.
const GROWTH: u64 = 8 << 20;

/// Many jobs of one process write and verify while OSDs of our embedded cluster go and come back, and their memory does not grow.
pub(in crate::interop) fn run(stage: &Stage) -> Result<()> {
    let seconds = if long::is_wanted() { LONG_SECONDS } else { SECONDS };
    library::prepare(stage)?;
    let _cluster = Embedded::start(stage, "--osds 3 --pool-size 2 --memory 1G")?;
    ensure_pool(stage)?;
    stage.ceph(&format!("rbd create --size {}M rbd/soak", JOBS * PART))?;
    let line = format!(
        "env {} fio --name=soak --thread --numjobs={JOBS} --group_reporting --ioengine=rbd --clientname=admin --pool=rbd \
         --rbdname=soak --rw=randrw --bs=4k --size={PART}m --offset_increment={PART}m --iodepth=16 --verify=crc32c \
         --verify_fatal=1 --verify_backlog=1024 --time_based --runtime={seconds} --output=fio.json --output-format=json",
        environment(stage)
    );
    let mut fio = Daemon::spawn("fio", stage.ceph_daemon(&line), &stage.path("fio.out"))?;
    let mut memory = Vec::new();
    trouble(stage, seconds, || {
        fio.check_alive()?;
        memory.push(fio.memory()?);
        Ok(())
    })?;
    fio.wait()?;
    fio_without_errors(&fs::read_to_string(stage.path("fio.json"))?)?;
    wait_until_healthy(stage)?;
    // The first look is at a process that has hardly begun.
    let (early, late) = memory[1..].split_at(memory.len() / 2);
    let (early, late) = (early.iter().max(), late.iter().max());
    let grows = late.zip(early).is_none_or(|(late, early)| *late > early + GROWTH);
    ensure!(!grows && memory.len() > 10, "fio's memory grows, or was hardly looked at: {memory:?}");
    Ok(())
}
