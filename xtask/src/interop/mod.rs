//! Our programs against real Ceph clusters, and Ceph's programs against ours. Nothing here is skipped: what a
//! scenario needs and cannot have is a failure.

pub(crate) mod attacks;
mod bad_input;
mod blocklist;
mod cephx;
mod commands;
mod compression;
mod disk;
mod dns;
mod ganesha;
pub(crate) mod garbage;
mod images;
mod krbd;
mod libnfs;
mod load;
mod memory;
mod nfs;
mod osds;
mod pjdfstest;
mod qemu_img;
mod rados_tests;
mod restart;
mod tools;
mod tshark;
mod users;
mod verbs;

pub(crate) use load::read_rows;

use crate::cluster::{Home, Installs, Release, Stage};
use crate::guest;
use crate::packages;
use crate::sh;
use crate::test::{self, Tally};
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// List the scenarios and run none
    #[arg(long)]
    list: bool,
    /// Test this program instead of building it
    #[arg(long, value_name = "PROGRAM")]
    onego: Option<PathBuf>,
    /// Only scenarios with one of these in their name
    names: Vec<String>,
}

/// One thing that has to work between two programs of which one is not ours.
struct Scenario {
    name: &'static str,
    what: &'static str,
    /// Whose Ceph programs it uses.
    release: Release,
    /// Does it start a guest?
    guest: bool,
    /// Is it one of the long form of the tests alone?
    long: bool,
    run: fn(&Stage) -> Result<()>,
}

const fn scenario(
    name: &'static str,
    what: &'static str,
    release: Release,
    run: fn(&Stage) -> Result<()>,
) -> Scenario {
    Scenario { name, what, release, guest: false, long: false, run }
}

/// Scenarios that start guests, of which the last belong to the long form of the tests; those that have no release of Ceph;
/// the same for every release that we are tested against, then those of which 20.2's belong to the long form, and those of
/// what 16.2 has not.
macro_rules! scenarios {
    (
        guests: $($guest:literal, $guest_what:literal, $guest_run:path;)*
        long: $($long:literal, $long_what:literal, $long_run:path;)*
        once: $($once:literal, $once_what:literal, $once_run:path;)*
        releases: $($name:literal, $what:literal, $run:path;)*
        releases_long_of_tentacle: $($most:literal, $most_what:literal, $most_run:path;)*
        since_reef: $($reef:literal, $reef_what:literal, $reef_run:path;)*
        tentacle: $($last:literal, $last_what:literal, $last_run:path;)*
    ) => {
        &[
            $(Scenario { guest: true, ..scenario($guest, $guest_what, Release::Pacific, $guest_run) },)*
            $(Scenario { guest: true, long: true, ..scenario($long, $long_what, Release::Pacific, $long_run) },)*
            $(scenario($once, $once_what, Release::Pacific, $once_run),)*
            $(scenario(concat!("ceph16-", $name), $what, Release::Pacific, $run),)*
            $(scenario(concat!("ceph18-", $name), $what, Release::Reef, $run),)*
            $(scenario(concat!("ceph20-", $name), $what, Release::Tentacle, $run),)*
            $(scenario(concat!("ceph16-", $most), $most_what, Release::Pacific, $most_run),)*
            $(scenario(concat!("ceph18-", $most), $most_what, Release::Reef, $most_run),)*
            $(Scenario { long: true, ..scenario(concat!("ceph20-", $most), $most_what, Release::Tentacle, $most_run) },)*
            $(scenario(concat!("ceph18-", $reef), $reef_what, Release::Reef, $reef_run),)*
            $(Scenario { long: true, ..scenario(concat!("ceph20-", $reef), $reef_what, Release::Tentacle, $reef_run) },)*
            $(scenario(concat!("ceph20-", $last), $last_what, Release::Tentacle, $last_run),)*
        ]
    };
}

