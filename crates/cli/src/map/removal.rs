//! The end of a device.

use super::records::{self, Record};
use crate::device::Source;
use crate::failure::Failure;
use crate::interrupt;
use onego_ublk::{Control, DeviceState};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the process that has served a device may take to end, once the device is gone: it says farewell to its cluster.
const END: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct UnmapOptions {
    /// The block device, or what it is made of
    #[arg(value_name = "DEVICE|SOURCE", required_unless_present = "all")]
    what: Option<String>,
    /// Remove every device that "onego showmapped" lists
    #[arg(long, conflicts_with = "what")]
    all: bool,
    /// The pool of an image that names none
    #[arg(short, long, value_name = "POOL")]
    pool: Option<String>,
    /// Remove it although somebody uses it
    #[arg(long)]
    force: bool,
}

pub(crate) fn unmap(options: UnmapOptions) -> Result<(), Failure> {
    let Some(what) = &options.what else { return unmap_all(options.force) };
    let record = find(what, options.pool.as_deref())?;
    remove(&mut Control::open()?, &record, options.force)
}

/// Removes all devices that can be removed.
fn unmap_all(force: bool) -> Result<(), Failure> {
    let records = records::all()?;
    if records.is_empty() {
        return Ok(());
    }
    let mut control = Control::open()?;
    let mut left = 0;
    for record in &records {
        if let Err(error) = remove(&mut control, record, force) {
            interrupt::say(&error.sentence());
            left += 1;
        }
    }
    match left {
        0 => Ok(()),
        left => Err(Failure::Device(format!("{left} of {} devices stay", records.len()))),
    }
}

fn remove(control: &mut Control, record: &Record, force: bool) -> Result<(), Failure> {
    match control.info(record.id) {
        Ok(_) if force => control.stop(record.id)?,
        Ok(info) if info.state() != DeviceState::Dead => stop(control, record)?,
        Ok(_) | Err(onego_ublk::Error::NoDevice(_)) => {}
        Err(error) => return Err(error.into()),
    }
    // Whoever uses it may do so for ever.
    let deleted = if force { control.delete_later(record.id) } else { control.delete(record.id) };
    match deleted {
        // The process that has served it may have been first.
        Ok(()) | Err(onego_ublk::Error::NoDevice(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let until = Instant::now() + END;
    let process = format!("/proc/{}", record.pid);
    while Path::new(&process).exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    record.remove();
    Ok(())
}

/// The device that is meant.
fn find(what: &str, pool: Option<&str>) -> Result<Record, Failure> {
    let named = what.parse::<Source>().map_or_else(|_| what.to_owned(), |source| source.identity(pool));
    let is_meant = |record: &Record| {
        let device = record.device();
        device == Path::new(what) || device.file_name() == Some(what.as_ref()) || record.source == named
    };
    let mut found = records::all()?.into_iter().filter(is_meant);
    let record = found.next().ok_or_else(|| {
        Failure::NotMapped(format!(
            "{what} is no device that onego has mapped: \"onego showmapped\" lists them"
        ))
    })?;
    match found.next() {
        None => Ok(record),
        Some(_) => Err(Failure::Usage(format!("{what} is mapped several times: name the device"))),
    }
}

/// Stops a device that nobody uses, after all that was written to it is in its source.
pub(super) fn stop(control: &mut Control, record: &Record) -> Result<(), Failure> {
    let path = record.device();
    if control.info(record.id)?.state() != DeviceState::Live {
        let why = format!(
            "{} has nobody who serves it, and may hold what is not written yet: map its source again first, or say --force",
            path.display()
        );
        return Err(Failure::Device(why));
    }
    // To have it alone is refused while a file system, a partition of it or another driver has it.
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let alone = match rustix::fs::open(&path, flags, Mode::empty()) {
        Ok(device) => File::from(device),
        Err(Errno::BUSY) => {
            let why = format!("{} is in use: unmount it first, or say --force", path.display());
            return Err(Failure::Device(why));
        }
        Err(error) => return Err(Failure::file(&path)(error.into())),
    };
    // The kernel fails what is written after it begins to stop the device.
    alone.sync_all().map_err(Failure::file(&path))?;
    Ok(control.stop(record.id)?)
}
