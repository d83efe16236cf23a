use smallvec::SmallVec;
use std::ops::Range;
use thiserror::Error;

/// Base-2 logarithm of the smallest object size, 4 KiB.
pub const MIN_ORDER: u8 = 12;
/// Base-2 logarithm of the largest object size, 32 MiB.
pub const MAX_ORDER: u8 = 25;

/// Layout of an image over objects: stripe units are distributed round-robin over `stripe_count` objects until each holds
/// `1 << order` bytes, then over the next set of objects.
///
/// Source: ceph `doc/dev/file-striping.rst`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    order: u8,
    stripe_unit: u64,
    stripe_count: u64,
}

/// Invalid image layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The object size is out of range.
    #[error("object size 2^{0} is not between 4 KiB (2^{MIN_ORDER}) and 32 MiB (2^{MAX_ORDER})")]
    Order(u8),
    /// The stripe unit does not divide the object.
    #[error("stripe unit {unit} does not divide the object size {object_size}")]
    Unit {
        /// Stripe unit in bytes.
        unit: u64,
        /// Object size in bytes.
        object_size: u64,
    },
    /// The stripe count is out of range.
    #[error("stripe count must be at least 1 and at most {bound}, not {count}")]
    Count {
        /// Objects per set.
        count: u64,
        /// Maximum number of objects per set.
        bound: u64,
    },
}

/// Maximum number of objects of a stripe; Ceph's own tools stay far below.
const MAX_STRIPE_COUNT: u64 = 1 << 16;

/// Contiguous part of one object, with the location of its bytes in the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Number of the object.
    pub object: u64,
    /// Offset in the object.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Ranges of the request's bytes, in the order of the object.
    pub buffer: SmallVec<[Range<u64>; 1]>,
}

impl Layout {
    /// Creates the default layout: one object after the other.
    pub fn plain(order: u8) -> Result<Self, LayoutError> {
        Self::striped(order, 0, 0)
    }

    /// Creates a layout with custom striping; 0 selects the default.
    pub fn striped(order: u8, stripe_unit: u64, stripe_count: u64) -> Result<Self, LayoutError> {
        if !(MIN_ORDER..=MAX_ORDER).contains(&order) {
            return Err(LayoutError::Order(order));
        }
        let object_size = 1 << order;
        let unit = if stripe_unit == 0 { object_size } else { stripe_unit };
        if !object_size.is_multiple_of(unit) {
            return Err(LayoutError::Unit { unit, object_size });
        }
        let count = stripe_count.max(1);
        if count > MAX_STRIPE_COUNT {
            return Err(LayoutError::Count { count, bound: MAX_STRIPE_COUNT });
        }
        Ok(Self { order, stripe_unit: unit, stripe_count: count })
    }

    /// Returns the base-2 logarithm of the object size.
    pub fn order(&self) -> u8 {
        self.order
    }

    /// Returns the object size in bytes.
    pub fn object_size(&self) -> u64 {
        1 << self.order
    }

    /// Returns the stripe unit in bytes.
    pub fn stripe_unit(&self) -> u64 {
        self.stripe_unit
    }

    /// Returns the number of objects of a stripe.
    pub fn stripe_count(&self) -> u64 {
        self.stripe_count
    }

    /// Returns whether striping differs from one object after the other.
    pub fn is_striped(&self) -> bool {
        self.stripe_count != 1 || self.stripe_unit != self.object_size()
    }

    /// Returns the maximum number of objects of an image of `size` bytes.
    pub fn objects(&self, size: u64) -> u64 {
        if !self.is_striped() {
            return size.div_ceil(self.object_size());
        }
        let set = self.object_size() * self.stripe_count;
        let (full, rest) = (size / set, size % set);
        full * self.stripe_count + rest.div_ceil(self.stripe_unit).min(self.stripe_count)
    }

    /// Returns the length of an object in an image of `size` bytes.
    pub fn object_end(&self, object: u64, size: u64) -> u64 {
        let set = self.object_size() * self.stripe_count;
        let in_set = size.saturating_sub(object / self.stripe_count * set).min(set);
        let stripe = self.stripe_unit * self.stripe_count;
        let (rows, rest) = (in_set / stripe, in_set % stripe);
        let column = object % self.stripe_count * self.stripe_unit;
        rows * self.stripe_unit + rest.saturating_sub(column).min(self.stripe_unit)
    }

    fn locate(&self, at: u64) -> (u64, u64) {
        let units_per_object = self.object_size() / self.stripe_unit;
        let unit = at / self.stripe_unit;
        let (row, column) = (unit / self.stripe_count, unit % self.stripe_count);
        let object = row / units_per_object * self.stripe_count + column;
        (object, row % units_per_object * self.stripe_unit + at % self.stripe_unit)
    }

