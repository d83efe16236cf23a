//! rbd-fuse shows the images of a pool as files.

use super::{On, PATIENCE};
use crate::steps::says;
use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;

/// Sets the size of new images by an attribute of the folder, and reads it back.
const ATTRIBUTE: &str = "\
import os
os.setxattr('mnt', 'user.rbdfuse.imagesize', b'16777216')
print(os.getxattr('mnt', 'user.rbdfuse.imagesize').decode().strip('\\0'))
";

/// Lists, writes, reads, creates, renames, resizes and removes images as files.
pub(super) fn mounts(on: On<'_>) -> Result<()> {
    let sandbox = on.sandbox;
    ensure!(Path::new("/dev/fuse").exists(), "this machine has no /dev/fuse");
    fs::create_dir_all(sandbox.path("mnt"))?;
    sandbox.ceph("rbd create --size 8M rbd/file")?;
    sandbox.ceph("rbd create --size 4M rbd/other")?;
    // Debian 13's crashes on options, because libfuse frees their default values. The pool `rbd` is the default and
    // the environment names the configuration.
    let mut server = on.daemon("rbd-fuse", "rbd-fuse -f mnt")?;
    server.wait_until("mount", PATIENCE, || sandbox.ceph("mountpoint -q mnt").is_ok())?;
    on.has_loaded(&server)?;

    let lists = |expected: &[&str]| {
        let said = sandbox.ceph("ls mnt")?;
        ensure!(said.split_whitespace().eq(expected.iter().copied()), "`ls` prints {said}");
        Ok(())
    };
    lists(&["file", "other"])?;
    says(&sandbox.ceph("stat --format %s mnt/file")?, "8388608")?;
    // The last bytes of this part are data of the disk, too.
    let part = "bs=64k skip=700 count=128 status=none";
    sandbox.ceph(&format!("dd if=disk.raw of=mnt/file {part} conv=notrunc,fsync"))?;
    sandbox.ceph("dd if=mnt/file of=by-fuse.raw bs=100k status=none")?;
    sandbox.write("attribute.py", ATTRIBUTE)?;
    says(&sandbox.ceph("python3 attribute.py")?, "16777216")?;
    sandbox.ceph("touch mnt/new")?;
    says(&sandbox.ceph("rbd info rbd/new")?, "size 16 MiB")?;
    sandbox.ceph("truncate --size 20M mnt/new")?;
    says(&sandbox.ceph("stat --format %s mnt/new")?, "20971520")?;
    sandbox.ceph("mv mnt/new mnt/renamed")?;
    lists(&["file", "other", "renamed"])?;
    sandbox.ceph_fails("dd if=mnt/none of=/dev/null status=none")?;
    // rbd-fuse holds the image open under its old name.
    sandbox.ceph_fails("rm mnt/renamed")?;
    sandbox.ceph("rm mnt/other")?;
    lists(&["file", "renamed"])?;
    server.check_alive()?;
    sandbox.ceph("umount mnt")?;
    server.wait()?;

    sandbox.onego("--conf ceph.conf rbd export rbd/file by-onego.raw --no-progress")?;
    sandbox.ceph(&format!("dd if=disk.raw of=part.raw {part}"))?;
    let part = fs::read(sandbox.path("part.raw"))?;
    for copy in ["by-fuse.raw", "by-onego.raw"] {
        ensure!(fs::read(sandbox.path(copy))? == part, "{copy} differs from what was written");
        fs::remove_file(sandbox.path(copy))?;
    }
    for image in ["file", "renamed"] {
        sandbox.ceph(&format!("rbd rm --no-progress rbd/{image}"))?;
    }
    Ok(())
}
