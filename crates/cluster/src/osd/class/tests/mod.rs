//! What class methods answer where Ceph's own programs rarely get to.

mod clones;
mod format1;
mod groups;
mod mirroring;
mod snapshots;

use crate::osd::errno::Errno;
use crate::osd::tests::{Bench, failed};
use onego_ceph::cls::{Method, lock, rbd};
use onego_ceph::ops::Op;
use onego_ceph::types::{EntityName, NOSNAP, Utime};
use onego_msgr::encoding::Decode;

impl Bench {
    /// The result of a method on the object `o`.
    fn call(&mut self, method: &impl Method) -> i32 {
        self.run(method.call())
    }

    /// The reply of a method on the object `o`.
    fn reply<M: Method>(&mut self, method: &M) -> M::Reply {
        let output = self.get(method.call());
        M::Reply::from_bytes(&output).expect("it is a reply")
    }
}

fn take(kind: u8, cookie: &str) -> lock::Lock {
    lock::Lock {
        name: "l".into(),
        kind,
        cookie: cookie.into(),
        tag: "t".into(),
        description: "d".into(),
        duration: Utime::default(),
        flags: 0,
    }
}

fn image(features: u64) -> rbd::Create {
    rbd::Create { size: 1 << 20, order: 22, features, object_prefix: "rbd_data.1".into(), data_pool: -1 }
}

#[test]
fn an_exclusive_lock_has_one_holder() {
    let mut bench = Bench::new();
    let exclusive = take(lock::kind::EXCLUSIVE, "a");
    assert_eq!(bench.call(&exclusive), 0);
    assert_eq!(bench.call(&exclusive), failed(Errno::EXIST));
    assert_eq!(bench.call(&take(lock::kind::EXCLUSIVE, "b")), failed(Errno::BUSY));
    assert_eq!(bench.call(&take(lock::kind::SHARED, "b")), failed(Errno::BUSY));
    assert_eq!(bench.call(&lock::Lock { flags: lock::flag::MAY_RENEW, ..exclusive.clone() }), 0);
    let assert = lock::AssertLocked {
        name: "l".into(),
        kind: lock::kind::EXCLUSIVE,
        cookie: "a".into(),
        tag: "t".into(),
    };
    assert_eq!(bench.call(&assert), 0);
    assert_eq!(bench.call(&lock::AssertLocked { cookie: "b".into(), ..assert }), failed(Errno::BUSY));
    let unlock = lock::Unlock { name: "l".into(), cookie: "a".into() };
    assert_eq!(bench.call(&unlock), 0);
    assert_eq!(bench.call(&unlock), failed(Errno::NOENT));
    assert_eq!(bench.call(&take(lock::kind::SHARED, "b")), 0);
}

#[test]
fn a_shared_lock_has_many_holders_of_one_tag() {
    let mut bench = Bench::new();
    assert_eq!(bench.call(&take(lock::kind::SHARED, "a")), 0);
    assert_eq!(bench.call(&take(lock::kind::SHARED, "b")), 0);
    let other_tag = lock::Lock { tag: "u".into(), ..take(lock::kind::SHARED, "c") };
    assert_eq!(bench.call(&other_tag), failed(Errno::BUSY));
    let info = bench.reply(&lock::GetInfo { name: "l".into() });
    assert_eq!((info.lockers.len(), info.kind, info.tag.as_str()), (2, lock::kind::SHARED, "t"));
    assert_eq!(bench.reply(&lock::ListLocks {}).locks, ["l"]);
    let mut break_lock =
        lock::BreakLock { name: "l".into(), locker: EntityName::client(9), cookie: "a".into() };
    assert_eq!(bench.call(&break_lock), failed(Errno::NOENT));
    break_lock.locker = EntityName::client(100);
    assert_eq!(bench.call(&break_lock), 0);
    let set_cookie = lock::SetCookie {
        name: "l".into(),
        kind: lock::kind::SHARED,
        cookie: "b".into(),
        tag: "t".into(),
        new_cookie: "z".into(),
    };
    assert_eq!(bench.call(&set_cookie), 0);
    assert_eq!(bench.call(&set_cookie), failed(Errno::BUSY));
    let info = bench.reply(&lock::GetInfo { name: "l".into() });
    assert_eq!(info.lockers.keys().map(|id| id.cookie.as_str()).collect::<Vec<_>>(), ["z"]);
}

#[test]
fn a_lock_that_is_nonsense_is_refused() {
    let mut bench = Bench::new();
    for wrong in [
        take(lock::kind::NONE, "a"),
        take(9, "a"),
        lock::Lock { name: String::new(), ..take(1, "a") },
        lock::Lock { flags: 3, ..take(1, "a") },
    ] {
        assert_eq!(bench.call(&wrong), failed(Errno::INVAL));
    }
    let must = lock::Lock { flags: lock::flag::MUST_RENEW, ..take(1, "a") };
    assert_eq!(bench.call(&must), failed(Errno::NOENT));
    let cut = Op::Call { class: "lock".into(), method: "lock".into(), input: vec![1, 1, 9].into() };
    assert_eq!(bench.run(cut), failed(Errno::INVAL));
}

