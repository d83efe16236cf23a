//! Small classes that keep values at an object: `numops`, `refcount`, `version`, `cmpomap`.
//!
//! Source: ceph `src/cls/{numops,refcount,version,cmpomap}`.

use super::context::Context;
use super::method::{Entry, decode, entry};
use crate::osd::errno::{Errno, Outcome};
use onego_msgr::encoding::{Decode as _, Encode as _, envelope, write_envelope};
use onego_wire::{Decoded, Reader, Writer};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

pub(super) static METHODS: &[Entry] = &[
    entry("numops", "add", true, |context, input| calculate(context, input, |value, by| value + by)),
    entry("numops", "mul", true, |context, input| calculate(context, input, |value, by| value * by)),
    entry("refcount", "get", true, get_reference),
    entry("refcount", "put", true, put_reference),
    entry("refcount", "set", true, set_references),
    entry("refcount", "read", false, read_references),
    entry("version", "set", true, set_version),
    entry("version", "inc", true, increment_version),
    entry("version", "inc_conds", true, increment_version),
    entry("version", "read", false, read_version),
    entry("version", "check_conds", false, check_version),
    entry("cmpomap", "cmp_vals", false, compare_values),
    entry("cmpomap", "cmp_set_vals", true, compare_and_set),
    entry("cmpomap", "cmp_rm_keys", true, compare_and_remove),
];

/// Digits of the numbers that `numops` keeps.
const DIGITS: i32 = 10;

