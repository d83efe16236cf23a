//! Time on the wire.
//!
//! Source: ceph `src/include/utime.h`.

use super::encoding::{Decode, Encode};
use onego_wire::{Decoded, Reader, Time, Writer};

/// Wall-clock time on the wire (`utime_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Utime {
    /// Seconds since the Unix epoch.
    pub sec: u32,
    /// Nanoseconds within the second.
    pub nsec: u32,
}

impl From<Time> for Utime {
    /// Truncates seconds that do not fit 32 bits (after 2106), as everywhere in Ceph.
    fn from(time: Time) -> Self {
        let nanos = time.as_nanos();
        Self { sec: (nanos / 1_000_000_000) as u32, nsec: (nanos % 1_000_000_000) as u32 }
    }
}

impl From<Utime> for Time {
    fn from(time: Utime) -> Self {
        Time::from_nanos(u64::from(time.sec) * 1_000_000_000 + u64::from(time.nsec))
    }
}

impl Decode for Utime {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self { sec: r.u32("utime seconds")?, nsec: r.u32("utime nanoseconds")? })
    }
}

impl Encode for Utime {
    fn encode(&self, w: &mut Writer) {
        w.u32(self.sec);
        w.u32(self.nsec);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_survives_the_wire() {
        let time = Time::from_nanos(1_700_000_000_123_456_789);
        assert_eq!(Time::from(Utime::from(time)), time);
        assert_eq!(Utime::from(time).to_bytes(), [0, 0xf1, 0x53, 0x65, 0x15, 0xcd, 0x5b, 0x07]);
    }
}
