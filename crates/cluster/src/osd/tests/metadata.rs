//! Operations on attributes, maps and versions.

use super::*;
use onego_ceph::ops::{Compare, CompareWith, Omap, decode_omap};
use onego_msgr::encoding::Decode;
use onego_wire::Reader;
use std::collections::BTreeSet;

fn set(entries: &[(&str, &str)]) -> Op {
    let entry = |(key, value): &(&str, &str)| (key.as_bytes().to_vec(), list(value.as_bytes()));
    Op::OmapSetVals { entries: entries.iter().map(entry).collect() }
}

fn entries(output: &[u8]) -> (Omap, bool) {
    let mut r = Reader::new(output);
    let entries = decode_omap(&mut r).unwrap();
    (entries, !r.is_empty() && r.bool("more").unwrap())
}

fn keys(output: &[u8]) -> (Vec<String>, bool) {
    let mut r = Reader::new(output);
    (Vec::decode(&mut r).unwrap(), r.bool("more").unwrap())
}

#[test]
fn attributes_are_set_read_and_removed() {
    let mut bench = Bench::new();
    let get = || Op::GetXattr { name: "color".into() };
    assert_eq!(bench.run(get()), failed(Errno::NOENT));
    assert_eq!(bench.run(Op::RmXattr { name: "color".into() }), failed(Errno::NOENT));
    bench.run(Op::SetXattr { name: "color".into(), value: list(b"red") });
    assert_eq!(bench.get(get()), b"red");
    assert_eq!(bench.get(Op::GetXattrs), b"\x01\0\0\0\x05\0\0\0color\x03\0\0\0red");
    bench.run(Op::RmXattr { name: "color".into() });
    assert_eq!(bench.run(get()), failed(Errno::NODATA));
    assert_eq!(bench.run(Op::RmXattr { name: "color".into() }), 0);
    let long = Op::SetXattr { name: b"n".repeat(101), value: List::new() };
    assert_eq!(bench.run(long), failed(Errno::NAMETOOLONG));
    // As with Ceph, only the length of a request bounds a value.
    let name = b"n".repeat(100);
    let large = vec![b'v'; 5 << 20];
    assert_eq!(bench.run(Op::SetXattr { name: name.clone(), value: large.clone().into() }), 0);
    assert_eq!(bench.get(Op::GetXattr { name }), large);
}

#[test]
fn a_request_may_depend_on_an_attribute() {
    let mut bench = Bench::new();
    let is = |value: &str| Op::CmpXattr {
        name: "a".into(),
        compare: Compare::Equal,
        with: CompareWith::Bytes(value.into()),
    };
    assert_eq!(bench.run(is("")), failed(Errno::NOENT));
    bench.run(Op::SetXattr { name: "a".into(), value: list(b"1") });
    assert_eq!(bench.run(is("1")), 1);
    assert_eq!(bench.run(is("2")), failed(Errno::CANCELED));
    assert_eq!(bench.ask("o", vec![is("2"), write(0, b"x")]).result, failed(Errno::CANCELED));
    assert_eq!(bench.ask("o", vec![is("1"), write(0, b"x")]).result, 0);
    assert_eq!(bench.get(read(0, 0)), b"x");
}

#[test]
fn a_map_is_listed_in_pieces() {
    let mut bench = Bench::new();
    bench.run(set(&[("a1", "1"), ("a2", "2"), ("b1", "3"), ("b2", "4")]));
    let vals =
        |after: &str, max, prefix: &str| Op::OmapGetVals { after: after.into(), max, prefix: prefix.into() };
    let (found, more) = entries(&bench.get(vals("", 3, "")));
    assert_eq!((found.len(), more), (3, true));
    let (found, more) = entries(&bench.get(vals("a1", 9, "b")));
    assert_eq!(found.keys().collect::<Vec<_>>(), [b"b1", b"b2"]);
    assert!(!more);
    assert_eq!(entries(&bench.get(vals("b1", 9, "a"))).0.len(), 0);
    let listed = bench.get(Op::OmapGetKeys { after: b"a2".to_vec(), max: 1 });
    assert_eq!(keys(&listed), (vec!["b1".to_owned()], true));
    let wanted = BTreeSet::from([b"b2".to_vec(), b"zz".to_vec()]);
    let (found, _) = entries(&bench.get(Op::OmapGetValsByKeys { keys: wanted }));
    assert_eq!(found, Omap::from([(b"b2".to_vec(), list(b"4"))]));
}

#[test]
fn a_listing_of_a_map_is_bounded_whatever_is_asked_for() {
    let mut bench = Bench::new();
    let names: Vec<String> = (0..3000).map(|i| format!("{i:05}")).collect();
    bench.run(set(&names.iter().map(|name| (name.as_str(), "")).collect::<Vec<_>>()));
    let (listed, more) = keys(&bench.get(Op::OmapGetKeys { after: Vec::new(), max: u64::MAX }));
    assert_eq!((listed.len(), more), (1024, true));
}

#[test]
fn a_map_is_changed_and_cleared() {
    let mut bench = Bench::new();
    for op in [
        Op::OmapClear,
        Op::OmapRmKeys { keys: BTreeSet::from([b"a".to_vec()]) },
        Op::OmapRmKeyRange { from: b"a".to_vec(), to: b"b".to_vec() },
    ] {
        assert_eq!(bench.run(op), failed(Errno::NOENT));
    }
    bench.run(Op::OmapSetHeader { header: list(b"head") });
    bench.run(set(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]));
    bench.run(Op::OmapRmKeys { keys: BTreeSet::from([b"a".to_vec(), b"x".to_vec()]) });
    bench.run(Op::OmapRmKeyRange { from: b"b".to_vec(), to: b"d".to_vec() });
    bench.run(Op::OmapRmKeyRange { from: b"z".to_vec(), to: b"a".to_vec() });
    let all = || Op::OmapGetKeys { after: Vec::new(), max: 99 };
    assert_eq!(keys(&bench.get(all())).0, ["d"]);
    assert_eq!(bench.get(Op::OmapGetHeader), b"head");
    bench.run(Op::OmapClear);
    assert_eq!(bench.get(Op::OmapGetHeader), b"");
    assert_eq!(keys(&bench.get(all())).0.len(), 0);
}

#[test]
fn a_request_may_depend_on_a_map() {
    let mut bench = Bench::new();
    let is = |compare| Op::OmapCmp { assertions: BTreeMap::from([(b"k".to_vec(), (list(b"5"), compare))]) };
    assert_eq!(bench.run(is(Compare::Equal)), failed(Errno::NOENT));
    bench.run(set(&[("k", "4")]));
    assert_eq!(bench.run(is(Compare::Less)), 0);
    assert_eq!(bench.run(is(Compare::Equal)), failed(Errno::CANCELED));
    assert_eq!(bench.run(is(Compare::NotEqual)), failed(Errno::INVAL));
}

#[test]
fn versions_count_up_and_can_be_demanded() {
    let mut bench = Bench::new();
    let version = bench.ask("o", vec![write(0, b"1")]).user_version;
    let next = bench.ask("o", vec![write(0, b"2")]).user_version;
    assert!(next > version);
    assert_eq!(bench.ask("o", vec![read(0, 1)]).user_version, next);
    assert_eq!(bench.run(Op::AssertVer { version: 0 }), failed(Errno::INVAL));
    assert_eq!(bench.run(Op::AssertVer { version }), failed(Errno::RANGE));
    assert_eq!(bench.run(Op::AssertVer { version: next }), 0);
    assert_eq!(bench.run(Op::AssertVer { version: next + 1 }), failed(Errno::OVERFLOW));
}
