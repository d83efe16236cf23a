//! A long load on our library.

use super::library::{self, environment};
use crate::embedded::osds::{trouble, wait_until_healthy};
use crate::steps::{ensure_pool, fio_without_errors};
use anyhow::{Result, ensure};
use onego_sandbox::{Daemon, Sandbox, Server, workspace};

/// Jobs of fio, and the size of each one's part of the image in MiB.
const JOBS: u32 = 8;
const PART: u32 = 8;

/// Most bytes by which fio's memory may grow from the first half of its run to the second.
const GROWTH: u64 = 8 << 20;

/// Lets many jobs of one process write and verify while OSDs restart, for 10 or 60 minutes.
pub(super) fn run(sandbox: &Sandbox) -> Result<()> {
    let seconds = if workspace::is_long() { 3600 } else { 600 };
    library::prepare(sandbox)?;
    let _cluster = Server::cluster(sandbox, "--osds 3 --pool-size 2 --memory 1G")?;
    ensure_pool(sandbox)?;
    sandbox.ceph(&format!("rbd create --size {}M rbd/soak", JOBS * PART))?;
    let line = format!(
        "env {} fio --name=soak --thread --numjobs={JOBS} --group_reporting --ioengine=rbd --clientname=admin \
         --pool=rbd --rbdname=soak --rw=randrw --bs=4k --size={PART}m --offset_increment={PART}m --iodepth=16 \
         --verify=crc32c --verify_fatal=1 --verify_backlog=1024 --time_based --runtime={seconds} \
         --output=fio.json --output-format=json",
        environment(sandbox)
    );
    let mut fio = Daemon::spawn("fio", sandbox.ceph_daemon(&line), &sandbox.path("fio.out"))?;
    let mut memory = Vec::new();
    trouble(sandbox, seconds, || {
        fio.check_alive()?;
        memory.push(fio.memory().now()?);
        Ok(())
    })?;
    fio.wait()?;
    fio_without_errors(&sandbox.read("fio.json")?)?;
    wait_until_healthy(sandbox)?;
    ensure!(memory.len() > 10, "fio's memory was read only {} times", memory.len());
    // The first value is of a process that has hardly started.
    let (early, late) = memory[1..].split_at(memory.len() / 2);
    let (early, late) = (early.iter().max(), late.iter().max());
    let is_flat = late.zip(early).is_some_and(|(late, early)| *late <= early + GROWTH);
    ensure!(is_flat, "fio's memory grows: {memory:?} bytes");
    Ok(())
}
