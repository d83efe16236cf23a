//! Our NFS client and server with those of the kernel and of others.

mod devices;
mod kernel;
mod peers;
mod pjdfstest;

use crate::scenario::Scenario;

/// Returns the scenarios with NFS.
pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("rdma-devices", "our RDMA provider and NFS work over siw and rxe", devices::all),
        Scenario::new("nfs-kernel-client", "Linux mounts our server over TCP and RDMA", kernel::on_memory)
            .smoke(),
        Scenario::new(
            "nfs-kernel-directory",
            "Linux mounts a directory, also across restarts",
            kernel::on_directory,
        )
        .smoke()
        .root(),
        Scenario::new("nfs-knfsd", "our client uses Linux's server over TCP and RDMA", kernel::our_client),
        Scenario::new("nfs-kernel-kernel", "Linux mounts Linux's server", kernel::on_kernel),
        Scenario::new("nfs-pjdfstest", "our server in memory passes pjdfstest", pjdfstest::on_memory),
        Scenario::new(
            "nfs-pjdfstest-directory",
            "a served directory passes pjdfstest",
            pjdfstest::on_directory,
        )
        .root(),
        Scenario::new("nfs-libnfs", "libnfs's programs use our server", peers::libnfs),
        Scenario::new("nfs-ganesha", "our client uses nfs-ganesha", peers::ganesha),
        Scenario::new("nfs-tshark", "tshark decodes our client and server over RDMA", peers::tshark),
    ]
}
