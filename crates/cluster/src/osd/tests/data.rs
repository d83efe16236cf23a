//! Operations on an object's data.

use super::*;
use onego_ceph::ops::{Stat, op_flag};
use onego_msgr::encoding::Decode;

#[test]
fn a_read_ends_where_the_object_ends() {
    let mut bench = Bench::new();
    assert_eq!(bench.run(read(0, 10)), failed(Errno::NOENT));
    bench.run(write(4, b"data"));
    assert_eq!(bench.get(read(2, 100)), b"\0\0data");
    assert_eq!(bench.get(read(0, 0)), b"\0\0\0\0data");
    assert_eq!(bench.get(read(8, 10)), b"");
    assert_eq!(bench.get(read(u64::MAX, u64::MAX)), b"");
}

#[test]
fn a_stat_tells_size_and_the_clients_time() {
    let mut bench = Bench::new();
    assert_eq!(bench.run(Op::Stat), failed(Errno::NOENT));
    bench.run(write(0, b"data"));
    let stat = Stat::from_bytes(&bench.get(Op::Stat)).unwrap();
    assert_eq!(stat, Stat { size: 4, mtime: Utime { sec: 5, nsec: 0 } });
}

#[test]
fn zeros_up_to_the_end_cut_the_object_off_and_never_make_it_grow() {
    let mut bench = Bench::new();
    assert_eq!(bench.run(Op::Zero { offset: 0, length: 10 }), 0);
    assert_eq!(bench.run(Op::Stat), failed(Errno::NOENT));
    bench.run(write(0, b"0123456789"));
    bench.run(Op::Zero { offset: 2, length: 3 });
    assert_eq!(bench.get(read(0, 0)), b"01\0\0\x0056789");
    bench.run(Op::Zero { offset: 20, length: 5 });
    bench.run(Op::Zero { offset: 8, length: 2 });
    assert_eq!(bench.get(read(0, 0)), b"01\0\0\x00567");
    assert_eq!(bench.run(Op::Zero { offset: 0, length: 0 }), 0);
}

#[test]
fn a_truncation_works_both_ways_but_makes_no_object() {
    let mut bench = Bench::new();
    assert_eq!(bench.run(Op::Truncate { size: 10 }), 0);
    assert_eq!(bench.run(Op::Stat), failed(Errno::NOENT));
    bench.run(write(0, b"0123456789"));
    bench.run(Op::Truncate { size: 4 });
    bench.run(Op::Truncate { size: 6 });
    assert_eq!(bench.get(read(0, 0)), b"0123\0\0");
}

#[test]
fn writes_of_every_size_and_place_are_read_back() {
    const ENDS: [u64; 7] = [0, 4095, 64 << 10, (1 << 20) - 1, 1 << 20, 2 << 20, (4 << 20) - (64 << 10)];
    let mut bench = Bench::new();
    let mut plain = Vec::new();
    let mut byte = 0;
    for offset in ENDS {
        for length in [1, 4 << 10, 64 << 10, (64 << 10) + 1, 1 << 20] {
            byte += 1;
            let (from, to) = (offset as usize, offset as usize + length);
            plain.resize(to.max(plain.len()), 0);
            plain[from..to].fill(byte);
            assert_eq!(bench.run(Op::Write { offset, data: list(&vec![byte; length]) }), 0);
            assert!(bench.get(read(0, 0)) == plain, "{length} bytes at {offset}");
        }
    }
}

#[test]
fn every_way_to_write_writes() {
    let mut bench = Bench::new();
    bench.run(Op::WriteFull { data: list(b"full text") });
    bench.run(Op::WriteFull { data: list(b"short") });
    bench.run(Op::Append { data: list(b"er") });
    bench.run(Op::WriteSame { offset: 8, length: 6, data: list(b"ab") });
    assert_eq!(bench.get(read(0, 0)), b"shorter\0ababab");
    assert_eq!(bench.run(Op::WriteSame { offset: 0, length: 5, data: list(b"ab") }), failed(Errno::INVAL));
    assert_eq!(bench.run(Op::WriteSame { offset: 0, length: 5, data: List::new() }), failed(Errno::INVAL));
    bench.run(write(20, b""));
    assert_eq!(bench.get(read(0, 0)).len(), 20);
}

