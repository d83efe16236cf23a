//! Parsing and semantics: the cases of ceph `src/test/osd/osdcap.cc` and of its documentation.

use super::*;

#[test]
fn texts_are_parsed_as_by_ceph() {
    for good in [
        "allow *",
        "allow r",
        "allow rwx",
        "allow r pool foo ",
        "allow r pool=foo",
        "allow pool foo r",
        "allow wx pool taco object_prefix obj_with_underscores",
        "allow pool taco object_prefix obj wx",
        "allow rwx pool 'weird name'",
        "allow rwx pool \"weird name with ''s\"",
        "allow rwx pool foo ;allow r pool bar",
        "allow pool foo.froo.foo rwx, allow pool bar r",
        "allow pool data rw, allow pool rbd rwx, allow pool images class rbd foo",
        "allow class-read",
        "allow class-read class-write",
        "allow rw class-read class-write pool foo",
        "allow class foo",
        "allow class clsname \"clsthingidon'tunderstand\"",
        "  allow     pool foo rwx; allow pool bar r  ",
        "\tallow\nwx\tpool \n taco\t",
        "allow class-read object_prefix rbd_children, allow pool libvirt-pool-test rwx",
        "allow pool foo namespace=nfoo rwx; allow pool bar namespace nbar object_prefix rbd r",
        "allow rwx namespace foo tag cephfs data =cephfs_a",
        "allow pool foo namespace=nfoo* rwx",
        "allow pool foo namespace=\"\" rwx; allow pool bar namespace '' object_prefix rbd r",
        "profile abc, profile abc pool=bar, profile abc pool=bar namespace=foo",
        "allow rwx tag application key  =   value",
        "allow all tag application all=all",
        "allow rwx network 127.0.0.1/8",
        "allow rwx network [ff::1]/128",
        "profile foo network 127.0.0.1/8",
        "allow pool foo rwx network 1.2.3.4/24",
    ] {
        assert!(OsdCap::parse(good).is_ok(), "{good}: {:?}", OsdCap::parse(good));
    }
    for bad in [
        "",
        "allow r poolfoo",
        "allow r w",
        "ALLOW r",
        "allow rwx,",
        "allow rwx x",
        "allow r pool foo r",
        "allow wwx pool taco",
        "allow wwx pool taco^funny&chars",
        "allow rwx pool 'weird name''",
        "allow rwx object_prefix \"beforepool\" pool weird",
        "allow xrwx pool foo,, allow r pool bar",
        ";allow rwx pool foo rwx ; allow r pool bar",
        "allow rwx pool foo ;allow r pool bar gibberish",
        "allow rwx namespace",
        "allow namespace=foo",
        "allow namespace=f*oo",
        "allow wwx pool ''",
        "allow rwx tag application key value",
    ] {
        assert!(OsdCap::parse(bad).is_err(), "{bad}");
    }
    let error = OsdCap::parse("allow r poolfoo").unwrap_err().to_string();
    assert_eq!(error, "osd capability parse failed, stopped at 'poolfoo' of 'allow r poolfoo'");
}

