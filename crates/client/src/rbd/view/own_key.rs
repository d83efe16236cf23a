//! Clones that are encrypted with a key of their own: the parent's bytes mean something only where they are the parent's.

use crate::ceph::error::{Errno, Error};
use crate::rbd::header::Header;
use crate::rbd::image::Image;

/// Bytes that tell a header of LUKS.
const MAGIC: u64 = 6;

/// Fails if an image is such a clone at one of these times (numbers of snapshots, or `NOSNAP`). Bytes of the parent that are copied as
/// they lie there would be decrypted with the wrong key. `advice`: what to do instead.
pub(in crate::rbd) async fn refuse_own_key(
    header: &Header,
    times: &[u64],
    advice: &str,
) -> Result<(), Error> {
    for &snap in times {
        if has_own_key(header, snap).await? {
            let what = format!("{} is encrypted with a key of its own: {advice}", header.describe());
            return Err(Error::Unmet { what, errno: Errno::OPNOTSUPP });
        }
    }
    Ok(())
}

/// Does the image show a parent behind a header that is of a clone?
async fn has_own_key(header: &Header, snap: u64) -> Result<bool, Error> {
    let image = Image::open_snap(header, snap).await?;
    let is_clone = image.info().parent.is_some();
    let first = image.read(0, image.size().min(MAGIC)).await;
    image.close().await?;
    Ok(is_clone && onego_luks::is_hidden(&first?.to_vec()))
}
