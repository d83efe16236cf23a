//! Our programs against real Ceph clusters, and Ceph's programs against ours. Nothing here is skipped: what a
//! scenario needs and cannot have is a failure.

mod bad_input;
mod blocklist;
mod cephx;
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
mod tools;
mod tshark;
mod users;
mod verbs;

pub(crate) use load::read_rows;

use crate::cluster::{Home, Install, Installs, Release, Stage};
use crate::packages;
use crate::sh;
use crate::test::{self, Tally};
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
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
    Scenario { name, what, release, long: false, run }
}

/// The same scenarios for every release of Ceph that we are tested against, then those of what only 18.2 has, then those
/// that have no release, of which the last belong to the long form of the tests.
macro_rules! for_releases {
    (
        $($name:literal, $what:literal, $run:path;)*
        reef: $($reef:literal, $reef_what:literal, $reef_run:path;)*
        once: $($once:literal, $once_what:literal, $once_run:path;)*
        long: $($long:literal, $long_what:literal, $long_run:path;)*
    ) => {
        &[
            $(scenario(concat!("ceph16-", $name), $what, Release::Pacific, $run),)*
            $(scenario(concat!("ceph18-", $name), $what, Release::Reef, $run),)*
            $(scenario(concat!("ceph18-", $reef), $reef_what, Release::Reef, $reef_run),)*
            $(scenario($once, $once_what, Release::Pacific, $once_run),)*
            $(Scenario { long: true, ..scenario($long, $long_what, Release::Pacific, $long_run) },)*
        ]
    };
}

const SCENARIOS: &[Scenario] = for_releases! {
    "import-export", "images move between us and a real cluster, both ways, byte for byte", images::import_export;
    "verified-load", "ten seconds of verified reads and writes on a real cluster", load::verified;
    "verified-load-v1", "the same, and images, in version 1 of the messenger's protocol", load::verified_v1;
    "socket-failures", "connections that break every few messages lose nothing, ours or Ceph's", load::socket_failures;
    "osd-restart", "a real OSD stops and starts under a verified load", load::osd_restart;
    "osd-crash", "a real OSD is killed and starts again under a verified load", load::osd_crash;
    "tools-ceph", "`ceph` manages pools of our embedded cluster", tools::ceph;
    "tools-rados", "`rados` works on objects of our embedded cluster", tools::rados;
    "tools-rados-bench", "`rados bench` writes and reads our embedded cluster", tools::rados_bench;
    "tools-rbd", "`rbd` works on images of our embedded cluster", tools::rbd;
    "tools-fio", "fio verifies our embedded cluster through librbd and librados", tools::fio;
    "tools-qemu-img", "QEMU's driver makes, writes and reads images of our embedded cluster", qemu_img::modes;
    "cephx", "we use a real cluster that wants keys, in every mode, and renew tickets", cephx::client;
    "tools-cephx", "Ceph's programs use our embedded cluster with keys, in every mode", cephx::server;
    "cephx-users", "users of a real cluster do what their capabilities say, and not more", users::on_real_ceph;
    "tools-cephx-users", "the same users of our embedded cluster, and `ceph auth`", users::on_ours;
    "tools-dns", "Ceph's programs and ours find our embedded cluster by SRV records alone", dns::monitors;
    "tools-blocklist", "clients that are shut out of our embedded cluster fail and are told so", blocklist::shut_out;
    "tools-v1", "Ceph's programs use our embedded cluster in version 1 of the messenger's protocol", tools::v1;
    "tools-compression", "Ceph's programs compress what they send to our embedded cluster, if they can", compression::on_ours;
    "osds-tools", "`ceph` sees and changes the OSDs of our embedded cluster", osds::tools;
    "osds", "OSDs of our embedded cluster stop and start under our and fio's verified load", osds::come_and_go;
    "memory-limit", "writes wait for a full embedded cluster, and for a pool at its quota", memory::limit;
    "bad-input", "broken bytes and wrong arguments harm nobody", bad_input::run;
    reef:
    "compression", "frames to and from a real OSD are compressed, by every method", compression::on_real_ceph;
    "compression-secure", "the same encrypted, where both sides agree to that", compression::on_real_ceph_secure;
    once:
    "krbd", "the kernel's client, in a guest, keeps a file system on our embedded cluster", krbd::modes;
    "krbd-cephx", "the same with keys: encrypted, with checksums and with signatures", krbd::modes_with_key;
    "nfs-libnfs", "libnfs's programs work on our server of NFS", libnfs::programs;
    "nfs-ganesha", "our client of NFS works on nfs-ganesha", ganesha::client;
    "nfs-kernel-tcp", "the kernel's NFS client works on our server, over TCP", nfs::kernel_on_ours;
    "nfs-kernel-directory", "the kernel's NFS client works on a directory that we serve", nfs::kernel_on_directory;
    "nfs-pjdfstest", "the kernel's client on our server of NFS does what POSIX says", pjdfstest::on_memory;
    "nfs-kernel-rdma", "the kernel's NFS client works on our server over RDMA", nfs::kernel_on_ours_by_rdma;
    "rdma-core", "our provider over rdma-core, with itself over siw and over rxe", verbs::with_itself;
    "nfs-device", "NFS by devices, siw and rxe, over rdma-core: our client on the kernel's server", verbs::nfs;
    "nfs-tshark", "tshark reads what our NFS client and server say over RDMA", tshark::decodes;
    "nfs-knfsd", "our NFS client works on the kernel's server, over TCP and RDMA", nfs::ours_on_kernel;
    long:
    "nfs-pjdfstest-directory", "the kernel's client on a directory that we serve does what POSIX says", pjdfstest::on_directory;
    "nfs-kernel-kernel", "the kernel's NFS client works on the kernel's server, over TCP and RDMA", nfs::kernel_on_kernel;
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
    let workspace = Workspace::load()?;
    let onego = find_onego(&workspace, options.onego.as_deref())?;
    let tally = run_scenarios(&workspace, &onego, SCENARIOS.iter().filter(named))?;
    match tally {
        Tally { passed: 0, failed: 0 } => bail!("no scenario has such a name (see --list)"),
        Tally { failed: 0, .. } => Ok(()),
        Tally { failed, .. } => bail!("{failed} scenarios failed"),
    }
}

