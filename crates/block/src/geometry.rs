use crate::error::Error;
use crate::request::Request;

/// Properties of a device that its callers need. All sizes are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Geometry {
    /// End of the device. It may change while the device is open.
    pub size: u64,
    /// Unit of offsets and lengths, a power of two. With 1, any are accepted.
    pub block: u32,
    /// Requests with offset and length in multiples of this have the lowest cost per byte.
    pub preferred: u32,
    /// Maximum length of a read or write.
    pub max_io: u64,
    /// Trims, and zeroes that free their space, are almost free up to this length; longer ones should be split into
    /// steps of it, or of [`max_io`](Self::max_io) if that is more.
    pub max_hole: u64,
    /// The same for zeroes that keep their space allocated.
    pub max_zero: u64,
    /// Requests that cross no multiple of this are cheapest: objects of an image, stripes. `None`: no preference.
    pub boundary: Option<u64>,
    /// Writes, trims and zeroes are refused.
    pub read_only: bool,
    /// A completed write may be lost unless a flush completes after it.
    pub volatile_cache: bool,
    /// A flush also covers writes through other handles of the same device, on other threads.
    pub shared_flush: bool,
    /// Unit in which trims free space. `None`: they have no effect.
    pub trim_granularity: Option<u32>,
    /// Merging adjacent requests reduces their cost. Memory gains nothing by it.
    pub gains_by_merging: bool,
}

/// Error of a device whose size is not a positive multiple of the block size of its export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a device of {size} bytes, not a positive multiple of {block}, would lose its end: make it longer \
     (`truncate --size %{block} FILE`), or export it by NBD"
)]
pub struct PartialBlock {
    /// Size of the device in bytes.
    pub size: u64,
    /// Size of a block in bytes.
    pub block: u64,
}

impl Geometry {
    /// Returns the geometry of a writable device of `size` bytes, without a cache, that takes requests of up to 32 MiB
    /// at any offset.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            block: 1,
            preferred: 4096,
            max_io: 32 << 20,
            max_hole: 0,
            max_zero: 0,
            boundary: None,
            read_only: false,
            volatile_cache: false,
            shared_flush: true,
            trim_granularity: None,
            gains_by_merging: true,
        }
    }

    /// Returns the size if it is a positive multiple of `block` bytes, as required by peers that count in blocks.
    pub fn in_blocks_of(&self, block: u64) -> Result<u64, PartialBlock> {
        let size = self.size;
        if size > 0 && size.is_multiple_of(block) { Ok(size) } else { Err(PartialBlock { size, block }) }
    }

    /// Returns whether the offset or length is a multiple of the block size.
    #[inline]
    pub fn is_aligned(&self, bytes: u64) -> bool {
        bytes & self.mask() == 0
    }

    /// Rounds a length down to whole blocks.
    #[inline]
    pub fn whole_blocks(&self, bytes: u64) -> u64 {
        bytes & !self.mask()
    }

    /// A block is a power of two; a division per check would cost more than the rest of the check.
    #[inline]
    fn mask(&self) -> u64 {
        u64::from(self.block).saturating_sub(1)
    }

    /// Fails unless a device of this geometry can execute the request.
    pub fn check(&self, request: &Request) -> Result<(), Error> {
        let (offset, length) = (request.offset, request.length());
        if self.read_only && request.op.changes() {
            return Err(Error::ReadOnly);
        }
        if offset.checked_add(length).is_none_or(|end| end > self.size) {
            return Err(Error::OutOfBounds { offset, length, size: self.size });
        }
        if request.op.carries_data() && length > self.max_io {
            return Err(Error::TooLong { length, most: self.max_io });
        }
        if !self.is_aligned(offset) || !self.is_aligned(length) {
            return Err(Error::Unaligned { offset, length, block: self.block });
        }
        Ok(())
    }
}
