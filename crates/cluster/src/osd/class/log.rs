//! The class `log`: entries in an object's map, in the order of their times, with the newest time in the map's header.
//!
//! Source: ceph `src/cls/log` (`cls_log.cc`, `cls_log_ops.h`, `cls_log_types.h`).

use super::context::Context;
use super::method::{Entry as Method, decode, entry};
use crate::osd::errno::{Errno, Outcome};
use onego_ceph::types::Utime;
use onego_msgr::encoding::{Decode as _, Encode as _, envelope, write_envelope};
use onego_wire::{Decoded, Reader, Writer};
use std::ops::Bound::{Excluded, Included, Unbounded};

pub(super) static METHODS: &[Method] = &[
    entry("log", "add", true, add),
    entry("log", "list", false, list),
    entry("log", "trim", true, trim),
    entry("log", "info", false, info),
];

/// Start of the keys that entries have.
const PREFIX: &[u8] = b"1_";

/// Most entries in one reply.
const MAX_ENTRIES: usize = 1000;

/// The marker and the time of the newest entry, kept after it is trimmed.
#[derive(Default)]
struct Header {
    max_marker: Vec<u8>,
    max_time: Utime,
}

impl Header {
    fn read(context: &Context<'_>) -> Outcome<Self> {
        let header = context.state.meta().header();
        if header.is_empty() {
            return Ok(Self::default());
        }
        let read = |r: &mut Reader<'_>| {
            envelope(r, 1, "header of a log", |_, r| {
                Ok(Self { max_marker: r.blob("marker")?.to_vec(), max_time: Utime::decode(r)? })
            })
        };
        read(&mut Reader::new(header)).map_err(|_| Errno::IO)
    }

    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 1, 1, |w| {
            w.blob(&self.max_marker);
            self.max_time.encode(w);
        });
    }
}

/// An entry of a log. Its id is its key.
struct Entry {
    section: Vec<u8>,
    name: Vec<u8>,
    time: Utime,
    data: Vec<u8>,
    id: Vec<u8>,
}

impl Entry {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 2, "entry of a log", |version, r| {
            Ok(Self {
                section: r.blob("section")?.to_vec(),
                name: r.blob("name")?.to_vec(),
                time: Utime::decode(r)?,
                data: r.blob("data")?.to_vec(),
                id: if version >= 2 { r.blob("id")?.to_vec() } else { Vec::new() },
            })
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        write_envelope(&mut w, 2, 1, |w| {
            w.blob(&self.section);
            w.blob(&self.name);
            self.time.encode(w);
            w.blob(&self.data);
            w.blob(&self.id);
        });
        w.into_vec()
    }
}

/// Returns the start of the keys of a time, to the microsecond.
fn key_of(time: Utime) -> Vec<u8> {
    [PREFIX, format!("{:010}.{:06}_", time.sec, time.nsec / 1000).as_bytes()].concat()
}

fn add(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let (entries, is_monotonic) = decode(input, |r| {
        envelope(r, 2, "entries of a log", |version, r| {
            let count = r.count(6, "entries of a log")?;
            let entries = (0..count).map(|_| Entry::decode(r)).collect::<Decoded<Vec<_>>>()?;
            Ok((entries, version < 2 || r.bool("monotonic")?))
        })
    })?;
    let mut header = Header::read(context)?;
    context.changes();
    // Unique among the operations that change the object.
    let unique = format!("{}.{}", context.state.version + 1, context.index);
    for mut entry in entries {
        let is_older = (entry.time.sec, entry.time.nsec) < (header.max_time.sec, header.max_time.nsec);
        let time = if is_monotonic && is_older { header.max_time } else { entry.time };
        if !is_older {
            header.max_time = time;
        }
        if entry.id.is_empty() {
            entry.id = [&key_of(time), unique.as_bytes()].concat();
        }
        header.max_marker = header.max_marker.max(entry.id.clone());
        let value = entry.encode();
        context.state.omap_set(entry.id, value);
    }
    let mut w = Writer::new();
    header.encode(&mut w);
    context.state.omap_set_header(w.into_vec());
    Ok(Vec::new())
}

