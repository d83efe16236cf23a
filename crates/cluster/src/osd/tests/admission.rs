//! Which requests are carried out, which are recognised, which are refused.

use super::*;
use onego_ceph::ops::op_flag;
use onego_ceph::osdmap::pool_flag;
use onego_ceph::outputs::Listing;
use onego_ceph::types::HObject;
use onego_msgr::addr::AddrKind;
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::Writer;

#[test]
fn a_write_that_is_sent_again_is_answered_again_and_not_done_again() {
    let mut bench = Bench::new();
    let append = bench.request("o", vec![(Op::Append { data: list(b"x") }, 0)]);
    let first = bench.send_as(CLIENT, 50, append.clone()).unwrap();
    let another = bench.request("o", vec![(Op::Append { data: list(b"y") }, 0)]);
    bench.send_as(CLIENT, 51, another).unwrap();
    // The connection broke and there is a new one; the client is the same.
    bench.osd.session_closed(bench.now, CLIENT);
    let again = SessionId(9);
    bench.osd.session_opened(again, EntityName::client(100), UserId(100), address(1), Rights::everything());
    let retry = OsdOp { attempt: 1, ..append.clone() };
    let second = bench.send_as(again, 50, retry).unwrap();
    assert_eq!((second.result, second.user_version), (first.result, first.user_version));
    assert_eq!(second.attempt, 1);
    // Somebody else's request with the same number is not the same.
    bench.send_as(OTHER, 50, append).unwrap();
    let read = bench.request("o", vec![(read(0, 0), 0)]);
    assert_eq!(bench.send(OTHER, read).ops[0].output.to_vec(), b"xyx");
}

#[test]
fn a_failure_is_remembered_too() {
    let mut bench = Bench::new();
    let create = bench.request("o", vec![(Op::Delete, 0)]);
    let first = bench.send_as(CLIENT, 50, create.clone()).unwrap();
    assert_eq!(first.result, failed(Errno::NOENT));
    bench.ask_as(OTHER, "o", vec![write(0, b"x")]);
    let second = bench.send_as(CLIENT, 50, create).unwrap();
    assert_eq!(second.result, failed(Errno::NOENT));
    assert_eq!(bench.run(Op::Stat), 0);
}

#[test]
fn what_a_write_that_changed_nothing_has_returned_is_returned_again() {
    let mut bench = Bench::new();
    bench.run(write(0, b"before"));
    // To zero what is behind the end changes nothing.
    let nothing = || (Op::Zero { offset: 100, length: 5 }, 0);
    let compare = (Op::CmpExt { offset: 0, data: list(b"behind") }, op_flag::FAIL_OK);
    for (tid, ops, flags) in [
        (50, vec![(read(0, 6), 0), nothing()], 0),
        (51, vec![(read(0, 6), 0), nothing()], flag::RETURN_VEC),
        (52, vec![compare, nothing()], 0),
        (53, vec![(Op::GetXattr { name: "none".into() }, 0), nothing()], 0),
    ] {
        let mut request = bench.request("o", ops);
        request.flags |= flags;
        let first = bench.send_as(CLIENT, tid, request.clone()).unwrap();
        assert!(first.ops.iter().any(|op| op.result != 0 || !op.output.is_empty()), "{tid}: {first:?}");
        bench.run(write(0, b"afterwards"));
        let second = bench.send_as(CLIENT, tid, request).unwrap();
        assert_eq!((second.result, second.ops), (first.result, first.ops), "{tid}");
        bench.run(Op::WriteFull { data: list(b"before") });
    }
}

#[test]
fn what_is_too_much_to_be_remembered_is_an_error_when_it_is_asked_for_again() {
    let mut bench = Bench::new();
    bench.run(write(0, &[7; 10_000]));
    let ops = vec![(read(0, 10_000), 0), (Op::Zero { offset: 20_000, length: 5 }, 0)];
    let request = bench.request("o", ops);
    let first = bench.send_as(CLIENT, 50, request.clone()).unwrap();
    assert_eq!((first.result, first.ops[0].output.len()), (0, 10_000));
    let second = bench.send_as(CLIENT, 50, request).unwrap();
    assert_eq!(second.result, failed(Errno::OVERFLOW));
    assert_eq!((second.ops[0].result, second.ops[0].output.len()), (failed(Errno::OVERFLOW), 0));
}

#[test]
fn a_request_for_a_pool_that_is_gone_fails() {
    let mut bench = Bench::new();
    bench.run(write(0, b"x"));
    bench.map.pools.clear();
    bench.osd.map_changed(&bench.map);
    assert_eq!(bench.osd.usage().used, 0);
    bench.map.pools.insert(POOL + 1, Pool::default());
    let pool = Pool { pg_num: 8, pgp_num: 8, ..Pool::default() };
    bench.map.pools.insert(POOL, pool);
    let request = bench.request("o", vec![(Op::Stat, 0)]);
    bench.map.pools.clear();
    assert_eq!(bench.send(CLIENT, request).result, failed(Errno::NOENT));
}

