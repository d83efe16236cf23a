use crate::ceph::error::Error;
use crate::rados::Pool;
use crate::rbd::header::{Header, ImageDetails};
use crate::rbd::image::Image;
use onego_buf::List;
use onego_ceph::rbd::DataNames;
use std::ops::Range;

pub(in crate::rbd) struct View {
    image: Image,
    /// Pool of the data, at the view's snapshot.
    data: Pool,
    names: DataNames,
}

impl View {
    /// Opens the image at the snapshot with this number, or at present.
    pub(in crate::rbd) async fn of(header: &Header, snap: u64) -> Result<Self, Error> {
        let image = Image::open_snap(header, snap).await?;
        let data = header.data_pool(image.info()).await?.at_snapshot(snap);
        let names = image.info().data_names();
        Ok(Self { image, data, names })
    }

    pub(in crate::rbd) async fn of_source(header: &Header, snap: u64) -> Result<Self, Error> {
        let image = Image::open_source(header, snap).await?;
        let data = header.data_pool(image.info()).await?.at_snapshot(snap);
        let names = image.info().data_names();
        Ok(Self { image, data, names })
    }

    /// Returns whether the image itself has objects in these ranges.
    pub(in crate::rbd) async fn has_objects(&self, ranges: &[Range<u64>]) -> Result<bool, Error> {
        for range in ranges {
            let end = range.end.min(self.size()).max(range.start);
            for extent in self.image.info().layout.map(range.start, end - range.start) {
                match self.data.stat(&self.names.name(extent.object).to_string()).await {
                    Ok(_) => return Ok(true),
                    Err(Error::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(false)
    }

    pub(in crate::rbd) async fn of_parent(header: &Header, details: &ImageDetails) -> Result<Self, Error> {
        let missing = || Error::Invalid(format!("{} has no parent", header.describe()));
        let origin = details.origin.as_ref().ok_or_else(missing)?;
        let pool = header.pool.cluster().pool_by_id(origin.pool).await?.in_namespace(&origin.namespace);
        Self::of(&Header::with_id(&pool, &origin.image_id).await?, origin.snap).await
    }

    pub(in crate::rbd) fn size(&self) -> u64 {
        self.image.size()
    }

    pub(in crate::rbd) async fn own_object(&self, object: u64) -> Result<Option<List>, Error> {
        match self.data.read(&self.names.name(object).to_string(), 0, 0).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads ranges and concatenates them, with zeros past the end of the image.
    pub(in crate::rbd) async fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        for range in ranges {
            let end = bytes.len() + (range.end - range.start) as usize;
            let there = range.end.min(self.size());
            if range.start < there {
                bytes.extend_from_slice(&self.image.read(range.start, there - range.start).await?.to_vec());
            }
            bytes.resize(end, 0);
        }
        Ok(bytes)
    }
}
