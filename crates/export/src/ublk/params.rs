//! How a device is described to the kernel.

use super::descriptor::SECTOR;
use onego_block::{Geometry, PartialBlock};

/// Bytes of the parameters: a header, what every device has, and what is said of discards (ublk_cmd.h, `struct ublk_params`).
pub const PARAMS: usize = 60;

/// Which parameters are there (`UBLK_PARAM_TYPE_*`).
const BASIC: u32 = 1 << 0;
const DISCARD: u32 = 1 << 1;

/// What the device is like (`UBLK_ATTR_*`).
const READ_ONLY: u32 = 1 << 0;
const VOLATILE_CACHE: u32 = 1 << 2;
const FUA: u32 = 1 << 3;

/// Most bytes that one request discards or makes zeros: the work of one request has an end.
const DISCARD_MAX: u64 = 32 << 20;

/// Most bytes of a request that moves bytes, where the device likes that many: each tag has a buffer of that size, of which
/// pages take memory once they are used.
const IO_MAX: u64 = 1 << 20;

/// Bytes of a page: the kernel's blocks are at most that large, and its buffers are whole ones.
const PAGE: u64 = 4096;

/// Why a device cannot be one of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// Its last block would be lost.
    #[error(transparent)]
    PartialBlock(#[from] PartialBlock),
    /// Its blocks are larger than a page.
    #[error("the device has blocks of {0} bytes, and the kernel takes at most 4096")]
    BlockTooLarge(u32),
}

/// How a device is described to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    attributes: u32,
    /// Binary logarithms of bytes.
    logical_block: u8,
    physical_block: u8,
    io_optimal: u8,
    io_minimal: u8,
    max_io: u32,
    /// Requests that cross no multiple of that many sectors; 0: it makes no difference.
    chunk_sectors: u32,
    sectors: u64,
    discard_granularity: u32,
    discard_max_sectors: u32,
    zeroes_max_sectors: u32,
}

impl Params {
    /// Returns the parameters of a device with this geometry.
    pub fn new(geometry: &Geometry, read_only: bool) -> Result<Self, ParamsError> {
        let block = u64::from(geometry.block).max(SECTOR).next_power_of_two();
        if block > PAGE {
            return Err(ParamsError::BlockTooLarge(geometry.block));
        }
        let size = geometry.in_blocks_of(block)?;
        // A request that the block layer splits at the device's boundaries is one that the device need not split.
        let is_chunk = |bytes: &u64| bytes.is_power_of_two() && (PAGE..1 << 31).contains(bytes);
        let boundary = geometry.boundary.filter(is_chunk);
        let max_io = geometry.max_io.min(IO_MAX).min(boundary.unwrap_or(IO_MAX)).max(PAGE) / PAGE * PAGE;
        let preferred = u64::from(geometry.preferred).clamp(block, PAGE).next_power_of_two();
        let read_only = read_only || geometry.read_only;
        let granularity = geometry.trim_granularity.map(|bytes| u64::from(bytes).max(block) as u32);
        let most = (geometry.size.min(DISCARD_MAX) / SECTOR) as u32;
        let sectors = |can: bool| if can && !read_only { most } else { 0 };
        Ok(Self {
            attributes: [
                (read_only, READ_ONLY),
                // Writes with FUA are asked for only where there is a cache that others stay in (ublk_drv.c).
                (geometry.volatile_cache, VOLATILE_CACHE | FUA),
            ]
            .iter()
            .fold(0, |all, (has, attribute)| if *has { all | attribute } else { all }),
            logical_block: block.ilog2() as u8,
            physical_block: preferred.ilog2() as u8,
            io_optimal: boundary.unwrap_or(max_io).ilog2() as u8,
            io_minimal: preferred.ilog2() as u8,
            max_io: max_io as u32,
            chunk_sectors: boundary.map_or(0, |bytes| (bytes / SECTOR) as u32),
            sectors: size / SECTOR,
            discard_granularity: granularity.unwrap_or(block as u32),
            discard_max_sectors: sectors(granularity.is_some()),
            zeroes_max_sectors: sectors(true),
        })
    }

    /// Most bytes of a request that moves bytes: what each buffer has to hold.
    pub fn max_io(&self) -> u32 {
        self.max_io
    }

