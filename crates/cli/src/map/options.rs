//! The options of `onego map`.

use crate::device::{EncryptionArgs, FileArgs, Source};
use crate::metrics::MetricsOptions;
use crate::output::Format;
use crate::partial_import::IncompleteArgs;
use std::fmt;
use std::path::PathBuf;

/// Most queues of a device.
pub(super) const QUEUES_MAX: u16 = 64;

/// How the kernel gets at the device.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Default,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub(super) enum DeviceType {
    /// The driver ublk
    #[default]
    Ublk,
    /// The driver nbd
    Nbd,
}

impl fmt::Display for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ublk => "ublk",
            Self::Nbd => "nbd",
        })
    }
}

#[derive(clap::Args)]
pub(crate) struct MapOptions {
    /// What the device is made of
    #[arg(value_name = "SOURCE", value_parser = Source::parser(), required_unless_present_any = ["all", "recover"])]
    pub(super) source: Option<Source>,
    /// Map the images of a list, as far as they are not mapped
    #[arg(long, conflicts_with_all = ["source", "recover", "foreground"])]
    pub(super) all: bool,
    /// The list: what rbdmap reads
    #[arg(long, value_name = "FILE", requires = "all", default_value = "/etc/ceph/rbdmap")]
    pub(super) rbdmap: PathBuf,
    /// Map again what waits for a process that serves it
    #[arg(long, conflicts_with_all = ["source", "foreground"])]
    pub(super) recover: bool,
    /// The pool of an image that names none
    #[arg(short, long, value_name = "POOL")]
    pub(super) pool: Option<String>,
    /// How the kernel gets at it
    #[arg(long = "type", value_enum, default_value_t)]
    pub(super) device_type: DeviceType,
    /// Queues, each served by a thread with its own client of the cluster [default: one for each processor; 1 for mem:SIZE,
    /// which belongs to one thread, for nbd:, whose server may take one client alone, and for rbd:, whose lock one client has;
    /// always 1 with --type nbd]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=i64::from(QUEUES_MAX)))]
    pub(super) queues: Option<u16>,
    /// Requests of a queue that may be in flight [default: 128]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=4096),
        default_value_t = 128, hide_default_value = true)]
    pub(super) depth: u16,
    /// Let nobody change anything
    #[arg(long, alias = "read_only")]
    pub(super) read_only: bool,
    #[command(flatten)]
    pub(super) encryption: EncryptionArgs,
    #[command(flatten)]
    pub(super) files: FileArgs,
    #[command(flatten)]
    pub(super) incomplete: IncompleteArgs,
    /// Serve the device in this process, until a signal comes or it is unmapped
    #[arg(long)]
    pub(super) foreground: bool,
    #[command(flatten)]
    pub(super) metrics: MetricsOptions,
    /// How to say which device it is
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    /// Let go of the terminal and of the process that started this one once the device is usable
    #[arg(long, hide = true, requires = "foreground")]
    pub(super) detached: bool,
    /// Print the device of a source that is mapped already
    #[arg(long, hide = true)]
    pub(super) unless_mapped: bool,
    /// Fail if the source has another identity
    #[arg(long, hide = true, value_name = "IDENTITY")]
    pub(super) recovers: Option<String>,
}
