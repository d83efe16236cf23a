//! NBD over TLS with certificates of all kinds: GnuTLS's clients on our server, and our client on nbdkit.

use super::make_disk;
use crate::steps::{says, says_error};
use anyhow::{Context as _, Result};
use onego_sandbox::{Daemon, Sandbox, Server, disk};
use std::time::Duration;

/// Time nbdkit gets to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Port of nbdkit.
const PEER_PORT: u16 = 10811;

/// Good certificates are served and others are rejected; without TLS nothing is visible.
pub(super) fn all(sandbox: &Sandbox) -> Result<()> {
    make_disk(sandbox)?;
    sandbox.write("certificates.sh", include_str!("certificates.sh"))?;
    sandbox.tool("sh -e certificates.sh")?;
    our_server(sandbox)?;
    our_client(sandbox)
}

/// URI of our server without TLS, and with the certificates of a folder.
const CLEAR: &str = "nbd://127.0.0.1/mem";
fn sealed(folder: &str) -> String {
    format!("nbds://127.0.0.1/mem?tls-certificates={folder}")
}

fn our_server(sandbox: &Sandbox) -> Result<()> {
    let tls = "--tls-cert ours/server-cert.pem --tls-key ours/server-key.pem";
    let server = Server::nbd(sandbox, &format!("mem:256M {tls} --tls-ca ours/ca-cert.pem"))?;
    let uri = sealed("good");
    says(&sandbox.ceph(&format!("nbdinfo --no-content {uri}"))?, "with TLS")?;
    sandbox.ceph(&format!("nbdcopy --connections=4 disk.raw {uri}"))?;
    sandbox.ceph(&format!("nbdcopy {uri} sealed.raw"))?;
    disk::compare(&sandbox.path("disk.raw"), &sandbox.path("sealed.raw"))?;
    sandbox.ceph(&qemu_img("good", "compare", "driver=raw,file.driver=file,file.filename=disk.raw"))?;
    for folder in ["bare", "wrong", "expired", "distrustful"] {
        sandbox.ceph_fails(&format!("nbdinfo --no-content {}", sealed(folder)))?;
        sandbox.ceph_fails(&qemu_img(folder, "info", ""))?;
    }
    sandbox.ceph_fails(&format!("nbdinfo --no-content {CLEAR}"))?;
    sandbox.ceph_fails(&format!("qemu-img info {CLEAR}"))?;
    // The server survives all of them.
    says(&sandbox.ceph(&format!("nbdinfo --list {uri}"))?, "export=\"mem\"")?;
    server.stop()?;

    // TLS is optional, and clients need no certificate.
    let server = Server::nbd(sandbox, &format!("mem:256M {tls} --tls allow"))?;
    says(&sandbox.ceph(&format!("nbdinfo --no-content {CLEAR}"))?, "without TLS")?;
    says(&sandbox.ceph(&format!("nbdinfo --no-content {}", sealed("bare")))?, "with TLS")?;
    sandbox.ceph(&qemu_img("bare", "info", ""))?;
    server.stop()
}

/// Returns a line of `qemu-img` for the export with the files of a folder, after another image.
fn qemu_img(folder: &str, command: &str, other: &str) -> String {
    let object = format!("--object tls-creds-x509,id=tls,dir={folder},endpoint=client,verify-peer=on");
    let node = "driver=raw,file.driver=nbd,file.host=127.0.0.1,file.port=10809";
    format!("qemu-img {command} {object} --image-opts {other} {node},file.export=mem,file.tls-creds=tls")
}

/// Our client uses nbdkit, exports it again, and is rejected with unsuitable certificates.
fn our_client(sandbox: &Sandbox) -> Result<()> {
    let folder = sandbox.path("ours");
    let line = format!(
        "nbdkit -f -i 127.0.0.1 -p {PEER_PORT} --tls=require --tls-certificates={} --tls-verify-peer memory 256M",
        folder.display()
    );
    let mut server = Daemon::spawn("nbdkit", sandbox.tool_daemon(&line), &sandbox.path("nbdkit.out"))?;
    let url = |folder: &str| format!("nbds://127.0.0.1:{PEER_PORT}/?tls-certificates={folder}");
    let (good, copy) = (url("good"), format!("cp disk.raw {}", url("good")));
    server.wait_until("open port", PATIENCE, || sandbox.onego(&copy).is_ok())?;
    sandbox.onego(&format!("cp {good} back.raw"))?;
    disk::compare(&sandbox.path("disk.raw"), &sandbox.path("back.raw"))?;
    let ours = Server::nbd(sandbox, &format!("{good} --socket again.sock"))?;
    sandbox.ceph("nbdcopy nbd+unix:///?socket=again.sock again.raw")?;
    disk::compare(&sandbox.path("disk.raw"), &sandbox.path("again.raw"))?;
    ours.stop()?;
    for (folder, words) in [
        ("bare", "client-cert.pem"),
        ("wrong", "client-cert.pem"),
        ("expired", "client-cert.pem"),
        ("distrustful", "ca-cert.pem"),
        ("nosuch", "No such file"),
    ] {
        says_error(&sandbox.onego_fails(&format!("cp {} refused.raw", url(folder)))?, words)
            .context(folder)?;
    }
    let clear = format!("cp nbd://127.0.0.1:{PEER_PORT}/ refused.raw");
    says_error(&sandbox.onego_fails(&clear)?, "wants TLS")?;
    server.stop()
}