    /// Sectors of 512 bytes.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// The bytes that the kernel reads.
    pub fn encode(&self) -> [u8; PARAMS] {
        let mut bytes = [0; PARAMS];
        let mut word = |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        word(0, PARAMS as u32);
        word(4, BASIC | DISCARD);
        word(8, self.attributes);
        word(16, self.max_io / SECTOR as u32);
        word(20, self.chunk_sectors);
        word(44, self.discard_granularity);
        word(48, self.discard_max_sectors);
        word(52, self.zeroes_max_sectors);
        bytes[12..16].copy_from_slice(&[
            self.logical_block,
            self.physical_block,
            self.io_optimal,
            self.io_minimal,
        ]);
        bytes[24..32].copy_from_slice(&self.sectors.to_ne_bytes());
        // One range a discard. What is left says nothing: memory at any address, discards from byte 0 on.
        bytes[56..58].copy_from_slice(&1u16.to_ne_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn word(bytes: &[u8; PARAMS], at: usize) -> u32 {
        u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }

    fn image() -> Geometry {
        let mut geometry = Geometry::new(10 << 30);
        geometry.boundary = Some(4 << 20);
        geometry.trim_granularity = Some(64 << 10);
        geometry
    }

    #[test]
    fn an_image_is_described_by_its_objects() {
        let params = Params::new(&image(), false).unwrap();
        let bytes = params.encode();
        assert_eq!((word(&bytes, 0), word(&bytes, 4), word(&bytes, 8)), (60, 3, 0));
        // Sectors, pages, objects, pages.
        assert_eq!(bytes[12..16], [9, 12, 22, 12]);
        assert_eq!((params.max_io(), word(&bytes, 16), word(&bytes, 20)), (1 << 20, 2048, 8192));
        assert_eq!((params.sectors(), word(&bytes, 24)), (20 << 20, 20 << 20));
        assert_eq!((word(&bytes, 44), word(&bytes, 48), word(&bytes, 52)), (64 << 10, 65536, 65536));
        assert_eq!(bytes[56..], [1, 0, 0, 0]);
    }

    #[test]
    fn nothing_of_a_read_only_device_is_discarded() {
        let bytes = Params::new(&image(), true).unwrap().encode();
        assert_eq!((word(&bytes, 8), word(&bytes, 48), word(&bytes, 52)), (1, 0, 0));
    }

    #[test]
    fn a_cache_that_may_be_lost_is_flushed() {
        let mut geometry = image();
        geometry.volatile_cache = true;
        geometry.trim_granularity = None;
        let bytes = Params::new(&geometry, false).unwrap().encode();
        assert_eq!((word(&bytes, 8), word(&bytes, 44), word(&bytes, 48)), (12, 512, 0));
    }

    #[test]
    fn what_the_kernel_cannot_have_is_refused() {
        assert_eq!(
            Params::new(&Geometry::new(511), false),
            Err(PartialBlock { size: 511, block: 512 }.into())
        );
        assert_eq!(
            Params::new(&Geometry::new(1_000_003), false),
            Err(PartialBlock { size: 1_000_003, block: 512 }.into())
        );
        let mut geometry = Geometry::new(1 << 20);
        geometry.block = 8192;
        assert_eq!(Params::new(&geometry, false), Err(ParamsError::BlockTooLarge(8192)));
    }

    proptest! {
        #[test]
        fn the_kernel_accepts_what_it_is_told(
            size in (any::<u64>(), any::<bool>()).prop_map(|(size, whole)| if whole { size >> 12 << 12 } else { size }),
            block in 0u32..=16, preferred: u32, max_io: u64, boundary: Option<u64>, trim: Option<u32>,
        ) {
            let mut geometry = Geometry::new(size);
            (geometry.block, geometry.preferred, geometry.max_io) = (1 << block, preferred, max_io);
            (geometry.boundary, geometry.trim_granularity) = (boundary, trim);
            let Ok(params) = Params::new(&geometry, false) else {
                prop_assert!(block > 12 || size == 0 || size % 4096 != 0);
                return Ok(());
            };
            // What ublk_drv.c and the block layer check.
            prop_assert!((9..=12).contains(&params.logical_block));
            prop_assert!(params.logical_block <= params.physical_block && params.physical_block <= 12);
            prop_assert!(params.max_io >= 4096 && u64::from(params.max_io) <= IO_MAX);
            prop_assert!(params.max_io % 4096 == 0 && params.io_optimal < 32);
            prop_assert!(params.discard_granularity >= 512);
            prop_assert!(params.sectors > 0 && params.sectors == size / SECTOR);
        }
    }
}
