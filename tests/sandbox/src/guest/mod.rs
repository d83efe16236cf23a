//! Virtual machines with Debian's stock kernels, for the kernel's own clients and servers.
//!
//! QEMU uses KVM where it can and emulates the processor otherwise, so guests work everywhere and without root. Its
//! user-mode network lets a guest connect to servers of the sandbox; ports of servers in the guest are forwarded.
//! A guest boots once and then runs any number of checks, scripts for busybox's shell, one after the other.
//!
//! The network card is an e1000, which learns of new buffers by a register. With virtio, guest and device watch shared
//! memory, which takes memory barriers that QEMU before 8.1 omits when it emulates one processor: guests hung.

mod archive;
mod kernel;
mod kind;

use crate::{Daemon, Sandbox, root, sh};
use anyhow::{Context as _, Result, bail, ensure};
use archive::Archive;
use kernel::Kernel;
pub use kind::{Kind, NBD, NFS, NFSD, NFSD_PORTS, NFSD_PROGRAMS, RBD, RDMA, TCMU, UBLK, VIRTIO_BLK};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit of a check. An emulated processor is slow, and slower next to other work.
const PATIENCE: Duration = Duration::from_secs(900);

/// Time after which a check reports what the guest's kernel waits for.
const LATE: Duration = Duration::from_secs(PATIENCE.as_secs() - 60);

/// Time limit of the boot and of any line that a test waits for.
const START: Duration = Duration::from_secs(300);

/// Memory of a guest in MiB, which holds its file system.
const MEMORY: u32 = 1536;

const QEMU: &str = "qemu-system-x86_64";

/// Line of a guest that has booted.
const READY: &str = "guest: ready";

/// Prefix of the line that ends a check's output.
const EXIT: &str = "guest: exit ";

/// Shell functions for checks: `fill` and `$sums` for files below `/mnt`, `verify` for the block device `$device`.
const FUNCTIONS: &str = concat!(include_str!("files.sh"), include_str!("verify.sh"));

/// A guest's disk. Sockets are files of the sandbox.
#[derive(Debug, Clone, Copy)]
pub enum Disk {
    /// Served by vhost-user on this socket: the server shares the guest's memory.
    VhostUser(&'static str),
    /// An NBD export; QEMU is the client.
    Nbd {
        /// Socket of the server.
        socket: &'static str,
        /// Name of the export.
        export: &'static str,
    },
    /// Reads give anything, writes go nowhere.
    Null,
    /// An image in the pool `rbd`; QEMU of the sandbox's release is the client.
    Rbd {
        /// Folder of the sandbox with `librbd.so.1`.
        library: &'static str,
        /// Name of the image.
        image: &'static str,
    },
}

impl Disk {
    fn arguments(self, queues: u16) -> String {
        let device = format!("-device virtio-blk-pci,drive=disk,num-queues={queues}");
        match self {
            Self::VhostUser(socket) => format!(
                "-object memory-backend-memfd,id=memory,size={MEMORY}M,share=on -machine memory-backend=memory \
                 -chardev socket,id=disk,path={socket},reconnect=1 \
                 -device vhost-user-blk-pci,chardev=disk,num-queues={queues}"
            ),
            Self::Nbd { socket, export } => format!(
                "-blockdev driver=nbd,node-name=disk,server.type=unix,server.path={socket},export={export},\
                 discard=unmap,reconnect-delay=30 {device}"
            ),
            Self::Null => format!("-blockdev driver=null-co,node-name=disk,size=1073741824 {device}"),
            Self::Rbd { image, .. } => format!(
                "-blockdev driver=rbd,node-name=disk,pool=rbd,image={image},conf=ceph.conf,discard=unmap {device}"
            ),
        }
    }
}

/// Gets the kernels and packages of all kinds of guests, so that no test has to wait for them.
pub fn prepare_guests() -> Result<()> {
    for kind in kind::KINDS {
        Kernel::prepare(kind.series)?;
        root::unpacked(root::TOOLS_SUITE, &format!("{}-packages", kind.name), kind.packages)?;
    }
    Ok(())
}

/// Network device of a guest in its sandbox, and its address: the one of the gateway in QEMU's user-mode network.
const TAP: &str = "tap0";
const GATEWAY: &str = "10.0.2.2/24";

/// A guest that has not booted yet.
pub struct Boot<'a> {
    sandbox: &'a Sandbox,
    kind: &'static Kind,
    kernel: Kernel,
    /// Packages unpacked for the guest.
    tree: PathBuf,
    programs: Vec<String>,
    checks: BTreeMap<String, String>,
    ports: Vec<u16>,
    tap: bool,
    disk: Option<(Disk, u16)>,
}

