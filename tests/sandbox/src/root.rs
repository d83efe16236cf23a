//! Private roots: Debian systems with Ceph's programs and all other tools, below `target/roots`.
//!
//! Packages are unpacked, not installed: no maintainer script runs, no service starts, and the host's package database
//! is untouched. That needs no rights and takes about 20 s a release.

use crate::apt::{Apt, unpack};
use crate::{cached, sh, workspace};
use anyhow::{Context as _, Result};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// A release of Ceph, in the Debian release that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// 16.2, in Debian 12.
    Pacific,
    /// 18.2, in Debian 13.
    Reef,
    /// 20.2, in Debian 14.
    Tentacle,
}

/// Packages of any usable system.
const BASE: &str = "base-files base-passwd bash coreutils dash findutils grep gzip hostname iproute2 libc-bin mawk \
    mount netbase procps sed tar util-linux";

/// Ceph and its clients, in every release.
const CEPH: &str = "ceph-base ceph-common ceph-mon ceph-osd fio libnbd-bin python3-libnbd python3-pytest \
    python3-rados python3-rbd qemu-block-extra qemu-system-x86 qemu-utils";

/// Other tools; one release of them is enough.
const TOOLS: &str = "acl binutils busybox-static cryptsetup-bin debian-archive-keyring debootstrap \
    dnsmasq-base e2fsprogs gcc-12 gpgv kmod libc6-dev libnfs-dev libnfs-utils librdmacm-dev make nbdkit \
    nfs-ganesha nfs-ganesha-mem openssl rpcbind strace tshark valgrind xz-utils";

/// Programs built for Ceph's libraries.
const LIBRARY_USERS: &str = "ctdb libiscsi-bin libvirt-clients libvirt-daemon libvirt-daemon-driver-storage-rbd \
    nfs-ganesha-rados-grace rbd-fuse tcmu-runner tgt-rbd";

/// The suite with the tools and the guests' kernels.
pub const TOOLS_SUITE: &str = "bookworm";

impl Release {
    /// All of them, oldest first.
    pub const ALL: [Self; 3] = [Self::Pacific, Self::Reef, Self::Tentacle];

    /// Returns Debian's name of the suite.
    pub fn suite(self) -> &'static str {
        match self {
            Self::Pacific => "bookworm",
            Self::Reef => "trixie",
            Self::Tentacle => "forky",
        }
    }

    /// Returns Ceph's major version.
    pub fn number(self) -> u32 {
        match self {
            Self::Pacific => 16,
            Self::Reef => 18,
            Self::Tentacle => 20,
        }
    }

    /// Returns the release that goes with the host's system: the one its users meet first.
    pub fn of_host() -> Self {
        let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let name = system.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        Self::ALL.into_iter().find(|release| name == Some(release.suite())).unwrap_or(Self::Pacific)
    }

    /// Returns the root with the programs of this release, which is made the first time.
    pub fn root(self) -> Result<PathBuf> {
        let own = match self {
            Self::Pacific => TOOLS,
            Self::Reef => LIBRARY_USERS,
            // Without libqatzip3 its compressor zlib does not load.
            Self::Tentacle => "libqatzip3 prometheus",
        };
        let packages = format!("{BASE} {CEPH} {own}");
        make(self.suite(), &packages)
            .with_context(|| format!("cannot make a root of Debian {}", self.suite()))
    }
}

/// Returns the root with the tools.
pub fn tools() -> Result<PathBuf> {
    Release::Pacific.root()
}

/// Returns a folder with these packages of a suite, without what they depend on.
pub fn unpacked(suite: &str, name: &str, packages: &str) -> Result<PathBuf> {
    cached(&format!("roots/{name}"), packages, |folder| match packages {
        "" => Ok(()),
        packages => unpack(&Apt::open(suite)?.packages(packages)?, folder),
    })
}