/// A number as C++ streams write it: with at most [`DIGITS`] digits, and an exponent where it is short or long (`%g`).
fn shown(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string().to_lowercase();
    }
    let trimmed = |digits: &str| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits.to_owned(),
    };
    let scientific = format!("{value:.*e}", DIGITS as usize - 1);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        return trimmed(&format!("{value:.*}", (DIGITS - 1 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

/// A number as C reads it; nothing is 0.
fn number(text: &[u8], wrong: Errno) -> Outcome<f64> {
    let text = std::str::from_utf8(text).map_err(|_| wrong)?.trim_start();
    if text.is_empty() { Ok(0.0) } else { text.parse().map_err(|_| wrong) }
}

fn calculate(context: &mut Context<'_>, input: &[u8], result: fn(f64, f64) -> f64) -> Outcome<Vec<u8>> {
    let (key, by) = decode(input, |r| Ok((r.blob("key")?.to_vec(), r.blob("number")?.to_vec())))?;
    let by = number(&by, Errno::INVAL)?;
    let stored = context.state.meta().omap().get(&key).cloned().unwrap_or_default();
    let value = number(&stored, Errno::BADMSG)?;
    context.changes();
    context.state.omap_set(key, shown(result(value, by)).into_bytes());
    Ok(Vec::new())
}

/// The attribute that has an object's references.
const REFERENCES: &[u8] = b"refcount";

/// References to an object by their tags, and released tags, which are not released twice (`obj_refcount`). The empty tag is
/// the implicit reference of an object without a count.
#[derive(Default)]
struct References {
    tags: BTreeMap<Vec<u8>, bool>,
    retired: BTreeSet<Vec<u8>>,
}

impl References {
    fn read(context: &Context<'_>, is_implicit: bool) -> Outcome<Self> {
        context.must_exist()?;
        let Some(bytes) = context.state.meta().xattrs().get(REFERENCES) else {
            let tags = is_implicit.then(|| (Vec::new(), true)).into_iter().collect();
            return Ok(Self { tags, ..Self::default() });
        };
        let read = |r: &mut Reader<'_>| {
            envelope(r, 2, "references", |version, r| {
                let tags = BTreeMap::decode(r)?;
                let count = if version >= 2 { r.count(4, "tags")? } else { 0 };
                let retired = (0..count).map(|_| Ok(r.blob("tag")?.to_vec()));
                Ok(Self { tags, retired: retired.collect::<Decoded<_>>()? })
            })
        };
        read(&mut Reader::new(bytes)).map_err(|_| Errno::IO)
    }

    fn write(&self, context: &mut Context<'_>) {
        let mut w = Writer::new();
        write_envelope(&mut w, 2, 1, |w| {
            self.tags.encode(w);
            w.count(self.retired.len());
            self.retired.iter().for_each(|tag| w.blob(tag));
        });
        context.changes();
        context.state.set_xattr(REFERENCES.to_vec(), w.into_vec());
    }
}

/// Reads a tag, and whether an object without a count has a reference.
fn tag(input: &[u8]) -> Outcome<(Vec<u8>, bool)> {
    decode(input, |r| envelope(r, 1, "reference", |_, r| Ok((r.blob("tag")?.to_vec(), r.bool("implicit")?))))
}

fn get_reference(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let (tag, is_implicit) = tag(input)?;
    let mut references = References::read(context, is_implicit)?;
    references.tags.insert(tag, true);
    references.write(context);
    Ok(Vec::new())
}

/// Gives up a reference. With the last one the object goes.
fn put_reference(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let (tag, is_implicit) = tag(input)?;
    let mut references = References::read(context, is_implicit)?;
    if references.tags.is_empty() {
        return Err(Errno::INVAL);
    }
    let held = match references.tags.contains_key(&tag) {
        true => Some(tag.clone()),
        false => Some(Vec::new()).filter(|any| is_implicit && references.tags.contains_key(any)),
    };
    let Some(held) = held.filter(|_| !references.retired.contains(&tag)) else { return Ok(Vec::new()) };
    references.tags.remove(&held);
    references.retired.insert(tag);
    if references.tags.is_empty() {
        context.remove();
    } else {
        references.write(context);
    }
    Ok(Vec::new())
}

fn set_references(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let tags: Vec<Vec<u8>> = decode(input, |r| envelope(r, 1, "references", |_, r| Vec::decode(r)))?;
    if tags.is_empty() {
        context.must_exist()?;
        context.remove();
        return Ok(Vec::new());
    }
    let tags = tags.into_iter().map(|tag| (tag, true)).collect();
    References { tags, ..References::default() }.write(context);
    Ok(Vec::new())
}

fn read_references(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let is_implicit = decode(input, |r| envelope(r, 1, "references", |_, r| r.bool("implicit")))?;
    let tags: Vec<Vec<u8>> = References::read(context, is_implicit)?.tags.into_keys().collect();
    let mut w = Writer::new();
    write_envelope(&mut w, 1, 1, |w| tags.encode(w));
    Ok(w.into_vec())
}

/// The attribute that has an object's version.
const VERSION: &[u8] = b"ceph.objclass.version";

/// The version that users of an object give it (`obj_version`): a number, and a tag that says since when it is counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Version {
    number: u64,
    tag: Vec<u8>,
}

impl Version {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 1, "version", |_, r| Ok(Self { number: r.u64("version")?, tag: r.blob("tag")?.to_vec() }))
    }

    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 1, 1, |w| {
            w.u64(self.number);
            w.blob(&self.tag);
        });
    }

    /// The version of the object; `None`: it has none.
    fn read(context: &Context<'_>) -> Outcome<Option<Self>> {
        let bytes = context.state.meta().xattrs().get(VERSION);
        bytes.map(|bytes| Self::decode(&mut Reader::new(bytes)).map_err(|_| Errno::IO)).transpose()
    }

    fn write(&self, context: &mut Context<'_>) {
        let mut w = Writer::new();
        self.encode(&mut w);
        context.changes();
        context.state.set_xattr(VERSION.to_vec(), w.into_vec());
    }

    /// Returns whether a condition (`VER_COND_*`) holds.
    fn meets(&self, condition: u32, other: &Self) -> bool {
        match condition {
            1 => self == other,
            2 => self.number > other.number,
            3 => self.number >= other.number,
            4 => self.number < other.number,
            5 => self.number <= other.number,
            6 => self.tag == other.tag,
            7 => self.tag != other.tag,
            _ => true,
        }
    }
}

fn set_version(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    decode(input, |r| envelope(r, 1, "version", |_, r| Version::decode(r)))?.write(context);
    Ok(Vec::new())
}

