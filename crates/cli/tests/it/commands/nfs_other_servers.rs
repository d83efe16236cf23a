//! `onego nfs` with servers that lack what ours has.

use crate::support::other_server::{MOUNT, NFS, OtherServer, Treatment};
use crate::support::{FileServer, Place};
use std::fs;
use std::time::{Duration, Instant};

const MNT: u32 = 1;
const EXPORT: u32 = 5;
const WRITE: u32 = 7;
const LINK: u32 = 15;
const READDIR: u32 = 16;
const READDIRPLUS: u32 = 17;
const COMMIT: u32 = 21;

/// NFS3ERR_NOTSUPP.
const NOT_SUPPORTED: u32 = 10_004;

/// MNT3ERR_ACCES.
const ACCESS: u32 = 13;

/// A place with a server that has `docs/a`.
fn place() -> (Place, FileServer, u16) {
    let place = Place::new();
    let server = FileServer::start(&place, "");
    let port = server.port("port");
    fs::write(place.path("a"), "text").unwrap();
    place.onego(&format!("nfs mkdir nfs://127.0.0.1:{port}/export/docs"));
    place.onego(&format!("nfs put a nfs://127.0.0.1:{port}/export/docs/"));
    (place, server, port)
}

#[test]
fn exports_need_not_be_listed() {
    let (place, _server, port) = place();
    for is_silent in [false, true] {
        let server =
            OtherServer::start(port, move |program, procedure, arguments| match (program, procedure) {
                (MOUNT, EXPORT) if is_silent => Treatment::Silence,
                (MOUNT, EXPORT) => Treatment::Unavailable,
                // "/" cannot be mounted.
                (MOUNT, MNT) if arguments[..4] == [0, 0, 0, 1] => Treatment::Results(vec![ACCESS]),
                _ => Treatment::Pass,
            });
        let begun = Instant::now();
        assert_eq!(place.onego(&format!("nfs cat {}", server.url("export/docs/a"))), "text");
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
        let (code, said) = place.onego_fails(&format!("nfs ls {}", server.url("other/docs")));
        assert!(code == 3 && said.contains("/other/docs cannot be mounted"), "{code}, {said}");
    }
}

#[test]
fn an_export_that_is_listed_and_refused_does_not_hide_the_one_that_is_not() {
    let (place, _server, port) = place();
    let server = OtherServer::start(port, |program, procedure, arguments| match (program, procedure) {
        // One export, "/", without restrictions.
        (MOUNT, EXPORT) => Treatment::Results(vec![1, 1, u32::from_be_bytes(*b"/\0\0\0"), 0, 0]),
        (MOUNT, MNT) if arguments[..4] == [0, 0, 0, 1] => Treatment::Results(vec![ACCESS]),
        _ => Treatment::Pass,
    });
    assert_eq!(place.onego(&format!("nfs cat {}", server.url("export/docs/a"))), "text");
    let (code, said) = place.onego_fails(&format!("nfs cat {}", server.url("none")));
    assert!(code == 5 && said.contains("/ cannot be mounted"), "{code}, {said}");
}

#[test]
fn directories_are_listed_without_readdirplus() {
    let (place, _server, port) = place();
    for refusal in [|| Treatment::Unavailable, || Treatment::Results(vec![NOT_SUPPORTED, 0])] {
        let server = OtherServer::start(port, move |program, procedure, _| match (program, procedure) {
            (NFS, READDIRPLUS) => refusal(),
            _ => Treatment::Pass,
        });
        place.onego(&format!("nfs mkdir --parents {}", server.url("export/old/b/c")));
        let listed = place.onego(&format!("nfs ls -R {}", server.url("export")));
        assert_eq!(listed, "docs\nold\ndocs/a\nold/b\nold/b/c\n");
        assert!(server.calls(NFS, READDIR) >= 5);
        assert_eq!(server.calls(NFS, READDIRPLUS), 1, "it is asked once");
        let long = place.onego(&format!("nfs ls --long {}", server.url("export/docs")));
        assert!(long.starts_with("-rw") && long.contains(" 4 "), "{long}");
        place.onego(&format!("nfs rm --recursive {}", server.url("export/old")));
        assert_eq!(place.onego(&format!("nfs ls {}", server.url("export"))), "docs\n");
    }
}

#[test]
fn a_verifier_that_changes_with_every_commit_ends_in_stable_writes() {
    let (place, _server, port) = place();
    let server = OtherServer::start(port, |program, procedure, _| match (program, procedure) {
        (NFS, COMMIT) => Treatment::NewVerifier,
        _ => Treatment::Pass,
    });
    let content: Vec<u8> = (0..3 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(place.path("big"), &content).unwrap();
    place.onego(&format!("nfs put big {}", server.url("export/big")));
    let (writes, commits) = (server.calls(NFS, WRITE), server.calls(NFS, COMMIT));
    assert!(commits <= 4 && writes <= 4 * 4, "{commits} commits and {writes} writes");
    place.onego(&format!("nfs cp {} back", server.url("export/big")));
    assert!(fs::read(place.path("back")).unwrap() == content);
}

#[test]
fn nothing_is_overwritten_where_servers_have_no_links() {
    let (place, _server, port) = place();
    let server = OtherServer::start(port, |program, procedure, _| match (program, procedure) {
        (NFS, LINK) => Treatment::Results(vec![NOT_SUPPORTED, 0, 0, 0]),
        _ => Treatment::Pass,
    });
    place.onego(&format!("nfs put --no-clobber a {}", server.url("export/docs/b")));
    assert_eq!(server.calls(NFS, LINK), 1);
    assert_eq!(place.onego(&format!("nfs cat {}", server.url("export/docs/b"))), "text");
    let (code, said) = place.onego_fails(&format!("nfs put --no-clobber a {}", server.url("export/docs/b")));
    assert_eq!(code, 4, "{said}");
    assert_eq!(place.onego(&format!("nfs ls {}", server.url("export/docs"))), "a\nb\n");
}
