//! A machine of its own for the kernel's clients: Debian's stock kernel in QEMU, which runs one script.
//!
//! QEMU emulates the processor (TCG), so that this works in a virtual machine and without root. Its user-mode network
//! lets the guest connect to what listens on the stage; what listens in the guest is reached by ports of the stage that
//! are forwarded to it.
//!
//! Its network card is an e1000, which is told of new buffers by a register. With virtio, guest and device look into shared memory
//! whether the other side waits, and that takes memory barriers, which QEMU before 8.1 leaves out where it emulates one
//! processor: now and then a guest heard nothing any more.

mod apt;
mod archive;
mod disk;
mod kernel;
mod kind;
mod siw;
mod store;

use crate::cluster::process::Daemon;
use crate::cluster::{ADDRESS, Home, Stage};
use crate::sh;
use anyhow::{Context as _, Result, bail};
use apt::Apt;
use archive::Archive;
use disk::QEMU;
pub(crate) use disk::ServedDisk;
use kernel::Kernel;
use kind::KINDS;
pub(crate) use kind::{Kind, NBD, NFS, NFSD, NFSD_PORTS, NFSD_PROGRAMS, RBD, RDMA, TCMU, UBLK, VIRTIO_BLK};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
pub(crate) use store::keep;

/// How long the script of a guest may take. An emulated processor is slow, and slower beside other work.
const PATIENCE: Duration = Duration::from_secs(900);

/// When a script is late: its guest says what its kernel waits for, while somebody still listens.
const LATE: Duration = Duration::from_secs(PATIENCE.as_secs() - 60);

/// The guest's memory in MiB: its file system is in it, and so is what the tests write.
const MEMORY: u32 = 1536;

/// The kernel on the stage.
const KERNEL: &str = "kernel";

/// The first program of the guest.
const INIT: &str = include_str!("init.sh");

/// The first program of a guest whose root file system is on its disk.
const ROOT_INIT: &str = include_str!("root.sh");

/// What the last line of a script's output begins with.
const EXIT: &str = "guest-exit: ";

/// How long a guest may take to get ready for what it is to be asked.
const START: Duration = Duration::from_secs(300);

/// The folder in which is kept what guests are made of.
pub(crate) const CACHE: &str = "guest";

/// Gets what guests of all kinds are made of, so that none has to wait for it.
pub(crate) fn prepare(home: &Home) -> Result<()> {
    KINDS.iter().try_for_each(|kind| Guest::prepare_in(&home.folder(CACHE), kind).map(drop))
}

/// What a guest needs to start: kept from one run to the next.
pub(crate) struct Guest {
    kind: &'static Kind,
    kernel: Kernel,
    /// Packages that are unpacked for it.
    tree: PathBuf,
}

/// A guest whose script runs, to be asked by those on the stage. It is switched off when this value goes.
pub(crate) struct Running {
    daemon: Daemon,
    output: PathBuf,
}

impl Guest {
    /// Finds what is needed for a guest of that kind, or gets it from Debian.
    pub(crate) fn prepare(stage: &Stage, kind: &'static Kind) -> Result<Self> {
        Self::prepare_in(&stage.cache(CACHE), kind)
    }

    fn prepare_in(cache: &Path, kind: &'static Kind) -> Result<Self> {
        let kernel = Kernel::prepare(cache, kind.series).context("cannot get a kernel for a guest")?;
        let tree = unpacked(cache, &format!("{}-packages", kind.name), kind.packages);
        let tree = tree.context("cannot get programs for a guest")?;
        Ok(Self { kind, kernel, tree })
    }

    /// Starts a guest on a stage, runs `script` in it with busybox and with `programs` (of the host, of the guest's
    /// packages, or by their paths) below `/host`, and returns what was printed. An error if the script fails.
    pub(crate) fn run(&self, stage: &Stage, script: &str, programs: &[&str]) -> Result<String> {
        self.start(stage, "guest", script, programs, &[])?.end()
    }

    /// Starts a guest of that name as [`run`](Self::run) does. What comes to those `ports` of the stage is forwarded to the guest's
    /// ports of the same numbers.
    pub(crate) fn start(
        &self,
        stage: &Stage,
        name: &str,
        script: &str,
        programs: &[&str],
        ports: &[u16],
    ) -> Result<Running> {
        let archive = self.file_system(stage, script, programs)?;
        Self::spawn(stage, name, &archive, |initial| self.qemu(stage, initial, ports))
    }

    /// Starts a guest with a disk, by that many queues.
    pub(crate) fn start_with_disk(
        &self,
        stage: &Stage,
        script: &str,
        programs: &[&str],
        disk: ServedDisk,
        queues: u16,
    ) -> Result<Running> {
        let archive = self.file_system(stage, script, programs)?;
        self.start_archive(stage, &archive, disk, queues)
    }

    /// Makes an image of a root file system with a script and its programs, of that many bytes.
    pub(crate) fn make_root(
        &self,
        stage: &Stage,
        script: &str,
        programs: &[&str],
        image: &Path,
        size: u64,
    ) -> Result<()> {
        let tree = stage.path("root");
        self.files(stage, script, programs)?.write_tree(&tree)?;
        File::create_new(image)?.set_len(size)?;
        sh::text(Command::new("mke2fs").args(["-q", "-F", "-t", "ext4", "-d"]).arg(&tree).arg(image))?;
        Ok(fs::remove_dir_all(&tree)?)
    }

