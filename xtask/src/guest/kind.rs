//! Kinds of guests: what is in them beyond the script, so that no guest carries what it does not use.

/// All kinds.
pub(super) const KINDS: [&Kind; 7] = [&RBD, &NBD, &NFS, &RDMA, &TCMU, &UBLK, &VIRTIO_BLK];

/// Which of Debian's kernels a guest starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Series {
    /// The one of the host's release.
    Release,
    /// The newer one of its backports.
    Backports,
}

/// What one kind of guest is made of.
pub(crate) struct Kind {
    /// What files that are kept for it are named by.
    pub(super) name: &'static str,
    /// Its kernel.
    pub(super) series: Series,
    /// Its processors. With a second one, all that is emulated costs more than twice as much: accesses that are atomic become so
    /// for the host, too, and processors wait for each other that are not there at the same time.
    pub(super) processors: u8,
    /// Modules of the kernel that are loaded, with all that they depend on. "siw" is built, since Debian leaves it out.
    pub(super) modules: &'static [&'static str],
    /// Packages that are unpacked for the guest, and not installed on the host: their services would start there.
    pub(super) packages: &'static [&'static str],
    /// Files of these packages that the guest gets, beyond the programs that a script asks for.
    pub(super) files: &'static [&'static str],
    /// The beginnings of names of libraries that programs load while they run.
    pub(super) loaded: &'static [&'static str],
}

/// The kernel's client of Ceph's block devices.
pub(crate) const RBD: Kind = Kind {
    name: "rbd",
    series: Series::Release,
    processors: 1,
    modules: &[
        "e1000",
        "crc32c_generic",
        "crc32c-intel",
        "rbd",
        "ext4",
        // What secure connections and signatures take, which nothing names as a dependency.
        "aes_generic",
        "aesni-intel",
        "cbc",
        "ccm",
        "ctr",
        "gcm",
        "ghash-generic",
        "hmac",
        "sha256_generic",
    ],
    packages: &[],
    files: &[],
    loaded: &[],
};

/// The kernel's client of NBD.
pub(crate) const NBD: Kind = Kind {
    name: "nbd",
    series: Series::Release,
    // The kernel has a queue for each connection.
    processors: 2,
    modules: &["e1000", "crc32c_generic", "crc32c-intel", "ext4", "nbd"],
    packages: &["nbd-client", "libnl-3-200", "libnl-genl-3-200"],
    files: &[],
    loaded: &[],
};

/// Disks of the machine.
pub(crate) const VIRTIO_BLK: Kind = Kind {
    name: "virtio-blk",
    series: Series::Release,
    // The kernel uses one queue for each at most.
    processors: 2,
    modules: &["e1000", "virtio_pci", "crc32c_generic", "crc32c-intel", "ext4", "virtio_blk"],
    packages: &[],
    files: &[],
    loaded: &[],
};

/// Block devices that programs serve: the kernel of Debian 12 is built without them.
pub(crate) const UBLK: Kind = Kind {
    name: "ublk",
    series: Series::Backports,
    // The kernel makes one queue for each at most.
    processors: 2,
    modules: &["e1000", "crc32c_generic", "crc32c-intel", "ext4", "ublk_drv"],
    packages: &[],
    files: &[],
    loaded: &[],
};

/// SCSI disks that programs serve: tcmu-runner for the kernel's target, which is the disk's own initiator, too.
pub(crate) const TCMU: Kind = Kind {
    name: "tcmu",
    series: Series::Release,
    processors: 1,
    modules: &["e1000", "crc32c_generic", "crc32c-intel", "ext4", "sd_mod", "target_core_user", "tcm_loop"],
    packages: &["tcmu-runner", "libtcmu2", "libnl-3-200", "libnl-genl-3-200"],
    // Without what it is linked with: the library that it is to find is the script's.
    files: &["etc/tcmu/tcmu.conf", "usr/lib/x86_64-linux-gnu/tcmu-runner/handler_rbd.so"],
    loaded: &[],
};

/// The kernel's client and server of NFS, over TCP and over RDMA by siw.
///
/// To mount takes no program: with `mount -t nfs -o nolock,vers=3,addr=...` busybox leaves everything to the kernel.
pub(crate) const NFS: Kind = Kind {
    name: "nfs",
    series: Series::Release,
    processors: 1,
    modules: &["e1000", "crc32c_generic", "crc32c-intel", "nfsv3", "nfsd", "rpcrdma", "siw"],
    packages: &["nfs-kernel-server", "rpcbind", "libtirpc3", "libtirpc-common", "libwrap0", "netbase"],
    files: &["etc/netconfig", "etc/protocols", "etc/services"],
    loaded: &[],
};

/// RDMA for programs: the drivers siw (iWARP) and rxe (RoCE), which do in software what devices do, and rdma-core. With the
/// kernel's client and server of NFS.
pub(crate) const RDMA: Kind = Kind {
    name: "rdma",
    series: Series::Release,
    processors: 1,
    modules: &[
        "e1000",
        "crc32c_generic",
        "crc32c-intel",
        // What rxe asks for by name.
        "crc32_generic",
        "nfsv3",
        "nfsd",
        "rpcrdma",
        "ib_uverbs",
        "rdma_ucm",
        "rdma_rxe",
        "siw",
    ],
    packages: &[
        "nfs-kernel-server",
        "rpcbind",
        "libtirpc3",
        "libtirpc-common",
        "libwrap0",
        "netbase",
        "ibverbs-providers",
        "libibverbs1",
        "libnl-3-200",
        "libnl-route-3-200",
        "librdmacm1",
    ],
    files: &[
        "etc/libibverbs.d/rxe.driver",
        "etc/libibverbs.d/siw.driver",
        "etc/netconfig",
        "etc/protocols",
        "etc/services",
    ],
    loaded: &[
        "usr/lib/x86_64-linux-gnu/libibverbs/librxe-",
        "usr/lib/x86_64-linux-gnu/libibverbs/libsiw-",
        "usr/lib/x86_64-linux-gnu/librdmacm.so.1",
    ],
};

/// The start of a script that starts the kernel's server on `/export`.
pub(crate) const NFSD: &str = include_str!("nfsd.sh");

/// The programs that it takes.
pub(crate) const NFSD_PROGRAMS: &[&str] = &["exportfs", "rdma", "rpc.mountd", "rpcbind"];

/// The ports where it listens: TCP, MOUNT over TCP, RDMA.
pub(crate) const NFSD_PORTS: &[u16] = &[2049, 20048, 20049];