/// Decodes conditions, after a version that is unused, and checks them.
fn check_conditions(version: &Version, input: &[u8]) -> Outcome<()> {
    let conditions = decode(input, |r| {
        envelope(r, 1, "conditions", |_, r| {
            Version::decode(r)?;
            let count = r.count(10, "conditions")?;
            let condition = |r: &mut Reader<'_>| {
                envelope(r, 1, "condition", |_, r| {
                    let version = Version::decode(r)?;
                    Ok((version, r.u32("condition")?))
                })
            };
            (0..count).map(|_| condition(r)).collect::<Decoded<Vec<_>>>()
        })
    })?;
    let all = conditions.iter().all(|(other, condition)| version.meets(*condition, other));
    if all { Ok(()) } else { Err(Errno::CANCELED) }
}

fn increment_version(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let mut version = match Version::read(context)? {
        Some(version) => version,
        // Counted from now on.
        None => {
            let (now, client) = (context.now, context.origin.name.num);
            Version { number: 1, tag: format!("{:08x}{:08x}{client:x}", now.sec, now.nsec).into_bytes() }
        }
    };
    check_conditions(&version, input)?;
    version.number += 1;
    version.write(context);
    Ok(Vec::new())
}

fn read_version(context: &mut Context<'_>, _: &[u8]) -> Outcome<Vec<u8>> {
    let version = Version::read(context)?.unwrap_or_default();
    let mut w = Writer::new();
    write_envelope(&mut w, 1, 1, |w| version.encode(w));
    Ok(w.into_vec())
}

fn check_version(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    check_conditions(&Version::read(context)?.unwrap_or_default(), input).map(|()| Vec::new())
}

/// Modes of comparisons (rados.h, `CEPH_OSD_CMPXATTR_MODE_STRING`, `CEPH_OSD_CMPXATTR_MODE_U64`).
const BYTES: u8 = 1;
const NUMBERS: u8 = 2;

/// Values that those of an object's map are compared with, by their keys.
struct Comparison {
    /// Numbers of 64 bits, or else bytes.
    is_number: bool,
    operator: u8,
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Stands for the value of a key that is not there.
    default: Option<Vec<u8>>,
}

