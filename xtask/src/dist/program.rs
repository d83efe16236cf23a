//! The static program.

use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The C library is linked in, so the program runs on any Linux.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// What the linker gets beside its own script, from the root of the tree, where it runs.
const NO_UNWIND: &str = "xtask/src/dist/no-unwind.ld";

/// How zstd compresses at levels that the messenger does not use: its level is 1.
const UNUSED_STRATEGIES: [&str; 7] = ["DFAST", "GREEDY", "LAZY", "LAZY2", "BTLAZY2", "BTOPT", "BTULTRA"];

/// What the compiler for C includes before every file of AWS-LC, from the root of the tree.
const SMALL_HANDSHAKES: &str = "xtask/src/dist/small-handshakes.h";

/// Most bytes of the program.
pub(crate) const MAX_SIZE: u64 = 12_000_000;

/// Builds the program.
pub(super) fn build(workspace: &Workspace) -> Result<PathBuf> {
    prepare()?;
    sh::step("building the static program");
    build_in(&workspace.workspace_root, &workspace.target_directory)
}

/// Builds the program of the last commit once more, in other folders, and compares.
pub(super) fn build_again(workspace: &Workspace, first: &Path) -> Result<()> {
    let mut status = Command::new("git");
    status.current_dir(&workspace.workspace_root).args(["status", "--porcelain"]);
    let changed = sh::text(&mut status)?;
    ensure!(
        changed.is_empty(),
        "commit these first, for it is the last commit that is built again:\n{changed}"
    );
    sh::step("building it once more elsewhere");
    let folder = workspace.target_directory.join("dist-again");
    let root = folder.join("tree");
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    sh::text(Command::new("git").args(["clone", "--quiet"]).arg(&workspace.workspace_root).arg(&root))?;
    let second = build_in(&root, &folder.join("target"))?;
    let same = fs::read(first)? == fs::read(&second)?;
    ensure!(same, "{} and {} differ", first.display(), second.display());
    Ok(())
}

/// Checks that a program is small and needs nothing else.
pub(super) fn check(program: &Path) -> Result<()> {
    ensure!(is_static(program)?, "{} needs shared libraries", program.display());
    let size = fs::metadata(program)?.len();
    ensure!(size <= MAX_SIZE, "{} has {size} bytes: at most {MAX_SIZE} are wanted", program.display());
    Ok(())
}

/// Does a program need no shared library?
pub(crate) fn is_static(program: &Path) -> Result<bool> {
    let headers = sh::text(Command::new("readelf").args(["--wide", "--program-headers"]).arg(program))?;
    Ok(!headers.contains("INTERP"))
}

/// Gets the compiler for C and the standard library that belong to the target.
fn prepare() -> Result<()> {
    if !sh::have("musl-gcc") {
        sh::step("installing musl-tools");
        sh::run(Command::new("apt-get").args(["install", "--yes", "--no-install-recommends", "musl-tools"]))?;
    }
    let installed = sh::text(Command::new("rustup").args(["target", "list", "--installed"]))?;
    if installed.lines().any(|target| target == TARGET) {
        return Ok(());
    }
    sh::run(Command::new("rustup").args(["target", "add", TARGET]))
}

/// The folder of the toolchain's linker, under the name by which compilers for C look for it.
fn linker() -> Result<PathBuf> {
    let libraries = sh::text(Command::new("rustc").args(["--print", "target-libdir"]))?;
    let folder = Path::new(libraries.trim()).with_file_name("bin").join("gcc-ld");
    ensure!(folder.is_dir(), "the toolchain has no linker in {}", folder.display());
    Ok(folder)
}

fn build_in(root: &Path, target: &Path) -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let home = home.context("there is no home directory")?;
    // Where it was built is nobody's business, and would make two builds differ. A panic ends the program, so nothing unwinds it:
    // what it would be unwound by is a megabyte, which the compiler makes for all because the standard library's code has it. Packed
    // relocations are a tenth of plain ones (musl 1.2.4 and later know them). Functions that are the same code are there once: the
    // toolchain's linker finds them, and the system's does not.
    let (root_shown, home_shown, target_shown) = (root.display(), home.display(), target.display());
    let rust = format!(
        "--remap-path-prefix={root_shown}=/onego --remap-path-prefix={home_shown}=/cargo \
         -Clink-arg=-Wl,-T,{NO_UNWIND} -Clink-arg=-Wl,-z,pack-relative-relocs \
         -Clink-arg=-B{} -Clink-arg=-fuse-ld=lld -Clink-arg=-Wl,--icf=all",
        linker()?.display()
    );
    let mut c = format!("-ffile-prefix-map={target_shown}=/target -ffile-prefix-map={home_shown}=/cargo");
    for strategy in UNUSED_STRATEGIES {
        c += &format!(" -DZSTD_EXCLUDE_{strategy}_BLOCK_COMPRESSOR");
    }
    // AWS-LC takes these in place of the others.
    let handshakes = format!("{c} -include {root_shown}/{SMALL_HANDSHAKES}");
    let mut command = sh::cargo();
    command.current_dir(root).env("RUSTFLAGS", rust).env("CFLAGS", c).env("AWS_LC_SYS_CFLAGS", handshakes);
    command.args(["build", "--quiet", "--locked", "--profile", "dist", "--package", "onego-cli"]);
    command.args(["--target", TARGET, "--target-dir"]).arg(target);
    sh::run(&mut command)?;
    Ok(target.join(TARGET).join("dist/onego"))
}