#[test]
fn an_object_has_at_most_128_mib() {
    let mut bench = Bench::new();
    let limit = 128 << 20;
    assert_eq!(bench.run(write(limit - 1, b"x")), 0);
    assert_eq!(bench.run(write(limit - 1, b"xy")), failed(Errno::FBIG));
    assert_eq!(bench.run(write(u64::MAX, b"x")), failed(Errno::FBIG));
    assert_eq!(bench.run(Op::Truncate { size: limit }), failed(Errno::FBIG));
    let far = Op::WriteSame { offset: 0, length: limit + 1, data: list(b"x") };
    assert_eq!(bench.run(far), failed(Errno::FBIG));
}

#[test]
fn objects_come_and_go() {
    let mut bench = Bench::new();
    assert_eq!(bench.run(Op::Delete), failed(Errno::NOENT));
    assert_eq!(bench.run(Op::Create { exclusive: true }), 0);
    assert_eq!(bench.run(Op::Create { exclusive: true }), failed(Errno::EXIST));
    assert_eq!(bench.run(Op::Create { exclusive: false }), 0);
    assert_eq!(bench.run(Op::Rollback { snap: 4 }), 0);
    assert_eq!(bench.run(Op::Delete), 0);
    assert_eq!(bench.run(Op::Stat), failed(Errno::NOENT));
    let hint = Op::SetAllocHint { object_size: 1 << 22, write_size: 1 << 22, flags: 0 };
    assert_eq!(bench.run(hint), 0);
    assert_eq!(bench.run(Op::Stat), 0);
    assert_eq!(bench.osd.usage().objects, 1);
}

#[test]
fn an_object_can_be_replaced_in_one_request() {
    let mut bench = Bench::new();
    bench.run(write(0, b"old and long"));
    let reply = bench.ask("o", vec![Op::Delete, Op::Create { exclusive: true }, write(0, b"new")]);
    assert_eq!(reply.result, 0);
    assert_eq!(bench.get(read(0, 0)), b"new");
}

#[test]
fn a_comparison_says_where_data_differs() {
    let mut bench = Bench::new();
    bench.run(write(0, b"abcdef"));
    let compare = |data: &[u8]| Op::CmpExt { offset: 2, data: list(data) };
    assert_eq!(bench.run(compare(b"cdef\0\0")), 0);
    assert_eq!(bench.run(compare(b"cdxf")), -4095 - 2);
}

#[test]
fn a_request_that_fails_leaves_nothing_behind() {
    let mut bench = Bench::new();
    bench.ask("o", vec![write(0, b"before"), Op::SetXattr { name: "x".into(), value: list(b"1") }]);
    let usage = bench.osd.usage();
    let wrong = Op::CmpExt { offset: 0, data: list(b"B") };
    let vectors = [
        vec![write(0, b"after"), wrong.clone()],
        vec![Op::Delete, Op::Create { exclusive: true }, wrong.clone()],
        vec![Op::RmXattr { name: "x".into() }, Op::Append { data: list(b"more") }, wrong.clone()],
        vec![Op::Truncate { size: 2 }, Op::Create { exclusive: true }],
        vec![write(0, b"after"), write(128 << 20, b"too far")],
    ];
    for ops in vectors {
        let reply = bench.ask("o", ops.clone());
        assert!(reply.result < 0, "{ops:?}");
        assert_eq!(bench.get(read(0, 0)), b"before", "{ops:?}");
        assert_eq!(bench.get(Op::GetXattr { name: "x".into() }), b"1");
        assert_eq!(bench.osd.usage(), usage);
    }
    assert_eq!(bench.ask("new", vec![write(0, b"x"), wrong]).result, -4095);
    assert_eq!(bench.ask("new", vec![Op::Stat]).result, failed(Errno::NOENT));
    assert_eq!(bench.osd.usage(), usage);
}

#[test]
fn a_failure_that_is_expected_stops_nothing() {
    let mut bench = Bench::new();
    let ops = vec![(Op::Create { exclusive: true }, 0), (Op::Delete, 0), (Op::Delete, op_flag::FAIL_OK)];
    let request = bench.request("o", [ops, vec![(write(0, b"x"), 0)]].concat());
    let reply = bench.send(CLIENT, request);
    assert_eq!(reply.result, 0);
    assert_eq!(reply.ops[2].result, failed(Errno::NOENT));
    assert_eq!(bench.get(read(0, 0)), b"x");
}

