//! Kinds of guests: kernel, modules and packages of each, so that no guest loads what it does not use.

/// One of Debian's kernels for the tools' suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Series {
    /// The release's own, 6.1.
    Stable,
    /// The newer one of its backports, 6.12.
    Backports,
}

/// Ingredients of one kind of guest.
pub struct Kind {
    /// Name of its files in the cache.
    pub(super) name: &'static str,
    pub(super) series: Series,
    /// An emulated guest with two processors costs more than twice as much: atomic accesses become the host's.
    pub(super) processors: u8,
    /// Kernel modules, loaded with all that they depend on. `siw` is built, because Debian leaves it out.
    pub(super) modules: &'static str,
    /// Packages unpacked for the guest.
    pub(super) packages: &'static str,
    /// Files of these packages besides the programs that a test names.
    pub(super) files: &'static str,
    /// Prefixes of libraries that programs load at run time.
    pub(super) loaded: &'static str,
}

const EMPTY: Kind = Kind {
    name: "",
    series: Series::Stable,
    processors: 1,
    modules: "",
    packages: "",
    files: "",
    loaded: "",
};

/// Modules for secure connections and signatures, which nothing names as a dependency, follow `ext4`.
const RBD_MODULES: &str = "e1000 crc32c_generic crc32c-intel rbd ext4 aes_generic aesni-intel cbc ccm ctr gcm \
    ghash-generic hmac sha256_generic";

/// The kernel's Ceph block device client.
pub const RBD: Kind = Kind { name: "rbd", modules: RBD_MODULES, ..EMPTY };

/// The kernel's NBD client, which has a queue a connection and so two processors.
pub const NBD: Kind = Kind {
    name: "nbd",
    processors: 2,
    modules: "e1000 crc32c_generic crc32c-intel ext4 nbd",
    packages: NBD_PACKAGES,
    ..EMPTY
};

const NBD_PACKAGES: &str = "nbd-client libnl-3-200 libnl-genl-3-200";

/// Virtual disks, with one queue a processor.
pub const VIRTIO_BLK: Kind = Kind {
    name: "virtio-blk",
    processors: 2,
    modules: "e1000 virtio_pci crc32c_generic crc32c-intel ext4 virtio_blk",
    ..EMPTY
};

/// Block devices of every sort in one guest: krbd, NBD, ublk and a virtual disk. Debian 12's own kernel lacks ublk.
pub const UBLK: Kind = Kind {
    name: "block",
    series: Series::Backports,
    processors: 2,
    modules: "e1000 virtio_pci crc32c_generic crc32c-intel ext4 virtio_blk nbd rbd ublk_drv cbc ccm \
        ctr gcm ghash-generic hmac sha256_generic",
    packages: NBD_PACKAGES,
    ..EMPTY
};

/// SCSI disks that tcmu-runner serves to the kernel's target, with the kernel as initiator, too.
pub const TCMU: Kind = Kind {
    name: "tcmu",
    modules: "e1000 crc32c_generic crc32c-intel ext4 sd_mod target_core_user tcm_loop",
    packages: "tcmu-runner libtcmu2 libnl-3-200 libnl-genl-3-200",
    // Without the library that the handler is linked with: the test brings it.
    files: "etc/tcmu/tcmu.conf usr/lib/x86_64-linux-gnu/tcmu-runner/handler_rbd.so",
    ..EMPTY
};

/// The kernel's NFS client and server over TCP and over RDMA by siw. Mounting takes no program but busybox.
pub const NFS: Kind = Kind {
    name: "nfs",
    modules: "e1000 crc32c_generic crc32c-intel nfsv3 nfsd rpcrdma siw",
    packages: "nfs-kernel-server rpcbind libtirpc3 libtirpc-common libwrap0 netbase",
    files: "etc/netconfig etc/protocols etc/services",
    ..EMPTY
};

/// RDMA for programs: the software drivers siw (iWARP) and rxe (RoCE) with rdma-core, and the kernel's NFS.
pub const RDMA: Kind = Kind {
    name: "rdma",
    modules: "e1000 crc32c_generic crc32c-intel crc32_generic nfsv3 nfsd rpcrdma ib_uverbs rdma_ucm \
        rdma_rxe siw",
    packages: "nfs-kernel-server rpcbind libtirpc3 libtirpc-common libwrap0 netbase ibverbs-providers \
        libibverbs1 libnl-3-200 libnl-route-3-200 librdmacm1",
    files: "etc/libibverbs.d/rxe.driver etc/libibverbs.d/siw.driver etc/netconfig etc/protocols \
        etc/services",
    loaded: "usr/lib/x86_64-linux-gnu/libibverbs/librxe- usr/lib/x86_64-linux-gnu/libibverbs/libsiw- \
        usr/lib/x86_64-linux-gnu/librdmacm.so.1",
    ..EMPTY
};

/// All kinds.
pub(super) const KINDS: [&Kind; 7] = [&RBD, &NBD, &NFS, &RDMA, &TCMU, &UBLK, &VIRTIO_BLK];

/// Start of a script that starts the kernel's NFS server on `/export`.
pub const NFSD: &str = include_str!("nfsd.sh");

/// Programs of [`NFSD`].
pub const NFSD_PROGRAMS: &[&str] = &["exportfs", "rdma", "rpc.mountd", "rpcbind"];

/// Ports of [`NFSD`]: NFS over TCP, MOUNT over TCP, NFS over RDMA.
pub const NFSD_PORTS: &[u16] = &[2049, 20048, 20049];
