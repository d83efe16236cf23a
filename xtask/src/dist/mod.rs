//! What users install: one static program, and what belongs to it.

mod debian;
mod oci;
mod origins;
mod program;
mod tree;

use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The architecture that is built for, as Debian and OCI call it.
const ARCHITECTURE: &str = "amd64";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where it goes [default: target/dist-files]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Build the program twice, and compare
    #[arg(long)]
    twice: bool,
}

/// What the files are called and dated by.
struct Release {
    version: String,
    /// Seconds since 1970: the time of the last commit, so that the same sources give the same bytes.
    date: u64,
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

impl Release {
    fn of(workspace: &Workspace) -> Result<Self> {
        let program = workspace.members().find(|package| package.name == "onego-cli");
        let version = program.context("there is no package onego-cli")?.version.clone();
        let mut git = Command::new("git");
        git.current_dir(&workspace.workspace_root).args(["log", "-1", "--format=%ct"]);
        let date = sh::text(&mut git)?.trim().parse().context("git gives no date")?;
        Ok(Self { version, date })
    }
}

/// The bytes of an archive of a folder, whose entries begin with `prefix`: the same for the same files.
fn tar_of(folder: &Path, prefix: &str, date: u64) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for path in files_below(folder)? {
        let name = Path::new(prefix).join(path.strip_prefix(folder)?);
        let mut header = tar::Header::new_gnu();
        let metadata = fs::metadata(&path)?;
        header.set_size(metadata.len());
        header.set_mode(if program::is_executable(&metadata) { 0o755 } else { 0o644 });
        header.set_mtime(date);
        archive.append_data(&mut header, name, File::open(&path)?)?;
    }
    Ok(archive.into_inner()?)
}

/// All files below a folder, in order.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn zstd(path: &Path, bytes: &[u8]) -> Result<()> {
    const LEVEL: i32 = 19;
    fs::write(path, zstd::bulk::compress(bytes, LEVEL)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// A line for each file, as `sha256sum --check` reads them.
fn sums_of(folder: &Path, files: &[PathBuf]) -> Result<String> {
    let names = files.iter().filter_map(|file| file.file_name());
    sh::text(Command::new("sha256sum").current_dir(folder).arg("--").args(names))
}

/// The SHA-256 of bytes, in hexadecimal digits.
fn sha256(path: &Path) -> Result<String> {
    let said = sh::text(Command::new("sha256sum").arg("--").arg(path))?;
    Ok(said.split_whitespace().next().unwrap_or_default().to_owned())
}
