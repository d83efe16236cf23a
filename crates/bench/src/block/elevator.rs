//! One global sorted queue of headers: the design of a block layer whose largest I/O is a page.
//!
//! It works as the block layer of Linux 2.2 and 2.4 did. Each piece of an I/O gets a header. A header is merged into an
//! adjacent request of the queue, or becomes a new request at its place in the order of the device's bytes. Once a
//! caller waits, or the queue is full, the requests go to the device in this order. When one completes, each of its
//! headers does, and is freed.
//!
//! It is as good as the design allows: headers and requests come from tables with free lists, and the place of a header
//! is found by bisection, where the kernel walked a list. A request may be as long as the device's optimum; Linux 2.2
//! limited it to 64 KiB. And there is no lock, which the kernel took for each header.

use super::assembly::{Piece, PieceName};
use onego::List;
use onego::block::{Completion, Completions, Device, Error, Geometry, Op, Outcome, Request};
use onego_wire::Time;
use slab::Slab;

/// Maximum number of requests in the queue: the kernel's limit.
const MOST_QUEUED: usize = 128;

struct BufferHead {
    name: PieceName,
    length: u64,
    data: Option<List>,
    next: Option<usize>,
}

#[derive(Clone, Copy)]
struct Chain {
    start: u64,
    end: u64,
    writes: bool,
    first: usize,
    last: usize,
}

impl Chain {
    fn joins(&self, other: &Chain, geometry: &Geometry) -> bool {
        let (start, end) = (self.start.min(other.start), self.end.max(other.end));
        let within = |boundary: u64| start / boundary == (end - 1) / boundary;
        self.writes == other.writes
            && end - start <= geometry.max_io
            && geometry.boundary.is_none_or(within)
            && (self.end == other.start || other.end == self.start)
    }
}

#[derive(Default)]
pub(super) struct Elevator {
    heads: Slab<BufferHead>,
    /// Sorted by start. No two of them overlap.
    queue: Vec<Chain>,
    at_device: Slab<Chain>,
    completions: Completions,
}

impl Elevator {
    pub(super) fn submit(&mut self, now: Time, device: &dyn Device, piece: Piece) {
        let Piece { name, offset, length, data } = piece;
        let writes = data.is_some();
        let head = self.heads.insert(BufferHead { name, length, data, next: None });
        let single = Chain { start: offset, end: offset + length, writes, first: head, last: head };
        let mut place = self.queue.partition_point(|chain| chain.start < offset);
        if self.overlaps(place, &single) {
            self.unplug(now, device);
            place = 0;
        }
        let geometry = device.geometry();
        if place > 0 && self.queue[place - 1].joins(&single, &geometry) {
            self.chain(place - 1, &single);
            // It may have closed the gap to the next one.
            if place < self.queue.len() && self.queue[place - 1].joins(&self.queue[place], &geometry) {
                let next = self.queue.remove(place);
                self.chain(place - 1, &next);
            }
        } else if place < self.queue.len() && self.queue[place].joins(&single, &geometry) {
            let after = std::mem::replace(&mut self.queue[place], single);
            self.chain(place, &after);
        } else {
            if self.queue.len() >= MOST_QUEUED {
                self.unplug(now, device);
                place = 0;
            }
            self.queue.insert(place, single);
        }
    }

    fn overlaps(&self, place: usize, single: &Chain) -> bool {
        let before = place.checked_sub(1).is_some_and(|before| self.queue[before].end > single.start);
        before || self.queue.get(place).is_some_and(|after| after.start < single.end)
    }

    fn chain(&mut self, place: usize, more: &Chain) {
        let chain = &mut self.queue[place];
        self.heads[chain.last].next = Some(more.first);
        (chain.end, chain.last) = (more.end, more.last);
    }

    pub(super) fn unplug(&mut self, now: Time, device: &dyn Device) {
        for chain in self.queue.drain(..) {
            let op = match chain.writes {
                true => Op::Write { data: gathered(&mut self.heads, chain.first) },
                false => Op::Read { length: chain.end - chain.start },
            };
            let key = self.at_device.insert(chain);
            device.submit(now, Request::new(self.completions.caller(key as u64), chain.start, op));
        }
    }

    pub(super) fn complete(&mut self, mut each: impl FnMut(PieceName, Result<List, Error>)) {
        while let Some(Completion { tag, result }) = self.completions.take() {
            let chain = self.at_device.remove(tag as usize);
            let mut result = result.map(|outcome| match outcome {
                Outcome::Data(data) => data,
                _ => List::new(),
            });
            let mut next = Some(chain.first);
            while let Some(key) = next {
                let head = self.heads.remove(key);
                next = head.next;
                each(head.name, part(&mut result, head.length));
            }
        }
    }
}

fn gathered(heads: &mut Slab<BufferHead>, first: usize) -> List {
    let (mut list, mut next) = (List::new(), Some(first));
    while let Some(key) = next {
        let head = &mut heads[key];
        next = head.next;
        if let Some(data) = head.data.take() {
            list.append(data);
        }
    }
    list
}

fn part(result: &mut Result<List, Error>, length: u64) -> Result<List, Error> {
    match result {
        Ok(data) if data.is_empty() => Ok(List::new()),
        Ok(data) if data.len() as u64 >= length => Ok(data.split_to(length as usize)),
        Ok(_) => Err(Error::Failed("the device returned less data than requested".into())),
        Err(error) => Err(error.clone()),
    }
}
