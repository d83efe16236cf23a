//! Programs that use a disk by vhost-user as a virtual machine would, without one: QEMU's, by libblkio.

use super::{make_disk, run};
use crate::cluster::{Embedded, Stage};
use crate::interop::disk;
use crate::interop::steps::says;
use anyhow::{Context as _, Result, ensure};
use std::fs;

/// How QEMU's programs name the disk.
const DISK: &str = "driver=virtio-blk-vhost-user,path=disk.sock,cache.direct=on";

/// What `qemu-io` does there. Requests of each line end before the next begins, but for those that are begun with `aio_`.
const WORK: &str = "write -P 7 1M 64k\nwrite -z 3M 1M\nwrite -z -u 5M 1M\ndiscard 12M 4M\naio_write -P 9 20M 1M\n\
                    aio_write -P 10 21M 1M\naio_flush\nread -P 9 20M 1M\nread -P 10 21M 1M\nread -P 7 1M 64k\n\
                    read -P 0 3M 1M\nread -P 0 5M 1M\nflush\n";

/// Lines of that which read, each of which says that its pattern is there.
const READS: usize = 5;

/// An image of our embedded cluster, and memory.
pub(crate) fn programs(stage: &Stage) -> Result<()> {
    let _cluster = Embedded::start(stage, "")?;
    make_disk(stage)?;
    stage.onego("-c ceph.conf rbd create rbd/disk --size 256M")?;
    for source in ["rbd:disk", "mem:256M"] {
        let server = Embedded::start_vhost_user(stage, "-c ceph.conf", source)?;
        copied(stage).with_context(|| source.to_owned())?;
        worked_on(stage).with_context(|| source.to_owned())?;
        server.stop()?;
    }
    Ok(())
}

/// Copies there and back, and what is there is in the image.
fn copied(stage: &Stage) -> Result<()> {
    run(stage, &format!("qemu-img convert -n -t none -f raw disk.raw --target-image-opts {DISK}"))?;
    let same = format!("qemu-img compare -T none --image-opts {DISK} driver=file,filename=disk.raw");
    says(&run(stage, &same)?, "identical")?;
    run(stage, &format!("qemu-img convert -T none --image-opts -O raw {DISK} back.raw"))?;
    disk::compare(&stage.path("disk.raw"), &stage.path("back.raw"))?;
    fs::remove_file(stage.path("back.raw"))?;
    run(stage, &format!("qemu-img bench -c 3000 -d 32 -s 4k -S 1052672 -t none --image-opts {DISK}"))
        .map(drop)
}

/// Writes, zeroes, discards and flushes, several at a time.
fn worked_on(stage: &Stage) -> Result<()> {
    fs::write(stage.path("work"), WORK)?;
    fs::write(stage.path("work.sh"), format!("qemu-io --image-opts {DISK} < work"))?;
    let said = run(stage, "/bin/sh work.sh")?;
    let read =
        said.lines().filter(|line| line.contains("read ") && line.contains(" bytes at offset")).count();
    ensure!(read == READS && !said.contains("failed"), "qemu-io: {said}");
    Ok(())
}
