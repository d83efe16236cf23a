//! The class `queue`: a ring of entries in an object's data, after a head that says where they begin and end.
//!
//! Source: ceph `src/cls/queue` (`cls_queue.cc`, `cls_queue_src.cc`, `cls_queue_types.h`, `cls_queue_ops.h`).

use super::context::Context;
use super::method::{Entry, decode, entry};
use crate::osd::errno::{Errno, Outcome};
use crate::osd::store::extent::check_extent;
use onego_buf::List;
use onego_msgr::encoding::{Decode as _, envelope, write_envelope};
use onego_wire::{Decoded, Reader, Writer};

pub(super) static METHODS: &[Entry] = &[
    entry("queue", "queue_init", true, init),
    entry("queue", "queue_get_capacity", false, get_capacity),
    entry("queue", "queue_enqueue", true, enqueue),
    entry("queue", "queue_list_entries", false, list_entries),
    entry("queue", "queue_remove_entries", true, remove_entries),
];

/// Bytes that the head has without urgent data.
const HEAD_SIZE: u64 = 1024;

/// First bytes of the head, and of an entry.
const HEAD_START: u16 = 0xdead;
const ENTRY_START: u16 = 0xbeef;

/// Bytes before the head, and before the data of an entry: [`HEAD_START`] or [`ENTRY_START`], and the length.
const OVERHEAD: u64 = 10;

/// A place in the ring, and how often the ring was gone around before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Marker {
    round: u64,
    offset: u64,
}

impl Marker {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 1, "marker", |_, r| Ok(Self { round: r.u64("round")?, offset: r.u64("offset")? }))
    }

    fn encode(self, w: &mut Writer) {
        write_envelope(w, 1, 1, |w| {
            w.u64(self.round);
            w.u64(self.offset);
        });
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let (round, offset) = std::str::from_utf8(text).ok()?.split_once('/')?;
        Some(Self { round: round.parse().ok()?, offset: offset.parse().ok()? })
    }

    fn text(self) -> String {
        format!("{}/{}", self.round, self.offset)
    }
}

/// The head of a queue.
struct Head {
    /// Bytes that the head may have: the ring begins after them.
    max_head: u64,
    front: Marker,
    tail: Marker,
    /// End of the ring.
    end: u64,
    max_urgent: u64,
    urgent: Vec<u8>,
}

