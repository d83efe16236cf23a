//! What `onego nfs cp` and `put` make of permissions, times, holes, links, and of what an earlier copy has left.

use crate::support::{FileServer, Place, allocated};
use onego::nfs::{Config, Reactor};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::time::{Duration, UNIX_EPOCH};

struct Served {
    place: Place,
    server: FileServer,
}

impl Served {
    fn new() -> Self {
        let place = Place::new();
        let server = FileServer::start(&place, "");
        Self { place, server }
    }

    fn url(&self, name: &str) -> String {
        self.server.url(name)
    }

    fn stat(&self, name: &str) -> serde_json::Value {
        let said = self.place.onego(&format!("nfs stat {} --format json", self.url(name)));
        serde_json::from_str(&said).unwrap()
    }

    fn names(&self) -> String {
        self.place.onego(&format!("nfs ls {}", self.url("")))
    }

    fn cat(&self, name: &str) -> Vec<u8> {
        self.place.onego_with_input(&format!("nfs cat {}", self.url(name)), &[]).stdout
    }
}

#[test]
fn a_copy_keeps_permissions_and_time_in_both_directions() {
    let served = Served::new();
    let place = &served.place;
    let time = UNIX_EPOCH + Duration::new(1_600_000_000, 123_456_000);
    fs::write(place.path("secret"), "secret").unwrap();
    fs::set_permissions(place.path("secret"), Permissions::from_mode(0o600)).unwrap();
    File::options().write(true).open(place.path("secret")).unwrap().set_modified(time).unwrap();
    for (line, name) in [("nfs put", "a"), ("nfs cp", "b"), ("cp", "c")] {
        place.onego(&format!("{line} secret {}", served.url(name)));
        let found = served.stat(name);
        assert_eq!((&found["mode"], &found["size"]), (&"0600".into(), &6.into()), "{line}");
        assert_eq!(found["mtime"], "2020-09-13T12:26:40.123456000Z", "{line}");
        place.onego(&format!("nfs cp {} {name}", served.url(name)));
        let about = place.path(name).metadata().unwrap();
        assert_eq!((about.permissions().mode() & 0o777, about.modified().unwrap()), (0o600, time), "{line}");
    }
    place.onego(&format!("nfs cp {} {}", served.url("a"), served.url("d")));
    assert_eq!(served.stat("d")["mode"], "0600");
    // A stream has none; a file that is replaced keeps its own.
    let output = place.onego_with_input(&format!("nfs put - {}", served.url("stream")), b"bytes");
    assert!(output.status.success());
    assert_ne!(served.stat("stream")["mode"], "0600");
    fs::set_permissions(place.path("a"), Permissions::from_mode(0o644)).unwrap();
    place.onego(&format!("nfs cp {} a", served.url("b")));
    assert_eq!(place.path("a").metadata().unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn holes_stay_holes() {
    let served = Served::new();
    let place = &served.place;
    let file = File::create(place.path("sparse")).unwrap();
    file.set_len(2 << 30).unwrap();
    file.write_all_at(&[7; 4096], 1 << 30).unwrap();
    drop(file);
    place.onego(&format!("nfs put sparse {}", served.url("sparse")));
    let found = served.stat("sparse");
    assert_eq!(found["size"], 2_u64 << 30);
    assert!(found["used"].as_u64().unwrap() < 1 << 20, "{found}");
    // The server has no way to say where holes are: less is read.
    let file = File::create(place.path("small")).unwrap();
    file.set_len(32 << 20).unwrap();
    file.write_all_at(&[7; 4096], 16 << 20).unwrap();
    drop(file);
    place.onego(&format!("nfs put small {}", served.url("small")));
    place.onego(&format!("nfs cp {} {}", served.url("small"), served.url("copy")));
    assert!(served.stat("copy")["used"].as_u64().unwrap() < 1 << 20);
    place.onego(&format!("nfs cp {} back", served.url("copy")));
    assert!(fs::read(place.path("back")).unwrap() == fs::read(place.path("small")).unwrap());
    assert!(allocated(&place.path("back")) < 1 << 20);
    let content = fs::read(place.path("small")).unwrap();
    let output = place.onego_with_input(&format!("nfs put - {}", served.url("stream")), &content);
    assert!(output.status.success(), "{output:?}");
    assert!(served.stat("stream")["used"].as_u64().unwrap() < 1 << 20);
    assert!(served.cat("stream") == content);
}

#[test]
fn a_rejected_resume_changes_nothing() {
    let served = Served::new();
    let place = &served.place;
    fs::write(place.path("short"), "new").unwrap();
    fs::write(place.path("other"), "other bytes, and more").unwrap();
    fs::write(place.path("whole"), "old tail, and what follows").unwrap();
    fs::write(place.path("mine"), "old tail").unwrap();
    place.onego(&format!("nfs put mine {}", served.url("v")));
    for source in ["short", "other"] {
        for line in [
            format!("nfs put --resume {source} {}", served.url("v")),
            format!("nfs cp --resume {} mine", served.url("v2")),
        ] {
            if line.contains("v2") {
                place.onego(&format!("nfs put {source} {}", served.url("v2")));
            }
            let (code, said) = place.onego_fails(&line);
            assert!(
                code == 2 && (said.contains("differs") || said.contains("has 8 bytes")),
                "{line}: {said}"
            );
            assert_eq!(served.cat("v"), b"old tail");
            assert_eq!(fs::read(place.path("mine")).unwrap(), b"old tail");
            assert!(!served.names().contains("partial") && !place.path(".mine.onego-partial").exists());
        }
        let content = fs::read(place.path(source)).unwrap();
        let output = place.onego_with_input(&format!("nfs put --resume - {}", served.url("v")), &content);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_eq!(served.cat("v"), b"old tail");
    }
    // The beginning of the source is continued.
    place.onego(&format!("nfs put --resume whole {}", served.url("v")));
    assert_eq!(served.cat("v"), b"old tail, and what follows");
    let output = place.onego_with_input(
        &format!("nfs put --resume - {}", served.url("v")),
        b"old tail, and what follows it",
    );
    assert!(output.status.success(), "{output:?}");
    assert_eq!(served.cat("v"), b"old tail, and what follows it");
    assert_eq!(served.names(), "v\nv2\n");
}

#[test]
fn long_names_that_begin_alike_do_not_share_what_is_unfinished() {
    let served = Served::new();
    let place = &served.place;
    fs::write(place.path("file"), "text").unwrap();
    let names = ["a", "b"].map(|last| "x".repeat(254) + last);
    for name in &names {
        place.onego(&format!("nfs put file {}", served.url(name)));
        place.onego(&format!("nfs cp {} {name}", served.url(name)));
    }
    assert_eq!(served.names(), format!("{}\n{}\n", names[0], names[1]));
}

#[test]
fn a_link_on_a_server_stays_one_and_its_file_is_replaced_when_the_copy_is_whole() {
    let served = Served::new();
    let place = &served.place;
    fs::write(place.path("new"), "new").unwrap();
    fs::write(place.path("old"), "old bytes").unwrap();
    place.onego(&format!("nfs mkdir {}", served.url("dir")));
    place.onego(&format!("nfs put old {}", served.url("dir/file")));
    let config = Config::new("127.0.0.1").with_port(served.server.port("port"));
    let (mut reactor, mount) = Reactor::mount(&config, "/export").unwrap();
    let links = async {
        mount.symlink("dir/file", "link").await?;
        mount.symlink("nowhere/file", "dangling").await?;
        mount.symlink("loop", "loop").await
    };
    reactor.block_on(links).unwrap().unwrap();
    let before = served.stat("dir/file")["fileid"].clone();
    place.onego(&format!("nfs put new {}", served.url("link")));
    assert_eq!(served.cat("dir/file"), b"new");
    assert_ne!(served.stat("dir/file")["fileid"], before, "it is another file");
    assert_eq!(served.stat("link")["type"], "symbolic link");
    for name in ["dangling", "loop", "missing/", "dir/file/"] {
        for how in ["", "--no-clobber", "--in-place", "--resume"] {
            if name == "dir/file/" && how != "--no-clobber" {
                continue;
            }
            place.onego_fails(&format!("nfs put {how} new {}", served.url(name)));
        }
    }
    assert_eq!(served.names(), "dangling\ndir\nlink\nloop\n");
    assert_eq!(place.onego(&format!("nfs ls {}", served.url("dir"))), "file\n");
}

#[test]
fn files_of_proc_have_bytes_and_no_length() {
    let served = Served::new();
    served.place.onego(&format!("nfs put /proc/version {}", served.url("version")));
    assert_eq!(served.cat("version"), fs::read("/proc/version").unwrap());
}
