//! Clones encrypted with their own key: the parent's data is only readable in place.

use crate::ceph::error::{Errno, Error};
use crate::rbd::header::Header;
use crate::rbd::image::Image;

/// Size of the magic number of a LUKS header, in bytes.
const MAGIC: u64 = 6;

/// Fails if an image is such a clone at one of these snapshots (numbers, or `NOSNAP` for the present). Parent data
/// copied without re-encryption would be decrypted with the wrong key. `advice` tells what to do instead.
pub(in crate::rbd) async fn refuse_own_key(
    header: &Header,
    times: &[u64],
    advice: &str,
) -> Result<(), Error> {
    for &snap in times {
        if has_own_key(header, snap).await? {
            let what = format!("{} is encrypted with its own key: {advice}", header.describe());
            return Err(Error::Unmet { what, errno: Errno::OPNOTSUPP });
        }
    }
    Ok(())
}

async fn has_own_key(header: &Header, snap: u64) -> Result<bool, Error> {
    let image = Image::open_snap(header, snap).await?;
    let is_clone = image.info().parent.is_some();
    let first = image.read(0, image.size().min(MAGIC)).await;
    image.close().await?;
    Ok(is_clone && onego_luks::is_hidden(&first?.to_vec()))
}