impl<'a> Boot<'a> {
    /// Gets what guests of this kind are made of.
    pub fn new(sandbox: &'a Sandbox, kind: &'static Kind) -> Result<Self> {
        let kernel = Kernel::prepare(kind.series)?;
        let tree = root::unpacked(root::TOOLS_SUITE, &format!("{}-packages", kind.name), kind.packages)?;
        Ok(Self {
            sandbox,
            kind,
            kernel,
            tree,
            programs: Vec::new(),
            checks: BTreeMap::new(),
            ports: Vec::new(),
            tap: false,
            disk: None,
        })
    }

    /// Adds programs below `/host`, by their names in the guest's packages or in the tools' root, or by their paths.
    pub fn programs(mut self, programs: &[&str]) -> Self {
        self.programs.extend(programs.iter().map(|name| (*name).to_owned()));
        self
    }

    /// Adds the `onego` program under test as `/host/onego`.
    pub fn onego(self) -> Self {
        let program = self.sandbox.onego_program().to_string_lossy().into_owned();
        self.programs(&[&program])
    }

    /// Adds a check. Its script may use the functions `fill` and `verify`.
    pub fn check(mut self, name: &str, script: &str) -> Self {
        self.checks.insert(name.to_owned(), format!("{FUNCTIONS}\n{script}"));
        self
    }

    /// Forwards these ports of the sandbox to the same ports of the guest.
    pub fn ports(mut self, ports: &[u16]) -> Self {
        self.ports.extend(ports);
        self
    }

    /// Connects the guest through a network device of the sandbox, so that servers see the ports of its clients. Returns
    /// whether this user may make such a device; otherwise QEMU opens connections from ports of its own.
    pub fn tap(mut self) -> Result<(Self, bool)> {
        self.tap = self.sandbox.make_tap(TAP, GATEWAY)?;
        let made = self.tap;
        Ok((self, made))
    }

    /// Adds a disk with that many queues.
    pub fn disk(mut self, disk: Disk, queues: u16) -> Self {
        self.disk = Some((disk, queues));
        self
    }

    /// Boots the guest with its file system in memory.
    pub fn start(&self, name: &str) -> Result<Guest> {
        let mut archive = self.files()?;
        self.add_modules(&mut archive)?;
        self.spawn(name, &archive)
    }

    /// Boots the guest from a root file system on its disk.
    pub fn start_from_disk(&self, name: &str) -> Result<Guest> {
        let mut archive = Archive::default();
        ["dev", "mnt", "bin"].into_iter().for_each(|folder| archive.folder(folder));
        archive.program("init", include_str!("root.sh").into());
        archive.program("bin/busybox", self.read_tool("busybox")?);
        self.add_modules(&mut archive)?;
        self.spawn(name, &archive)
    }

    /// Makes an image of `size` bytes with the root file system for [`start_from_disk`](Self::start_from_disk).
    pub fn make_root(&self, image: &str, size: u64) -> Result<()> {
        let tree = self.sandbox.path("root");
        self.files()?.write_tree(&tree)?;
        File::create_new(self.sandbox.path(image))?.set_len(size)?;
        self.sandbox.tool(&format!("mke2fs -q -F -t ext4 -d root {image}"))?;
        Ok(fs::remove_dir_all(&tree)?)
    }

    fn spawn(&self, name: &str, archive: &Archive) -> Result<Guest> {
        let (initial, output) = (format!("{name}.cpio"), self.sandbox.path(format!("{name}.out")));
        archive.write(&self.sandbox.path(&initial))?;
        // Lines of an earlier guest must not count.
        if output.exists() {
            fs::remove_file(&output)?;
        }
        let mut command = match self.disk {
            Some((Disk::Rbd { library, .. }, _)) => {
                let library = self.sandbox.path(library);
                self.sandbox.ceph_daemon(&format!("env LD_LIBRARY_PATH={} {QEMU}", library.display()))
            }
            _ => self.sandbox.tool_daemon(QEMU),
        };
        let kind =
            if self.tap { format!("tap,ifname={TAP},script=no,downscript=no") } else { "user".to_owned() };
        let mut network = format!("{kind},id=net");
        for port in &self.ports {
            network += &format!(",hostfwd=tcp:{}:{port}-:{port}", crate::ADDRESS);
        }
        let line = format!(
            "{} -machine q35 -cpu max -smp {} -m {MEMORY} -nodefaults -no-user-config -display none \
             -no-reboot -serial stdio -netdev {network} -device e1000,netdev=net,romfile= {}",
            accelerators(),
            self.kind.processors,
            self.disk.map_or_else(String::new, |(disk, queues)| disk.arguments(queues))
        );
        command
            .args(line.split_whitespace())
            .arg("-kernel")
            .arg(self.kernel.image())
            .args(["-initrd", &initial]);
        // Protection, tests and watchdogs cost an emulated processor seconds.
        let arguments = "console=ttyS0 quiet loglevel=4 panic=-1 net.ifnames=0 mitigations=off nokaslr \
                         random.trust_cpu=on cryptomgr.notests no_timer_check nowatchdog apparmor=0 audit=0";
        command.arg("-append").arg(format!("{arguments} LATE={}", LATE.as_secs()));
        let daemon = Daemon::spawn_with_input(name, command, &output)?;
        let mut guest = Guest { daemon, output, start: 0 };
        guest.wait_for(READY)?;
        Ok(guest)
    }