    /// Starts a guest whose root file system is on its disk, which it reaches by that many queues.
    pub(crate) fn start_from_disk(&self, stage: &Stage, disk: ServedDisk, queues: u16) -> Result<Running> {
        let mut archive = Archive::default();
        ["dev", "mnt", "bin"].into_iter().for_each(|folder| archive.folder(folder));
        archive.program("init", ROOT_INIT.into());
        archive.program("bin/busybox", read(&find("busybox")?)?);
        self.add_modules(&mut archive)?;
        self.start_archive(stage, &archive, disk, queues)
    }

    fn start_archive(
        &self,
        stage: &Stage,
        archive: &Archive,
        disk: ServedDisk,
        queues: u16,
    ) -> Result<Running> {
        // A QEMU that has another root sees the stage alone.
        fs::copy(self.kernel.image(), stage.path(KERNEL))?;
        Self::spawn(stage, "guest", archive, |initial| {
            let mut command = disk.qemu(stage);
            self.add_arguments(&mut command, initial, &[]);
            command.arg("-kernel").arg(KERNEL).args(disk.arguments(MEMORY, queues).split_whitespace());
            command
        })
    }

    fn spawn(
        stage: &Stage,
        name: &str,
        archive: &Archive,
        qemu: impl FnOnce(&Path) -> Command,
    ) -> Result<Running> {
        let initial = stage.path(&format!("{name}.cpio"));
        archive.write(&initial)?;
        let output = stage.path(&format!("{name}.out"));
        // What an earlier guest on the stage has said is not this one's word.
        if output.exists() {
            fs::remove_file(&output)?;
        }
        let daemon = Daemon::spawn(name, qemu(&initial), &output)?;
        Ok(Running { daemon, output })
    }

    fn qemu(&self, stage: &Stage, initial: &Path, ports: &[u16]) -> Command {
        let mut command = stage.program(Path::new(QEMU), "");
        command.arg("-kernel").arg(self.kernel.image());
        self.add_arguments(&mut command, initial, ports);
        command
    }

    /// What QEMU is told but for the kernel and the disks.
    fn add_arguments(&self, command: &mut Command, initial: &Path, ports: &[u16]) {
        let mut network = "user,id=net".to_owned();
        for port in ports {
            network += &format!(",hostfwd=tcp:{ADDRESS}:{port}-:{port}");
        }
        let processors = self.kind.processors;
        let line = format!(
            "-accel tcg -machine q35 -cpu max -smp {processors} \
             -m {MEMORY} -nodefaults -no-user-config -display none -no-reboot -serial stdio \
             -netdev {network} -device e1000,netdev=net,romfile="
        );
        command.args(line.split_whitespace()).arg("-initrd").arg(initial);
        // What a guest that lives for a minute need not protect, test or watch costs an emulated processor seconds.
        let arguments = "console=ttyS0 quiet loglevel=4 panic=-1 net.ifnames=0 mitigations=off nokaslr \
                         random.trust_cpu=on cryptomgr.notests no_timer_check nowatchdog apparmor=0 audit=0";
        command.arg("-append").arg(format!("{arguments} LATE={}", LATE.as_secs()));
    }

    /// All files of a guest whose files are in its memory.
    fn file_system(&self, stage: &Stage, script: &str, programs: &[&str]) -> Result<Archive> {
        let mut archive = self.files(stage, script, programs)?;
        self.add_modules(&mut archive)?;
        Ok(archive)
    }

    /// Its files but for the modules of its kernel.
    fn files(&self, stage: &Stage, script: &str, programs: &[&str]) -> Result<Archive> {
        let mut archive = Archive::default();
        for folder in ["proc", "sys", "dev", "tmp", "mnt", "run", "var/lib/nfs"] {
            archive.folder(folder);
        }
        archive.program("init", INIT.into());
        archive.program("script", script.into());
        archive.program("bin/busybox", read(&find("busybox")?)?);
        for file in self.kind.files {
            archive.program(file, read(&self.tree.join(file))?);
        }
        let mut libraries = BTreeSet::new();
        for name in programs {
            let program = self.find(name)?;
            let name = Path::new(name).file_name().context("a program without a name")?.to_string_lossy();
            archive.program(&format!("host/{name}"), stripped(stage, &program)?);
            libraries.extend(self.libraries_of(&program)?);
        }
        for beginning in self.kind.loaded {
            let library = self.find_library(beginning)?;
            libraries.extend(self.libraries_of(&library)?);
            libraries.insert(library);
        }
        for library in libraries {
            // What comes from a package lies where it would be installed.
            let name = library.strip_prefix(&self.tree).or_else(|_| library.strip_prefix("/"))?;
            archive.program(&name.to_string_lossy(), read(&library)?);
        }
        Ok(archive)
    }

