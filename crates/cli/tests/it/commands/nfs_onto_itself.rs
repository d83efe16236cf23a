//! Copies of a file onto itself, by whatever names: refused before anything changes.

use crate::support::{FileServer, Place};

const HOW: [&str; 3] = ["--in-place", "--resume", ""];

#[test]
fn a_file_on_a_server_is_not_copied_onto_itself() {
    let place = Place::new();
    let server = FileServer::start(&place, "");
    let url = |host: &str, path: &str| format!("nfs://{host}:{}/export/{path}", server.port("port"));
    std::fs::write(place.path("file"), "precious").unwrap();
    place.onego(&format!("nfs mkdir {}", url("127.0.0.1", "docs")));
    let file = url("127.0.0.1", "docs/f");
    place.onego(&format!("nfs put file {file}"));
    for to in
        [&file, &url("localhost", "docs/f"), &url("127.0.0.1", "docs"), &url("127.0.0.1", "docs/../docs//f")]
    {
        for how in HOW {
            let (code, said) = place.onego_fails(&format!("nfs cp {how} {file} {to}"));
            assert!(code == 2 && said.contains("the source itself"), "{how} {to}: {code}, {said}");
            assert_eq!(place.onego(&format!("nfs cat {file}")), "precious", "{how} {to}");
        }
    }
    assert_eq!(place.onego(&format!("nfs ls {}", url("127.0.0.1", "docs"))), "f\n");
}