#[test]
fn a_request_for_the_wrong_group_is_dropped_if_the_clients_map_is_old() {
    let mut bench = Bench::new();
    let mut request = bench.request("o", vec![(write(0, b"x"), 0)]);
    request.pg.pg.seed ^= 1;
    assert_eq!(bench.send(CLIENT, request.clone()).result, failed(Errno::NXIO));
    request.epoch -= 1;
    assert_eq!(bench.send_as(CLIENT, 99, request), None);
    assert_eq!(bench.run(Op::Stat), failed(Errno::NOENT));
}

#[test]
fn a_client_that_is_shut_out_gets_nothing_done() {
    let mut bench = Bench::new();
    assert_eq!(bench.run(write(0, b"x")), 0);
    bench.map.blocklist.insert(EntityAddr { kind: AddrKind::Any, ..address(1) }, Utime { sec: 99, nsec: 0 });
    bench.osd.map_changed(&bench.map);
    assert_eq!(bench.run(write(0, b"y")), failed(Errno::SHUTDOWN));
    assert_eq!(bench.ask_as(OTHER, "o", vec![read(0, 0)]).ops[0].output.to_vec(), b"x");
}

#[test]
fn names_that_are_empty_or_too_long_are_refused() {
    let mut bench = Bench::new();
    assert_eq!(bench.ask("", vec![write(0, b"x")]).result, failed(Errno::INVAL));
}

#[test]
fn what_no_osd_does_is_refused() {
    let mut bench = Bench::new();
    bench.run(write(0, b"x"));
    assert_eq!(bench.run(Op::ListSnaps), failed(Errno::INVAL), "clones are listed of all snapshots together");
    let mut request = bench.request("o", vec![(read(0, 0), 0)]);
    request.flags |= onego_ceph::ops::flag::PARALLEL_EXEC;
    assert_eq!(bench.send(CLIENT, request).result, failed(Errno::INVAL));
}

/// The request, for an object elsewhere in the pool.
fn moved(bench: &Bench, mut request: OsdOp, namespace: &str, key: &str) -> OsdOp {
    let pool = &bench.map.pools[&POOL];
    request.hash = pool.hash_object(&request.object, key.as_bytes(), namespace.as_bytes());
    request.pg = SpgId::whole(pool.pg(PgId { pool: POOL, seed: request.hash }));
    (request.locator.namespace, request.locator.key) = (namespace.into(), key.into());
    request
}

#[test]
fn an_object_is_not_made_where_nobody_would_find_it() {
    let mut bench = Bench::new();
    let mut request = bench.request("o", vec![(write(0, b"x"), 0)]);
    request.hash ^= 1 << 20;
    assert_eq!(bench.send(CLIENT, request.clone()).result, failed(Errno::INVAL));
    assert_eq!(bench.osd.usage().objects, 0);
    // Unless that is where it is said to be.
    request.locator.hash = request.hash.into();
    assert_eq!(bench.send(CLIENT, request).result, 0);
}

#[test]
fn objects_of_one_name_are_told_apart_by_namespace_and_key() {
    let mut bench = Bench::new();
    for (namespace, key, content) in [("", "", b"1"), ("n", "", b"2"), ("", "k", b"3")] {
        let request = bench.request("o", vec![(write(0, content), 0)]);
        let request = moved(&bench, request, namespace, key);
        assert_eq!(bench.send(CLIENT, request).result, 0);
    }
    assert_eq!(bench.osd.usage().objects, 3);
    assert_eq!(bench.get(read(0, 0)), b"1");
}

/// All objects of a pool in a namespace, listed `count` at a time.
fn list_all(bench: &mut Bench, namespace: &str, count: u64) -> Vec<String> {
    let mut names = Vec::new();
    for seed in 0..bench.map.pools[&POOL].pg_num {
        let mut cursor = HObject::min();
        loop {
            let cursor_bytes = cursor.to_bytes().into();
            let mut request =
                bench.request("", vec![(Op::PgNls { count, epoch: 7, cursor: cursor_bytes }, 0)]);
            request.pg.pg.seed = seed;
            request.locator.namespace = namespace.into();
            let reply = bench.send(CLIENT, request);
            assert!(reply.result >= 0, "{}", reply.result);
            let listing = Listing::from_bytes(&reply.ops[0].output.to_vec()).unwrap();
            assert!(listing.objects.len() <= count as usize);
            names.extend(listing.objects.into_iter().map(|object| String::from_utf8(object.name).unwrap()));
            if reply.result == 1 {
                break;
            }
            assert!(listing.cursor > cursor);
            cursor = listing.cursor;
        }
    }
    names.sort();
    names
}

