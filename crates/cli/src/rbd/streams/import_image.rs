//! `onego rbd import --export-format 2`.

use super::import_run::{StreamInput, earlier, run};
use crate::access::Access;
use crate::failure::Failure;
use crate::interrupt::Unfinished;
use crate::rbd::image::ImageArg;
use crate::rbd::shape::Shape;
use onego::rbd::ImportImage;
use onego_bench::report::progress::Progress;
use std::path::Path;

/// An image that is made of a stream.
pub(crate) struct StreamedImage<'a> {
    pub(crate) path: &'a Path,
    pub(crate) image: &'a ImageArg,
    pub(crate) shape: &'a Shape,
    pub(crate) sparse_size: u64,
    pub(crate) resume: bool,
    pub(crate) shows_progress: bool,
}

/// Makes an image with its snapshots of a stream.
pub(crate) fn import_image(access: &Access, what: &StreamedImage<'_>) -> Result<(), Failure> {
    let source = StreamInput::open(what.path)?;
    let name = what.image.name();
    let left = {
        let shown = what.image.spec.to_string();
        move || {
            Some(format!(
                "image {shown} is not whole: \"onego rbd import --resume\" goes on, \"onego rbd rm\" removes it"
            ))
        }
    };
    access.with_cluster(async |cluster| {
        let pool = what.image.open_pool(cluster).await?;
        let mut options = what.shape.over_a_stream(cluster).await?;
        options.metadata = source.mark(0).metadata();
        options.grain = Some(what.sparse_size);
        let mut import = ImportImage::new(&pool, name, options);
        if what.resume {
            import.resume(earlier(&pool, name, &source).await?);
        }
        let _unfinished = Unfinished::winding_down(left);
        let progress = Progress::of_bytes("Importing", source.size(), what.shows_progress);
        let done = run(&pool, name, source, import, &progress).await;
        progress.finish();
        done
    })
}
