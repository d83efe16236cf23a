//! What a request of the kernel asks for.

use onego_block::{Flags, Geometry};

/// Bytes of a descriptor (ublk_cmd.h, `struct ublksrv_io_desc`).
pub const DESCRIPTOR: usize = 24;

/// Bytes of a sector, whatever the blocks of the device.
pub(super) const SECTOR: u64 = 512;

/// What is durable when the request completes (ublk_cmd.h, `UBLK_IO_F_FUA`).
const FUA: u32 = 1 << 13;
/// Zeroes keep their space (ublk_cmd.h, `UBLK_IO_F_NOUNMAP`).
const NO_UNMAP: u32 = 1 << 15;

/// A request as the kernel describes it, unchecked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// What to do.
    pub op: u8,
    /// How, in the bits from 8 on.
    pub flags: u32,
    /// Sectors of 512 bytes.
    pub sectors: u32,
    /// The first one.
    pub start: u64,
}

/// A request that the device may be asked for. Offsets and lengths are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelRequest {
    /// Reads that much, not more than the buffer of a tag has.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// Writes that much, not more than the buffer of a tag has.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// Is it durable when it completes?
        flags: Flags,
    },
    /// Makes durable what has completed.
    Flush,
    /// Nobody needs the bytes any more.
    Discard {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// The bytes are zeros from now on.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Does it keep the space, and is it durable when it completes?
        flags: Flags,
    },
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It asks for what no device of ours does: to write the same everywhere, or zones.
    #[error("the kernel asks for operation {0}, which these devices do not have")]
    UnknownOp(u8),
    /// It asks for bytes that are not there.
    #[error("the kernel asks for {sectors} sectors at {start}, and the device has {size} bytes")]
    OutOfBounds {
        /// First sector.
        start: u64,
        /// Sectors.
        sectors: u32,
        /// Bytes of the device.
        size: u64,
    },
    /// It moves more bytes than a buffer has, or none.
    #[error("the kernel asks to move {sectors} sectors, and a buffer has {max_io} bytes")]
    NotOfABuffer {
        /// Sectors.
        sectors: u32,
        /// Bytes of a buffer.
        max_io: u32,
    },
}

impl Descriptor {
    /// Reads a descriptor. Its last eight bytes name the buffer, which is known by its tag.
    pub fn decode(bytes: &[u8; DESCRIPTOR]) -> Self {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let [a, b, c, d, e, f, g, h] = [8, 9, 10, 11, 12, 13, 14, 15].map(|at: usize| bytes[at]);
        let start = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        Self { op: word(0) as u8, flags: word(0) & !0xff, sectors: word(4), start }
    }

    /// What it asks a device of that geometry for, with buffers of `max_io` bytes.
    pub fn work(&self, geometry: &Geometry, max_io: u32) -> Result<KernelRequest, Refusal> {
        const READ: u8 = 0;
        const WRITE: u8 = 1;
        const FLUSH: u8 = 2;
        const DISCARD: u8 = 3;
        const WRITE_ZEROES: u8 = 5;
        let fua = self.flags & FUA != 0;
        let flags = Flags { fua, ..Flags::default() };
        match self.op {
            READ => {
                self.moved(geometry, max_io).map(|(offset, length)| KernelRequest::Read { offset, length })
            }
            WRITE => self.moved(geometry, max_io).map(|(offset, length)| KernelRequest::Write {
                offset,
                length,
                flags,
            }),
            FLUSH => Ok(KernelRequest::Flush),
            DISCARD => self.bytes(geometry).map(|(offset, length)| KernelRequest::Discard { offset, length }),
            WRITE_ZEROES => {
                let flags = Flags { no_hole: self.flags & NO_UNMAP != 0, ..flags };
                self.bytes(geometry).map(|(offset, length)| KernelRequest::Zero { offset, length, flags })
            }
            op => Err(Refusal::UnknownOp(op)),
        }
    }

    /// The first byte and how many there are, within the device.
    fn bytes(&self, geometry: &Geometry) -> Result<(u64, u64), Refusal> {
        let length = u64::from(self.sectors) * SECTOR;
        let inside = |offset: &u64| offset.checked_add(length).is_some_and(|end| end <= geometry.size);
        let offset = self.start.checked_mul(SECTOR).filter(inside);
        let Self { start, sectors, .. } = *self;
        offset.map(|offset| (offset, length)).ok_or(Refusal::OutOfBounds {
            start,
            sectors,
            size: geometry.size,
        })
    }

