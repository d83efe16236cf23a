//! Development tasks: `cargo xtask COMMAND`.
#![forbid(unsafe_code)]

mod capi;
mod cycles;
mod dist;
mod documents;
mod fuzz;
mod layers;
mod lint;
mod release;
mod sanitize;
mod test;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Development tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every check that CI runs: lint, then test
    Ci(test::Options),
    /// Check format, clippy, rustdoc, layers, module cycles, unsafe policy, links, licences
    Lint(lint::Options),
    /// Run the tests and count them
    Test(test::Options),
    /// Fuzz the decoders
    Fuzz(fuzz::Options),
    /// Run tests under the address sanitizer, loom and Miri
    Sanitize(sanitize::Options),
    /// Build the program, Debian package, OCI image and bill of materials
    Dist(dist::Options),
    /// Build and install the C library (librados and librbd)
    Capi(capi::Options),
    /// Write docs/reference
    Reference,
    /// Run the release checklist
    Release(release::Options),
}

fn main() -> ExitCode {
    let task = Arguments::parse().task;
    let result = workspace::Workspace::load().and_then(|workspace| match task {
        Task::Ci(options) => test::run(&workspace, &options, true),
        Task::Lint(options) => lint::run(&workspace, &options),
        Task::Test(options) => test::run(&workspace, &options, false),
        Task::Fuzz(options) => fuzz::run(&workspace, &options),
        Task::Sanitize(options) => sanitize::run(&workspace, &options),
        Task::Dist(options) => dist::run(&workspace, &options),
        Task::Capi(options) => capi::run(&workspace, &options),
        Task::Reference => release::write_reference(&workspace),
        Task::Release(options) => release::run(&workspace, &options),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