impl Head {
    /// EINVAL: the object is no queue.
    fn read(context: &Context<'_>) -> Outcome<Self> {
        let read = |r: &mut Reader<'_>| -> Decoded<_> {
            let (start, _) = (r.u16("start of a queue")?, r.u64("length of a head")?);
            let head = envelope(r, 1, "head of a queue", |_, r| {
                Ok(Self {
                    max_head: r.u64("bytes of the head")?,
                    front: Marker::decode(r)?,
                    tail: Marker::decode(r)?,
                    end: r.u64("bytes of the queue")?,
                    max_urgent: r.u64("bytes of urgent data")?,
                    urgent: r.blob("urgent data")?.to_vec(),
                })
            })?;
            Ok((start, head))
        };
        let read_bytes = |len: u64| context.state.read(0, len, context.zeros).to_vec();
        let first = read_bytes(OVERHEAD);
        let len = first.get(2..).and_then(|len| len.first_chunk()).map(|len| u64::from_le_bytes(*len));
        let bytes = read_bytes(OVERHEAD.saturating_add(len.ok_or(Errno::INVAL)?));
        let (start, head) = decode(&bytes, read)?;
        let in_ring = |marker: Marker| (head.max_head..=head.end).contains(&marker.offset);
        let is_sound = start == HEAD_START && in_ring(head.front) && in_ring(head.tail);
        if is_sound && head.used().is_some() { Ok(head) } else { Err(Errno::INVAL) }
    }

    /// ENOSPC: it is longer than it may be.
    fn write(&self, context: &mut Context<'_>) -> Outcome<()> {
        let mut w = Writer::new();
        write_envelope(&mut w, 1, 1, |w| {
            w.u64(self.max_head);
            self.front.encode(w);
            self.tail.encode(w);
            w.u64(self.end);
            w.u64(self.max_urgent);
            w.blob(&self.urgent);
        });
        let (head, mut all) = (w.into_vec(), Writer::new());
        if head.len() as u64 + OVERHEAD > self.max_head {
            return Err(Errno::NOSPC);
        }
        all.u16(HEAD_START);
        all.u64(head.len() as u64);
        all.put(&head);
        context.changes();
        context.state.write(0, all.into_vec().into());
        Ok(())
    }

    /// Bytes from one place to another that is not before it; `None`: it is, or more than a round away.
    fn distance(&self, from: Marker, to: Marker) -> Option<u64> {
        match to.round.checked_sub(from.round)? {
            0 => to.offset.checked_sub(from.offset),
            1 if to.offset <= from.offset => Some(self.end - from.offset + to.offset - self.max_head),
            _ => None,
        }
    }

    fn used(&self) -> Option<u64> {
        self.distance(self.front, self.tail)
    }

    /// The place `len` bytes on, at most a round away.
    fn advanced(&self, from: Marker, len: u64) -> Marker {
        let left = self.end - from.offset;
        match len < left {
            true => Marker { offset: from.offset + len, ..from },
            false => Marker { round: from.round + 1, offset: self.max_head + (len - left) },
        }
    }

    /// Calls `each` with the offset and the length of the one or two parts in which `len` bytes from a place on lie.
    fn parts(&self, from: Marker, len: u64) -> impl Iterator<Item = (u64, u64)> {
        let first = len.min(self.end - from.offset);
        [(from.offset, first), (self.max_head, len - first)].into_iter().filter(|(_, len)| *len > 0)
    }

    fn read_at(&self, context: &Context<'_>, from: Marker, len: u64) -> Vec<u8> {
        let parts = self.parts(from, len).map(|(offset, len)| context.state.read(offset, len, context.zeros));
        parts.flat_map(|part| part.to_vec()).collect()
    }

    /// The entry at a place before which `left` bytes lie up to the end. EINVAL: there is none.
    fn entry_at(&self, context: &Context<'_>, at: Marker, left: u64) -> Outcome<Vec<u8>> {
        let start = self.read_at(context, at, OVERHEAD.min(left));
        let (start, len) =
            decode(&start, |r| Ok((r.u16("start of an entry")?, r.u64("length of an entry")?)))?;
        if start != ENTRY_START || len > left - OVERHEAD {
            return Err(Errno::INVAL);
        }
        let data = self.read_at(context, self.advanced(at, OVERHEAD), len);
        if data.len() as u64 == len { Ok(data) } else { Err(Errno::INVAL) }
    }
}

/// EEXIST: the object is a queue already.
fn init(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let (size, max_urgent, urgent) = decode(input, |r| {
        envelope(r, 1, "queue", |_, r| {
            let sizes = (r.u64("bytes of a queue")?, r.u64("bytes of urgent data")?);
            Ok((sizes.0, sizes.1, r.blob("urgent data")?.to_vec()))
        })
    })?;
    if Head::read(context).is_ok() {
        return Err(Errno::EXIST);
    }
    let max_head = HEAD_SIZE.checked_add(max_urgent).ok_or(Errno::INVAL)?;
    let end = max_head.checked_add(size).ok_or(Errno::INVAL)?;
    let begin = Marker { round: 0, offset: max_head };
    Head { max_head, front: begin, tail: begin, end, max_urgent, urgent }.write(context)?;
    Ok(Vec::new())
}

fn get_capacity(context: &mut Context<'_>, _: &[u8]) -> Outcome<Vec<u8>> {
    let head = Head::read(context)?;
    let mut w = Writer::new();
    write_envelope(&mut w, 1, 1, |w| w.u64(head.end - head.max_head));
    Ok(w.into_vec())
}