/// Runs the scenarios with `filter` in their name and counts them.
pub(crate) fn run_matching(workspace: &Workspace, filter: Option<&str>) -> Result<Tally> {
    let matching = |scenario: &&Scenario| match filter {
        Some(filter) => scenario.name.contains(filter),
        None => !scenario.long || test::is_long(),
    };
    let mut scenarios = SCENARIOS.iter().filter(matching).peekable();
    if scenarios.peek().is_none() {
        return Ok(Tally::default());
    }
    let onego = find_onego(workspace, None)?;
    run_scenarios(workspace, &onego, scenarios)
}

/// Runs scenarios, so many at a time as there are processors: they wait more than they work, and each has its stage.
fn run_scenarios<'a>(
    workspace: &Workspace,
    onego: &Path,
    scenarios: impl Iterator<Item = &'a Scenario>,
) -> Result<Tally> {
    let scenarios: Vec<_> = scenarios.collect();
    let home = Home::enter(workspace)?;
    let installs = Installs::find(&home, scenarios.iter().map(|scenario| scenario.release))?;
    let at_once = available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..at_once.min(scenarios.len()) {
            scope.spawn(|| {
                while let Some((place, scenario)) = take(&scenarios, &next) {
                    let result = run_scenario(scenario, &home, installs.of(scenario.release), onego);
                    results.lock().unwrap_or_else(PoisonError::into_inner).insert(place, result);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let table: Vec<_> = scenarios.iter().zip(results.into_values()).collect();
    print_table(&table);
    let failed = table.iter().filter(|(_, outcome)| !outcome.ok).count();
    Ok(Tally { passed: table.len() - failed, failed })
}

/// The next of the scenarios that nobody has taken.
fn take<'a>(scenarios: &[&'a Scenario], next: &AtomicUsize) -> Option<(usize, &'a Scenario)> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    Some((place, *scenarios.get(place)?))
}

/// How a scenario went.
struct Outcome {
    ok: bool,
    took: Duration,
}

/// Runs one scenario on a stage of its own, and says how it went.
fn run_scenario(scenario: &Scenario, home: &Home, install: &Install, onego: &Path) -> Outcome {
    sh::step(&format!("{}: {}", scenario.name, scenario.what));
    let start = Instant::now();
    let result = Stage::new(home, scenario.name, install, onego).and_then(|stage| {
        (scenario.run)(&stage)?;
        stage.clear()
    });
    let took = start.elapsed();
    match &result {
        Ok(()) => eprintln!("{} is ok after {:.1} s", scenario.name, took.as_secs_f64()),
        Err(error) => eprintln!(
            "{} failed: {error:#}\nits files are in {}",
            scenario.name,
            home.folder(scenario.name).display()
        ),
    }
    Outcome { ok: result.is_ok(), took }
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
