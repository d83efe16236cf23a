//! TLS of NBD, with certificates of all kinds: clients of GnuTLS on our server, and ours on a server of GnuTLS.

use super::{make_disk, run};
use crate::cluster::process::Daemon;
use crate::cluster::{Embedded, Stage};
use crate::interop::disk;
use crate::interop::steps::says;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::time::Duration;

/// An authority's files, and a key with its certificate, as GnuTLS's clients look for them in a folder.
const AUTHORITY: &str = "ca-cert.pem";
const CLIENT: &str = "client-cert.pem";
const CLIENT_KEY: &str = "client-key.pem";
/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

/// Good certificates are served, and others are not; without TLS there is nothing to be seen.
pub(crate) fn clients(stage: &Stage) -> Result<()> {
    make_disk(stage)?;
    let (ours, other) = (Authority::new(stage, "ours")?, Authority::new(stage, "other")?);
    ours.sign("server", 2)?;
    ours.client("good", &ours, 2)?;
    ours.client("expired", &ours, -1)?;
    ours.client("wrong", &other, 2)?;
    other.client("distrustful", &ours, 2)?;
    fs::create_dir(stage.path("bare"))?;
    fs::copy(stage.path("ours").join(AUTHORITY), stage.path("bare").join(AUTHORITY))?;

    let tls = "--tls-cert ours/server-cert.pem --tls-key ours/server-key.pem";
    let server = Embedded::start_nbd(stage, "", &format!("mem:256M {tls} --tls-ca ours/{AUTHORITY}"))?;
    let uri = uri("good");
    says(&run(stage, &format!("nbdinfo {uri}"))?, "with TLS")?;
    run(stage, &format!("nbdcopy --connections=4 disk.raw {uri}"))?;
    run(stage, &format!("nbdcopy {uri} sealed.raw"))?;
    disk::compare(&stage.path("disk.raw"), &stage.path("sealed.raw"))?;
    fs::remove_file(stage.path("sealed.raw"))?;
    qemu(stage, "good", "compare driver=raw,file.driver=file,file.filename=disk.raw")?;
    for who in ["bare", "wrong", "expired", "distrustful"] {
        ensure!(run(stage, &format!("nbdinfo {}", self::uri(who))).is_err(), "nbdinfo was served as {who}");
        ensure!(qemu(stage, who, "info").is_err(), "QEMU was served as {who}");
    }
    let clear = "nbd://127.0.0.1/mem";
    ensure!(run(stage, &format!("nbdinfo {clear}")).is_err(), "nbdinfo was served without TLS");
    ensure!(run(stage, &format!("qemu-img info {clear}")).is_err(), "QEMU was served without TLS");
    // It serves on after all of them.
    says(&run(stage, &format!("nbdinfo --list {uri}"))?, "export=\"mem\"")?;
    server.stop()?;

    // Everybody is served, and those are by TLS that want to be.
    let server = Embedded::start_nbd(stage, "", &format!("mem:256M {tls} --tls allow"))?;
    says(&run(stage, &format!("nbdinfo {clear}"))?, "without TLS")?;
    says(&run(stage, &format!("nbdinfo {}", self::uri("bare")))?, "with TLS")?;
    qemu(stage, "bare", "info")?;
    server.stop()?;
    our_client(stage)
}

/// Where the server of GnuTLS listens.
const PEER_PORT: u16 = 10811;