/// ENOSPC: not all entries fit, and none is added.
fn enqueue(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let entries: Vec<Vec<u8>> = decode(input, |r| envelope(r, 1, "entries", |_, r| Vec::decode(r)))?;
    let mut head = Head::read(context)?;
    for data in entries {
        let mut w = Writer::new();
        w.u16(ENTRY_START);
        w.u64(data.len() as u64);
        w.put(&data);
        let (bytes, used) = (w.into_vec(), head.used().ok_or(Errno::INVAL)?);
        let len = bytes.len() as u64;
        if len > head.end - head.max_head - used {
            return Err(Errno::NOSPC);
        }
        let mut bytes = List::from(bytes);
        for (offset, len) in head.parts(head.tail, len) {
            check_extent(offset, len)?;
            context.changes();
            context.state.write(offset, bytes.split_to(len as usize));
        }
        head.tail = head.advanced(head.tail, len);
    }
    head.write(context)?;
    Ok(Vec::new())
}

fn list_entries(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let (max, start) = decode(input, |r| {
        envelope(r, 2, "listing of a queue", |_, r| Ok((r.u64("entries")?, r.blob("marker")?.to_vec())))
    })?;
    let head = Head::read(context)?;
    let start = Marker::parse(&start).filter(|marker| marker.offset != 0);
    let (mut at, mut listed, mut count) = (start.unwrap_or(head.front), Writer::new(), 0);
    if !(head.max_head..head.end).contains(&at.offset) && at != head.tail {
        return Err(Errno::INVAL);
    }
    while at != head.tail && count < max {
        let left = head.distance(at, head.tail).ok_or(Errno::INVAL)?;
        let data = head.entry_at(context, at, left)?;
        write_envelope(&mut listed, 1, 1, |w| {
            w.blob(&data);
            w.string(&at.text());
        });
        count += 1;
        at = head.advanced(at, OVERHEAD + data.len() as u64);
    }
    let mut w = Writer::new();
    write_envelope(&mut w, 1, 1, |w| {
        w.bool(at != head.tail);
        w.string(&at.text());
        w.count(count as usize);
        w.put(listed.as_slice());
    });
    Ok(w.into_vec())
}

