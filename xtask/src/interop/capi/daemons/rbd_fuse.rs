//! rbd-fuse shows the images of a pool as files.

use super::on_library::{PATIENCE, Run};
use crate::interop::steps::says;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The size that new images have, in bytes.
const SIZE: &str = "16777216";

/// Sets what new images have by an attribute of the folder, and reads it back.
const ATTRIBUTE: &str = "\
import os
os.setxattr('mnt', 'user.rbdfuse.imagesize', b'16777216')
print(os.getxattr('mnt', 'user.rbdfuse.imagesize').decode().strip('\\0'))
";

/// Images are listed, written, read, made, renamed, made larger and removed as files.
pub(super) fn mounts(run: Run<'_>) -> Result<()> {
    let stage = run.stage;
    // The device is the kernel's: a system that has it in another root has the same.
    let fuse = Path::new("/dev/fuse");
    ensure!(fuse.exists(), "this machine's kernel has no /dev/fuse");
    stage.ceph_words(&["sh", "-c", "test -e /dev/fuse || mknod /dev/fuse c 10 229"])?;
    fs::create_dir_all(stage.path("mnt"))?;
    stage.ceph("rbd create --size 8M rbd/file")?;
    stage.ceph("rbd create --size 4M rbd/other")?;
    // Debian 13's ends with SIGSEGV where options name them: libfuse frees what these have by default. The pool is the default one,
    // and the environment names the configuration.
    let mut server = run.daemon("rbd-fuse", "rbd-fuse -f mnt")?;
    server.wait_until("a mount", PATIENCE, || stage.ceph("mountpoint -q mnt").is_ok())?;
    run.has_loaded(&server)?;

    let list = || -> Result<Vec<String>> {
        Ok(stage.ceph("ls mnt")?.split_whitespace().map(str::to_owned).collect())
    };
    ensure!(list()? == ["file", "other"], "`ls` says {:?}", list()?);
    says(&stage.ceph("stat --format %s mnt/file")?, "8388608")?;
    // Its last bytes are data of the disk, too.
    stage.ceph("dd if=disk.raw of=mnt/file bs=64k skip=700 count=128 conv=notrunc,fsync status=none")?;
    stage.ceph("dd if=mnt/file of=by-fuse.raw bs=100k status=none")?;
    fs::write(stage.path("attribute.py"), ATTRIBUTE)?;
    says(&stage.ceph("python3 attribute.py")?, SIZE)?;
    stage.ceph("touch mnt/new")?;
    says(&stage.ceph("rbd info rbd/new")?, "size 16 MiB")?;
    stage.ceph("truncate --size 20M mnt/new")?;
    says(&stage.ceph("stat --format %s mnt/new")?, "20971520")?;
    stage.ceph("mv mnt/new mnt/renamed")?;
    ensure!(list()? == ["file", "other", "renamed"], "`ls` says {:?}", list()?);
    stage.ceph_fails("dd if=mnt/none of=/dev/null status=none")?;
    // It holds what it has opened by another name.
    stage.ceph_fails("rm mnt/renamed")?;
    stage.ceph("rm mnt/other")?;
    ensure!(list()? == ["file", "renamed"], "`ls` says {:?}", list()?);
    server.check_alive()?;
    stage.ceph("umount mnt")?;
    server.wait()?;

    stage.onego("--conf ceph.conf rbd export rbd/file by-onego.raw --no-progress")?;
    let mut part = Command::new("dd");
    part.arg(format!("if={}", stage.path("disk.raw").display()));
    part.args(["bs=64k", "skip=700", "count=128", "status=none"]);
    let part = crate::sh::bytes(&mut part).context("a part of the disk")?;
    for copy in ["by-fuse.raw", "by-onego.raw"] {
        ensure!(fs::read(stage.path(copy))? == part, "{copy} is not what was written");
        fs::remove_file(stage.path(copy))?;
    }
    for image in ["file", "renamed"] {
        stage.ceph(&format!("rbd rm --no-progress rbd/{image}"))?;
    }
    Ok(())
}