fn make(suite: &str, packages: &str) -> Result<PathBuf> {
    cached(&format!("roots/{suite}"), packages, |root| {
        // The layout that Debian's installer makes; packages of both layouts fit into it.
        for name in ["bin", "sbin", "lib", "lib64"] {
            fs::create_dir_all(root.join("usr").join(name))?;
            symlink(format!("usr/{name}"), root.join(name))?;
        }
        fs::create_dir(root.join("run"))?;
        fs::create_dir(root.join("var"))?;
        symlink("../run", root.join("var/run"))?;
        unpack(&Apt::open(suite)?.closure(packages)?, root)?;
        for name in ["dev", "proc", "sys", "run", "tmp"] {
            fs::create_dir_all(root.join(name))?;
        }
        configure(root)
    })
}

/// Does what maintainer scripts would have done, as far as any test needs it.
fn configure(root: &Path) -> Result<()> {
    for (from, to) in [
        ("usr/share/base-passwd/passwd.master", "etc/passwd"),
        ("usr/share/base-passwd/group.master", "etc/group"),
        ("usr/share/libc-bin/nsswitch.conf", "etc/nsswitch.conf"),
    ] {
        fs::copy(root.join(from), root.join(to)).with_context(|| format!("cannot copy {from}"))?;
    }
    let mut users = File::options().append(true).open(root.join("etc/passwd"))?;
    users.write_all(b"_rpc:x:101:65534:rpcbind:/run/rpcbind:/usr/sbin/nologin\n")?;
    fs::write(root.join("etc/hosts"), "127.0.0.1 localhost\n")?;
    fs::write(root.join("etc/resolv.conf"), "")?;
    if !root.join("usr/bin/awk").exists() {
        symlink("mawk", root.join("usr/bin/awk"))?;
    }
    sh::text(in_root(root).arg("ldconfig")).map(drop)
}

/// Programs of the tools' root that crate tests look for on `PATH`.
const ORACLES: &str = "ceph ceph-kvstore-tool ceph-mon ceph-osd crushtool monmaptool osdmaptool valgrind";

/// Runs a program of a root with the caller's folder and temporary files.
const WRAPPER: &str = r#"set -e
root=$1 workspace=$2 target=$3
shift 3
mount --rbind /dev "$root/dev"
mount --rbind /proc "$root/proc"
mount --rbind /tmp "$root/tmp"
for folder in "$workspace" "$target"; do
    mkdir -p "$root$folder"
    mount --bind "$folder" "$root$folder"
done
exec chroot "$root" env --chdir "$PWD" PATH=/usr/sbin:/usr/bin "$@"
"#;

/// Runs strace of a root on programs of the host, in the caller's namespaces.
const STRACE: &str = r#"#!/bin/sh
for loader in "ROOT"/lib*/ld-linux*.so.*; do
    exec "$loader" --library-path "$(echo "ROOT"/usr/lib/*-linux-gnu)" "ROOT/usr/bin/strace" "$@"
done
"#;

/// Returns a folder of scripts that run Ceph's tools outside of a sandbox, under the tools' names.
pub fn oracles() -> Result<PathBuf> {
    let (root, target) = (tools()?, workspace::target()?);
    let folder = target.join("roots/bin");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("wrapper"), WRAPPER)?;
    let map_root = if is_root() { "" } else { "--map-root-user " };
    let words = [&folder.join("wrapper"), &root, &workspace::root().canonicalize()?, &target.to_owned()];
    let words = words.map(|path| format!("'{}'", path.display())).join(" ");
    for name in ORACLES.split_whitespace() {
        write_script(
            &folder.join(name),
            &format!("#!/bin/sh\nexec unshare {map_root}--mount -- sh {words} {name} \"$@\"\n"),
        )?;
    }
    write_script(&folder.join("strace"), &STRACE.replace("ROOT", &root.display().to_string()))?;
    Ok(folder)
}

fn write_script(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// Returns the start of a command in a root outside of a sandbox: as root of a user namespace where the caller is not.
pub fn in_root(root: &Path) -> std::process::Command {
    let mut command = std::process::Command::new("unshare");
    if !is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--mount", "--", "chroot"]).arg(root).env("PATH", crate::sandbox::PATH);
    command
}

/// Returns whether this process is root's.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