impl Comparison {
    fn decode(input: &[u8], has_default: bool) -> Outcome<Self> {
        let read = |r: &mut Reader<'_>| {
            envelope(r, 1, "comparison", |_, r| {
                let (mode, operator) = (r.u8("mode")?, r.u8("comparison")?);
                let values = BTreeMap::decode(r)?;
                let default = match has_default && r.bool("default")? {
                    true => Some(r.blob("default")?.to_vec()),
                    false => None,
                };
                Ok((mode, Self { is_number: mode == NUMBERS, operator, values, default }))
            })
        };
        match decode(input, read)? {
            (BYTES | NUMBERS, comparison) => Ok(comparison),
            _ => Err(Errno::INVAL),
        }
    }

    /// Compares a given value with one of the object. EIO: the object's is no number.
    fn holds(&self, given: &[u8], there: &[u8]) -> Outcome<bool> {
        let order = match self.is_number {
            false => given.cmp(there),
            true => {
                let number =
                    |bytes: &[u8], wrong| bytes.first_chunk().map(|n| u64::from_le_bytes(*n)).ok_or(wrong);
                let given = number(given, Errno::INVAL)?;
                given.cmp(&if there.is_empty() { 0 } else { number(there, Errno::IO)? })
            }
        };
        Ok(match self.operator {
            1 => order == Ordering::Equal,
            2 => order != Ordering::Equal,
            3 => order == Ordering::Greater,
            4 => order != Ordering::Less,
            5 => order == Ordering::Less,
            6 => order != Ordering::Greater,
            _ => return Err(Errno::INVAL),
        })
    }

    /// The keys for which the comparison holds. A value that is no number compares with none.
    fn holding(&self, context: &Context<'_>) -> Outcome<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut holding = Vec::new();
        for (key, given) in &self.values {
            let there = context.state.meta().omap().get(key).or(self.default.as_ref());
            let Some(there) = there else { continue };
            match self.holds(given, there) {
                Ok(true) => holding.push((key.clone(), given.clone())),
                Ok(false) | Err(Errno::IO) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(holding)
    }
}

fn compare_values(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let comparison = Comparison::decode(input, true)?;
    for (key, given) in &comparison.values {
        let there = context.state.meta().omap().get(key).or(comparison.default.as_ref());
        if !comparison.holds(given, there.ok_or(Errno::CANCELED)?)? {
            return Err(Errno::CANCELED);
        }
    }
    Ok(Vec::new())
}

fn compare_and_set(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let holding = Comparison::decode(input, true)?.holding(context)?;
    for (key, value) in holding {
        context.changes();
        context.state.omap_set(key, value);
    }
    Ok(Vec::new())
}

fn compare_and_remove(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let holding = Comparison::decode(input, false)?.holding(context)?;
    for (key, _) in holding {
        context.changes();
        context.state.omap_remove(&key);
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::osd::tests::{Bench, failed, write};
    use onego_ceph::ops::Op;

    fn call(class: &str, method: &str, input: Writer) -> Op {
        Op::Call { class: class.into(), method: method.into(), input: input.into_vec().into() }
    }

    fn enveloped(body: impl FnOnce(&mut Writer)) -> Writer {
        let mut w = Writer::new();
        write_envelope(&mut w, 1, 1, body);
        w
    }

    fn value(bench: &mut Bench, key: &[u8]) -> Option<Vec<u8>> {
        let entries = bench.get(Op::OmapGetValsByKeys { keys: [key.to_vec()].into() });
        let entries = BTreeMap::<Vec<u8>, Vec<u8>>::from_bytes(&entries).unwrap();
        entries.into_values().next()
    }

    #[test]
    fn numbers_are_kept_as_text() {
        let mut bench = Bench::new();
        let mut calculate = |method: &str, by: &str| {
            let mut w = Writer::new();
            w.string("k");
            w.string(by);
            let result = bench.run(call("numops", method, w));
            (result, value(&mut bench, b"k").map(|value| String::from_utf8(value).unwrap()))
        };
        for (method, by, expected) in [
            ("add", "2", "2"),
            ("mul", "-1.5", "-3"),
            ("add", "0.1", "-2.9"),
            ("mul", "1e12", "-2.9e+12"),
            ("mul", "1e-20", "-2.9e-08"),
            ("mul", "0", "-0"),
        ] {
            assert_eq!(calculate(method, by), (0, Some(expected.into())), "{method} {by}");
        }
        assert_eq!(calculate("add", "two").0, failed(Errno::INVAL));
        assert_eq!(
            bench.run(Op::OmapSetVals { entries: [(b"k".to_vec(), b"text".to_vec().into())].into() }),
            0
        );
        let mut w = Writer::new();
        w.string("k");
        w.string("1");
        assert_eq!(bench.run(call("numops", "add", w)), failed(Errno::BADMSG));
        assert_eq!(
            [123_456_789_012.0, 0.0001, 0.000_01, 1234.5].map(shown),
            ["1.23456789e+11", "0.0001", "1e-05", "1234.5"]
        );
    }

    #[test]
    fn an_object_goes_with_its_last_reference() {
        let mut bench = Bench::new();
        let of = |tag: &str, is_implicit: bool| {
            enveloped(|w| {
                w.string(tag);
                w.bool(is_implicit);
            })
        };
        assert_eq!(bench.run(call("refcount", "get", of("a", true))), failed(Errno::NOENT));
        bench.run(write(0, b"x"));
        assert_eq!(bench.run(call("refcount", "get", of("a", true))), 0);
        let all = bench.get(call("refcount", "read", enveloped(|w| w.bool(true))));
        let tags = envelope(&mut Reader::new(&all), 1, "tags", |_, r| Vec::<String>::decode(r)).unwrap();
        assert_eq!(tags, ["", "a"]);
        assert_eq!(bench.run(call("refcount", "put", of("other", true))), 0);
        // It was given up already: the request came again.
        assert_eq!(bench.run(call("refcount", "put", of("other", true))), 0);
        assert_eq!(bench.run(Op::Stat), 0);
        assert_eq!(bench.run(call("refcount", "put", of("a", true))), 0);
        assert_eq!(bench.run(Op::Stat), failed(Errno::NOENT));
        let set = enveloped(|w| vec!["b".to_owned()].encode(w));
        assert_eq!(bench.run(call("refcount", "set", set)), 0);
        assert_eq!(bench.run(call("refcount", "set", enveloped(|w| w.count(0)))), 0);
        assert_eq!(bench.run(Op::Stat), failed(Errno::NOENT));
    }

    #[test]
    fn versions_are_counted_under_conditions() {
        let mut bench = Bench::new();
        let version = |number, tag: &str| Version { number, tag: tag.into() };
        let with = |condition: Option<(u32, Version)>| {
            enveloped(|w| {
                Version::default().encode(w);
                w.count(condition.iter().len());
                if let Some((condition, other)) = condition {
                    write_envelope(w, 1, 1, |w| {
                        other.encode(w);
                        w.u32(condition);
                    });
                }
            })
        };
        let read = |bench: &mut Bench| {
            let bytes = bench.get(call("version", "read", Writer::new()));
            envelope(&mut Reader::new(&bytes), 1, "version", |_, r| Version::decode(r)).unwrap()
        };
        assert_eq!(bench.run(call("version", "inc", with(None))), 0);
        assert_eq!(read(&mut bench).number, 2);
        assert_eq!(bench.run(call("version", "set", enveloped(|w| version(7, "t").encode(w)))), 0);
        for (condition, other, holds) in [
            (1, version(7, "t"), true),
            (1, version(7, "u"), false),
            (2, version(6, ""), true),
            (4, version(7, ""), false),
        ] {
            let expected = if holds { 0 } else { failed(Errno::CANCELED) };
            assert_eq!(bench.run(call("version", "check_conds", with(Some((condition, other))))), expected);
        }
        assert_eq!(
            bench.run(call("version", "inc_conds", with(Some((7, version(0, "t")))))),
            failed(Errno::CANCELED)
        );
        assert_eq!(bench.run(call("version", "inc_conds", with(Some((6, version(0, "t")))))), 0);
        assert_eq!(read(&mut bench), version(8, "t"));
    }

    #[test]
    fn values_of_a_map_are_compared_and_changed() {
        let mut bench = Bench::new();
        let compare = |mode: u8, operator: u8, given: &[u8], default: Option<&[u8]>| {
            enveloped(|w| {
                w.u8(mode);
                w.u8(operator);
                BTreeMap::from([(b"k".to_vec(), given.to_vec())]).encode(w);
                w.bool(default.is_some());
                default.into_iter().for_each(|default| w.blob(default));
            })
        };
        let (five, six) = (5_u64.to_le_bytes(), 6_u64.to_le_bytes());
        let set = |given, default| call("cmpomap", "cmp_set_vals", compare(NUMBERS, 3, given, default));
        assert_eq!(bench.run(set(&five, None)), 0);
        bench.run(write(0, b"x"));
        assert_eq!(value(&mut bench, b"k"), None, "a key that is not there is left alone");
        assert_eq!(bench.run(set(&five, Some(b""))), 0);
        assert_eq!(value(&mut bench, b"k"), Some(five.to_vec()));
        assert_eq!(bench.run(set(&five, None)), 0);
        assert_eq!(bench.run(call("cmpomap", "cmp_vals", compare(NUMBERS, 3, &six, None))), 0);
        assert_eq!(
            bench.run(call("cmpomap", "cmp_vals", compare(NUMBERS, 3, &five, None))),
            failed(Errno::CANCELED)
        );
        assert_eq!(
            bench.run(call("cmpomap", "cmp_vals", compare(NUMBERS, 9, &five, None))),
            failed(Errno::INVAL)
        );
        assert_eq!(bench.run(call("cmpomap", "cmp_vals", compare(3, 1, &five, None))), failed(Errno::INVAL));
        assert_eq!(
            bench.run(call("cmpomap", "cmp_vals", compare(NUMBERS, 1, b"short", None))),
            failed(Errno::INVAL)
        );
        assert_eq!(bench.run(call("cmpomap", "cmp_rm_keys", compare(BYTES, 2, &five, None))), 0);
        assert_eq!(value(&mut bench, b"k"), Some(five.to_vec()));
        assert_eq!(bench.run(call("cmpomap", "cmp_rm_keys", compare(BYTES, 1, &five, None))), 0);
        assert_eq!(value(&mut bench, b"k"), None);
    }
}
