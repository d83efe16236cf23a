//! The objects of a benchmark, and what is remembered of them, as `rados bench` has both.

use onego::ceph::Error;
use onego::rados::Pool;
use std::fs;
use std::process;

/// Objects that are written, a part by each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Series {
    /// What the objects' names begin with.
    pub(super) prefix: String,
    pub(super) object_size: u64,
    pub(super) op_size: u64,
    /// Requests that wrote it.
    pub(super) ops: u64,
    process: u32,
}

/// What is remembered of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) object_size: u64,
    pub(super) ops: u64,
    pub(super) process: u32,
    pub(super) op_size: u64,
}

/// What the names of all objects begin with that this host's benchmarks write.
pub(super) fn prefix_of_host() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("benchmark_data_{}", host.trim())
}

/// Bytes of a [`Stored`].
const STORED: usize = 24;

impl Series {
    /// One that this process writes.
    pub(super) fn new(object_size: u64, op_size: u64) -> Self {
        Self::of(Stored { object_size, ops: 0, process: process::id(), op_size })
    }

    /// One that was written on this host.
    pub(super) fn of(stored: Stored) -> Self {
        let Stored { object_size, ops, process, op_size } = stored;
        let prefix = format!("{}_{process}", prefix_of_host());
        Self { prefix, object_size, op_size, ops, process }
    }

    pub(super) fn stored(&self) -> Stored {
        let Self { object_size, op_size, ops, process, .. } = *self;
        Stored { object_size, ops, process, op_size }
    }

    /// Requests that an object takes.
    pub(super) fn per_object(&self) -> u64 {
        (self.object_size / self.op_size.max(1)).max(1)
    }

    /// The name of an object.
    pub(super) fn object(&self, number: u64) -> String {
        format!("{}_object{number}", self.prefix)
    }

    /// Where a request's bytes lie.
    pub(super) fn place(&self, op: u64) -> (String, u64) {
        (self.object(op / self.per_object()), op % self.per_object() * self.op_size)
    }

    /// What a request writes.
    pub(super) fn content(&self, op: u64) -> Vec<u8> {
        let mut content = vec![b'z'; self.op_size as usize];
        let head = format!("I'm the {op:16}th op!\0");
        let length = head.len().min(content.len());
        content[..length].copy_from_slice(&head.as_bytes()[..length]);
        // What is cut off ends all the same.
        if let Some(last) = content.get_mut(..length).and_then(<[u8]>::last_mut) {
            *last = 0;
        }
        content
    }
}

impl Stored {
    pub(super) fn encode(self) -> Vec<u8> {
        let Self { object_size, ops, process, op_size } = self;
        let mut bytes = object_size.to_le_bytes().to_vec();
        bytes.extend(u32::try_from(ops).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(process.to_le_bytes());
        bytes.extend(op_size.to_le_bytes());
        bytes
    }

    /// What the object of that name remembers.
    pub(super) async fn read(pool: &Pool, name: &str) -> Result<Self, Error> {
        let bytes = pool.read(name, 0, STORED as u64).await?.to_vec();
        Self::decode(&bytes).ok_or_else(|| Error::Answer {
            what: format!("object {name}"),
            reason: "no benchmark has written it".into(),
        })
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize, length: usize| {
            let mut number = [0; 8];
            number[..length].copy_from_slice(bytes.get(at..at + length)?);
            Some(u64::from_le_bytes(number))
        };
        let stored = Self {
            object_size: number(0, 8)?,
            ops: number(8, 4)?,
            process: number(12, 4)? as u32,
            op_size: number(16, 8)?,
        };
        // A size from elsewhere is held to a bound before memory is taken for it.
        (1..=super::super::scope::MAX_OP_SIZE).contains(&stored.op_size).then_some(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_remembered_as_rados_remembers_it() {
        let bytes =
            [0x00, 0x40, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0x34, 0x06, 0, 0, 0x00, 0x10, 0, 0, 0, 0, 0, 0];
        let stored = Stored::decode(&bytes).unwrap();
        assert_eq!(stored, Stored { object_size: 16384, ops: 80, process: 1588, op_size: 4096 });
        assert_eq!(stored.encode(), bytes);
        assert_eq!(Stored::decode(&bytes[..23]), None);
        assert_eq!(Stored::decode(&[0xff; 24]), None);
        let series = Series::of(stored);
        assert_eq!(series.place(7), (format!("{}_object1", series.prefix), 3 * 4096));
    }

    #[test]
    fn each_request_has_bytes_of_its_own() {
        let content = Series::new(4096, 4096).content(12);
        assert_eq!(&content[..33], b"I'm the               12th op!\0zz");
        assert!(content[31..].iter().all(|byte| *byte == b'z') && content.len() == 4096);
        assert_eq!(Series::new(4, 4).content(1), b"I'm\0");
    }
}
