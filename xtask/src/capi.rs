//! Builds the shared object with the C interface of librados and librbd, and lays it out as programs look for it.

use crate::sh;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Lay the library, its headers and what pkg-config reads out below this folder
    #[arg(long, value_name = "DIR")]
    install: Option<PathBuf>,
}

/// The profile of the shared object: that of releases, stripped, and with panics that end at the border to C.
const PROFILE: &str = "capi";

/// The names of the one object: what programs were linked with, and what they are linked with by `-lrados -lrbd`.
const NAMES: [&str; 4] = ["librados.so.2", "librbd.so.1", "librados.so", "librbd.so"];

/// The libraries as pkg-config knows them: name, what it says, version.
const PACKAGES: [(&str, &str, &str); 2] =
    [("rados", "objects of a Ceph cluster", "2.0.0"), ("rbd", "images of a Ceph cluster", "1.20.0")];

pub(crate) fn run(options: &Options) -> Result<()> {
    let workspace = Workspace::load()?;
    let library = build(&workspace)?;
    match &options.install {
        Some(folder) => install(&workspace, &library, folder),
        None => {
            println!("{}", library.display());
            Ok(())
        }
    }
}

/// Builds the shared object as users get it.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    sh::step("building the library for programs in C");
    sh::run(workspace.cargo().args(["build", "--quiet", "--profile", PROFILE, "--package", "onego-capi"]))?;
    Ok(workspace.target_directory.join(PROFILE).join("libonego_capi.so"))
}

/// Lays the object out below `folder`: in `lib` under all its names, with headers in `include`.
pub(crate) fn install(workspace: &Workspace, library: &Path, folder: &Path) -> Result<()> {
    let lib = folder.join("lib");
    fs::create_dir_all(lib.join("pkgconfig"))?;
    let [real, names @ ..] = NAMES;
    copy(library, &lib.join(real))?;
    for name in names {
        let link = lib.join(name);
        match fs::remove_file(&link) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => symlink(real, &link).with_context(|| format!("cannot make {}", link.display()))?,
        }
    }
    let headers = workspace.workspace_root.join("crates/capi/include");
    for header in ["rados/librados.h", "rbd/librbd.h"] {
        let place = folder.join("include").join(header);
        fs::create_dir_all(place.parent().context("a header is in a folder")?)?;
        copy(&headers.join(header), &place)?;
    }
    for (name, what, version) in PACKAGES {
        let place = lib.join("pkgconfig").join(format!("{name}.pc"));
        fs::write(&place, package(&folder.canonicalize()?, name, what, version))?;
    }
    Ok(())
}

/// What pkg-config reads.
fn package(prefix: &Path, name: &str, what: &str, version: &str) -> String {
    format!(
        "prefix={}\nincludedir=${{prefix}}/include\nlibdir=${{prefix}}/lib\n\n\
         Name: {name}\nDescription: {what}, by Onego\nVersion: {version}\n\
         Cflags: -I${{includedir}}\nLibs: -L${{libdir}} -l{name}\n",
        prefix.display()
    )
}

/// Replaces a file that running programs may have mapped.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let new = to.with_extension("new");
    fs::copy(from, &new).with_context(|| format!("cannot copy {} to {}", from.display(), new.display()))?;
    fs::rename(&new, to).with_context(|| format!("cannot make {}", to.display()))
}
