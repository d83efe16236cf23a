//! What has to be so before a device ends.

use crate::failure::Failure;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// Has a device that nobody uses for this process alone, after all that was written to it is in its source.
pub(super) fn settled(path: &Path) -> Result<File, Failure> {
    // To have it alone is refused while a file system, a partition of it or another driver has it.
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let alone = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(device) => File::from(device),
        Err(Errno::BUSY) => {
            let why = format!("{} is in use: unmount it first, or say --force", path.display());
            return Err(Failure::Device(why));
        }
        Err(error) => return Err(Failure::file(path)(error.into())),
    };
    // The kernel fails what is written after it begins to stop the device.
    alone.sync_all().map_err(Failure::file(path))?;
    Ok(alone)
}

/// Why a device that nobody serves is not stopped.
pub(super) fn unserved(path: &Path) -> Failure {
    Failure::Device(format!(
        "{} has nobody who serves it, and may hold what is not written yet: map its source again first, or say --force",
        path.display()
    ))
}
