//! What users install: one static program, and what belongs to it.

mod debian;
mod files;
mod oci;
mod origins;
mod program;
mod release;
mod tree;

use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use files::{sums_of, tar_of, zstd};
use release::{ARCHITECTURE, Release};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where it goes [default: target/dist-files]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Build the program twice, and compare
    #[arg(long)]
    twice: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let workspace = Workspace::load()?;
    let out = options.out.clone().unwrap_or_else(|| workspace.target_directory.join("dist-files"));
    let built = build(&workspace, &out, options.twice)?;
    println!();
    for file in built {
        println!("{:>12} {}", fs::metadata(&file)?.len(), file.display());
    }
    Ok(())
}

/// Builds all files into a folder, and returns them.
fn build(workspace: &Workspace, out: &Path, twice: bool) -> Result<Vec<PathBuf>> {
    let release = Release::of(workspace)?;
    let program = program::build(workspace)?;
    if twice {
        program::build_again(workspace, &program)?;
    }
    if out.exists() {
        fs::remove_dir_all(out).with_context(|| format!("cannot empty {}", out.display()))?;
    }
    let tree = out.join("tree");
    tree::lay_out(workspace, &program, &tree)?;
    sh::step("packing");
    let name = format!("onego-{}-linux-{ARCHITECTURE}", release.version);
    let bill = out.join(format!("{name}.cdx.json"));
    fs::write(&bill, origins::bill_of_materials(workspace, &release.version)?)?;
    let archive = out.join(format!("{name}.tar.zst"));
    zstd(&archive, &tar_of(&tree, &name, release.date)?)?;
    let image = out.join(format!("{name}.oci.tar"));
    oci::write(&release, &program, &image)?;
    let package = debian::package(&release, &tree, out)?;
    fs::remove_dir_all(&tree)?;
    let mut files = vec![archive, bill, image, package];
    files.sort();
    let sums = out.join("SHA256SUMS");
    fs::write(&sums, sums_of(out, &files)?)?;
    files.push(sums);
    Ok(files)
}