/// Removes entries up to a marker. EINVAL: it is not in the queue.
fn remove_entries(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let end = decode(input, |r| envelope(r, 1, "marker", |_, r| Ok(r.blob("marker")?.to_vec())))?;
    let mut head = Head::read(context)?;
    if head.front == head.tail {
        return Ok(Vec::new());
    }
    let end = Marker::parse(&end).ok_or(Errno::INVAL)?;
    let is_in_ring = (head.max_head..=head.end).contains(&end.offset);
    let len =
        head.distance(head.front, end).filter(|_| is_in_ring && end <= head.tail).ok_or(Errno::INVAL)?;
    for (offset, len) in head.parts(head.front, len) {
        context.changes();
        context.state.zero(offset, len);
    }
    head.front = head.advanced(head.front, len);
    head.write(context)?;
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::osd::tests::{Bench, failed, write};
    use onego_ceph::ops::Op;
    use onego_msgr::encoding::Encode as _;
    use std::collections::VecDeque;

    fn call(method: &str, body: impl FnOnce(&mut Writer)) -> Op {
        let mut w = Writer::new();
        write_envelope(&mut w, 1, 1, body);
        Op::Call { class: "queue".into(), method: method.into(), input: w.into_vec().into() }
    }

    fn creating(size: u64, max_urgent: u64, urgent: &[u8]) -> Op {
        call("queue_init", |w| {
            w.u64(size);
            w.u64(max_urgent);
            w.blob(urgent);
        })
    }

    fn adding(entries: &[Vec<u8>]) -> Op {
        call("queue_enqueue", |w| entries.to_vec().encode(w))
    }

    fn removing(marker: &str) -> Op {
        call("queue_remove_entries", |w| w.string(marker))
    }

    fn listing(max: u64, marker: &str) -> Op {
        call("queue_list_entries", |w| {
            w.u64(max);
            w.string(marker);
        })
    }

    /// Entries, the next marker, and whether there are more.
    fn listed(bench: &mut Bench, op: Op) -> (Vec<Vec<u8>>, String, bool) {
        let bytes = bench.get(op);
        let read = |_, r: &mut Reader<'_>| {
            let (more, marker) = (r.bool("truncated")?, r.blob("marker")?.to_vec());
            let count = r.count(6, "entries")?;
            let entry = |_| envelope(r, 1, "entry", |_, r| Ok(r.blob("data")?.to_vec()));
            Ok(((0..count).map(entry).collect::<Decoded<_>>()?, String::from_utf8(marker).unwrap(), more))
        };
        envelope(&mut Reader::new(&bytes), 1, "listing", read).unwrap()
    }

    #[test]
    fn a_queue_is_made_once_and_of_what_an_object_can_hold() {
        let mut bench = Bench::new();
        assert_eq!(bench.run(creating(u64::MAX, 0, b"")), failed(Errno::INVAL));
        assert_eq!(bench.run(creating(100, 0, &[1; 2000])), failed(Errno::NOSPC));
        assert_eq!(bench.run(creating(100, 1000, &[1; 1000])), 0);
        assert_eq!(bench.run(creating(100, 0, b"")), failed(Errno::EXIST));
        let bytes = bench.get(call("queue_get_capacity", |_| {}));
        assert_eq!(envelope(&mut Reader::new(&bytes), 1, "capacity", |_, r| r.u64("capacity")), Ok(100));
        // What is no queue is none for any method.
        bench.run(Op::WriteFull { data: b"no queue".to_vec().into() });
        for op in [adding(&[b"x".to_vec()]), listing(9, ""), removing("0/1024")] {
            assert_eq!(bench.run(op), failed(Errno::INVAL));
        }
        bench.run(write(0, &HEAD_START.to_le_bytes()));
        assert_eq!(bench.run(listing(9, "")), failed(Errno::INVAL));
    }

    #[test]
    fn a_list_of_many_short_entries_is_longer_than_the_queue() {
        let mut bench = Bench::new();
        assert_eq!(bench.run(creating(100_000, 0, b"")), 0);
        let entries: Vec<_> = (0..3000u32).map(|n| vec![n as u8]).collect();
        assert_eq!(bench.run(adding(&entries)), 0);
        assert_eq!(listed(&mut bench, listing(5000, "")).0, entries);
    }

    #[test]
    fn the_ring_gives_back_what_was_put_in_however_often_it_wraps() {
        let mut bench = Bench::new();
        assert_eq!(bench.run(creating(100, 0, b"")), 0);
        let mut model: VecDeque<Vec<u8>> = VecDeque::new();
        let space =
            |model: &VecDeque<Vec<u8>>| 100 - model.iter().map(|entry| entry.len() + 10).sum::<usize>();
        for round in 0..200usize {
            let entry = vec![round as u8; round * 7 % 43];
            let expected = if entry.len() + 10 <= space(&model) { 0 } else { failed(Errno::NOSPC) };
            assert_eq!(bench.run(adding(std::slice::from_ref(&entry))), expected, "round {round}");
            if expected == 0 {
                model.push_back(entry);
            }
            let (entries, end, more) = listed(&mut bench, listing(100, ""));
            assert_eq!((VecDeque::from(entries), more), (model.clone(), false));
            assert_eq!(bench.run(removing("9999/1030")), failed(Errno::INVAL));
            let keep = round % 3;
            if model.len() > keep {
                let (first, next, _) = listed(&mut bench, listing((model.len() - keep) as u64, ""));
                let (rest, ..) = listed(&mut bench, listing(100, &next));
                assert_eq!([first, rest].concat(), model.make_contiguous());
                assert_eq!(bench.run(removing(if keep == 0 { &end } else { &next })), 0);
                model.drain(..model.len() - keep);
            }
        }
    }
}
