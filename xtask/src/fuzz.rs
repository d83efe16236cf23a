//! Fuzzes the decoders, and keeps minimised corpora in the tree.

use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;
use std::thread::available_parallelism;
use xshell::cmd;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Fuzz only this target
    target: Option<String>,
    /// Fuzz each target for this many seconds
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// Fuzz each target for five minutes
    #[arg(long, conflicts_with = "seconds")]
    long: bool,
    /// Minimise the corpora and pack them into fuzz/corpora instead of fuzzing
    #[arg(long, conflicts_with_all = ["seconds", "long"])]
    keep: bool,
}

/// libFuzzer's bounds. No decoder may allocate more than a few times its input, or run long: exceeding them is a finding.
const BOUNDS: &[&str] = &["-max_len=65536", "-malloc_limit_mb=64", "-rss_limit_mb=1024", "-timeout=10"];

/// Largest archive in the tree, in bytes. All targets together stay below 4 MiB in each version that git keeps.
const MAX_ARCHIVE: usize = 176 << 10;

/// Fuzzes every target for a few seconds.
pub(crate) fn briefly(workspace: &Workspace) -> Result<()> {
    // These programs run for seconds, so compile time matters more than speed.
    let _level = workspace.sh.push_env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    let _debug = workspace.sh.push_env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    run(workspace, &Options { target: None, seconds: 5, long: false, keep: false })
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let Workspace { sh, root, .. } = workspace;
    workspace.install("cargo-fuzz")?;
    // Allows the sanitizer's unstable flags on the stable toolchain.
    let _bootstrap = sh.push_env("RUSTC_BOOTSTRAP", "1");
    let list = cmd!(sh, "cargo fuzz list").quiet().read()?;
    let is_selected = |name: &&str| options.target.as_deref().is_none_or(|target| target == *name);
    let targets: Vec<_> = list.lines().filter(is_selected).collect();
    ensure!(!targets.is_empty(), "no such fuzz target: see `cargo fuzz list`");
    for name in &targets {
        let corpus = root.join("fuzz/corpus").join(name);
        let archive = root.join("fuzz/corpora").join(format!("{name}.tar.zst"));
        fs::create_dir_all(&corpus)?;
        if archive.exists() {
            unpack(&archive, &corpus)?;
        }
        if options.keep {
            cmd!(sh, "cargo fuzz cmin {name} -- {BOUNDS...}").run()?;
            let (kept, all) = pack(&corpus, &archive)?;
            println!("{name}: kept {kept} of {all} inputs");
        }
    }
    if options.keep {
        return Ok(());
    }
    let seconds = if options.long { 300 } else { options.seconds };
    let time = format!("-max_total_time={seconds}");
    // Only a single target shows its progress.
    let verbosity = format!("-verbosity={}", u8::from(targets.len() == 1));
    let jobs = available_parallelism()?.to_string();
    cmd!(sh, "cargo fuzz build").run()?;
    cmd!(
        sh,
        "xargs --max-procs={jobs} --replace=TARGET cargo fuzz run TARGET -- {verbosity} {time} {BOUNDS...}"
    )
    .stdin(targets.join("\n"))
    .run()
    .context("findings: see above, and fuzz/artifacts for the inputs")?;
    println!("\n{} targets fuzzed for {seconds} s each, no findings", targets.len());
    Ok(())
}

/// Packs the inputs in a folder, the smallest first, as many as fit. Returns how many that are, and how many there were.
fn pack(corpus: &Path, archive: &Path) -> Result<(usize, usize)> {
    let mut inputs = Vec::new();
    for entry in fs::read_dir(corpus)? {
        inputs.push(fs::read(entry?.path())?);
    }
    inputs.sort_by(|one, other| one.len().cmp(&other.len()).then_with(|| one.cmp(other)));
    inputs.dedup();
    let counts: Vec<_> = (1..=inputs.len()).collect();
    let fits = |count: &usize| compress(&inputs[..*count]).is_ok_and(|bytes| bytes.len() <= MAX_ARCHIVE);
    let kept = counts.partition_point(fits);
    fs::write(archive, compress(&inputs[..kept])?)?;
    Ok((kept, inputs.len()))
}

/// Returns an archive with the same bytes for the same inputs, which are numbered: hashes as names would take space.
fn compress(inputs: &[Vec<u8>]) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (number, input) in inputs.iter().enumerate() {
        let mut header = tar::Header::new_ustar();
        header.set_size(input.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("kept-{number:05}"), input.as_slice())?;
    }
    Ok(zstd::encode_all(archive.into_inner()?.as_slice(), 19)?)
}

/// Adds the inputs of an archive to a folder.
fn unpack(archive: &Path, corpus: &Path) -> Result<()> {
    let unpacked = zstd::Decoder::new(fs::File::open(archive)?).map(tar::Archive::new)?.unpack(corpus);
    unpacked.with_context(|| format!("cannot unpack {}: restore it from git", archive.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_inputs_make_equal_archives_and_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (corpus, inputs) in
            [("a", ["long input", "", "short", "short"]), ("b", ["short", "", "long input", ""])]
        {
            for (number, input) in inputs.iter().enumerate() {
                let file = path(corpus).join(number.to_string());
                xshell::Shell::new().unwrap().write_file(file, input).unwrap();
            }
            assert_eq!(pack(&path(corpus), &path(&format!("{corpus}.zst"))).unwrap(), (3, 3));
        }
        assert_eq!(fs::read(path("a.zst")).unwrap(), fs::read(path("b.zst")).unwrap());
        unpack(&path("a.zst"), &path("c")).unwrap();
        assert_eq!(fs::read(path("c/kept-00001")).unwrap(), b"short");
    }
}
