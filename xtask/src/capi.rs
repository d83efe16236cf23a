//! Builds and installs the C library, one shared object for librados and librbd.

use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use xshell::cmd;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Install library, headers and pkg-config files below DIR
    #[arg(long, value_name = "DIR")]
    install: Option<PathBuf>,
    /// Install this libonego_capi.so instead of building one
    #[arg(long, value_name = "FILE", requires = "install")]
    library: Option<PathBuf>,
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let library = match &options.library {
        Some(library) => library.clone(),
        None => {
            let sh = &workspace.sh;
            // Like a release, but panics unwind to the border to C.
            cmd!(sh, "cargo build --quiet --profile capi --package onego-capi").run()?;
            workspace.target.join("capi/libonego_capi.so")
        }
    };
    if let Some(prefix) = &options.install {
        return install(&workspace.root, &library, prefix);
    }
    println!("{}", library.display());
    Ok(())
}

fn install(root: &Path, library: &Path, prefix: &Path) -> Result<()> {
    let lib = prefix.join("lib");
    fs::create_dir_all(lib.join("pkgconfig"))?;
    // The sonames, and the names for `-lrados -lrbd`.
    let real = "librados.so.2";
    replace(library, &lib.join(real))?;
    for name in ["librbd.so.1", "librados.so", "librbd.so"] {
        let link = lib.join(name);
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link)?;
        }
        symlink(real, &link).with_context(|| format!("cannot create {}", link.display()))?;
    }
    for (folder, header) in [("rados", "librados.h"), ("rbd", "librbd.h")] {
        let include = prefix.join("include").join(folder);
        fs::create_dir_all(&include)?;
        replace(&root.join("crates/capi/include").join(folder).join(header), &include.join(header))?;
    }
    let prefix = prefix.canonicalize()?;
    for name in ["rados.pc", "rbd.pc"] {
        let text = fs::read_to_string(root.join("xtask/data").join(name))?;
        fs::write(lib.join("pkgconfig").join(name), text.replace("PREFIX", &prefix.to_string_lossy()))?;
    }
    Ok(())
}

/// Replaces a file atomically: running programs may have it mapped.
fn replace(from: &Path, to: &Path) -> Result<()> {
    let new = to.with_extension("new");
    fs::copy(from, &new).with_context(|| format!("cannot copy {} to {}", from.display(), new.display()))?;
    fs::rename(&new, to).with_context(|| format!("cannot create {}", to.display()))
}
