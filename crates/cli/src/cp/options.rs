//! What the command line of a copy says.

use super::job::CopyJob;
use crate::device::{FileArgs, Source};
use crate::output::Format;
use crate::partial::Existing;
use crate::partial_import::IncompleteArgs;
use crate::rbd::Shape;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to copy
    #[arg(value_name = "SOURCE", value_parser = Source::parser())]
    pub(super) source: Source,
    /// Where to
    #[arg(value_name = "DESTINATION", value_parser = Source::parser())]
    pub(super) destination: Source,
    /// Go on where an earlier copy was interrupted
    #[arg(long)]
    pub(super) resume: bool,
    /// Let the file take the place of one that is there, once it is whole
    #[arg(long, conflicts_with = "resume")]
    pub(super) replace: bool,
    /// Write to a file or an image that is there
    #[arg(long, conflicts_with_all = ["resume", "replace"])]
    pub(super) in_place: bool,
    /// Take what is written to for zeros: zeros of the source are not written
    #[arg(long)]
    pub(super) destination_is_zero: bool,
    /// Pieces of a MiB that are on their way at a time
    #[arg(long, value_name = "COUNT", default_value_t = DEPTH, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) depth: u16,
    #[command(flatten)]
    pub(super) files: FileArgs,
    #[command(flatten)]
    pub(super) incomplete: IncompleteArgs,
    /// The pool of images that name none
    #[arg(short, long, value_name = "POOL")]
    pub(super) pool: Option<String>,
    #[command(flatten, next_help_heading = "A new image")]
    pub(super) shape: Shape,
    /// How to say what was copied; without it, nothing is said
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    /// Show no progress
    #[arg(long)]
    pub(super) no_progress: bool,
}

/// Pieces in flight by default.
pub(crate) const DEPTH: u16 = 16;

impl Options {
    pub(super) fn job(&self) -> CopyJob<'_> {
        CopyJob {
            source: &self.source,
            destination: &self.destination,
            existing: self.existing(),
            overwrites: self.in_place,
            into_directory: false,
            adopts: false,
            destination_is_zero: self.destination_is_zero,
            depth: self.depth.into(),
            pool: self.pool.as_deref(),
            shows_progress: !self.no_progress,
            files: self.files,
            incomplete: self.incomplete,
            shape: Some(&self.shape),
        }
    }

    /// What becomes of a file that is there.
    fn existing(&self) -> Existing {
        match self {
            Self { resume: true, .. } => Existing::Resume,
            Self { replace: true, .. } => Existing::Replace,
            _ => Existing::Refuse,
        }
    }
}
