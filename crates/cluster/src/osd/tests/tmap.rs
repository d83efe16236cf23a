//! Operations on maps of an old kind, which take up an object's data.

use super::*;
use TmapCommand::{Create, Remove, RemoveIfThere, Set, SetHeader};
use onego_ceph::ops::{Tmap, TmapCommand};
use onego_wire::Writer;

fn update(commands: &[TmapCommand<'_>]) -> Op {
    let mut w = Writer::new();
    commands.iter().for_each(|command| command.encode(&mut w));
    Op::TmapUpdate { input: w.into_vec().into() }
}

fn set<'a>(key: &'a str, value: &'a str) -> TmapCommand<'a> {
    Set { key: key.as_bytes(), value: value.as_bytes() }
}

fn create<'a>(key: &'a str, value: &'a str) -> TmapCommand<'a> {
    Create { key: key.as_bytes(), value: value.as_bytes() }
}

fn remove(key: &str) -> TmapCommand<'_> {
    Remove { key: key.as_bytes() }
}

/// A map as the data of an object.
fn map(header: &str, entries: &[(&str, &str)]) -> Vec<u8> {
    let entries = entries.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes()));
    Tmap { header: header.as_bytes(), entries: entries.collect() }.to_bytes()
}

#[test]
fn the_first_command_makes_the_map_and_others_keep_what_they_do_not_name() {
    let mut bench = Bench::new();
    assert_eq!(bench.run(Op::TmapGet), failed(Errno::NOENT));
    assert_eq!(bench.run(update(&[set("m", "1")])), 0);
    assert_eq!(bench.get(Op::TmapGet), b"\0\0\0\0\x01\0\0\0\x01\0\0\0m\x01\0\0\x001");
    assert_eq!(bench.run(update(&[SetHeader { header: b"head" }, set("a", ""), set("z", "3")])), 0);
    assert_eq!(bench.run(update(&[set("m", "longer")])), 0);
    let expected = map("head", &[("a", ""), ("m", "longer"), ("z", "3")]);
    assert_eq!(bench.get(Op::TmapGet), expected);
    assert_eq!(bench.get(read(0, 0)), expected, "it is the object's data");
    // What gets shorter leaves nothing behind.
    assert_eq!(bench.run(update(&[SetHeader { header: b"" }, remove("a"), remove("m")])), 0);
    assert_eq!(bench.get(read(0, 0)), map("", &[("z", "3")]));
}

#[test]
fn commands_may_come_in_any_order_and_each_sees_what_those_before_it_have_done() {
    let mut bench = Bench::new();
    bench.run(update(&[set("b", "2"), set("a", "1"), SetHeader { header: b"late" }, create("0", "")]));
    assert_eq!(bench.get(read(0, 0)), map("late", &[("0", ""), ("a", "1"), ("b", "2")]));
    bench.run(update(&[set("a", "x"), set("a", "y"), remove("b"), create("b", "new")]));
    assert_eq!(bench.get(read(0, 0)), map("late", &[("0", ""), ("a", "y"), ("b", "new")]));
    assert_eq!(bench.run(update(&[remove("a"), remove("a")])), failed(Errno::NOENT));
    assert_eq!(bench.run(update(&[set("c", ""), create("c", "")])), failed(Errno::EXIST));
}

#[test]
fn a_key_is_created_where_there_is_none_and_removed_where_there_is_one_unless_that_does_not_matter() {
    let mut bench = Bench::new();
    assert_eq!(bench.run(update(&[create("k", "1")])), 0);
    assert_eq!(bench.run(update(&[create("k", "2")])), failed(Errno::EXIST));
    assert_eq!(bench.run(update(&[remove("none")])), failed(Errno::NOENT));
    let sloppy = |key: &'static str| update(&[RemoveIfThere { key: key.as_bytes() }]);
    assert_eq!(bench.run(sloppy("none")), 0);
    assert_eq!(bench.get(read(0, 0)), map("", &[("k", "1")]));
    assert_eq!(bench.run(sloppy("k")), 0);
    assert_eq!(bench.get(read(0, 0)), map("", &[]));
    assert_eq!(bench.run(Op::Stat), 0, "a map without entries is still there");
}