    /// The same of a request whose bytes are in a buffer.
    fn moved(&self, geometry: &Geometry, max_io: u32) -> Result<(u64, u32), Refusal> {
        let (offset, length) = self.bytes(geometry)?;
        let fits = u32::try_from(length).ok().filter(|length| (1..=max_io).contains(length));
        let length = fits.ok_or(Refusal::NotOfABuffer { sectors: self.sectors, max_io })?;
        Ok((offset, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX_IO: u32 = 1 << 20;

    fn encode(op_flags: u32, sectors: u32, start: u64) -> [u8; DESCRIPTOR] {
        let mut bytes = [0xee; DESCRIPTOR];
        bytes[..4].copy_from_slice(&op_flags.to_ne_bytes());
        bytes[4..8].copy_from_slice(&sectors.to_ne_bytes());
        bytes[8..16].copy_from_slice(&start.to_ne_bytes());
        bytes
    }

    fn work(op_flags: u32, sectors: u32, start: u64) -> Result<KernelRequest, Refusal> {
        Descriptor::decode(&encode(op_flags, sectors, start)).work(&Geometry::new(1 << 30), MAX_IO)
    }

    #[test]
    fn requests_are_what_their_numbers_say() {
        let fua = Flags { fua: true, ..Flags::default() };
        assert_eq!(work(0, 8, 16), Ok(KernelRequest::Read { offset: 8192, length: 4096 }));
        assert_eq!(
            work(1, 1, 0),
            Ok(KernelRequest::Write { offset: 0, length: 512, flags: Flags::default() })
        );
        assert_eq!(work(1 | 1 << 13, 1, 0), Ok(KernelRequest::Write { offset: 0, length: 512, flags: fua }));
        assert_eq!(work(2, 0, 0), Ok(KernelRequest::Flush));
        assert_eq!(work(3, 1 << 15, 0), Ok(KernelRequest::Discard { offset: 0, length: 16 << 20 }));
        let zero = |flags| Ok(KernelRequest::Zero { offset: 512, length: 16 << 20, flags });
        assert_eq!(work(5, 1 << 15, 1), zero(Flags::default()));
        assert_eq!(work(5 | 1 << 15, 1 << 15, 1), zero(Flags { no_hole: true, ..Flags::default() }));
        // Flags that say how to treat failures change nothing.
        assert_eq!(work(0x700, 8, 16), Ok(KernelRequest::Read { offset: 8192, length: 4096 }));
    }

    #[test]
    fn what_no_device_does_and_what_does_not_fit_is_refused() {
        for op in [4, 10, 15, 18, 255] {
            assert_eq!(work(op, 8, 0), Err(Refusal::UnknownOp(op as u8)));
        }
        let size = 1 << 30;
        let last = size / SECTOR - 1;
        assert!(work(0, 1, last).is_ok());
        for op in [0, 1, 3, 5] {
            assert_eq!(work(op, 2, last), Err(Refusal::OutOfBounds { start: last, sectors: 2, size }));
            assert!(work(op, 1, u64::MAX).is_err());
        }
        let too_many = MAX_IO / SECTOR as u32 + 1;
        for (op, sectors) in [(0, too_many), (1, too_many), (0, 0), (1, 0)] {
            assert_eq!(work(op, sectors, 0), Err(Refusal::NotOfABuffer { sectors, max_io: MAX_IO }));
        }
    }

    proptest! {
        #[test]
        fn whatever_the_kernel_describes_stays_within_the_device_and_the_buffer(
            bytes: [u8; DESCRIPTOR], size: u64, max_io in 0u32..=32 << 20,
        ) {
            let inside = |offset: u64, length: u64| offset.checked_add(length).is_some_and(|end| end <= size);
            match Descriptor::decode(&bytes).work(&Geometry::new(size), max_io) {
                Ok(KernelRequest::Read { offset, length } | KernelRequest::Write { offset, length, .. }) => {
                    prop_assert!(inside(offset, length.into()) && (1..=max_io).contains(&length));
                }
                Ok(KernelRequest::Discard { offset, length } | KernelRequest::Zero { offset, length, .. }) => {
                    prop_assert!(inside(offset, length));
                }
                Ok(KernelRequest::Flush) | Err(_) => {}
            }
        }
    }
}