/// Capabilities, then a request: pool, namespace, object, its access; and whether it is allowed.
type Case = (&'static str, &'static str, &'static str, &'static str, &'static str, bool);

/// Checks that both ways to decide agree, and returns the result.
fn allowed(cap: &OsdCap, pool: &str, namespace: &str, object: &str, does: &str) -> bool {
    let notes = BTreeMap::from([
        ("cephfs".to_owned(), BTreeMap::from([("data".to_owned(), "a".to_owned())])),
        ("rbd".to_owned(), BTreeMap::new()),
    ]);
    let notes = if pool == "tagged" { notes } else { BTreeMap::new() };
    let (mut wanted, mut calls) = (OsdAccess::default(), Vec::new());
    for word in does.split_whitespace() {
        let (class, method) = word.split_once('.').unwrap_or(("", ""));
        let access = match word {
            "r" => OsdAccess::READ,
            "w" => OsdAccess::WRITE,
            _ if method.starts_with("get") || method.ends_with("list") => OsdAccess::CLASS_READ,
            _ => OsdAccess::CLASS_READ.and(OsdAccess::CLASS_WRITE),
        };
        wanted = wanted.and(access);
        if !class.is_empty() {
            calls.push(Call { class, method, access });
        }
    }
    let grants = cap.in_pool(pool, &notes);
    let place = Place { namespace: namespace.as_bytes(), object: object.as_bytes() };
    let here = grants.allows(place, wanted, &calls);
    assert!(here || !grants.allows_anywhere(wanted), "allowed anywhere but not here: {does}");
    here
}

#[test]
fn the_same_is_allowed_as_by_ceph() {
    #[rustfmt::skip] // a line each
    let cases: &[Case] = &[
        ("allow *", "foo", "ns", "o", "r w rbd.set_size", true),
        ("allow rwx", "foo", "ns", "o", "r w rbd.set_size rbd.get_size", true),
        ("allow rwx pool foo", "foo", "", "o", "r w rbd.set_size", true),
        ("allow rwx pool foo", "bar", "", "o", "r", false),
        ("allow rwx pool foo, allow r pool bar", "bar", "", "o", "r", true),
        ("allow rwx pool foo, allow r pool bar", "bar", "", "o", "w", false),
        ("allow r, allow rwx pool foo", "bar", "", "o", "r", true),
        ("allow r, allow rwx pool foo", "bar", "", "o", "r w", false),
        ("allow r, allow w", "foo", "", "o", "r w", false),
        ("allow r", "foo", "", "o", "rbd.get_size", false),
        ("allow w", "foo", "", "o", "w", true),
        ("allow w", "foo", "", "o", "r", false),
        ("allow x", "foo", "", "o", "rbd.set_size rbd.get_size", true),
        ("allow x", "foo", "", "o", "r", false),
        ("allow class-read", "foo", "", "o", "rbd.get_size", true),
        ("allow class-read", "foo", "", "o", "rbd.set_size", false),
        ("allow class-write", "foo", "", "o", "rbd.set_size", false),
        ("allow r class-read", "foo", "", "o", "r rbd.get_size", true),
        ("allow class rbd", "foo", "", "o", "rbd.set_size", true),
        ("allow class rbd", "foo", "", "o", "rbd.set_size r", false),
        ("allow class rbd", "foo", "", "o", "lock.lock", false),
        ("allow class rbd set_size", "foo", "", "o", "rbd.set_size", true),
        ("allow class rbd set_size", "foo", "", "o", "rbd.set_flags", false),
        ("allow class rbd, allow class lock", "foo", "", "o", "rbd.set_size lock.lock", true),
        ("allow class rbd, allow class lock", "foo", "", "o", "rbd.set_size version.set", false),
        ("allow class rbd set_size, allow r class-read", "foo", "", "o", "rbd.set_size r", false),
        ("allow rwx object_prefix foo", "bar", "", "foo_bar", "r w", true),
        ("allow rwx object_prefix foo", "bar", "", "fo", "r", false),
        ("allow rwx object_prefix foo", "bar", "", "_foo", "r", false),
        ("allow rw namespace=nfoo", "bar", "nfoo", "o", "r w", true),
        ("allow rw namespace=nfoo", "bar", "nfoobar", "o", "r w", false),
        ("allow rw namespace=nfoo", "bar", "", "o", "r w", false),
        ("allow rw namespace=nfoo*", "bar", "nfoobar", "o", "r w", true),
        ("allow rw namespace=nfoo*", "bar", "nfo", "o", "r", false),
        ("allow rw namespace=\"nfoo*\"", "bar", "nfoobar", "o", "r", true),
        ("allow rw namespace=\"\"", "bar", "", "o", "r w", true),
        ("allow rw namespace=\"\"", "bar", "ns", "o", "r", false),
        ("allow rw tag cephfs data=a", "tagged", "", "o", "r w", true),
        ("allow rw tag cephfs data=a", "foo", "", "o", "r", false),
        ("allow rw tag cephfs data=b", "tagged", "", "o", "r", false),
        ("allow rw tag cephfs *=a", "tagged", "", "o", "r", true),
        ("allow rw tag cephfs *=b", "tagged", "", "o", "r", false),
        ("allow rw tag cephfs data=*", "tagged", "", "o", "r", true),
        ("allow rw tag rbd all=all", "tagged", "", "o", "r", true),
        ("allow rw tag rgw *=*", "tagged", "", "o", "r", false),
        ("allow rw namespace=n tag cephfs data=a", "tagged", "n", "o", "w", true),
        ("allow rw namespace=n tag cephfs data=a", "tagged", "", "o", "w", false),
        ("profile rbd", "foo", "ns", "rbd_data.1", "r w", true),
        ("profile rbd pool=rbd", "rbd", "", "rbd_header.1", "rbd.set_size lock.lock r w", true),
        ("profile rbd pool=rbd", "other", "", "rbd_data.1", "r", false),
        ("profile rbd pool=rbd", "other", "", "rbd_children", "rbd.get_children", true),
        ("profile rbd pool=rbd", "other", "", "rbd_children", "r", false),
        ("profile rbd pool=rbd namespace=n", "rbd", "n", "rbd_directory", "r w", true),
        ("profile rbd pool=rbd namespace=n", "rbd", "", "rbd_directory", "r", false),
        ("profile rbd pool=rbd namespace=n", "rbd", "", "rbd_info", "rbd.metadata_list", true),
        ("profile rbd pool=rbd namespace=n", "rbd", "", "rbd_info", "r", true),
        ("profile rbd pool=rbd namespace=n", "rbd", "", "rbd_info", "w", false),
        ("profile rbd-read-only pool=rbd namespace=n", "rbd", "", "rbd_info", "r", false),
        ("profile rbd-read-only", "foo", "", "rbd_data.1", "r rbd.get_size", true),
        ("profile rbd-read-only", "foo", "", "rbd_data.1", "w", false),
        ("profile rbd-read-only", "foo", "", "rbd_header.1", "rbd.set_size", false),
        ("profile rbd-read-only", "foo", "", "rbd_header.1", "rbd.child_attach", true),
        ("profile rbd-read-only", "foo", "", "rbd_data.1", "rbd.child_attach", false),
        ("profile read-only pool=foo", "foo", "", "o", "r", true),
        ("profile read-write", "foo", "", "o", "r w", true),
        ("profile nonsense", "foo", "", "o", "r", false),
    ];
    for (text, pool, namespace, object, does, expected) in cases {
        let cap = OsdCap::parse(text).unwrap();
        let result = allowed(&cap, pool, namespace, object, does);
        assert_eq!(result, *expected, "{text}: {does} on {pool}/{namespace}/{object}");
    }
    assert!(!allowed(&OsdCap::default(), "foo", "", "o", "r"));
    assert!(allowed(&OsdCap::everything(), "foo", "", "o", "r w rbd.set_size"));
}

#[test]
fn grants_for_whole_pools_are_decided_without_the_object() {
    let anywhere = |text: &str, pool: &str, wanted| {
        OsdCap::parse(text).unwrap().in_pool(pool, &BTreeMap::new()).allows_anywhere(wanted)
    };
    let (read, write) = (OsdAccess::READ, OsdAccess::WRITE);
    assert!(anywhere("profile rbd pool=a", "a", read.and(write)));
    assert!(!anywhere("profile rbd pool=a", "b", read));
    assert!(!anywhere("allow rw namespace=n", "a", read));
    assert!(anywhere("allow r, allow rw object_prefix p", "a", read));
    assert!(!anywhere("allow r, allow rw object_prefix p", "a", write));
}

#[test]
fn a_network_excludes_other_addresses() {
    let cap = OsdCap::parse("allow rw network 10.0.0.0/8").unwrap();
    assert!(allowed(&cap.clone().seen_from("10.1.1.1".parse().unwrap()), "a", "", "o", "w"));
    assert!(!allowed(&cap.seen_from("192.168.1.1".parse().unwrap()), "a", "", "o", "r"));
}

#[test]
fn only_an_asterisk_or_all_without_a_scope_is_everything() {
    for (text, everything) in [
        ("allow *", true),
        ("allow all", true),
        ("allow r, allow *", true),
        ("allow rwx", false),
        ("allow rwx class-read class-write", false),
        ("allow * pool=a", false),
        ("allow * namespace=n", false),
        ("profile rbd", false),
    ] {
        assert_eq!(OsdCap::parse(text).unwrap().allows_everything(), everything, "{text}");
    }
}
