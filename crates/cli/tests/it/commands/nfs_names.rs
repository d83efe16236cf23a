//! Names of any bytes, on servers and here.

use crate::support::{FileServer, Place};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

const NAME: &[u8] = b"bad\xff\x1b[31m\n";
const IN_URLS: &str = "bad%FF%1B%5B31m%0A";

#[test]
fn names_that_are_not_utf_8_are_listed_copied_read_and_removed() {
    let place = Place::new();
    let server = FileServer::start(&place, "");
    let url = |path: &str| server.url(path);
    place.onego(&format!("nfs mkdir {}", url("dir")));
    let local = place.path("").join(OsStr::from_bytes(NAME));
    fs::write(&local, "text").unwrap();

    // From a name here, and with the bytes themselves in a URL.
    let output = place.command("nfs put").arg(&local).arg(url("dir/")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let raw = [url("dir/").as_bytes(), NAME].concat();
    let output = place.command("nfs cat").arg(OsStr::from_bytes(&raw)).output().unwrap();
    assert_eq!(output.stdout, b"text", "{output:?}");

    let output = place.command(&format!("nfs ls {}", url("dir"))).output().unwrap();
    assert_eq!(output.stdout, [NAME, b"\n"].concat(), "programs get the bytes as they are");
    let line = place.onego(&format!("nfs ls --format json {}", url("dir")));
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["name_url"], IN_URLS, "{line}");

    fs::remove_file(&local).unwrap();
    place.onego(&format!("nfs cp {} .", url(&format!("dir/{IN_URLS}"))));
    assert_eq!(fs::read(&local).unwrap(), b"text");
    let output = place.command("cp").arg(&local).arg(url(&format!("dir/{IN_URLS}%20"))).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    place.onego(&format!("nfs mv {} {}", url(&format!("dir/{IN_URLS}%20")), url("dir/%FE")));

    place.onego(&format!("nfs mkdir {}", url("dir/%FD")));
    let loads = "--rw read --block-size 64k --io-depth 1 --size 1M --seconds 0.05 --no-progress";
    let output = place.command(&format!("bench nfs --server {} {loads}", url("dir/%FD/"))).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(place.onego(&format!("nfs ls {}", url("dir/%FD"))), "", "a file is left behind");

    // Messages change no terminal.
    let (_, said) = place.onego_fails(&format!("nfs cat {}", url("dir/%1B%5B2J%FF")));
    assert!(said.contains("\\u{1b}[2J\\xff") && !said.contains('\x1b'), "{said:?}");
    place.onego(&format!("nfs rm {}", url(&format!("dir/{IN_URLS}"))));
    place.onego(&format!("nfs rm --recursive {}", url("dir")));
    assert_eq!(place.onego(&format!("nfs ls {}", url(""))), "");
}
