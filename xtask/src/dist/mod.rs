//! What users install: one static program, and what belongs to it.

mod debian;
mod files;
mod oci;
mod origins;
mod program;
mod release;
mod tree;

pub(crate) use program::{MAX_SIZE, is_static};

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
    /// Build the program twice, the second time from a copy of the last commit elsewhere, and compare
    #[arg(long, conflicts_with = "onego")]
    twice: bool,
    /// Pack this static program instead of building it
    #[arg(long, value_name = "PROGRAM")]
    onego: Option<PathBuf>,
}

/// What was made.
pub(crate) struct Files {
    /// The static program.
    pub(crate) program: PathBuf,
    /// An archive of all files as they are installed.
    archive: PathBuf,
    /// The bill of materials.
    bill: PathBuf,
    /// The image for containers.
    pub(crate) image: PathBuf,
    /// The package for Debian.
    pub(crate) package: PathBuf,
    /// The checksums of all of them but the program, which is in them.
    pub(crate) sums: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let workspace = Workspace::load()?;
    let program = program(&workspace, options.onego.as_deref())?;
    if options.twice {
        program::build_again(&workspace, &program)?;
    }
    let out = options.out.clone().unwrap_or_else(|| workspace.target_directory.join("dist-files"));
    let Files { program, archive, bill, image, package, sums } = pack(&workspace, &program, &out)?;
    println!();
    for file in [program, archive, bill, image, package, sums] {
        println!("{:>12} {}", fs::metadata(&file)?.len(), file.display());
    }
    Ok(())
}

/// The static program: this one, or else the tree's, which is built if it is not as the sources are.
pub(crate) fn program(workspace: &Workspace, built: Option<&Path>) -> Result<PathBuf> {
    let program = match built {
        Some(program) => {
            program.canonicalize().with_context(|| format!("there is no {}", program.display()))?
        }
        None => program::build(workspace)?,
    };
    program::check(&program)?;
    Ok(program)
}

/// Makes all files in a folder, which is emptied.
pub(crate) fn pack(workspace: &Workspace, program: &Path, out: &Path) -> Result<Files> {
    sh::step("packing");
    let release = Release::of(workspace)?;
    if out.exists() {
        fs::remove_dir_all(out).with_context(|| format!("cannot empty {}", out.display()))?;
    }
    let tree = out.join("tree");
    tree::lay_out(workspace, program, &tree)?;
    let name = format!("onego-{}-linux-{ARCHITECTURE}", release.version);
    let bill = out.join(format!("{name}.cdx.json"));
    fs::write(&bill, origins::bill_of_materials(workspace, &release.version)?)?;
    let archive = out.join(format!("{name}.tar.zst"));
    zstd(&archive, &tar_of(&tree, &name, release.date)?)?;
    let image = out.join(format!("{name}.oci.tar"));
    oci::write(&release, program, &image)?;
    let package = debian::package(&release, &tree, out)?;
    fs::remove_dir_all(&tree)?;
    let sums = out.join("SHA256SUMS");
    fs::write(&sums, sums_of(out, &[&archive, &bill, &image, &package])?)?;
    Ok(Files { program: program.to_owned(), archive, bill, image, package, sums })
}