#[test]
fn commands_of_which_one_fails_change_nothing() {
    let mut bench = Bench::new();
    assert_eq!(bench.run(update(&[set("a", "1"), remove("b")])), failed(Errno::NOENT));
    assert_eq!(bench.run(Op::Stat), failed(Errno::NOENT), "and make nothing");
    bench.run(update(&[set("a", "1")]));
    let before = bench.get(read(0, 0));
    let Op::TmapUpdate { input } = update(&[set("a", "2"), set("b", "3")]) else { panic!() };
    let commands = input.to_vec();
    let whole = |len| len == 0 || len == 11;
    for len in (0..commands.len()).filter(|len| !whole(*len)) {
        let cut = Op::TmapUpdate { input: list(&commands[..len]) };
        assert_eq!(bench.run(cut), failed(Errno::INVAL), "{len} bytes");
    }
    for wrong in [&b"x\x01\0\0\0a"[..], b"s\xff\xff\xff\xffa", b"s\x01\0\0\0a\xff\xff\xff\xff1"] {
        assert_eq!(bench.run(Op::TmapUpdate { input: list(wrong) }), failed(Errno::INVAL), "{wrong:?}");
    }
    let reply = bench.ask("o", vec![update(&[set("a", "4")]), update(&[create("a", "5")])]);
    assert_eq!(reply.result, failed(Errno::EXIST));
    assert_eq!(bench.get(read(0, 0)), before);
}

#[test]
fn no_commands_make_no_object() {
    let mut bench = Bench::new();
    assert_eq!(bench.run(update(&[])), 0);
    assert_eq!(bench.run(Op::Stat), failed(Errno::NOENT));
    bench.run(write(0, b"no map at all"));
    assert_eq!(bench.run(update(&[])), 0);
    assert_eq!(bench.run(update(&[set("a", "1")])), failed(Errno::INVAL));
    assert_eq!(bench.get(read(0, 0)), b"no map at all");
}

#[test]
fn a_map_that_says_it_has_more_entries_than_it_can_is_none() {
    let mut bench = Bench::new();
    for data in [&[0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0][..], &[0; 7], &[255; 12], &[0; 9]]
    {
        bench.run(Op::WriteFull { data: list(data) });
        assert_eq!(bench.run(update(&[set("a", "1")])), failed(Errno::INVAL), "{data:?}");
        assert_eq!(bench.run(Op::TmapPut { input: list(data) }), failed(Errno::INVAL), "{data:?}");
        assert_eq!(bench.get(read(0, 0)), data);
    }
}

#[test]
fn a_map_that_is_put_is_sorted() {
    let mut bench = Bench::new();
    bench.run(write(0, &[1; 100]));
    let unsorted = b"\x01\0\0\0h\x02\0\0\0\x01\0\0\0b\0\0\0\0\x01\0\0\0a\x01\0\0\x001";
    assert_eq!(bench.run(Op::TmapPut { input: list(unsorted) }), 0);
    assert_eq!(bench.get(Op::TmapGet), map("h", &[("a", "1"), ("b", "")]));
    assert_eq!(bench.run(Op::TmapPut { input: List::new() }), failed(Errno::INVAL));
}

#[test]
fn a_map_is_kept_also_where_writes_go_nowhere() {
    let mut bench = Bench::with(Config { null_writes: true, ..Config::default() });
    let value = "v".repeat(10_000);
    assert_eq!(bench.run(update(&[set("a", &value)])), 0);
    assert_eq!(bench.run(update(&[set("b", "2")])), 0);
    assert_eq!(bench.get(Op::TmapGet), map("", &[("a", &value), ("b", "2")]));
}