    fn add_modules(&self, archive: &mut Archive) -> Result<()> {
        for (place, module) in self.kernel.modules(self.kind)?.iter().enumerate() {
            let name = module.file_name().context("a module without a name")?.to_string_lossy();
            archive.program(&format!("modules/{place:02}-{name}"), read(module)?);
        }
        Ok(())
    }

    /// Where a program is: in the packages, or else on the host.
    fn find(&self, name: &str) -> Result<PathBuf> {
        let folders = ["sbin", "usr/sbin", "usr/bin"].map(|folder| self.tree.join(folder));
        let in_packages = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        in_packages.map_or_else(|| find(name), Ok)
    }

    /// The library in the packages whose name has that beginning. There may be others, which are the same by its full name.
    fn find_library(&self, beginning: &str) -> Result<PathBuf> {
        let beginning = self.tree.join(beginning);
        let folder = beginning.parent().context("a library without a folder")?;
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.to_string_lossy().starts_with(&*beginning.to_string_lossy()) {
                found.push(path);
            }
        }
        found.into_iter().min().with_context(|| format!("there is no library {}", beginning.display()))
    }

    /// The libraries, and the loader of libraries, that a program needs, where it looks for them.
    fn libraries_of(&self, program: &Path) -> Result<Vec<PathBuf>> {
        let folders = ["lib", "usr/lib"].map(|folder| self.tree.join(folder).join("x86_64-linux-gnu"));
        let mut ldd = Command::new("ldd");
        ldd.arg(program).env("LD_LIBRARY_PATH", std::env::join_paths(folders)?);
        // A line is `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)`, without the arrow for the loader.
        let said = sh::text(&mut ldd)?;
        if let Some(missing) = said.lines().find(|line| line.contains("not found")) {
            bail!("{} lacks a library: {}", program.display(), missing.trim());
        }
        let paths =
            said.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
        Ok(paths.map(PathBuf::from).collect())
    }
}

/// The folder `name` below `cache` with packages of the host's release, which are unpacked there once and not installed.
pub(crate) fn unpacked(cache: &Path, name: &str, packages: &[&str]) -> Result<PathBuf> {
    store::keep(cache, name, &packages.join(" "), |folder| match packages {
        [] => Ok(()),
        packages => Apt::default().unpack(packages, folder),
    })
}

impl Running {
    /// The CPU time of the whole machine so far, in seconds.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        self.daemon.cpu_seconds()
    }

    /// Has the script printed a line that is `line`?
    pub(crate) fn has_said(&self, line: &str) -> bool {
        read_text(&self.output).is_ok_and(|said| said.lines().any(|said| said == line))
    }

    /// Waits until the script has printed a line that is `line`.
    pub(crate) fn wait_for(&mut self, line: &str) -> Result<()> {
        self.wait_for_line(line, |said| (said == line).then_some(())).map(drop)
    }

    /// Waits until the script has printed a line that begins so, and returns the rest of the line.
    pub(crate) fn wait_for_beginning(&mut self, beginning: &str) -> Result<String> {
        self.wait_for_line(beginning, |said| said.strip_prefix(beginning).map(str::to_owned))
    }

    fn wait_for_line<T>(&mut self, what: &str, find: impl Fn(&str) -> Option<T>) -> Result<T> {
        let (output, mut found) = (self.output.clone(), None);
        self.daemon.wait_until(&format!("its word `{what}`"), START, || {
            let said = read_text(&output).unwrap_or_default();
            // The last line may not be whole yet.
            let whole = said.rfind('\n').map_or("", |end| &said[..end]);
            found = whole.lines().find_map(&find);
            found.is_some()
        })?;
        found.with_context(|| format!("the guest has not said `{what}`"))
    }

    /// Waits for the end of the script, and returns what was printed. An error if the script fails.
    pub(crate) fn end(mut self) -> Result<String> {
        let output = self.output.clone();
        let status = || read_text(&output).ok().as_deref().and_then(status).is_some();
        self.daemon.wait_until("the end of its script", PATIENCE, status)?;
        // It switches itself off.
        self.daemon.wait()?;
        let said = read_text(&self.output)?;
        match self::status(&said) {
            Some("0") => Ok(said),
            status => bail!(
                "the script in the guest failed with status {}:\n{}",
                status.unwrap_or_default(),
                sh::tail(said.as_bytes())
            ),
        }
    }
}

/// How the script ended.
fn status(said: &str) -> Option<&str> {
    said.lines().rev().find_map(|line| line.strip_prefix(EXIT))
}

/// What a guest has printed on its serial line so far.
fn read_text(path: &Path) -> Result<String> {
    Ok(String::from_utf8_lossy(&read(path)?).replace('\r', ""))
}

/// A program without what is for debuggers, which is most of one that cargo has built: the guest has it in memory.
fn stripped(stage: &Stage, program: &Path) -> Result<Vec<u8>> {
    let to = stage.path("stripped");
    sh::text(Command::new("strip").arg("--strip-debug").arg("-o").arg(&to).arg(program))?;
    read(&to)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Where a program of the host is.
fn find(name: &str) -> Result<PathBuf> {
    sh::find(name).with_context(|| format!("there is no program {name} on this machine"))
}
