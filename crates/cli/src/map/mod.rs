//! `onego map`: block devices of the kernel out of images, served by this program (ublk).
//!
//! - `daemon` is the process that serves a device, and `queues` are its threads.
//! - `background` starts one, and waits until the device is usable; `several` starts one for each image of a list (`rbdmap`),
//!   or for each device that waits.
//! - `records` says which devices there are, in `/run/onego`.
//! - `removal` ends one.

mod background;
mod daemon;
mod queues;
mod rbdmap;
mod records;
mod removal;
mod served;
mod several;
mod show;

use crate::access::Access;
use crate::device::Source;
use crate::failure::Failure;
use crate::output::{self, Format};
use background::Started;
use std::path::PathBuf;

pub(crate) use removal::{UnmapOptions, unmap};
pub(crate) use show::{ShowOptions, show};

pub(crate) const MAP_EXAMPLES: &str = "\
Examples:
  onego map rbd:rbd/disk
  mount $(onego map rbd:disk --read-only) /mnt
  onego map rbd:disk --queues 4 --foreground
  onego map --all
  onego map --recover

The device is usable once its name is printed. A process in the background serves it then, until the device
is unmapped; with --foreground this one does. If that process ends in any other way, the device waits: map
the same source again, and the device goes on with what was in flight.

Takes root, and Linux 6.5 or later with the driver ublk_drv (modprobe ublk_drv).";

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

/// How the kernel gets at the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum DeviceType {
    /// The driver ublk
    #[default]
    Ublk,
    /// The driver nbd
    Nbd,
}

#[derive(clap::Args)]
pub(crate) struct MapOptions {
    /// What the device is made of
    #[arg(value_name = "SOURCE", required_unless_present_any = ["all", "recover"])]
    source: Option<Source>,
    /// Map the images of a list, as far as they are not mapped
    #[arg(long, conflicts_with_all = ["source", "recover", "foreground"])]
    all: bool,
    /// The list: what rbdmap reads
    #[arg(long, value_name = "FILE", requires = "all", default_value = "/etc/ceph/rbdmap")]
    rbdmap: PathBuf,
    /// Map again what waits for a process that serves it
    #[arg(long, conflicts_with_all = ["source", "foreground"])]
    recover: bool,
    /// The pool of an image that names none
    #[arg(short, long, value_name = "POOL")]
    pool: Option<String>,
    /// How the kernel gets at it
    #[arg(long = "type", value_enum, default_value_t)]
    device_type: DeviceType,
    /// Queues, each served by a thread with its own client of the cluster [default: 1]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=64), default_value_t = 1,
        hide_default_value = true)]
    queues: u16,
    /// Requests of a queue that may be in flight [default: 128]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=4096),
        default_value_t = 128, hide_default_value = true)]
    depth: u16,
    /// Let nobody change anything
    #[arg(long, alias = "read_only")]
    read_only: bool,
    /// Serve the device in this process, until a signal comes or it is unmapped
    #[arg(long)]
    foreground: bool,
    /// How to say which device it is
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Let go of the terminal and of the process that started this one once the device is usable
    #[arg(long, hide = true, requires = "foreground")]
    detached: bool,
}

pub(crate) fn map(access: &Access, options: MapOptions) -> Result<(), Failure> {
    if options.device_type == DeviceType::Nbd {
        let why = "the kernel's nbd driver is not driven yet: leave --type out, or serve the source with \
                   \"onego export nbd\" and attach it with nbd-client";
        return Err(Failure::Usage(why.into()));
    }
    match &options.source {
        Some(Source::Memory(_)) if options.queues > 1 => {
            let why = "memory belongs to one thread, so mem:SIZE cannot have several queues";
            Err(Failure::Usage(why.into()))
        }
        Some(source) if options.foreground => daemon::run(access, &options, source),
        Some(_) => match background::start(std::env::args_os().skip(1), None)? {
            Started::Device(device) => output::lines([device]),
            // It has said why.
            Started::Failed(code) => std::process::exit(code),
        },
        None if options.all => several::all(&options.rbdmap),
        None => several::recover(),
    }
}