fn list(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let (from, marker, to, max) = decode(input, |r| {
        envelope(r, 1, "listing of a log", |_, r| {
            let (from, marker) = (Utime::decode(r)?, r.blob("marker")?.to_vec());
            Ok((from, marker, Utime::decode(r)?, r.i32("entries")?))
        })
    })?;
    let after = if marker.is_empty() { key_of(from) } else { marker };
    let is_bounded = from != Utime::default() && (to.sec, to.nsec) >= (from.sec, from.nsec);
    let end = is_bounded.then(|| key_of(to));
    let max = usize::try_from(max).ok().filter(|max| (1..=MAX_ENTRIES).contains(max)).unwrap_or(MAX_ENTRIES);
    let start = if PREFIX > &after[..] { Included(PREFIX) } else { Excluded(&after[..]) };
    let range = context.state.meta().omap().range::<[u8], _>((start, Unbounded));
    let mut there = range.take_while(|(key, _)| key.starts_with(PREFIX));
    let (mut entries, mut last, mut more) = (Vec::new(), Vec::new(), false);
    for (key, value) in &mut there {
        if entries.len() == max {
            more = true;
            break;
        }
        last.clone_from(key);
        if end.as_ref().is_some_and(|end| key[..end.len().min(key.len())] >= end[..]) {
            break;
        }
        // What is no entry is left out.
        entries.extend(Entry::decode(&mut Reader::new(value)).ok());
    }
    let mut w = Writer::new();
    write_envelope(&mut w, 1, 1, |w| {
        w.count(entries.len());
        entries.iter().for_each(|entry| w.put(&entry.encode()));
        w.blob(&last);
        w.bool(more);
    });
    Ok(w.into_vec())
}

/// Removes entries of a range, both ends included. ENODATA: there are none.
fn trim(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let (from, to, from_marker, to_marker) = decode(input, |r| {
        envelope(r, 2, "range of a log", |version, r| {
            let (from, to) = (Utime::decode(r)?, Utime::decode(r)?);
            let mut marker =
                || if version >= 2 { r.blob("marker").map(<[u8]>::to_vec) } else { Ok(Vec::new()) };
            Ok((from, to, marker()?, marker()?))
        })
    })?;
    let from = if from_marker.is_empty() { key_of(from) } else { from_marker };
    let to = match to_marker.is_empty() {
        true => {
            let nsec = to.nsec.saturating_add(1000);
            key_of(Utime { sec: to.sec.saturating_add(nsec / 1_000_000_000), nsec: nsec % 1_000_000_000 })
        }
        false => [&to_marker[..], b"\0"].concat(),
    };
    let omap = context.state.meta().omap();
    let first = omap.range::<[u8], _>((Excluded(&from[..]), Unbounded)).next();
    let first = first.map(|(key, _)| key.clone()).filter(|first| *first < to).ok_or(Errno::NODATA)?;
    context.changes();
    context.state.omap_remove_range(&first, &to);
    Ok(Vec::new())
}

