//! `onego map`: block devices of the kernel out of images, served by this program.
//!
//! - `ublk` and `nbd` are the kinds of devices: the process that serves one, what it asks of the kernel's driver, and the end.
//! - `begin` is what both begin with, and `queues` are the threads that serve.
//! - The background has a process for each device, which `map` waits for until the device is usable; `several` starts one for each image of a list (`rbdmap`),
//!   or for each device that waits.
//! - `identity` tells sources of one name apart.
//! - `records` says which devices there are, in `/run/onego`, and `states` how they stand.
//! - `removal` ends one, once all is `settle`d, and `resize` changes its size.

mod begin;
mod identity;
mod nbd;
mod options;
mod queues;
mod rbdmap;
mod records;
mod removal;
mod resize;
mod settle;
mod several;
mod show;
mod states;
mod ublk;

use crate::access::Access;
use crate::background::{self, Started};
use crate::device::Source;
use crate::failure::Failure;
use crate::output;
use options::DeviceType;
use std::ffi::OsString;

pub(crate) use options::MapOptions;
pub(crate) use removal::{UnmapOptions, unmap};
pub(crate) use show::{ShowOptions, show};

pub(crate) const MAP_EXAMPLES: &str = "\
Examples:
  onego map rbd:rbd/disk
  mount $(onego map rbd:disk --read-only) /mnt
  onego map rbd:disk@monday
  onego map rbd:disk --queues 4 --foreground
  onego map rbd:disk --type nbd
  onego map --all
  onego map --recover

The device is usable once its name is printed. A process in the background serves it then, until the device
is unmapped; with --foreground this one does. If that process ends in any other way, the device waits: map
the same source again, and the device goes on with what was in flight.

Takes root, and Linux 6.5 or later with the driver ublk_drv (modprobe ublk_drv). With --type nbd the driver nbd
will do (modprobe nbd), which every Linux has.";

pub(crate) const UNMAP_EXAMPLES: &str = "\
Examples:
  onego unmap /dev/ublkb0
  onego unmap rbd:rbd/disk
  onego unmap --all

What was written is in the image when the command is done. A device that is in use stays, unless --force
is said: then requests fail from now on, and data that was not written yet is lost.";

pub(crate) const SHOW_EXAMPLES: &str = "\
Examples:
  onego showmapped
  onego showmapped --format json

The fields are those of \"rbd device list\". A device that waits has nobody who serves it: map its source again.";

pub(crate) fn map(access: &Access, mut options: MapOptions) -> Result<(), Failure> {
    options.read_only |= options.source.as_ref().is_some_and(Source::is_snapshot);
    match &options.source {
        Some(Source::Memory(_)) if options.queues.is_some_and(|queues| queues > 1) => {
            let why = "memory belongs to one thread, so mem:SIZE cannot have several queues";
            Err(Failure::Usage(why.into()))
        }
        Some(source) if options.foreground => match options.device_type {
            DeviceType::Ublk => ublk::run(access, &options, source),
            DeviceType::Nbd => nbd::run(access, &options, source),
        },
        Some(_) => match background::start(std::env::args_os().skip(1).chain(mode()), None)? {
            Started::Said(device) => output::lines([device]),
            // It has said why.
            Started::Failed(code) => std::process::exit(code),
        },
        None if options.all => several::all(&options.rbdmap),
        None => several::recover(),
    }
}

/// Options of the process in the background that serves a device.
fn mode() -> [OsString; 2] {
    ["--foreground", "--detached"].map(OsString::from)
}