const SCENARIOS: &[Scenario] = scenarios! {
    guests:
    "krbd", "the kernel's client, in a guest, keeps a file system on our embedded cluster", krbd::modes;
    "krbd-cephx", "the same with keys: encrypted, with checksums and with signatures", krbd::modes_with_key;
    "nfs-kernel-tcp", "the kernel's NFS client works on our server, over TCP", nfs::kernel_on_ours;
    "nfs-kernel-directory", "the kernel's NFS client works on a directory that we serve", nfs::kernel_on_directory;
    "nfs-pjdfstest", "the kernel's client on our server of NFS does what POSIX says", pjdfstest::on_memory;
    "nfs-kernel-rdma", "the kernel's NFS client works on our server over RDMA", nfs::kernel_on_ours_by_rdma;
    "rdma-core", "our provider over rdma-core, with itself over siw and over rxe", verbs::with_itself;
    "nfs-device", "NFS by devices, siw and rxe, over rdma-core: our client and server with the kernel's", verbs::nfs;
    "nfs-knfsd", "our NFS client works on the kernel's server, over TCP and RDMA", nfs::ours_on_kernel;
    long:
    "nfs-pjdfstest-directory", "the kernel's client on a directory that we serve does what POSIX says", pjdfstest::on_directory;
    "nfs-kernel-kernel", "the kernel's NFS client works on the kernel's server, over TCP and RDMA", nfs::kernel_on_kernel;
    once:
    "nfs-attacks", "callers who say to be anybody gain nothing from a directory that we serve", attacks::run;
    "memory-attacks", "clients that would have our servers of NFS hold all memory gain little, and others are served", attacks::memory::run_on_nfs;
    "memory-attacks-cluster", "the same of our embedded cluster", attacks::memory::run_on_cluster;
    "nfs-libnfs", "libnfs's programs work on our server of NFS", libnfs::programs;
    "nfs-ganesha", "our client of NFS works on nfs-ganesha", ganesha::client;
    "nfs-tshark", "tshark reads what our NFS client and server say over RDMA", tshark::decodes;
    releases:
    "import-export", "images move between us and a real cluster, both ways, byte for byte", images::import_export;
    "osd-crash", "a real OSD is killed and starts again under a verified load", load::osd_crash;
    "tools-ceph", "`ceph` manages pools of our embedded cluster", tools::ceph;
    "tools-rados", "`rados` works on objects of our embedded cluster", tools::rados;
    "tools-rbd", "`rbd` works on images of our embedded cluster", tools::rbd;
    "cephx", "we use a real cluster that wants keys, in every mode, and renew tickets", cephx::client;
    "tools-cephx", "Ceph's programs use our embedded cluster with keys, in every mode", cephx::server;
    "tools-v1", "Ceph's programs use our embedded cluster in version 1 of the messenger's protocol", tools::v1;
    "tools-cephx-v1", "Ceph's programs use our embedded cluster with keys in version 1 of the messenger's protocol", cephx::server_v1;
    releases_long_of_tentacle:
    "verified-load", "verified reads and writes on a real cluster", load::verified;
    "verified-load-v1", "the same, and images, in version 1 of the messenger's protocol", load::verified_v1;
    "socket-failures", "connections that break every few messages lose nothing, ours or Ceph's", load::socket_failures;
    "osd-restart", "a real OSD stops and starts under a verified load", load::osd_restart;
    "tools-rados-bench", "`rados bench` writes and reads our embedded cluster", tools::rados_bench;
    "tools-fio", "fio verifies our embedded cluster through librbd and librados", tools::fio;
    "tools-qemu-img", "QEMU's driver makes, writes and reads images of our embedded cluster", qemu_img::modes;
    "cephx-users", "users of a real cluster do what their capabilities say, and not more", users::on_real_ceph;
    "tools-cephx-users", "the same users of our embedded cluster, and `ceph auth`", users::on_ours;
    "tools-dns", "Ceph's programs and ours find our embedded cluster by SRV records alone", dns::monitors;
    "tools-blocklist", "clients that are shut out of our embedded cluster fail and are told so", blocklist::shut_out;
    "tools-compression", "Ceph's programs compress what they send to our embedded cluster, if they can", compression::on_ours;
    "osds-tools", "`ceph` sees and changes the OSDs of our embedded cluster", osds::tools;
    "osds", "OSDs of our embedded cluster stop and start under our and fio's verified load", osds::come_and_go;
    "restart", "librbd goes on when our cluster with --data was stopped, or killed, and started again", restart::under_load;
    "memory-limit", "writes wait for a full embedded cluster, and for a pool at its quota", memory::limit;
    "commands", "every command that Ceph's monitors know is answered by our embedded cluster", commands::all;
    "bad-input", "broken bytes and wrong arguments harm nobody", bad_input::run;
    since_reef:
    "test-rados", "upstream's tests of librados's bindings for Python pass on our embedded cluster", rados_tests::run;
    "compression", "frames to and from a real OSD are compressed, by every method", compression::on_real_ceph;
    "compression-secure", "the same encrypted, where both sides agree to that", compression::on_real_ceph_secure;
    tentacle:
    "cephx-keys", "users of a real cluster with keys of both types work in every mode", cephx::both_types_of_keys;
    "crush-changes", "maps that change CRUSH under a verified load are as the monitors have them", load::crush_changes;
};

