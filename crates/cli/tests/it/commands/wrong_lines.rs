//! Command lines that cannot be done: the exit code, and that what is wrong is named.

use crate::support::Place;

/// Lines that need no cluster.
const ALONE: &[(&str, i32, &str)] = &[
    ("", 2, "Usage"),
    ("no-such-command", 2, "no-such-command"),
    ("rbd create disk", 2, "--size"),
    ("rbd create disk --size", 2, "--size"),
    ("rbd create disk --size 10X", 2, "10X"),
    ("rbd create --size 1G rbd/disk@snap", 2, "names a snapshot, and not an image"),
    ("rbd create --size 1G --object-size 3M disk", 2, "3145728"),
    ("rbd create --size 1G --object-size 64M disk", 2, "32 MiB"),
    ("rbd create --size 1G --stripe-unit 64K disk", 2, "--stripe-count"),
    ("rbd create --size 1G --image-feature flying disk", 2, "flying"),
    ("rbd import - --sparse-size 4K", 2, "needs a name"),
    ("rbd import --sparse-size 3K - disk", 2, "3K"),
    ("rbd import missing.raw disk", 1, "missing.raw"),
    ("rbd import . disk", 1, "directory"),
    ("pool rm rbd", 2, "--yes-i-really-really-mean-it"),
    ("bench rbd --rw sideways", 2, "sideways"),
    ("bench rbd --block-size 0", 2, "\"0\""),
    ("bench rbd --block-size 4k,huge", 2, "huge"),
    ("bench rbd --io-depth 0", 2, "0"),
    ("bench rbd --jobs 0", 2, "0"),
    ("bench rbd --seconds soon", 2, "soon"),
    ("bench rbd --size 64k --block-size 1m", 2, "0 blocks of 1048576 bytes"),
    ("bench rbd --verify --null-writes", 2, "--null-writes"),
    ("bench rbd --cluster ceph.conf --null-writes", 2, "--null-writes is for the embedded cluster"),
    ("bench rbd --engine steam", 2, "steam"),
    ("bench rbd --cluster missing.conf", 1, "missing.conf"),
    ("--conf missing.conf rbd ls", 1, "missing.conf: No such file"),
    ("--mon-host nowhere:x rbd ls", 1, "nowhere:x"),
    (
        "--mon-host 127.0.0.1:1 --connect-timeout 1 rbd ls",
        7,
        "no monitor has answered within 1s: waiting for a monitor at 127.0.0.1:1, because connection failed",
    ),
    ("rbd ls", 1, "or ceph.conf: not there"),
    ("cluster start --listen not-an-address", 2, "not-an-address"),
    ("cluster start --listen 192.0.2.1", 1, "cluster does not come up"),
    ("cluster start --memory lots", 2, "lots"),
    ("cluster start --memory 0", 2, "\"0\" is less than an OSD needs"),
    ("cluster start --conf ceph.conf", 2, "leave --conf out"),
    ("nfs serve --mem --port 2049", 2, "'--listen'"),
    ("export nbd mem:1M --port 10809", 2, "'--listen'"),
    ("demo --mon-host 127.0.0.1", 2, "leave --mon-host out"),
    ("bench msgr --conf ceph.conf", 2, "leave --conf out"),
    ("bench rbd --conf ceph.conf --cluster other.conf", 2, "leave --conf out"),
    ("bench rbd --conf missing.conf", 1, "missing.conf"),
    ("bench rbd --json no-folder/rows.json", 1, "no-folder/rows.json"),
    ("bench msgr --svg no-folder/rows.svg", 1, "no-folder/rows.svg"),
    ("bench nfs --svg no-folder/rows.svg", 1, "no-folder/rows.svg"),
    ("demo --svg no-folder/rows.svg", 1, "no-folder/rows.svg"),
    ("rbd export --resume disk -", 1, "or ceph.conf: not there"),
    ("cluster start --auth-ticket-lifetime 0", 2, "0"),
    ("cluster start --secure-only", 2, "--auth cephx --messenger v2"),
    ("cluster start --auth cephx --secure-only", 2, "--messenger v2"),
    ("cluster start --conf-dir /proc/nowhere", 1, "/proc/nowhere"),
    ("completions tcsh", 2, "tcsh"),
];

/// Lines on a cluster that has image rbd/there, of 8 MiB.
const ON_A_CLUSTER: &[(&str, i32, &str)] = &[
    ("rbd ls nowhere", 3, "pool nowhere does not exist: \"onego pool ls\""),
    ("rbd info nothing", 3, "image rbd/nothing does not exist"),
    ("rbd rm nothing", 3, "image rbd/nothing does not exist"),
    ("rbd resize --size 1G nothing", 3, "image rbd/nothing does not exist"),
    ("rbd export nothing out.raw", 3, "image rbd/nothing does not exist"),
    ("rbd export there ceph.conf", 4, "ceph.conf: File exists"),
    ("rbd export there no-folder/out.raw", 1, "no-folder/out.raw"),
    ("rbd import ceph.conf there", 4, "image rbd/there exists already"),
    ("rbd create --size 1G there", 4, "image rbd/there exists already"),
    ("rbd create --size 1G --data-pool nowhere disk", 3, "pool nowhere"),
    ("rbd create --size 1G --image-feature exclusive-lock,journaling disk", 5, "journaling"),
    ("rbd resize --size 4M there", 2, "--allow-shrink"),
    ("pool create rbd", 4, "pool rbd exists already"),
    ("pool rm nowhere --yes-i-really-really-mean-it", 3, "pool nowhere"),
    ("bench rbd --cluster ceph.conf --pool nowhere", 3, "pool nowhere"),
    ("bench rbd --conf ceph.conf --pool nowhere", 3, "pool nowhere"),
    ("bench rbd --conf ceph.conf --null-writes", 2, "--null-writes is for the embedded cluster"),
    ("rbd export --resume there -", 2, "cannot be resumed"),
    ("rbd import --resume ceph.conf there", 4, "image there is whole"),
    ("cluster osd stop 9", 3, "osd stop: "),
];

fn check(place: &Place, lines: &[(&str, i32, &str)]) {
    for (line, code, named) in lines {
        let (found, said) = place.onego_fails(line);
        assert!(found == *code && said.contains(named), "`onego {line}` ended with {found} and said\n{said}");
        assert!(!said.contains("panicked"), "`onego {line}` said\n{said}");
        // What the parser of the command line says has more lines.
        assert!(*code == 2 || said.lines().count() == 1, "`onego {line}` said\n{said}");
    }
}

#[test]
fn lines_that_make_no_sense_are_told_what_is_wrong_with_them() {
    check(&Place::new(), ALONE);
}

#[test]
fn what_a_cluster_does_not_have_or_refuses_is_named() {
    let place = Place::with_cluster("");
    place.onego("rbd create --size 8M there");
    check(&place, ON_A_CLUSTER);
    assert!(!place.path("out.raw").exists(), "an export that failed left a file");
    assert_eq!(place.onego("rbd ls"), "there\n", "what failed left images");
}

#[test]
fn help_has_exit_codes_and_examples() {
    let place = Place::new();
    let help = place.onego("--help");
    assert!(help.contains("Exit codes:") && help.contains("onego demo"), "{help}");
    for line in ["demo", "cluster start", "pool ls", "rbd create", "rbd import", "bench rbd"] {
        let help = place.onego(&format!("{line} --help"));
        assert!(help.contains("Example"), "onego {line} --help:\n{help}");
    }
    assert!(place.onego("completions bash").contains("_onego"));
}
