//! `onego rbd export --export-format 2`.

use super::stream_file::StreamFile;
use crate::access::Access;
use crate::failure::Failure;
use crate::partial_import::IncompleteArgs;
use crate::rbd::image::ImageArg;
use onego::rbd::ExportImage;
use onego_bench::report::progress::Progress;
use std::path::Path;

/// Writes an image with its snapshots to a file.
pub(crate) fn export_image(
    access: &Access,
    image: &ImageArg,
    path: &Path,
    incomplete: IncompleteArgs,
    shows_progress: bool,
) -> Result<(), Failure> {
    let mut file = StreamFile::create(path, false, &[])?;
    access.with_cluster(async |cluster| {
        let pool = image.open_pool(cluster).await?;
        incomplete.check_named(&pool, image.name()).await?;
        let mut stream = ExportImage::open(&pool, image.name()).await?;
        let progress = Progress::of_bytes("Exporting", Some(stream.size()), shows_progress);
        while let Some(bytes) = stream.next().await? {
            file.write(&bytes)?;
            progress.at(stream.position());
        }
        progress.finish();
        Ok(())
    })?;
    file.finish()
}
