//! Everything that a developer or CI runs, as `cargo xtask COMMAND`.
#![forbid(unsafe_code)]

mod capi;
mod cluster;
mod compare;
mod dist;
mod documents;
mod fuzz;
mod guest;
mod interop;
mod lint;
mod long;
mod packages;
mod program;
mod reference;
mod release;
mod sanitize;
mod sh;
mod tally;
mod test;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// What a developer or CI runs.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Lint, then every test: what has to pass before a change goes in. In the long form some seconds of fuzzing for each target, too
    Ci(test::Options),
    /// Format, clippy, rustdoc, cargo-deny, dependency direction, unsafe policy, tidiness
    Lint(lint::Options),
    /// Every test, the interop scenarios included; the last line counts them
    Test(test::Options),
    /// Our programs against real Ceph clusters, and Ceph's programs against ours
    Interop(interop::Options),
    /// Our figures and a peer's, in one run on this machine
    Compare(compare::Options),
    /// What users install: the static program, its manual, a package for Debian, an image for containers
    Dist(dist::Options),
    /// The pages of the reference, which follow from the definitions of the command line
    Reference(reference::Options),
    /// The release checklist
    Release(release::Options),
    /// Types what documents for users tell people to type: `interop documents`
    Docs(interop::DocsOptions),
    /// The library for programs that were built for Ceph's librados and librbd
    Capi(capi::Options),
    /// Fuzz the decoders
    Fuzz(fuzz::Options),
    /// Tests under the address sanitizer, and loom over what is lock-free
    Sanitize,
    /// Sends broken bytes to an address (the interop scenarios run this inside their network)
    #[command(hide = true)]
    SendGarbage(interop::attacks::garbage::Options),
    /// Attacks a directory that is served over NFS (an interop scenario runs this inside its network)
    #[command(hide = true)]
    NfsAttack(interop::attacks::nfs::Options),
    /// Makes a server hold what it can, and measures that (an interop scenario runs this inside its network)
    #[command(hide = true)]
    MemoryAttack(interop::attacks::memory::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Task::Ci(options) if options.is_long() => {
            test::run(&options, &[("lint", lint::before_fuzzing), ("fuzz", fuzz::briefly)])
        }
        Task::Ci(options) => test::run(&options, &[("lint", || lint::run(&lint::Options::default()))]),
        Task::Lint(options) => lint::run(&options),
        Task::Test(options) => test::run(&options, &[]),
        Task::Interop(options) => interop::run(&options),
        Task::Compare(options) => compare::run(&options),
        Task::Dist(options) => dist::run(&options),
        Task::Reference(options) => reference::run(&options),
        Task::Release(options) => release::run(&options),
        Task::Docs(options) => interop::run_documents(options),
        Task::Capi(options) => capi::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Sanitize => sanitize::run(),
        Task::SendGarbage(options) => interop::attacks::garbage::run(&options),
        Task::NfsAttack(options) => interop::attacks::nfs::attack(&options),
        Task::MemoryAttack(options) => interop::attacks::memory::attack(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