/// Our client uses nbdkit by TLS, serves it on, and is refused where its certificates do not do.
fn our_client(stage: &Stage) -> Result<()> {
    let folder = stage.path("ours");
    let arguments = format!(
        "-f -i 127.0.0.1 -p {PEER_PORT} --tls=require --tls-certificates={} --tls-verify-peer memory 256M",
        folder.display()
    );
    let command = stage.program("nbdkit".as_ref(), &arguments);
    let mut server = Daemon::spawn("nbdkit", command, &stage.path("nbdkit.out"))?;
    let url = |folder: &str| format!("nbds://127.0.0.1:{PEER_PORT}/?tls-certificates={folder}");
    let (good, copy) = (url("good"), format!("cp disk.raw {}", url("good")));
    server.wait_until("its port", PATIENCE, || stage.onego(&copy).is_ok())?;
    stage.onego(&format!("cp {good} back.raw"))?;
    disk::compare(&stage.path("disk.raw"), &stage.path("back.raw"))?;
    let ours = Embedded::start_nbd(stage, "", &format!("{good} --socket again.sock"))?;
    run(stage, "nbdcopy nbd+unix:///?socket=again.sock again.raw")?;
    disk::compare(&stage.path("disk.raw"), &stage.path("again.raw"))?;
    ours.stop()?;
    for (who, words) in [
        ("bare", "client-cert.pem"),
        ("wrong", "client-cert.pem"),
        ("expired", "client-cert.pem"),
        ("distrustful", "ca-cert.pem"),
        ("nosuch", "No such file"),
    ] {
        let refused = stage.onego_fails(&format!("cp {} refused.raw", url(who)))?;
        says(&String::from_utf8_lossy(&refused.stderr), words).with_context(|| who.to_owned())?;
    }
    let clear = stage.onego_fails(&format!("cp nbd://127.0.0.1:{PEER_PORT}/ refused.raw"))?;
    says(&String::from_utf8_lossy(&clear.stderr), "wants TLS")?;
    server.stop()
}

fn uri(folder: &str) -> String {
    format!("nbds://127.0.0.1/mem?tls-certificates={folder}")
}

/// Has `qemu-img` use the export with the files of a folder. What it does with other images is said by their options, too.
fn qemu(stage: &Stage, folder: &str, what: &str) -> Result<String> {
    let (command, others) = what.split_once(' ').unwrap_or((what, ""));
    let object = format!("--object tls-creds-x509,id=tls,dir={folder},endpoint=client,verify-peer=on");
    let node = "driver=raw,file.driver=nbd,file.host=127.0.0.1,file.port=10809";
    let image = format!("{node},file.export=mem,file.tls-creds=tls");
    run(stage, &format!("qemu-img {command} {object} --image-opts {others} {image}"))
}

/// Signs certificates, in a folder of its own.
struct Authority<'a> {
    stage: &'a Stage,
    name: &'static str,
}

impl<'a> Authority<'a> {
    fn new(stage: &'a Stage, name: &'static str) -> Result<Self> {
        fs::create_dir(stage.path(name))?;
        let files = format!("-keyout {name}/ca-key.pem -out {name}/{AUTHORITY}");
        stage.host(&format!("openssl req -x509 {NEW_KEY} {files} -days 2 -subj /CN={name}"))?;
        Ok(Self { stage, name })
    }

    /// A key and a certificate for this machine, as `WHAT-key.pem` and `WHAT-cert.pem`, good for `days` days.
    fn sign(&self, what: &str, days: i32) -> Result<()> {
        let Self { stage, name } = self;
        let names = "-subj /CN=onego -addext subjectAltName=IP:127.0.0.1";
        let files = format!("-keyout {name}/{what}-key.pem -out {name}/{what}.csr");
        stage.host(&format!("openssl req -new {NEW_KEY} {files} {names}"))?;
        let authority = format!("-CA {name}/{AUTHORITY} -CAkey {name}/ca-key.pem -copy_extensions copy");
        let files = format!("-in {name}/{what}.csr -out {name}/{what}-cert.pem");
        stage.host(&format!("openssl x509 -req {authority} {files} -days {days}")).map(drop)
    }

    /// A folder for a client that trusts this authority, with a certificate that another or the same has signed.
    fn client(&self, folder: &str, signer: &Self, days: i32) -> Result<()> {
        signer.sign("client", days)?;
        let to = self.stage.path(folder);
        fs::create_dir(&to)?;
        fs::copy(self.stage.path(self.name).join(AUTHORITY), to.join(AUTHORITY))?;
        for file in [CLIENT, CLIENT_KEY] {
            fs::copy(self.stage.path(signer.name).join(file), to.join(file))?;
        }
        Ok(())
    }
}
