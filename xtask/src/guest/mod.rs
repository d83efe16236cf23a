//! A machine of its own for the kernel's clients: Debian's stock kernel in QEMU, which runs one script.
//!
//! QEMU emulates the processor (TCG), so that this works in a virtual machine and without root. Its user-mode network
//! lets the guest connect to what listens on the stage; nobody can connect to the guest.

mod archive;
mod kernel;

use crate::cluster::Stage;
use crate::sh;
use anyhow::{Context as _, Result, bail};
use archive::Archive;
use kernel::Kernel;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How long a guest may take, from start to end. An emulated processor is slow, and slower beside other work.
const PATIENCE_SECONDS: u32 = 900;

/// The guest's memory in MiB: its file system is in it, and so is what the tests write.
const MEMORY: u32 = 1536;

/// The first program of the guest.
const INIT: &str = include_str!("init.sh");

/// What the last line of a script's output begins with.
const EXIT: &str = "guest-exit: ";

/// What a guest needs to start: kept from one run to the next.
pub(crate) struct Guest {
    kernel: Kernel,
}

impl Guest {
    /// Finds the kernel, or gets it from Debian.
    pub(crate) fn prepare(stage: &Stage) -> Result<Self> {
        let kernel = Kernel::prepare(&stage.cache("guest")).context("cannot get a kernel for a guest")?;
        Ok(Self { kernel })
    }

    /// Starts a guest on a stage, runs `script` in it with busybox and with `programs` of the host below
    /// `/host`, and returns what
    /// was printed. An error if the script fails.
    pub(crate) fn run(&self, stage: &Stage, script: &str, programs: &[&str]) -> Result<String> {
        let disk = stage.path("guest.cpio");
        self.file_system(script, programs)?.write(&disk)?;
        let mut command = self.qemu(stage, &disk);
        let output = sh::output(&mut command)?;
        let said = String::from_utf8_lossy(&output.stdout).replace('\r', "");
        fs::write(stage.path("guest.out"), &said)?;
        fs::remove_file(&disk)?;
        match said.lines().rev().find_map(|line| line.strip_prefix(EXIT)) {
            Some("0") => Ok(said),
            Some(status) => {
                bail!("the script in the guest failed with status {status}:\n{}", sh::tail(said.as_bytes()))
            }
            None => {
                let said = [output.stdout, output.stderr].concat();
                bail!("the guest did not end by itself ({}):\n{}", output.status, sh::tail(&said))
            }
        }
    }

    fn qemu(&self, stage: &Stage, disk: &Path) -> Command {
        let line = format!(
            "--kill-after=5 {PATIENCE_SECONDS} qemu-system-x86_64 -accel tcg,thread=multi -machine q35 -cpu max -smp 2 \
             -m {MEMORY} -nodefaults -no-user-config -display none -no-reboot -serial stdio \
             -netdev user,id=net -device virtio-net-pci,netdev=net,romfile="
        );
        let mut command = stage.program(Path::new("timeout"), &line);
        command.arg("-kernel").arg(self.kernel.image()).arg("-initrd").arg(disk);
        // What a guest that lives for a minute need not protect, test or watch costs an emulated processor seconds.
        let arguments = "console=ttyS0 quiet loglevel=4 panic=-1 net.ifnames=0 mitigations=off nokaslr \
                         random.trust_cpu=on cryptomgr.notests no_timer_check nowatchdog apparmor=0 audit=0";
        command.args(["-append", arguments]);
        command
    }

    /// All files of the guest.
    fn file_system(&self, script: &str, programs: &[&str]) -> Result<Archive> {
        let mut archive = Archive::default();
        for folder in ["proc", "sys", "dev", "tmp", "mnt"] {
            archive.folder(folder);
        }
        archive.program("init", INIT.into());
        archive.program("script", script.into());
        archive.program("bin/busybox", read(&find("busybox")?)?);
        let mut libraries = BTreeSet::new();
        for name in programs {
            let program = find(name)?;
            archive.program(&format!("host/{name}"), read(&program)?);
            libraries.extend(libraries_of(&program)?);
        }
        for library in libraries {
            let name = library.to_string_lossy().trim_start_matches('/').to_owned();
            archive.program(&name, read(&library)?);
        }
        for (name, module) in self.kernel.modules()? {
            archive.program(&format!("modules/{name}"), read(&module)?);
        }
        Ok(archive)
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Where a program of the host is.
fn find(name: &str) -> Result<PathBuf> {
    sh::find(name).with_context(|| format!("there is no program {name} on this machine"))
}

/// The libraries, and the loader of libraries, that a program needs, where it looks for them.
fn libraries_of(program: &Path) -> Result<Vec<PathBuf>> {
    // A line is `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)`, without the arrow for the loader.
    let said = sh::text(Command::new("ldd").arg(program))?;
    let paths = said.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(paths.map(PathBuf::from).collect())
}