#[test]
fn a_lock_ends_when_its_time_is_up() {
    let mut bench = Bench::new();
    let short = lock::Lock { duration: Utime { sec: 10, nsec: 0 }, ..take(1, "a") };
    assert_eq!(bench.call(&short), 0);
    bench.pass(9);
    assert_eq!(bench.call(&take(1, "b")), failed(Errno::BUSY));
    bench.pass(2);
    assert_eq!(bench.call(&take(1, "b")), 0);
}

#[test]
fn an_ephemeral_lock_takes_its_object_along() {
    let mut bench = Bench::new();
    assert_eq!(bench.call(&take(lock::kind::EXCLUSIVE_EPHEMERAL, "a")), 0);
    assert_eq!(bench.call(&lock::Unlock { name: "l".into(), cookie: "a".into() }), 0);
    assert_eq!(bench.run(Op::Stat), failed(Errno::NOENT));
}

#[test]
fn a_header_is_made_once_and_of_known_features() {
    let mut bench = Bench::new();
    assert_eq!(bench.call(&image(1 << 40)), failed(Errno::NOSYS));
    assert_eq!(bench.call(&image(rbd::feature::OPERATIONS)), failed(Errno::INVAL));
    assert_eq!(bench.call(&image(rbd::feature::DATA_POOL)), failed(Errno::INVAL));
    assert_eq!(bench.call(&rbd::Create { data_pool: 3, ..image(1) }), failed(Errno::INVAL));
    assert_eq!(bench.call(&rbd::Create { object_prefix: String::new(), ..image(1) }), failed(Errno::INVAL));
    assert_eq!(bench.run(Op::Stat), failed(Errno::NOENT));
    assert_eq!(bench.call(&image(61)), 0);
    assert_eq!(bench.call(&image(61)), failed(Errno::EXIST));
    let features = bench.reply(&rbd::GetFeatures { snap: NOSNAP, read_only: true });
    assert_eq!((features.features, features.incompatible), (61, 1));
    let size = bench.reply(&rbd::GetSize { snap: NOSNAP });
    assert_eq!((size.order, size.size), (22, 1 << 20));
    assert_eq!(bench.call(&rbd::GetSize { snap: 4 }), failed(Errno::NOENT));
    assert_eq!(bench.call(&rbd::GetStripeUnitCount {}), failed(Errno::NOEXEC));
}

#[test]
fn only_some_features_can_be_switched() {
    use rbd::feature::{DEEP_FLATTEN, JOURNALING, LAYERING, OPERATIONS};
    let mut bench = Bench::new();
    bench.call(&image(61));
    let set = |features, mask| rbd::SetFeatures { features, mask };
    assert_eq!(bench.call(&set(0, LAYERING)), failed(Errno::INVAL));
    assert_eq!(bench.call(&set(OPERATIONS, OPERATIONS)), failed(Errno::INVAL));
    assert_eq!(bench.call(&set(0, DEEP_FLATTEN)), 0);
    assert_eq!(bench.call(&set(DEEP_FLATTEN, DEEP_FLATTEN)), failed(Errno::INVAL));
    assert_eq!(bench.call(&set(JOURNALING, JOURNALING)), 0);
    let features = bench.reply(&rbd::GetFeatures { snap: NOSNAP, read_only: false }).features;
    assert_eq!(features, 61 - DEEP_FLATTEN + JOURNALING);
}

#[test]
fn operation_features_show_in_the_features() {
    let mut bench = Bench::new();
    bench.call(&image(1));
    let set = |features, mask| rbd::OpFeaturesSet { features, mask };
    assert_eq!(bench.call(&set(1 << 20, 1 << 20)), failed(Errno::INVAL));
    assert_eq!(bench.call(&set(1, 1)), 0);
    let features = rbd::GetFeatures { snap: NOSNAP, read_only: false };
    assert_eq!(bench.reply(&features).features, 1 | rbd::feature::OPERATIONS);
    assert_eq!(bench.call(&set(0, 1)), 0);
    assert_eq!(bench.reply(&features).features, 1);
    assert_eq!(bench.reply(&rbd::OpFeaturesGet {}), 0);
}