#[test]
fn all_objects_are_listed_once_each() {
    let mut bench = Bench::new();
    let mut names: Vec<String> = (0..200).map(|i| format!("object-{i}")).collect();
    for name in &names {
        bench.ask(name, vec![write(0, b"x")]);
    }
    let request = bench.request("hidden", vec![(write(0, b"x"), 0)]);
    let request = moved(&bench, request, "ns", "");
    bench.send(CLIENT, request);
    names.sort();
    assert_eq!(list_all(&mut bench, "", 7), names);
    assert_eq!(list_all(&mut bench, "", 1000), names);
    assert_eq!(list_all(&mut bench, "ns", 2), ["hidden"]);
    assert_eq!(list_all(&mut bench, "\u{1}", 10).len(), 201);
}

#[test]
fn a_filter_admits_objects_with_an_attribute_of_a_value() {
    let mut bench = Bench::new();
    let set = |value: &[u8]| Op::SetXattr { name: "a".into(), value: list(value) };
    for (name, op) in [("wanted", set(b"yes")), ("other", set(b"no")), ("none", write(0, b"x"))] {
        bench.ask(name, vec![op]);
    }
    let mut listed = |filter: &str, attribute: &str| {
        let (mut names, mut result) = (Vec::new(), 1);
        for seed in 0..8 {
            let mut w = Writer::new();
            for text in ["pg", "filter", filter, attribute, "yes"] {
                w.string(text);
            }
            HObject::min().encode(&mut w);
            let input = w.into_vec().into();
            let mut request = bench.request("", vec![(Op::PgNlsFilter { count: 9, epoch: 7, input }, 0)]);
            request.pg.pg.seed = seed;
            let reply = bench.send(CLIENT, request);
            result = result.min(reply.result);
            if reply.result == 1 {
                let listing = Listing::from_bytes(&reply.ops[0].output.to_vec()).unwrap();
                names.extend(listing.objects.into_iter().map(|object| object.name));
            }
        }
        (result, names)
    };
    for filter in ["plain", "hello.hello"] {
        assert_eq!(listed(filter, "_a"), (1, vec![b"wanted".to_vec()]));
        assert_eq!(listed(filter, "a"), (1, vec![]), "not an attribute of clients");
    }
    assert_eq!(listed("parent", "_a").0, failed(Errno::INVAL));
}

#[test]
fn operations_on_a_pool_with_the_flag_eio_fail() {
    let mut bench = Bench::new();
    bench.run(write(0, b"x"));
    bench.map.pools.get_mut(&POOL).unwrap().flags |= pool_flag::EIO;
    assert_eq!(bench.run(read(0, 1)), failed(Errno::IO));
    assert_eq!(bench.run(write(0, b"y")), failed(Errno::IO));
    let mut request = bench.request("o", vec![(read(0, 1), 0)]);
    request.flags |= flag::SUPPORTS_POOL_EIO;
    assert!(bench.send_as(CLIENT, 99, request).is_none(), "the client fails it by itself");
    bench.map.pools.get_mut(&POOL).unwrap().flags &= !pool_flag::EIO;
    assert_eq!(bench.get(read(0, 1)), b"x");
}

#[test]
fn a_read_of_no_object_has_no_version() {
    let mut bench = Bench::new();
    bench.run(write(0, b"x"));
    bench.run(Op::Delete);
    let reply = bench.ask("o", vec![read(0, 1)]);
    assert_eq!((reply.result, reply.user_version), (failed(Errno::NOENT), 0));
}

#[test]
fn a_listing_from_outside_the_group_is_refused() {
    let mut bench = Bench::new();
    let mut cursor = HObject { pool: POOL, hash: 1, ..HObject::min() };
    for (input, expected) in [(cursor.to_bytes(), Errno::INVAL), (vec![1, 2, 3], Errno::INVAL)] {
        let request = bench.request("", vec![(Op::PgNls { count: 1, epoch: 7, cursor: input.into() }, 0)]);
        let request = OsdOp { pg: SpgId::whole(PgId { pool: POOL, seed: 0 }), ..request };
        assert_eq!(bench.send(CLIENT, request).result, failed(expected));
    }
    cursor.hash = 8;
    let op = Op::PgNls { count: 1, epoch: 7, cursor: cursor.to_bytes().into() };
    let request = bench.request("", vec![(op, 0)]);
    let request = OsdOp { pg: SpgId::whole(PgId { pool: POOL, seed: 0 }), ..request };
    assert_eq!(bench.send(CLIENT, request).result, 1);
}

#[test]
fn a_request_that_names_another_clients_request_does_not_stand_for_it() {
    let mut bench = Bench::new();
    for tid in 2..5 {
        let mut forged = bench.request("o", vec![(write(0, b"forged"), 0)]);
        forged.reqid = ReqId { name: EntityName::client(100), tid, inc: 0 };
        assert_eq!(bench.send_as(OTHER, tid, forged).unwrap().result, 0);
    }
    for tid in 2..5 {
        let theirs = bench.request("o", vec![(write(0, &[tid as u8; 6]), 0)]);
        assert_eq!(bench.send_as(CLIENT, tid, theirs).unwrap().result, 0);
        assert_eq!(bench.get(read(0, 6)), [tid as u8; 6]);
    }
}
