//! The record of requests in flight, in memory that the front end keeps: a server that comes after this one goes on with
//! them (vhost-user.rst, 'Inflight I/O tracking').

use super::super::codec::InflightDescription;
use super::super::error::MessageError;
use super::super::limits::{QUEUE_SIZE_MAX, QUEUES_MAX};
use onego_guest_memory::Window;
use std::os::fd::OwnedFd;

/// Parts of queues begin on multiples of this, in bytes.
const ALIGNMENT: u64 = 64;

/// Bytes before the entries of a queue: features (64 bits), version, descriptors, last of the batch, index (16 bits each).
const HEADER_LEN: u64 = 16;
const VERSION_AT: usize = 8;
const SIZE_AT: usize = 10;
const LAST_AT: usize = 12;
const USED_AT: usize = 14;

/// Bytes of an entry: whether it is in flight (8 bits), padding, the one before it in its batch (16 bits), its place in the
/// order (64 bits).
const ENTRY_LEN: u64 = 16;
const NEXT_AT: usize = 6;
const COUNTER_AT: usize = 8;

/// What the first two bytes of an entry are while it is in flight.
const IN_FLIGHT: [u8; 2] = [1, 0];

/// The record of all queues.
#[derive(Debug)]
pub(in super::super) struct Record {
    window: Window,
    description: InflightDescription,
}

/// The record of one queue.
#[derive(Debug)]
pub(in super::super) struct QueueRecord {
    window: Window,
    size: u16,
    /// The place of the next request in the order.
    counter: u64,
    /// Requests that were put back and are not published.
    batch: Vec<u16>,
}

fn queue_len(size: u16) -> u64 {
    (HEADER_LEN + ENTRY_LEN * u64::from(size)).next_multiple_of(ALIGNMENT)
}

fn check(description: &InflightDescription) -> Result<(), MessageError> {
    let InflightDescription { queues, queue_size, .. } = *description;
    if queues == 0 || queues > QUEUES_MAX {
        return Err(MessageError::Record("it has too many queues, or none"));
    }
    if queue_size == 0 || queue_size > QUEUE_SIZE_MAX {
        return Err(MessageError::Record("its queues are too long, or empty"));
    }
    Ok(())
}

impl Record {
    /// Makes a record for the wanted number of queues, which the front end keeps.
    pub(in super::super) fn create(
        wanted: InflightDescription,
    ) -> Result<(OwnedFd, InflightDescription), MessageError> {
        check(&wanted)?;
        let length = queue_len(wanted.queue_size) * u64::from(wanted.queues);
        let (file, _) = Window::create("onego-inflight", length)?;
        Ok((file, InflightDescription { length, offset: 0, ..wanted }))
    }

    /// Uses a record that the front end has kept.
    pub(in super::super) fn open(
        file: OwnedFd,
        description: InflightDescription,
    ) -> Result<Self, MessageError> {
        check(&description)?;
        let length = queue_len(description.queue_size) * u64::from(description.queues);
        if description.length < length {
            return Err(MessageError::Record("its file is too short"));
        }
        Ok(Self { window: Window::map(file, description.offset, length)?, description })
    }

    /// The record of a queue.
    pub(in super::super) fn queue(&self, index: usize, size: u16) -> Result<QueueRecord, MessageError> {
        let InflightDescription { queues, queue_size, .. } = self.description;
        if index >= usize::from(queues) || size > queue_size {
            return Err(MessageError::Record("it has no such queue, or one that is shorter"));
        }
        let length = queue_len(queue_size);
        let window = self.window.slice(index as u64 * length, length);
        let window = window.filter(|window| !window.is_misaligned());
        let window = window.ok_or(MessageError::Record("it is not aligned"))?;
        Ok(QueueRecord { window, size: queue_size, counter: 0, batch: Vec::new() })
    }
}

impl QueueRecord {
    /// Begins with what a server before this one has left, with the number of chains that are used in the ring: the first descriptors of
    /// the requests in flight, in the order in which they were taken.
    pub(in super::super) fn begin(&mut self, used: u16) -> Vec<u16> {
        if self.window.load_u16(VERSION_AT) == 0 {
            self.window.store_u16(SIZE_AT, self.size);
            self.window.store_u16(USED_AT, used);
            self.window.store_u16(VERSION_AT, 1);
        }
        self.end_batch(used);
        let mut left: Vec<(u64, u16)> = (0..self.size)
            .filter(|head| self.is_in_flight(*head))
            .map(|head| (self.counter_of(head), head))
            .collect();
        left.sort_unstable();
        self.counter = left.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        left.into_iter().map(|(_, head)| head).collect()
    }

    /// A batch was published, and its entries may still be in flight.
    fn end_batch(&self, used: u16) {
        let done = used.wrapping_sub(self.window.load_u16(USED_AT));
        let mut head = self.window.load_u16(LAST_AT);
        for _ in 0..done.min(self.size) {
            if head >= self.size {
                break;
            }
            self.set_in_flight(head, [0, 0]);
            head = self.window.load_u16(Self::entry(head) + NEXT_AT);
        }
        self.window.store_u16(USED_AT, used);
    }

    /// A request is taken.
    pub(in super::super) fn take(&mut self, head: u16) {
        self.window.write(Self::entry(head) + COUNTER_AT, &self.counter.to_le_bytes());
        self.counter = self.counter.wrapping_add(1);
        self.set_in_flight(head, IN_FLIGHT);
    }

    /// A request is put back.
    pub(in super::super) fn put(&mut self, head: u16) {
        self.window.store_u16(Self::entry(head) + NEXT_AT, self.window.load_u16(LAST_AT));
        self.window.store_u16(LAST_AT, head);
        self.batch.push(head);
    }

    /// What was put back is published.
    pub(in super::super) fn published(&mut self, used: u16) {
        for head in std::mem::take(&mut self.batch) {
            self.set_in_flight(head, [0, 0]);
        }
        self.window.store_u16(USED_AT, used);
    }

    fn entry(head: u16) -> usize {
        (HEADER_LEN + ENTRY_LEN * u64::from(head)) as usize
    }

    fn is_in_flight(&self, head: u16) -> bool {
        self.window.load_u16(Self::entry(head)) == u16::from_ne_bytes(IN_FLIGHT)
    }

    /// A store that all that is written before comes before.
    fn set_in_flight(&self, head: u16, value: [u8; 2]) {
        self.window.store_u16(Self::entry(head), u16::from_ne_bytes(value));
    }

    fn counter_of(&self, head: u16) -> u64 {
        let mut bytes = [0; 8];
        self.window.read(Self::entry(head) + COUNTER_AT, &mut bytes);
        u64::from_le_bytes(bytes)
    }
}