#[test]
fn a_directory_keeps_names_and_ids_together() {
    let mut bench = Bench::new();
    let add = |name: &str, id: &str| rbd::DirAddImage { name: name.into(), id: id.into() };
    let rename = |from: &str, to: &str, id: &str| rbd::DirRenameImage {
        from: from.into(),
        to: to.into(),
        id: id.into(),
    };
    assert_eq!(bench.call(&add("", "1")), failed(Errno::INVAL));
    assert_eq!(bench.call(&add("a", "1/2")), failed(Errno::INVAL));
    assert_eq!(bench.call(&add("a", "1")), 0);
    assert_eq!(bench.call(&add("b", "2")), 0);
    assert_eq!(bench.call(&add("a", "3")), failed(Errno::EXIST));
    assert_eq!(bench.call(&add("c", "1")), failed(Errno::BADF));
    assert_eq!(bench.call(&rename("a", "c", "2")), failed(Errno::STALE));
    assert_eq!(bench.call(&rename("a", "b", "1")), failed(Errno::EXIST));
    assert_eq!(bench.call(&rename("a", "c", "1")), 0);
    let images = bench.reply(&rbd::DirList { after: "b".into(), max: 9 });
    assert_eq!(images.into_iter().collect::<Vec<_>>(), [("c".to_owned(), "1".to_owned())]);
    assert_eq!(bench.reply(&rbd::DirList { after: String::new(), max: 1 }).len(), 1);
    assert_eq!(bench.reply(&rbd::DirGetName { id: "1".into() }), "c");
    assert_eq!(bench.call(&rbd::DirGetId { name: "a".into() }), failed(Errno::NOENT));
    let remove = rbd::DirRemoveImage { name: "c".into(), id: "2".into() };
    assert_eq!(bench.call(&remove), failed(Errno::STALE));
    assert_eq!(bench.call(&rbd::DirStateSet { state: 1 }), failed(Errno::BUSY));
    assert_eq!(bench.call(&rbd::DirRemoveImage { id: "1".into(), ..remove }), 0);
}

#[test]
fn an_object_map_is_updated_where_its_states_are_as_expected() {
    use rbd::state::{EXISTS, EXISTS_CLEAN, NONEXISTENT, PENDING};
    let mut bench = Bench::new();
    let resize = |objects, state| rbd::ObjectMapResize { objects, state };
    let update = |start, end, state, current| rbd::ObjectMapUpdate { start, end, state, current };
    assert_eq!(bench.call(&rbd::ObjectMapLoad {}), failed(Errno::NOENT));
    assert_eq!(bench.call(&resize(rbd::MAX_OBJECTS + 1, 0)), failed(Errno::INVAL));
    assert_eq!(bench.call(&resize(10, NONEXISTENT)), 0);
    assert_eq!(bench.call(&update(2, 5, EXISTS, None)), 0);
    assert_eq!(bench.call(&update(0, 10, PENDING, Some(EXISTS_CLEAN))), 0);
    assert_eq!(bench.call(&update(4, 11, EXISTS, None)), failed(Errno::RANGE));
    assert_eq!(bench.call(&update(4, 4, EXISTS, None)), failed(Errno::RANGE));
    assert_eq!(bench.call(&rbd::ObjectMapSnapAdd {}), 0);
    assert_eq!(bench.call(&update(3, 4, PENDING, Some(EXISTS))), 0);
    let states = |bench: &mut Bench| bench.reply(&rbd::ObjectMapLoad {}).iter().collect::<Vec<_>>();
    assert_eq!(states(&mut bench), [0, 0, EXISTS_CLEAN, PENDING, EXISTS_CLEAN, 0, 0, 0, 0, 0]);
    assert_eq!(bench.call(&resize(4, NONEXISTENT)), failed(Errno::STALE));
    assert_eq!(bench.call(&resize(5, NONEXISTENT)), 0);
    assert_eq!(bench.call(&resize(7, EXISTS)), 0);
    assert_eq!(states(&mut bench)[5..], [EXISTS, EXISTS]);
    let map = bench.reply(&rbd::ObjectMapLoad {});
    assert_eq!(bench.call(&rbd::ObjectMapSnapRemove { map: rbd::ObjectMap::new(3) }), 0);
    assert_eq!(states(&mut bench)[..5], [0, 0, EXISTS_CLEAN, PENDING, EXISTS]);
    assert_eq!(bench.call(&rbd::ObjectMapSave { map: map.clone() }), 0);
    assert_eq!(states(&mut bench), map.iter().collect::<Vec<_>>());
}

#[test]
fn an_id_is_set_once() {
    let mut bench = Bench::new();
    let set = |id: &str| rbd::SetId { id: id.into() };
    assert_eq!(bench.call(&set("1a")), failed(Errno::NOENT));
    bench.run(Op::Create { exclusive: true });
    assert_eq!(bench.call(&rbd::GetId {}), failed(Errno::NOENT));
    assert_eq!(bench.call(&set("not/an/id")), failed(Errno::INVAL));
    assert_eq!(bench.call(&set("1a")), 0);
    assert_eq!(bench.call(&set("1b")), failed(Errno::EXIST));
    assert_eq!(bench.reply(&rbd::GetId {}), "1a");
}