    /// Returns all files but the kernel's modules.
    fn files(&self) -> Result<Archive> {
        let mut archive = Archive::default();
        for folder in ["proc", "sys", "dev", "tmp", "mnt", "run", "var/lib/nfs"] {
            archive.folder(folder);
        }
        archive.program("init", include_str!("init.sh").into());
        for (name, script) in &self.checks {
            archive.program(&format!("checks/{name}"), script.as_bytes().into());
        }
        archive.program("bin/busybox", self.read_tool("busybox")?);
        for file in self.kind.files.split_whitespace() {
            archive.program(file, read(&self.tree.join(file))?);
        }
        // By their names in the guest. Programs of the host come last, because their C library may be the newer one.
        let mut libraries = BTreeMap::new();
        for prefix in self.kind.loaded.split_whitespace() {
            let library = self.find_library(prefix)?;
            libraries.extend(self.libraries_of(&library)?);
            let name = library.strip_prefix(&self.tree)?.to_string_lossy().into_owned();
            archive.program(&name, read(&library)?);
        }
        let (of_host, of_roots): (Vec<_>, Vec<_>) = self.programs.iter().partition(|name| name.contains('/'));
        for program in of_roots {
            let path = self.find_program(program)?;
            libraries.extend(self.libraries_of(&path)?);
            archive.program(&format!("host/{program}"), read(&path)?);
        }
        for program in of_host {
            let name = Path::new(program).file_name().context("a program has a name")?.to_string_lossy();
            libraries.extend(parse_ldd(&self.sandbox.host(&format!("ldd {program}"))?, Path::new("/"))?);
            // Debug information is most of what cargo builds.
            let stripped = self.sandbox.path("stripped");
            // A private root shows the program itself only below the target folder.
            fs::copy(program, &stripped)?;
            self.sandbox.tool("strip --strip-debug stripped")?;
            archive.program(&format!("host/{name}"), read(&stripped)?);
        }
        for (name, library) in libraries {
            archive.program(&name, read(&library)?);
        }
        Ok(archive)
    }

    fn add_modules(&self, archive: &mut Archive) -> Result<()> {
        for (place, module) in self.kernel.modules(self.kind)?.iter().enumerate() {
            let name = module.file_name().context("a module has a name")?.to_string_lossy();
            archive.program(&format!("modules/{place:02}-{name}"), read(module)?);
        }
        Ok(())
    }

    fn read_tool(&self, name: &str) -> Result<Vec<u8>> {
        read(&self.sandbox.tools_root().join("usr/bin").join(name))
    }

    /// Finds a program in the guest's packages or in the tools' root.
    fn find_program(&self, name: &str) -> Result<PathBuf> {
        let folders = ["sbin", "usr/sbin", "usr/bin"];
        let roots = [self.tree.as_path(), self.sandbox.tools_root()];
        let mut paths = roots.iter().flat_map(|root| {
            folders.map(|folder| {
                let path = root.join(folder).join(name);
                // An absolute link means a file of its root.
                let link = fs::read_link(&path).ok().filter(|to| to.is_absolute());
                link.map_or(path, |to| root.join(to.strip_prefix("/").unwrap_or(&to)))
            })
        });
        paths.find(|path| path.is_file()).with_context(|| format!("no package has a program {name}"))
    }

    /// Finds the library in the packages whose name starts with `prefix`. Versioned names are links to it.
    fn find_library(&self, prefix: &str) -> Result<PathBuf> {
        let prefix = self.tree.join(prefix);
        let folder = prefix.parent().context("a library lies in a folder")?;
        let files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
        let found = files.filter(|path| path.to_string_lossy().starts_with(&*prefix.to_string_lossy())).min();
        found.with_context(|| format!("no library {}*", prefix.display()))
    }

    /// Returns the libraries and the loader of a program of the packages or the tools' root.
    fn libraries_of(&self, program: &Path) -> Result<BTreeMap<String, PathBuf>> {
        let tools = self.sandbox.tools_root();
        let folders = ["lib", "usr/lib"].map(|folder| self.tree.join(folder).join("x86_64-linux-gnu"));
        let search = std::env::join_paths(folders)?;
        // Paths in the root start there; the packages are below the target folder, which is mounted in it.
        let inside =
            program.strip_prefix(tools).map_or_else(|_| program.to_owned(), |rest| Path::new("/").join(rest));
        let line = format!("env LD_LIBRARY_PATH={} ldd {}", search.to_string_lossy(), inside.display());
        parse_ldd(&self.sandbox.tool(&line)?, tools)
    }
}

