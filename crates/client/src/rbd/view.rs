//! What an image shows at one time: now or at a snapshot, through all of its parents.

use super::details::{Header, ImageDetails};
use super::header::ImageInfo;
use crate::ceph::error::Error;
use crate::rados::Pool;
use onego_buf::List;
use onego_ceph::rbd::{DataNames, Layout};
use onego_ceph::types::NOSNAP;
use std::ops::Range;
use std::pin::Pin;

/// Most parents that are looked through one after the other: `rbd` makes no chains as long as that (`rbd_max_clone`), and a
/// circle must not be followed for ever.
const MAX_DEPTH: u32 = 64;

/// An image at one time.
pub(super) struct View {
    /// The pool of its data, as it was at that time.
    data: Pool,
    names: DataNames,
    layout: Layout,
    /// Bytes.
    size: u64,
    /// What shows through, and how many bytes of it.
    parent: Option<(Box<View>, u64)>,
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + 'a>>;

impl View {
    /// The image now, or at the snapshot with this number.
    pub(super) async fn of(header: &Header, details: &ImageDetails, snap: u64) -> Result<Self, Error> {
        Self::at(header, details, snap, MAX_DEPTH).await
    }

    /// The snapshot that the image was cloned from.
    pub(super) async fn of_parent(header: &Header, details: &ImageDetails) -> Result<Self, Error> {
        Self::origin(header, details, MAX_DEPTH).await
    }

    fn at<'a>(header: &'a Header, details: &'a ImageDetails, snap: u64, depth: u32) -> Boxed<'a, Self> {
        Box::pin(async move {
            let info = &details.info;
            let (size, overlap) = match details.snapshots.iter().find(|snapshot| snapshot.id == snap) {
                Some(snapshot) => (snapshot.size, snapshot.overlap),
                None if snap == NOSNAP => (info.size, info.parent.as_ref().map(|parent| parent.overlap)),
                None => {
                    return Err(Error::NotFound {
                        what: format!("snapshot {snap} of {}", header.describe()),
                    });
                }
            };
            let parent = match overlap {
                Some(overlap) if overlap > 0 => {
                    Some((Box::new(Self::origin(header, details, depth).await?), overlap))
                }
                _ => None,
            };
            Ok(Self {
                data: header.data_pool(info).await?.at_snapshot(snap),
                size,
                parent,
                ..Self::bare(header, info)
            })
        })
    }

    fn bare(header: &Header, info: &ImageInfo) -> Self {
        Self {
            data: header.pool.clone(),
            names: DataNames::new(&info.object_prefix),
            layout: info.layout,
            size: info.size,
            parent: None,
        }
    }

    async fn origin(header: &Header, details: &ImageDetails, depth: u32) -> Result<Self, Error> {
        let missing = || Error::Invalid(format!("{} has no parent", header.describe()));
        let origin = details.origin.as_ref().ok_or_else(missing)?;
        if depth == 0 {
            return Err(Error::Invalid(format!("{} has more than {MAX_DEPTH} parents", header.describe())));
        }
        let pool = header.pool.cluster().pool_by_id(origin.pool).await?.in_namespace(&origin.namespace);
        let parent = Header::with_id(&pool, &origin.image_id).await?;
        let details = parent.details().await?;
        Self::at(&parent, &details, origin.snap, depth - 1).await
    }

    /// Bytes that it has.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The bytes of an object that the image itself has.
    pub(super) async fn own_object(&self, object: u64) -> Result<Option<List>, Error> {
        match self.data.read(&self.names.name(object).to_string(), 0, 0).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The bytes of ranges, one behind the other; behind its end there are zeros.
    pub(super) fn read_ranges<'a>(&'a self, ranges: &'a [Range<u64>]) -> Boxed<'a, Vec<u8>> {
        Box::pin(async move {
            let all: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            let mut bytes = vec![0; all as usize];
            let mut at = 0;
            for range in ranges {
                let length = (range.end - range.start) as usize;
                let end = range.end.min(self.size);
                if range.start < end {
                    let within = (end - range.start) as usize;
                    self.fill(range.start, &mut bytes[at..at + within]).await?;
                }
                at += length;
            }
            Ok(bytes)
        })
    }

    /// Fills a buffer of zeros with the bytes from `offset` on.
    async fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        for extent in self.layout.map(offset, buffer.len() as u64) {
            let name = self.names.name(extent.object).to_string();
            match self.data.read(&name, extent.offset, extent.length).await {
                Ok(read) => {
                    let read = read.to_vec();
                    let mut rest = &read[..];
                    for part in &extent.buffer {
                        let length = rest.len().min((part.end - part.start) as usize);
                        let (bytes, behind) = rest.split_at(length);
                        buffer[part.start as usize..][..length].copy_from_slice(bytes);
                        rest = behind;
                    }
                }
                Err(Error::NotFound { .. }) => {
                    let Some((parent, overlap)) = &self.parent else { continue };
                    for part in &extent.buffer {
                        let (start, end) = (offset + part.start, (offset + part.end).min(*overlap));
                        if start < end {
                            let bytes = parent.read_ranges(&[start..end]).await?;
                            buffer[part.start as usize..][..bytes.len()].copy_from_slice(&bytes);
                        }
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
