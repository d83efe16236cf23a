//! The Debian package on systems with little more than a service manager.

use super::{file, pack};
use crate::prometheus::Prometheus;
use anyhow::Result;
use onego_sandbox::{ADDRESS, Boot, Daemon, NFS, Sandbox, cached, mirror, root, sh, workspace};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Packages besides the smallest system: `systemd-analyze`, and a program that a unit runs.
const PACKAGES: &str = "kmod,systemd";

/// Units to verify, each for something by name.
const UNITS: &str =
    "onego-cluster@kept onego-export@rbd-disk onego-map onego-map@rbd-disk onego-nfs@srv-data";

/// Time the installation and the use of the servers get.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs debootstrap in the tools' root, with the host's devices and network.
const BOOTSTRAP: &str = r#"
set -e
tools=$1 target=$2
shift 2
mount --rbind /dev "$tools/dev"
mount -t proc proc "$tools/proc"
mount -t tmpfs tmpfs "$tools/tmp"
mkdir -p "$tools$target"
mount --bind "$target" "$tools$target"
for file in hosts resolv.conf; do mount --bind "/etc/$file" "$tools/etc/$file"; done
exec chroot "$tools" debootstrap --arch=amd64 --variant=minbase "$@"
"#;

/// Mounts the export, verifies the file of `$sums` and leaves a copy.
const MOUNT: &str = "\
set -e
mount -t nfs -o \"vers=3,nolock,proto=tcp,port=2049,mountport=2049,mountproto=tcp,addr=$SERVER,mountaddr=$SERVER\" \
    \"$SERVER:/export\" /mnt
cd /mnt
echo \"$sums\" | sha256sum -c -s -
cp disk.img from-kernel.img
cd /
umount /mnt
";

/// Installs, uses and removes the package on a copy of a system. Prometheus and the kernel's NFS client use its servers.
pub(super) fn lives(sandbox: &Sandbox, suite: &str) -> Result<()> {
    // Debian 11 verifies units only where its service manager runs, and is tested without a guest.
    let is_old = suite == "bullseye";
    let (system, package) = (system(suite)?, file(&pack(sandbox)?, ".deb")?);
    sandbox.write("script", include_str!("debian.sh"))?;
    let units = if is_old { "" } else { UNITS };
    let line = format!("script {} {} {ADDRESS} {units}", system.display(), package.display());
    let mut script = Daemon::spawn("script", sandbox.host_command("sh", &line), &sandbox.path("script.out"))?;
    let serving = sandbox.path("serving");
    script.wait_until("file `serving`", PATIENCE, || serving.exists())?;
    scrape(sandbox)?;
    let left = if is_old { "" } else { mount(sandbox)? };
    script.check_alive()?;
    sandbox.write("done.new", left)?;
    fs::rename(sandbox.path("done.new"), sandbox.path("done"))?;
    script.wait()
}

/// Prometheus counts what was written to both servers.
fn scrape(sandbox: &Sandbox) -> Result<()> {
    let folder = root::unpacked(root::TOOLS_SUITE, "prometheus", "prometheus")?;
    let programs = move |sandbox: &Sandbox, line: &str| {
        sandbox.tool_daemon(&format!("{}/usr/bin/{line}", folder.display()))
    };
    // The script starts the servers with their metrics on these ports.
    let targets = [9719, 9720].map(|port| format!("{ADDRESS}:{port}"));
    let mut server = Prometheus::start(sandbox, &programs, &targets)?;
    for name in ["onego_cluster_bytes_total", "onego_nfs_bytes_total"] {
        server.wait_for(&format!("sum({name}{{kind=\"write\"}}) >= 5e6"))?;
    }
    server.stop()
}

/// Mounts the export in a guest and returns the name of the file that it leaves there.
fn mount(sandbox: &Sandbox) -> Result<&'static str> {
    let sums = sandbox.read("serving")?;
    let script = format!("SERVER={ADDRESS}\nsums='{}'\n{MOUNT}", sums.trim_end());
    let mut guest = Boot::new(sandbox, &NFS)?.check("mount", &script).start("guest")?;
    guest.check("mount")?;
    guest.power_off()?;
    Ok("from-kernel.img")
}

/// Returns a folder with the smallest system of a release and [`PACKAGES`].
pub(super) fn system(suite: &str) -> Result<PathBuf> {
    cached(&format!("roots/bare-{suite}"), PACKAGES, |folder| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--", "sh", "-c", BOOTSTRAP, "bootstrap"]).arg(root::tools()?);
        command.arg(workspace::target()?).arg(format!("--include={PACKAGES}")).arg(suite).arg(folder);
        sh::text(command.arg(mirror()?)).map(drop)
    })
}
