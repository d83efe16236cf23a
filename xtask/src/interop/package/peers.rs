//! Programs of others that use the servers of an installed package.

use crate::cluster::{ADDRESS, Stage};
use crate::guest::{self, Guest, NFS};
use crate::interop::prometheus::{Programs, Prometheus};
use anyhow::Result;
use std::fs;

/// Where the cluster and the server of NFS tell their metrics.
const PORTS: [u16; 2] = [9719, 9720];

/// What the kernel's client does: reads the file whose sum `/tmp/sums` has, and leaves a copy.
const MOUNT: &str = "\
set -e
mount -t nfs -o \"vers=3,nolock,proto=tcp,port=2049,mountport=2049,mountproto=tcp,addr=$SERVER,mountaddr=$SERVER\" \
    \"$SERVER:/export\" /mnt
cd /mnt
sha256sum -c -s /tmp/sums
cp disk.img from-kernel.img
cd /
umount /mnt
";

/// Prometheus has what both servers tell of what was written to them.
pub(super) fn prometheus(stage: &Stage) -> Result<()> {
    let folder = guest::unpacked(&stage.cache(guest::CACHE), "prometheus", &["prometheus"])?;
    let targets = PORTS.map(|port| format!("{ADDRESS}:{port}"));
    let mut server = Prometheus::start(stage, Programs::Unpacked(folder), &targets)?;
    for name in ["onego_cluster_bytes_total", "onego_nfs_bytes_total"] {
        server.wait_for(&format!("sum({name}{{kind=\"write\"}}) >= 5e6"))?;
    }
    server.stop()
}

/// The kernel's client of NFS, in a guest, mounts the export; returns the name of the file that it leaves there.
pub(super) fn kernel(stage: &Stage) -> Result<Vec<String>> {
    let sums = fs::read_to_string(stage.path("serving"))?;
    let script = format!("SERVER={ADDRESS}\ncat > /tmp/sums <<END\n{sums}END\n{MOUNT}");
    Guest::prepare(stage, &NFS)?.run(stage, &script, &[])?;
    Ok(vec!["from-kernel.img".to_owned()])
}