#[test]
fn zeros_are_given_back() {
    let mut bench = Bench::new();
    let data = [vec![1; 4096], vec![0; 8192], vec![2; 100], vec![0; 9000]].concat();
    bench.run(Op::Write { offset: 0, data: data.into() });
    let sparsify = rbd::Sparsify { block_size: 4096, remove_empty: true };
    assert_eq!(bench.call(&sparsify), 0);
    assert_eq!(bench.get(Op::MapExt { offset: 0, length: 1 << 20 })[0], 2);
    assert_eq!(bench.get(Op::Read { offset: 0, length: 0 }).len(), 16_384);
    bench.run(Op::Zero { offset: 0, length: 4096 });
    bench.run(Op::Truncate { size: 4096 });
    assert_eq!(bench.call(&rbd::Sparsify { block_size: 0, ..sparsify.clone() }), failed(Errno::INVAL));
    assert_eq!(bench.call(&sparsify), 0);
    assert_eq!(bench.run(Op::Stat), failed(Errno::NOENT));
}

#[test]
fn no_input_and_no_state_make_a_method_panic() {
    let mut seed = 1u64;
    let mut roll = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let mut bench = Bench::new();
    let keys =
        ["order", "size", "features", "stripe_unit", "parent", "snapshot_0000000000000001", "name_a", "id_1"];
    for round in 0..200 {
        // An object with keys, an attribute and data that make no sense.
        let noise: Vec<u8> = (0..roll(40)).map(|_| [0, 1, 2, 8, 255][roll(5)]).collect();
        let key = keys[roll(keys.len())].as_bytes().to_vec();
        bench.run(Op::OmapSetVals { entries: [(key, noise.clone().into())].into() });
        bench.run(Op::SetXattr { name: "lock.l".into(), value: noise.clone().into() });
        bench.run(Op::WriteFull { data: noise.clone().into() });
        for method in super::all() {
            let input = if round % 2 == 0 { noise.clone() } else { vec![1; roll(64)] };
            let (class, name) = (method.class.to_owned(), method.name.to_owned());
            bench.run(Op::Call { class, method: name, input: input.into() });
        }
    }
}

#[test]
fn the_class_hello_greets_records_and_refuses_what_does_not_behave() {
    let mut bench = Bench::new();
    let hello = |method: &str, input: &[u8]| Op::Call {
        class: "hello".into(),
        method: method.into(),
        input: input.to_vec().into(),
    };
    let attribute = |name: &str| Op::GetXattr { name: name.into() };
    // Methods that read fail where there is no object, whatever they do with it.
    assert_eq!(bench.run(hello("say_hello", b"")), failed(Errno::NOENT));
    assert_eq!(bench.run(hello("turn_it_to_11", b"")), failed(Errno::NOENT));
    assert_eq!(bench.run(hello("record_hello", &[b'x'; 101])), failed(Errno::INVAL));
    assert_eq!(bench.run(Op::Stat), failed(Errno::NOENT));

    assert_eq!(bench.run(hello("record_hello", b"ebs")), 0);
    assert_eq!(bench.run(hello("record_hello", b"ebs")), failed(Errno::EXIST));
    assert_eq!(bench.get(hello("replay", b"")), b"Hello, ebs!");
    assert!(bench.get(attribute("said_by")).starts_with(b"client.100 "));
    assert_eq!(bench.get(hello("say_hello", b"")), b"Hello, world!");
    assert_eq!(bench.get(hello("say_hello", b"nose")), b"Hello, nose!");
    assert_eq!(bench.run(hello("turn_it_to_11", b"")), 0);
    assert_eq!(bench.get(hello("replay", b"")), b"HELLO, EBS!");
    assert!(bench.get(attribute("amplified_by")).starts_with(b"client.100 "));

    let reply = bench.ask("o", vec![hello("writes_dont_return_data", b"too much")]);
    assert_eq!((reply.result, reply.ops[0].result), (failed(Errno::INVAL), failed(Errno::INVAL)));
    assert_eq!(reply.ops[0].output.to_vec(), b"too much input data!", "what fails may still say why");
    assert_eq!(bench.run(attribute("foo")), failed(Errno::NODATA));
    // Without the flag that asks for it, a write returns nothing.
    assert_eq!(bench.run(hello("writes_dont_return_data", b"")), 0);
    assert_eq!(bench.get(attribute("foo")), b"bar");
    assert_eq!(bench.run(hello("bad_reader", b"")), failed(Errno::IO));
    assert_eq!(bench.run(hello("bad_writer", b"lost")), failed(Errno::IO));
    assert_eq!(bench.get(hello("replay", b"")), b"HELLO, EBS!");
}