    /// Returns the image's bytes in `length` bytes of an object from `offset` on, in the order of the object.
    pub fn ranges(&self, object: u64, offset: u64, length: u64) -> SmallVec<[Range<u64>; 1]> {
        let set = object / self.stripe_count * self.object_size() * self.stripe_count;
        let column = object % self.stripe_count * self.stripe_unit;
        let mut ranges: SmallVec<[Range<u64>; 1]> = SmallVec::new();
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let (row, within) = (at / self.stripe_unit, at % self.stripe_unit);
            let start = set + row * self.stripe_unit * self.stripe_count + column + within;
            let piece = (self.stripe_unit - within).min(end - at);
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end += piece,
                _ => ranges.push(start..start + piece),
            }
            at += piece;
        }
        ranges
    }

    /// Returns the extents of `length` bytes from `offset` on, with contiguous bytes of an object merged.
    pub fn map(&self, offset: u64, length: u64) -> SmallVec<[Extent; 2]> {
        let mut extents: SmallVec<[Extent; 2]> = SmallVec::new();
        let mut done = 0;
        while done < length {
            let at = offset + done;
            let (object, object_offset) = self.locate(at);
            let piece = (self.stripe_unit - at % self.stripe_unit).min(length - done);
            let buffer = done..done + piece;
            // A piece continues its object's previous one after a full stripe, so it is among the last few.
            let earlier = extents.iter_mut().rev().take(self.stripe_count as usize);
            match { earlier }.find(|e| e.object == object && e.offset + e.length == object_offset) {
                Some(extent) => {
                    extent.length += piece;
                    match extent.buffer.last_mut() {
                        Some(last) if last.end == buffer.start => last.end = buffer.end,
                        _ => extent.buffer.push(buffer),
                    }
                }
                None => extents.push(Extent {
                    object,
                    offset: object_offset,
                    length: piece,
                    buffer: smallvec::smallvec![buffer],
                }),
            }
            done += piece;
        }
        extents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Straightforward implementation of the definition.
    fn locate_slowly(order: u32, unit: u64, count: u64, at: u64) -> (u64, u64) {
        let object_size = 1u64 << order;
        let set = at / (object_size * count);
        let in_set = at % (object_size * count);
        let stripe = in_set / (unit * count);
        let in_stripe = in_set % (unit * count);
        (set * count + in_stripe / unit, stripe * unit + in_stripe % unit)
    }

    #[test]
    fn every_byte_is_placed_as_defined() {
        for (unit, count) in [(0, 0), (1024, 3), (4096, 5), (512, 1), (2048, 2)] {
            let layout = Layout::striped(12, unit, count).unwrap();
            for (offset, length) in [(0, 1), (0, 4096), (4095, 2), (1000, 30_000), (12_287, 12_290)] {
                let mut seen = vec![false; length as usize];
                for extent in layout.map(offset, length) {
                    assert_eq!(extent.length, extent.buffer.iter().map(|b| b.end - b.start).sum::<u64>());
                    for (object_offset, at) in (extent.offset..).zip(extent.buffer.iter().cloned().flatten())
                    {
                        let place =
                            locate_slowly(12, layout.stripe_unit(), layout.stripe_count(), offset + at);
                        assert_eq!(place, (extent.object, object_offset));
                        assert!(!std::mem::replace(&mut seen[at as usize], true), "byte {at} twice");
                    }
                }
                assert!(seen.iter().all(|s| *s));
            }
        }
    }

    #[test]
    fn the_image_size_determines_the_object_sizes() {
        for (unit, count) in [(0, 0), (1024, 3), (512, 4)] {
            let layout = Layout::striped(12, unit, count).unwrap();
            for size in (0..40_000).step_by(509) {
                let mut ends = std::collections::BTreeMap::<u64, u64>::new();
                for at in 0..size {
                    let (object, offset) = layout.locate(at);
                    let end = ends.entry(object).or_default();
                    *end = (*end).max(offset + 1);
                }
                assert_eq!(
                    layout.objects(size),
                    ends.last_key_value().map_or(0, |(n, _)| n + 1),
                    "size {size}"
                );
                for object in 0..layout.objects(size) + 3 {
                    assert_eq!(layout.object_end(object, size), ends.get(&object).copied().unwrap_or(0));
                }
            }
        }
    }

    #[test]
    fn ranges_of_objects_map_to_the_image() {
        for (unit, count) in [(0, 0), (1024, 3), (512, 4)] {
            let layout = Layout::striped(12, unit, count).unwrap();
            for object in 0..7 {
                for (offset, length) in [(0, 4096), (100, 1), (500, 1500), (1024, 3072)] {
                    let bytes: Vec<u64> =
                        layout.ranges(object, offset, length).into_iter().flatten().collect();
                    let expected: Vec<(u64, u64)> =
                        (offset..offset + length).map(|at| (object, at)).collect();
                    assert_eq!(bytes.into_iter().map(|at| layout.locate(at)).collect::<Vec<_>>(), expected);
                }
            }
        }
    }

    #[test]
    fn a_request_within_an_object_is_one_extent() {
        let extents = Layout::plain(22).unwrap().map((5 << 22) + 100, 4096);
        assert_eq!(extents.len(), 1);
        assert_eq!((extents[0].object, extents[0].offset, extents[0].length), (5, 100, 4096));
    }

    #[test]
    fn invalid_layouts_are_rejected() {
        assert_eq!(Layout::plain(11), Err(LayoutError::Order(11)));
        assert!(matches!(Layout::striped(12, 1000, 2), Err(LayoutError::Unit { .. })));
        assert!(matches!(Layout::striped(12, 4096, 1 << 40), Err(LayoutError::Count { .. })));
    }
}
