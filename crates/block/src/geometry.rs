use crate::error::Error;
use crate::request::Request;

/// What a caller has to know of a device. All sizes are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Geometry {
    /// The device ends here. It may change while the device is open.
    pub size: u64,
    /// Offsets and lengths are multiples of this, a power of two. With 1 any are taken.
    pub block: u32,
    /// Requests of multiples of this, at offsets that are, cost least for their bytes.
    pub preferred: u32,
    /// The most that one request reads or writes.
    pub max_io: u64,
    /// Trims, and zeroes that free their space, take next to no time up to this length; longer ones are best made in steps of
    /// that, or of [`max_io`](Self::max_io) if that is more.
    pub max_hole: u64,
    /// The same for zeroes that keep their space.
    pub max_zero: u64,
    /// Requests that cross no multiple of this are cheapest: objects of an image, stripes. `None`: it makes no difference.
    pub boundary: Option<u64>,
    /// Writes, trims and zeroes are refused.
    pub read_only: bool,
    /// A write that has completed may be lost unless a flush completes after it.
    pub volatile_cache: bool,
    /// A flush covers the writes that were made through other openings of the same device, too, on other threads.
    pub shared_flush: bool,
    /// Trims free space in multiples of this. `None`: they do nothing.
    pub trim_granularity: Option<u32>,
    /// Requests for neighbouring bytes cost less as one request. Memory gains nothing by that.
    pub gains_by_merging: bool,
}

/// A device whose size is not a positive multiple of the blocks that it would be served in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a device of {size} bytes, not a positive multiple of {block}, would lose its end: make it longer \
     (`truncate --size %{block} FILE`), or export it by NBD"
)]
pub struct PartialBlock {
    /// Bytes of the device.
    pub size: u64,
    /// Bytes of a block.
    pub block: u64,
}

impl Geometry {
    /// A writable device of that many bytes, without a cache, that takes requests of up to 32 MiB at any offset.
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

    /// Returns the size where it is a positive multiple of `block` bytes, as it must be for peers that count in blocks.
    pub fn in_blocks_of(&self, block: u64) -> Result<u64, PartialBlock> {
        let size = self.size;
        if size > 0 && size.is_multiple_of(block) { Ok(size) } else { Err(PartialBlock { size, block }) }
    }

    /// Is that offset, or length, a multiple of the block?
    #[inline]
    pub fn is_aligned(&self, bytes: u64) -> bool {
        bytes & self.mask() == 0
    }

    /// The blocks of those bytes that are whole, in bytes.
    #[inline]
    pub fn whole_blocks(&self, bytes: u64) -> u64 {
        bytes & !self.mask()
    }

    /// A block is a power of two; a division for each look at a request would cost more than the rest of the look.
    #[inline]
    fn mask(&self) -> u64 {
        u64::from(self.block).saturating_sub(1)
    }

    /// Fails unless a device of this geometry can carry the request out.
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
