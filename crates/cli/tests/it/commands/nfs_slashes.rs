//! Slashes and dots in names on servers: what POSIX says of them.

use crate::support::{FileServer, Place};
use std::fs;

#[test]
fn a_file_is_not_named_by_a_path_that_only_a_directory_can_have() {
    let place = Place::new();
    let server = FileServer::start(&place, "");
    let url = |name: &str| server.url(name);
    fs::write(place.path("x"), "other").unwrap();
    fs::write(place.path("f"), "precious").unwrap();
    place.onego(&format!("nfs put f {}", url("f")));
    for slashed in ["f/", "f/.", "f//", "f/../f", "f/./"] {
        let (slashed, f) = (url(slashed), url("f"));
        for line in [
            format!("nfs put x {slashed}"),
            format!("nfs put --in-place x {slashed}"),
            format!("nfs put --resume x {slashed}"),
            format!("nfs cp {slashed} copy"),
            format!("nfs cp {f} {slashed}"),
            format!("nfs cat {slashed}"),
            format!("nfs stat {slashed}"),
            format!("nfs mv {slashed} g"),
            format!("nfs mv {f} {slashed}"),
            format!("nfs mv {f} new/"),
            format!("nfs rm {slashed}"),
            format!("nfs rm -r {slashed}"),
        ] {
            place.onego_fails(&line);
            assert_eq!(place.onego(&format!("nfs ls {}", url(""))), "f\n", "{line}");
            assert_eq!(place.onego(&format!("nfs cat {f}")), "precious", "{line}");
        }
    }
    assert!(!place.path("copy").exists());
    place.onego(&format!("nfs mkdir {}", url("dir/")));
    place.onego(&format!("nfs mv {} {}", url("dir/"), url("moved/")));
    place.onego(&format!("nfs put x {}", url("moved/")));
    place.onego(&format!("nfs rm -r {}", url("moved/")));
    assert_eq!(place.onego(&format!("nfs ls {}", url(""))), "f\n");
}

#[test]
fn more_slashes_before_an_export_are_one() {
    let place = Place::new();
    let server = FileServer::start(&place, "");
    place.onego(&format!("nfs mkdir nfs://127.0.0.1:{}//export//a", server.port("port")));
    assert_eq!(place.onego(&format!("nfs ls nfs://127.0.0.1:{}///export", server.port("port"))), "a\n");
}
