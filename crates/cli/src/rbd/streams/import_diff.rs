//! `onego rbd import-diff`.

use super::import_run::{StreamInput, earlier, run};
use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt::Unfinished;
use crate::rbd::names::ImageOptions;
use crate::rbd::transfer::sparse_size;
use onego::rbd::ImportDiff;
use onego_bench::report::progress::Progress;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct ImportDiffOptions {
    /// The file; "-" is standard input
    path: PathBuf,
    /// The image: [POOL/[NAMESPACE/]]IMAGE
    #[arg(value_name = "IMAGE")]
    word: Option<String>,
    #[command(flatten)]
    named: ImageOptions,
    /// Bytes of a block that is not written if it is zeros
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = sparse_size)]
    sparse_size: u64,
    /// Go on where an earlier import of the same bytes was interrupted
    #[arg(long)]
    resume: bool,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

pub(crate) fn import_diff(access: &Access, options: &ImportDiffOptions) -> Result<(), Failure> {
    let image = options.named.image(options.word.as_deref())?;
    let source = StreamInput::open(&options.path)?;
    let shown = image.to_string();
    let left = move || {
        Some(format!("the diff is applied to {shown} in part: \"onego rbd import-diff --resume\" goes on"))
    };
    access.with_cluster(async |cluster| {
        let pool = image.pool(cluster).await?;
        let mut import = ImportDiff::with_grain(&pool, &image.name, options.sparse_size);
        if options.resume {
            import.resume(earlier(&pool, &image.name, &source).await?);
        }
        let _unfinished = Unfinished::winding_down(left);
        let progress = Progress::of_bytes("Importing", source.size(), !options.no_progress);
        let done = run(&pool, &image.name, source, import, &progress).await;
        progress.finish();
        done
    })
}
