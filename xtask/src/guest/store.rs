//! What guests are made of is made once and kept.

use anyhow::{Context as _, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The file that says what a folder was made of.
const MADE_OF: &str = "made-of";

/// The folder `name` below `cache`, which `build` fills if it is not there or was made of something else.
pub(crate) fn keep(
    cache: &Path,
    name: &str,
    made_of: &str,
    build: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    fs::create_dir_all(cache).with_context(|| format!("cannot make {}", cache.display()))?;
    // Scenarios that run at the same time want the same.
    let lock = File::create(cache.join(format!("{name}.lock")))?;
    lock.lock().with_context(|| format!("cannot lock {}", cache.display()))?;
    let folder = cache.join(name);
    if fs::read_to_string(folder.join(MADE_OF)).is_ok_and(|said| said == made_of) {
        return Ok(folder.canonicalize()?);
    }
    // It is built beside its place and moved there when it is whole.
    let building = folder.with_extension("part");
    for old in [&building, &folder] {
        if old.exists() {
            fs::remove_dir_all(old)?;
        }
    }
    fs::create_dir(&building)?;
    build(&building.canonicalize()?)?;
    fs::write(building.join(MADE_OF), made_of)?;
    fs::rename(&building, &folder)?;
    Ok(folder.canonicalize()?)
}