/// Runs the scenarios that the options name. An error if one fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.list {
        for scenario in SCENARIOS {
            println!("{:26} {}", scenario.name, scenario.what);
        }
        return Ok(());
    }
    packages::ensure()?;
    let named = |scenario: &&Scenario| {
        options.names.is_empty() || options.names.iter().any(|name| scenario.name.contains(name))
    };
    let scenarios: Vec<_> = SCENARIOS.iter().filter(named).collect();
    if scenarios.is_empty() {
        bail!("no scenario has such a name (see --list)");
    }
    let workspace = Workspace::load()?;
    let onego = find_onego(&workspace, options.onego.as_deref())?;
    match Prepared::new(&workspace, scenarios)?.run(&onego).failed {
        0 => Ok(()),
        failed => bail!("{failed} scenarios failed"),
    }
}

/// Scenarios that are to be run, and what they take.
pub(crate) struct Prepared {
    scenarios: Vec<&'static Scenario>,
    home: Home,
    installs: Installs,
}

/// Gets what the scenarios with `filter` in their names take, but for the program that they test. `None`: there are none.
pub(crate) fn prepare(workspace: &Workspace, filter: Option<&str>) -> Result<Option<Prepared>> {
    let matching = |scenario: &&Scenario| match filter {
        Some(filter) => scenario.name.contains(filter),
        None => !scenario.long || test::is_long(),
    };
    let scenarios: Vec<_> = SCENARIOS.iter().filter(matching).collect();
    if scenarios.is_empty() {
        return Ok(None);
    }
    Prepared::new(workspace, scenarios).map(Some)
}

impl Prepared {
    fn new(workspace: &Workspace, scenarios: Vec<&'static Scenario>) -> Result<Self> {
        let home = Home::enter(workspace)?;
        let installs = Installs::find(&home, scenarios.iter().map(|scenario| scenario.release))?;
        if scenarios.iter().any(|scenario| scenario.guest) {
            guest::prepare(&home)?;
        }
        Ok(Self { scenarios, home, installs })
    }

    /// Runs the scenarios with this program and counts them.
    ///
    /// One more at a time than there are processors, because most wait more than they work. Guests do nothing but work: one
    /// thread takes those first, and the others take them last.
    pub(crate) fn run(&self, onego: &Path) -> Tally {
        let threads = available_parallelism().map_or(1, usize::from) + 1;
        let left = Mutex::new((0..self.scenarios.len()).collect::<VecDeque<_>>());
        let results = Mutex::new(BTreeMap::new());
        thread::scope(|scope| {
            for thread in 0..threads.min(self.scenarios.len()) {
                let left = &left;
                let take = move || match thread {
                    0 => lock(left).pop_front(),
                    _ => lock(left).pop_back(),
                };
                let results = &results;
                scope.spawn(move || {
                    while let Some(place) = take() {
                        let outcome = self.run_one(self.scenarios[place], onego);
                        lock(results).insert(place, outcome);
                    }
                });
            }
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let table: Vec<_> = self.scenarios.iter().zip(results.into_values()).collect();
        print_table(&table);
        let failed = table.iter().filter(|(_, outcome)| !outcome.ok).count();
        Tally { passed: table.len() - failed, failed }
    }

    /// Runs one scenario on a stage of its own, and says how it went.
    fn run_one(&self, scenario: &Scenario, onego: &Path) -> Outcome {
        sh::step(&format!("{}: {}", scenario.name, scenario.what));
        let start = Instant::now();
        let result = Stage::new(&self.home, scenario.name, self.installs.of(scenario.release), onego)
            .and_then(|stage| {
                (scenario.run)(&stage)?;
                stage.clear()
            });
        let took = start.elapsed();
        match &result {
            Ok(()) => eprintln!("{} is ok after {:.1} s", scenario.name, took.as_secs_f64()),
            Err(error) => eprintln!(
                "{} failed: {error:#}\nits files are in {}",
                scenario.name,
                self.home.folder(scenario.name).display()
            ),
        }
        Outcome { ok: result.is_ok(), took }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a scenario went.
struct Outcome {
    ok: bool,
    took: Duration,
}

/// The `onego` program: the one that was asked for, or this tree's, built as users get it.
pub(crate) fn find_onego(workspace: &Workspace, program: Option<&Path>) -> Result<PathBuf> {
    if let Some(program) = program {
        return program.canonicalize().with_context(|| format!("there is no program {}", program.display()));
    }
    sh::step("building onego");
    sh::run(workspace.cargo().args([
        "build",
        "--quiet",
        "--release",
        "--package",
        "onego-cli",
        "--features",
        "rdma-core",
    ]))?;
    Ok(workspace.target_directory.join("release/onego"))
}

fn print_table(table: &[(&&Scenario, Outcome)]) {
    println!("\n{:26} {:6} {:>8}", "scenario", "result", "seconds");
    for (scenario, Outcome { ok, took }) in table {
        let result = if *ok { "ok" } else { "FAILED" };
        println!("{:26} {result:6} {:8.1}", scenario.name, took.as_secs_f64());
    }
}
