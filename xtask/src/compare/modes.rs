//! Our block client in each of the messenger's modes, under the load that a series of patches for the kernel's
//! messenger was measured with: 32 clients with 32 requests each, and writes that the server forgets.

use super::builds::ours;
use super::load::{Load, short_size};
use super::mode::Mode;
use super::options::Options;
use super::report::Figures;
use super::row::Taken;
use super::subject::OURS;
use crate::cluster::{Home, Install, Release, Stage};
use crate::sh;
use anyhow::{Result, ensure};
use std::path::Path;

const JOBS: u32 = 32;
const IO_DEPTH: u32 = 32;

/// 4 KiB to 1 MiB, by powers of two.
const BLOCK_SIZES: std::ops::RangeInclusive<u32> = 12..=20;

pub(super) fn compare(options: &Options, home: &Home, onego: &Path) -> Result<Vec<Taken>> {
    ensure!(options.baseline.is_empty(), "--baseline is for `compare rbd`");
    let modes = if options.modes.is_empty() { &Mode::ALL } else { options.modes.as_slice() };
    let stage = Stage::new(home, "compare-modes", &Install::find(Release::Pacific, home)?, onego)?;
    let mut taken = Vec::new();
    for round in 1..=options.repeat {
        for rw in ["randwrite", "randread"] {
            for block_size in BLOCK_SIZES.map(|bits| 1 << bits) {
                for mode in modes {
                    let load = Load { mode: *mode, rw, block_size, jobs: JOBS, io_depth: IO_DEPTH };
                    sh::step(&format!("round {round} of {}: {load}", options.repeat));
                    // What was forgotten could not be read.
                    let more = if rw == "randwrite" { "--no-floor --null-writes" } else { "--no-floor" };
                    taken.extend(ours(&stage, OURS, &load, options.seconds, more)?);
                }
            }
        }
    }
    stage.clear()?;
    for rw in ["randwrite", "randread"] {
        print(&taken, modes, rw);
    }
    Ok(taken)
}

/// A line for each block size, with three columns for each mode.
fn print(taken: &[Taken], modes: &[Mode], rw: &str) {
    let column = |text: &dyn std::fmt::Display| format!("{:>33}", text.to_string());
    println!(
        "\n{rw}, numjobs={JOBS} iodepth={IO_DEPTH}: IOPS, MiB/s, CPU us/IO of client and server together\n"
    );
    println!("{:>5}{}", "", modes.iter().map(|mode| column(mode)).collect::<String>());
    for block_size in BLOCK_SIZES.map(|bits| 1 << bits) {
        let figures = modes.iter().map(|mode| {
            let of = |taken: &&Taken| {
                (taken.load.mode, taken.load.rw, taken.load.block_size) == (*mode, rw, block_size)
            };
            let figures = Figures::median(taken.iter().filter(of).map(|taken| &taken.row));
            format!("{}{}{}", figures.iops(13), figures.mib(10), figures.both_ends(10))
        });
        println!("{:>5}{}", short_size(block_size), figures.collect::<String>());
    }
}