fn info(context: &mut Context<'_>, _: &[u8]) -> Outcome<Vec<u8>> {
    let header = Header::read(context)?;
    let mut w = Writer::new();
    write_envelope(&mut w, 1, 1, |w| header.encode(w));
    Ok(w.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::osd::tests::{Bench, failed};
    use onego_ceph::ops::Op;

    fn call(method: &str, version: u8, body: impl FnOnce(&mut Writer)) -> Op {
        let mut w = Writer::new();
        write_envelope(&mut w, version, 1, body);
        Op::Call { class: "log".into(), method: method.into(), input: w.into_vec().into() }
    }

    fn at(sec: u32, nsec: u32) -> Utime {
        Utime { sec, nsec }
    }

    fn adding(times: &[Utime]) -> Op {
        call("add", 2, |w| {
            w.count(times.len());
            for time in times {
                let name = time.sec.to_string().into_bytes();
                let entry =
                    Entry { section: b"s".to_vec(), name, time: *time, data: b"d".to_vec(), id: Vec::new() };
                w.put(&entry.encode());
            }
            w.bool(true);
        })
    }

    fn listing(from: Utime, marker: &[u8], to: Utime, max: i32) -> Op {
        call("list", 1, |w| {
            from.encode(w);
            w.blob(marker);
            to.encode(w);
            w.i32(max);
        })
    }

    fn trimming(from: Utime, to: Utime, to_marker: &[u8]) -> Op {
        call("trim", 2, |w| {
            from.encode(w);
            to.encode(w);
            w.blob(b"");
            w.blob(to_marker);
        })
    }

    /// Names of the entries, the marker, and whether there are more.
    fn listed(bench: &mut Bench, op: Op) -> (Vec<String>, Vec<u8>, bool) {
        let bytes = bench.get(op);
        let read = |_, r: &mut Reader<'_>| {
            let count = r.count(6, "entries")?;
            let names = (0..count).map(|_| Ok(String::from_utf8(Entry::decode(r)?.name).unwrap()));
            Ok((names.collect::<Decoded<_>>()?, r.blob("marker")?.to_vec(), r.bool("truncated")?))
        };
        envelope(&mut Reader::new(&bytes), 1, "listing", read).unwrap()
    }

    #[test]
    fn entries_are_listed_by_time_and_trimmed_up_to_a_time_or_marker() {
        let (mut bench, none) = (Bench::new(), Utime::default());
        assert_eq!(bench.run(listing(none, b"", none, 0)), failed(Errno::NOENT));
        assert_eq!(bench.run(adding(&[at(10, 0), at(20, 0), at(30, 0)])), 0);
        // One at the same time in another operation, and one that is older, which counts as the newest.
        assert_eq!(bench.run(adding(&[at(30, 0)])), 0);
        assert_eq!(bench.run(adding(&[at(5, 0)])), 0);
        let (names, _, more) = listed(&mut bench, listing(none, b"", none, 0));
        assert_eq!((names, more), (["10", "20", "30", "30", "5"].map(String::from).to_vec(), false));
        let (names, marker, more) = listed(&mut bench, listing(none, b"", none, 2));
        assert_eq!((names, more), (["10", "20"].map(String::from).to_vec(), true));
        let (names, ..) = listed(&mut bench, listing(none, &marker, none, 2));
        assert_eq!(names, ["30", "30"]);
        let (names, _, more) = listed(&mut bench, listing(at(15, 0), b"", at(30, 0), 0));
        assert_eq!((names, more), (vec!["20".to_owned()], false));

        assert_eq!(bench.run(trimming(none, at(9, 0), b"")), failed(Errno::NODATA));
        assert_eq!(bench.run(trimming(none, at(10, 0), b"")), 0);
        assert_eq!(listed(&mut bench, listing(none, b"", none, 0)).0.len(), 4);
        assert_eq!(bench.run(trimming(none, none, &marker)), 0);
        assert_eq!(listed(&mut bench, listing(none, b"", none, 0)).0.len(), 3);
        assert_eq!(bench.run(trimming(none, none, &marker)), failed(Errno::NODATA));

        let bytes = bench.get(call("info", 1, |_| {}));
        let read = |_, r: &mut Reader<'_>| {
            envelope(r, 1, "header", |_, r| Ok((r.blob("marker")?.to_vec(), Utime::decode(r)?)))
        };
        let (newest, time) = envelope(&mut Reader::new(&bytes), 1, "info", read).unwrap();
        assert!(newest.starts_with(b"1_0000000030.000000_"));
        assert_eq!(time, at(30, 0));
    }

    #[test]
    fn operations_of_one_request_add_entries_of_their_own() {
        let (mut bench, none) = (Bench::new(), Utime::default());
        assert_eq!(bench.ask("o", vec![adding(&[at(7, 0)]), adding(&[at(7, 0)])]).result, 0);
        assert_eq!(listed(&mut bench, listing(none, b"", none, 0)).0, ["7", "7"]);
    }
}
