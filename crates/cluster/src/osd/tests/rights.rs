//! Clients that may do only some things.

use super::*;
use onego_ceph::caps::OsdCap;

const EPERM: i32 = failed(Errno::PERM);

/// A client that may do what is written, in a pool that is called "images".
fn bench(caps: &str) -> Bench {
    let mut bench = Bench::new();
    bench.map.pool_names.insert(POOL, "images".into());
    bench.ask("o", vec![write(0, b"there")]);
    let rights = Rights::limited_to(OsdCap::parse(caps).unwrap());
    bench.osd.session_opened(CLIENT, EntityName::client(100), UserId(100), address(1), rights);
    bench
}

fn call(method: &str) -> Op {
    Op::Call { class: "rbd".into(), method: method.into(), input: List::new() }
}

#[test]
fn what_is_not_allowed_is_refused_and_not_done() {
    let mut reader = bench("allow r pool=images");
    assert_eq!(reader.get(read(0, 0)), b"there");
    for op in [write(0, b"x"), Op::Delete, call("get_size"), Op::Create { exclusive: false }] {
        assert_eq!(reader.run(op), EPERM);
    }
    assert_eq!(reader.ask("o", vec![read(0, 0), write(0, b"x")]).result, EPERM);
    assert_eq!(reader.get(read(0, 0)), b"there");
    let mut elsewhere = bench("profile rbd pool=other");
    assert_eq!(elsewhere.run(read(0, 0)), EPERM);
    assert_eq!(elsewhere.run(Op::PgNls { count: 10, epoch: 0, cursor: List::new() }), EPERM);
}

#[test]
fn methods_need_what_they_do() {
    // An empty header answers ENOENT, not EPERM.
    assert_ne!(bench("profile rbd-read-only").run(call("get_size")), EPERM);
    assert_eq!(bench("profile rbd-read-only").run(call("set_size")), EPERM);
    assert_eq!(bench("allow r class-write").run(call("set_size")), EPERM);
    assert_ne!(bench("profile rbd pool=images").run(call("set_size")), EPERM);
    assert_eq!(bench("allow r").run(call("no_such_method")), failed(Errno::OPNOTSUPP));
}

#[test]
fn a_namespace_and_a_prefix_bound_what_is_seen() {
    let mut bench = bench("allow rw namespace=mine, allow r object_prefix o");
    assert_eq!(bench.run(read(0, 0)), 0);
    assert_eq!(bench.run(write(0, b"x")), EPERM);
    let mut request = bench.request("p", vec![(write(0, b"x"), 0)]);
    request.locator.namespace = "mine".into();
    let pool = &bench.map.pools[&POOL];
    request.hash = pool.hash_object(b"p", b"", b"mine");
    request.pg = SpgId::whole(pool.pg(PgId { pool: POOL, seed: request.hash }));
    assert_eq!(bench.send(CLIENT, request).result, 0);
    // A locator's key stands for the name (PrimaryLogPG::op_has_sufficient_caps).
    let mut request = bench.request("o", vec![(read(0, 0), 0)]);
    request.locator.key = "another".into();
    assert_eq!(bench.send(CLIENT, request).result, EPERM);
}

#[test]
fn a_pool_that_gets_another_name_is_another() {
    let mut bench = bench("allow r pool=images");
    assert_eq!(bench.run(read(0, 0)), 0);
    bench.map.pool_names.insert(POOL, "other".into());
    bench.map.epoch += 1;
    assert_eq!(bench.run(read(0, 0)), EPERM);
}