/// Reads lines `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)`, without the arrow for the loader, of a program in
/// `root`. Returns the files by their names in the guest.
fn parse_ldd(said: &str, root: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let missing = said.lines().find(|line| line.contains("not found"));
    ensure!(missing.is_none(), "a program lacks a library: {}", missing.unwrap_or_default().trim());
    let paths = said.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    let placed = paths.map(|path| {
        let name = path.rsplit('/').next().unwrap_or(path);
        let folder = if name.starts_with("ld-linux") { "lib64" } else { "lib/x86_64-linux-gnu" };
        let in_root = root.join(path.trim_start_matches('/'));
        // A path below the target folder is the same inside and outside.
        (format!("{folder}/{name}"), if in_root.exists() { in_root } else { PathBuf::from(path) })
    });
    Ok(placed.collect())
}

/// A guest that has booted. Dropping it switches it off.
pub struct Guest {
    daemon: Daemon,
    output: PathBuf,
    /// Offset of the current check's output.
    start: usize,
}

impl Guest {
    /// Runs a check and returns what it printed. Fails if the check does.
    pub fn check(&mut self, name: &str) -> Result<String> {
        self.begin(name)?;
        self.end().with_context(|| format!("check {name}"))
    }

    /// Starts a check.
    pub fn begin(&mut self, name: &str) -> Result<()> {
        self.start = self.read()?.len();
        self.daemon.write(&format!("{name}\n"))
    }

    /// Returns whether the check has printed this line.
    pub fn has_said(&self, line: &str) -> bool {
        self.said().is_ok_and(|said| said.lines().any(|said| said == line))
    }

    /// Waits until the check prints this line.
    pub fn wait_for(&mut self, line: &str) -> Result<()> {
        self.wait_for_line(line, |said| (said == line).then_some(())).map(drop)
    }

    /// Waits until the check prints a line with this prefix and returns the rest of the line.
    pub fn wait_for_prefix(&mut self, prefix: &str) -> Result<String> {
        self.wait_for_line(prefix, |said| said.strip_prefix(prefix).map(str::to_owned))
    }

    fn wait_for_line<T>(&mut self, what: &str, find: impl Fn(&str) -> Option<T>) -> Result<T> {
        let (output, start, mut found) = (self.output.clone(), self.start, None);
        self.daemon.wait_until(&format!("line `{what}`"), START, || {
            let said = read_text(&output).unwrap_or_default();
            // The last line may be incomplete.
            let complete = said.get(start..said.rfind('\n').unwrap_or(start)).unwrap_or_default();
            found = complete.lines().find_map(&find);
            found.is_some()
        })?;
        found.with_context(|| format!("the guest did not print `{what}`"))
    }

    /// Waits for the end of the check and returns what it printed. Fails if the check does.
    pub fn end(&mut self) -> Result<String> {
        let (output, start) = (self.output.clone(), self.start);
        let has_ended =
            || read_text(&output).is_ok_and(|said| exit_status(&said[start.min(said.len())..]).is_some());
        self.daemon.wait_until("end of a check", PATIENCE, has_ended)?;
        let said = self.said()?;
        match exit_status(&said) {
            Some("0") => Ok(said),
            status => bail!(
                "a check failed with status {}:\n{}",
                status.unwrap_or_default(),
                sh::tail(said.as_bytes())
            ),
        }
    }

    /// Returns the CPU time of the whole machine so far, in seconds.
    pub fn cpu_seconds(&self) -> Result<f64> {
        self.daemon.cpu_seconds()
    }

    /// Switches the guest off in order and waits for it.
    pub fn power_off(mut self) -> Result<()> {
        self.daemon.write("off\n")?;
        self.daemon.wait()
    }

    fn read(&self) -> Result<String> {
        read_text(&self.output)
    }

    /// Returns what the current check has printed so far.
    fn said(&self) -> Result<String> {
        Ok(self.read()?.get(self.start..).unwrap_or_default().to_owned())
    }
}

/// Returns QEMU's accelerators, the best first. KVM without the processor's help (VMX or SVM) boots no stock kernel.
fn accelerators() -> &'static str {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let can_help = processors.split_whitespace().any(|flag| matches!(flag, "vmx" | "svm"));
    if can_help { "-accel kvm -accel tcg" } else { "-accel tcg" }
}

fn exit_status(said: &str) -> Option<&str> {
    let complete = &said[..said.rfind('\n')?];
    complete.lines().rev().find_map(|line| line.strip_prefix(EXIT))
}

/// Reads the output of a guest's serial line.
fn read_text(path: &Path) -> Result<String> {
    Ok(String::from_utf8_lossy(&read(path)?).replace('\r', ""))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
