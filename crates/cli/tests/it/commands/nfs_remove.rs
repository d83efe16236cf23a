//! What `onego nfs rm` refuses to remove.

use crate::support::other_server::{NFS, OtherServer, Treatment};
use crate::support::{FileServer, Place};
use onego::nfs::{Config, Reactor, SetAttributes};
use std::sync::atomic::{AtomicBool, Ordering};

/// The procedure's number.
const READDIRPLUS: u32 = 17;

fn url(server: &FileServer, path: &str) -> String {
    format!("nfs://127.0.0.1:{}/export{path}", server.port("port"))
}

/// A server with `/docs/a`, `/docs/old/b` and `/c`.
fn with_files(place: &Place) -> FileServer {
    let server = FileServer::start(place, "");
    std::fs::write(place.path("file"), "precious").unwrap();
    place.onego(&format!("nfs mkdir --parents {}", url(&server, "/docs/old")));
    for path in ["/docs/a", "/docs/old/b", "/c"] {
        place.onego(&format!("nfs put file {}", url(&server, path)));
    }
    server
}

#[test]
fn roots_and_dots_are_refused_before_anything_is_removed() {
    let place = Place::new();
    let server = with_files(&place);
    let fine = url(&server, "/docs/old");
    for path in ["", "/", "//", "/.", "/./", "/..", "/docs/..", "/docs/old/../..", "/docs/.", "/docs/old/../"]
    {
        let wrong = url(&server, path);
        for line in [format!("nfs rm --recursive {wrong}"), format!("nfs rm --recursive {fine} {wrong}")] {
            let (code, said) = place.onego_fails(&line);
            assert!(code == 2 && said.contains("is not removed"), "{line}: {code}, {said}");
        }
    }
    for path in ["/docs/a", "/docs/old/b", "/c"] {
        assert_eq!(place.onego(&format!("nfs cat {}", url(&server, path))), "precious");
    }
}

#[test]
fn an_export_is_emptied_when_that_is_asked_for() {
    let place = Place::new();
    let server = with_files(&place);
    place.onego(&format!("nfs rm --recursive {}", url(&server, "/docs/../docs/old/")));
    assert_eq!(place.onego(&format!("nfs ls {}", url(&server, "/docs"))), "a\n");
    let (code, said) =
        place.onego_fails(&format!("nfs rm -r --no-preserve-root {}", url(&server, "/docs/..")));
    assert!(code == 2 && said.contains("name the directory"), "{said}");
    place.onego(&format!("nfs rm --recursive --no-preserve-root {}", url(&server, "/")));
    assert_eq!(place.onego(&format!("nfs ls {}", url(&server, ""))), "");
}

#[test]
fn a_directory_that_becomes_a_symbolic_link_meanwhile_is_not_followed() {
    let place = Place::new();
    let server = FileServer::start(&place, "");
    let port = server.port("port");
    let config = Config::new("127.0.0.1").with_port(port);
    let (mut reactor, mount) = Reactor::mount(&config, "/export").unwrap();
    let made = async {
        for dir in ["victim", "precious"] {
            mount.mkdir(dir, SetAttributes::default()).await?;
            mount.create(format!("{dir}/f"), SetAttributes::default(), true).await?;
        }
        Ok::<_, onego::nfs::Error>(())
    };
    reactor.block_on(made).unwrap().unwrap();
    // The link is there before the directory is listed, and after it was looked at.
    let is_swapped = AtomicBool::new(false);
    let swapping = OtherServer::start(port, move |program, procedure, _| {
        if (program, procedure) == (NFS, READDIRPLUS) && !is_swapped.swap(true, Ordering::SeqCst) {
            let (mut reactor, mount) = Reactor::mount(&config, "/export").unwrap();
            let swapped = async {
                mount.rename("victim", "moved").await?;
                mount.symlink("precious", "victim").await
            };
            reactor.block_on(swapped).unwrap().unwrap();
        }
        Treatment::Pass
    });
    place.onego_fails(&format!("nfs rm --recursive {}", swapping.url("export/victim")));
    let listed = place.onego(&format!("nfs ls -R nfs://127.0.0.1:{port}/export"));
    assert!(listed.contains("precious/f"), "{listed}");
}