#[test]
fn a_write_gives_nothing_back_unless_it_is_asked_for() {
    let mut bench = Bench::new();
    bench.run(write(0, &[7; 100]));
    let ops = || vec![(read(0, 8), 0), (write(0, b"x"), 0), (read(0, 90), op_flag::FAIL_OK)];
    let request = bench.request("o", ops());
    let reply = bench.send(CLIENT, request);
    assert!(reply.ops.iter().all(|op| op.output.is_empty()));
    let mut request = bench.request("o", ops());
    request.flags |= flag::RETURN_VEC;
    let reply = bench.send(CLIENT, request);
    assert_eq!(reply.ops[0].output.to_vec(), b"x\x07\x07\x07\x07\x07\x07\x07");
    assert_eq!((reply.ops[2].output.len(), reply.ops[2].result), (0, failed(Errno::OVERFLOW)));
    assert_eq!(reply.result, failed(Errno::OVERFLOW));
}

#[test]
fn a_sparse_read_tells_what_is_there() {
    let mut bench = Bench::new();
    bench.run(write(4, b"data"));
    bench.run(write(20_000, &[9; 10]));
    let output = bench.get(Op::SparseRead { offset: 6, length: 100_000 });
    let mut expected = vec![2, 0, 0, 0];
    for n in [6u64, 2, 20_000, 10] {
        expected.extend(n.to_le_bytes());
    }
    assert_eq!(bench.get(Op::MapExt { offset: 6, length: 100_000 }), expected);
    expected.extend(12u32.to_le_bytes());
    expected.extend(b"ta\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09");
    assert_eq!(output, expected);
}

#[test]
fn an_operation_that_is_not_known_is_refused() {
    let mut bench = Bench::new();
    bench.run(write(0, b"x"));
    assert_eq!(bench.run(Op::Unknown { code: 0x1299 }), failed(Errno::OPNOTSUPP));
    let call = |class: &str, method: &str| Op::Call {
        class: class.into(),
        method: method.into(),
        input: List::new(),
    };
    assert_eq!(bench.run(call("rbd", "make_coffee")), failed(Errno::OPNOTSUPP));
    assert_eq!(bench.run(call("coffee", "make")), failed(Errno::OPNOTSUPP));
    assert_eq!(bench.ask("o", vec![]).result, failed(Errno::INVAL));
}

#[test]
fn a_request_that_does_too_much_ends_at_once_even_where_its_operations_may_fail() {
    let mut bench = Bench::new();
    bench.run(write(0, &[1; 100]));
    bench.run(Op::Truncate { size: 100 << 20 });
    let checksum = |chunk| Op::Checksum { kind: 2, offset: 0, length: 0, chunk, init: list(&[0; 4]) };
    let whole =
        || Op::Checksum { kind: 2, offset: 0, length: 100 << 20, chunk: 100 << 20, init: list(&[0; 4]) };
    let ask = |bench: &mut Bench, ops: Vec<Op>| {
        let ops = ops.into_iter().map(|op| (op, op_flag::FAIL_OK)).collect();
        let request = bench.request("o", ops);
        bench.send(CLIENT, request)
    };
    let reply = ask(&mut bench, vec![whole(), whole(), whole(), whole()]);
    let results: Vec<i32> = reply.ops.iter().map(|op| op.result).collect();
    assert_eq!(results, [0, 0, failed(Errno::OVERFLOW), 0], "the last one is not carried out");
    assert!(reply.ops[3].output.is_empty());
    assert_eq!(reply.result, failed(Errno::OVERFLOW));
    // Small chunks are dear.
    let small = Op::Checksum { kind: 2, offset: 0, length: 100 << 20, chunk: 1, init: list(&[0; 4]) };
    assert_eq!(ask(&mut bench, vec![small]).result, failed(Errno::OVERFLOW));
    assert_eq!(ask(&mut bench, vec![checksum(0)]).result, 0);
    // And so are outputs that do not fit a reply.
    let reads = vec![read(0, 0); 1000];
    let reply = ask(&mut bench, reads);
    assert_eq!(reply.result, failed(Errno::OVERFLOW));
}
