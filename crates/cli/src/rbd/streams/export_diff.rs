//! `onego rbd export-diff`.

use super::diff::Scope;
use super::image::SnapArg;
use super::stream_file::StreamFile;
use crate::access::Access;
use crate::failure::Failure;
use onego::rbd::ExportDiff;
use onego_bench::report::progress::Progress;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    image: SnapArg,
    /// The file, which must be new; "-" is standard output
    path: PathBuf,
    #[command(flatten)]
    scope: Scope,
    /// Show no progress
    #[arg(long)]
    no_progress: bool,
}

pub(super) fn run(access: &Access, options: &Options) -> Result<(), Failure> {
    let mut file = StreamFile::create(&options.path)?;
    access.with_cluster(async |cluster| {
        let pool = options.image.open_pool(cluster).await?;
        let scope = options.scope.up_to(options.image.snapshot());
        let mut stream = ExportDiff::open(&pool, options.image.name(), &scope).await?;
        let progress = Progress::of_bytes("Exporting", Some(stream.size()), !options.no_progress);
        while let Some(bytes) = stream.next().await? {
            file.write(&bytes)?;
            progress.at(stream.position());
        }
        progress.finish();
        Ok(())
    })?;
    file.finish()
}
