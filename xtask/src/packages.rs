//! The Debian packages that the tests need.

use crate::sh;
use anyhow::{Result, bail};
use std::env::consts::ARCH;
use std::process::Command;

/// A program that the tests run, or a file by its path (`ARCH` in it stands for the processor's name), and the package
/// that has it.
struct Need {
    program: &'static str,
    package: &'static str,
}

const NEEDS: &[Need] = &[
    Need { program: "/usr/lib/ARCH-linux-gnu/qemu/block-rbd.so", package: "qemu-block-extra" },
    Need { program: "busybox", package: "busybox-static" },
    Need { program: "ceph", package: "ceph-common" },
    Need { program: "ceph-mon", package: "ceph-mon" },
    Need { program: "ceph-osd", package: "ceph-osd" },
    Need { program: "crushtool", package: "ceph-base" },
    Need { program: "cryptsetup", package: "cryptsetup-bin" },
    Need { program: "debootstrap", package: "debootstrap" },
    Need { program: "depmod", package: "kmod" },
    Need { program: "dnsmasq", package: "dnsmasq-base" },
    Need { program: "fio", package: "fio" },
    Need { program: "/usr/include/nfsc/libnfs.h", package: "libnfs-dev" },
    Need { program: "/usr/include/rdma/rdma_cma.h", package: "librdmacm-dev" },
    Need { program: "/usr/lib/ARCH-linux-gnu/ganesha/libfsalmem.so", package: "nfs-ganesha-mem" },
    Need { program: "ganesha.nfsd", package: "nfs-ganesha" },
    Need { program: "gcc-12", package: "gcc-12" },
    Need { program: "ip", package: "iproute2" },
    Need { program: "make", package: "make" },
    Need { program: "mke2fs", package: "e2fsprogs" },
    Need { program: "monmaptool", package: "ceph-common" },
    Need { program: "nbdinfo", package: "libnbd-bin" },
    Need { program: "/usr/lib/python3/dist-packages/nbd.py", package: "python3-libnbd" },
    Need { program: "nbdkit", package: "nbdkit" },
    Need { program: "nfs-ls", package: "libnfs-utils" },
    Need { program: "nsenter", package: "util-linux" },
    Need { program: "openssl", package: "openssl" },
    Need { program: "osdmaptool", package: "ceph-base" },
    Need { program: "qemu-img", package: "qemu-utils" },
    Need { program: "qemu-system-x86_64", package: "qemu-system-x86" },
    Need { program: "rados", package: "ceph-common" },
    Need { program: "rbd", package: "ceph-common" },
    Need { program: "rpcbind", package: "rpcbind" },
    Need { program: "setfacl", package: "acl" },
    Need { program: "strip", package: "binutils" },
    Need { program: "tshark", package: "tshark" },
    Need { program: "valgrind", package: "valgrind" },
    Need { program: "xz", package: "xz-utils" },
];

/// Makes sure that every program is there: installs what is missing when run as root on Debian, and otherwise
/// names it.
pub(crate) fn ensure() -> Result<()> {
    let is_missing = |need: &&Need| !sh::have(&need.program.replace("ARCH", ARCH));
    let mut missing: Vec<_> = NEEDS.iter().filter(is_missing).map(|need| need.package).collect();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    if !is_root()? || !sh::have("apt-get") {
        bail!("the tests need these Debian packages: {names} (as root on Debian they are installed for you)");
    }
    sh::step(&format!("installing {names}"));
    update()
        .and_then(|()| {
            apt(&[&["install", "--quiet", "--yes", "--no-install-recommends"], &missing[..]].concat())
        })
        .map_err(|error| error.context(format!("the tests need these Debian packages: {names}")))
}

/// Fetches the lists of packages.
pub(crate) fn update() -> Result<()> {
    apt(&["update", "--quiet"])
}

fn apt(arguments: &[&str]) -> Result<()> {
    sh::run(Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Are we root?
pub(crate) fn is_root() -> Result<bool> {
    Ok(sh::text(Command::new("id").arg("-u"))?.trim() == "0")
}
