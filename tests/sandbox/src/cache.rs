//! Folders that are expensive to make and therefore kept from one run to the next.

use crate::{sh, workspace};
use anyhow::{Context as _, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// File in a kept folder with the description it was made of.
const MADE_OF: &str = "made-of";

/// Returns the folder `target/NAME`, which `build` fills if it is missing or was made of something else.
///
/// It is built next to its place and renamed when complete. Concurrent callers wait for each other.
pub fn cached(name: &str, made_of: &str, build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let folder = workspace::target()?.join(name);
    let parent = folder.parent().context("a folder has a parent")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    let lock = File::create(folder.with_extension("lock"))?;
    lock.lock().with_context(|| format!("cannot lock {}", folder.display()))?;
    if fs::read_to_string(folder.join(MADE_OF)).is_ok_and(|found| found == made_of) {
        return Ok(folder);
    }
    sh::step(&format!("making {name} (once)"));
    let building = folder.with_extension("part");
    for old in [&building, &folder] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
    }
    fs::create_dir(&building)?;
    build(&building)?;
    fs::write(building.join(MADE_OF), made_of)?;
    fs::rename(&building, &folder)?;
    Ok(folder)
}
