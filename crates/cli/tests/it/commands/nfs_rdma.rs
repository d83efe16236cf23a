//! Files over RDMA, between our server and our client.

use crate::support::{FileServer, Place};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where a file is by RDMA.
fn url_of(server: &FileServer, path: &str, options: &str) -> String {
    format!(
        "nfs://127.0.0.1:{}/export/{path}?rdma&rdmaport={}{options}",
        server.port("port"),
        rdma_port(server)
    )
}

fn rdma_port(server: &FileServer) -> u16 {
    server.port("rdma_port")
}

fn start(place: &Place, options: &str) -> FileServer {
    FileServer::start(place, &format!("--rdma 0 {options}"))
}

fn connect(server: &FileServer) -> TcpStream {
    TcpStream::connect(("127.0.0.1", rdma_port(server))).unwrap()
}

#[test]
fn files_go_over_rdma_and_come_back_as_they_were() {
    let place = Place::new();
    for serving in ["", "--inline 1K --no-remote-invalidation", "--inline 64K"] {
        let server = start(&place, serving);
        for size in [0_usize, 1, 3000, 70_001, 3_000_000] {
            let bytes: Vec<u8> = (0..size).map(|at| (at / 3 + at / 1000) as u8).collect();
            std::fs::write(place.path("there"), &bytes).unwrap();
            for options in ["", "&inline=1024", "&nconnect=3", "&rsize=900&wsize=900"] {
                let url = url_of(&server, &size.to_string(), options);
                // Many small calls of a long file take long.
                if options.contains("rsize") && size > 100_000 {
                    continue;
                }
                place.onego(&format!("nfs put there {url}"));
                place.onego(&format!("nfs cp {url} back"));
                assert!(
                    std::fs::read(place.path("back")).unwrap() == bytes,
                    "{size} bytes, {serving} {options}"
                );
                std::fs::remove_file(place.path("back")).unwrap();
                place.onego(&format!("nfs rm {url}"));
            }
        }
        assert_eq!(place.onego(&format!("nfs ls {}", url_of(&server, "", ""))), "");
    }
}

/// Forwards connections to a port, and breaks each after that many bytes in one direction, and then more and more. Returns
/// its port, and a count of connections.
fn breaking(port: u16, after: u64) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let at = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let connections = Arc::clone(&count);
    // It ends with the test program.
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { return };
            let bytes = after + after / 7 * connections.fetch_add(1, Ordering::Relaxed) as u64;
            let forward = |from: &TcpStream, to: &TcpStream| {
                let (from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut (&from).take(bytes), &mut to);
                    let _ = from.shutdown(std::net::Shutdown::Both);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            };
            forward(&client, &server);
            forward(&server, &client);
        }
    });
    (at, count)
}

#[test]
fn files_are_whole_though_connections_break() {
    let place = Place::new();
    let server = start(&place, "");
    let bytes: Vec<u8> = (0..4_000_000_u32).map(|at| (at / 3 + at / 1000) as u8).collect();
    std::fs::write(place.path("there"), &bytes).unwrap();
    // A call and its reply fit in what goes through.
    for (after, options) in [(300_000, ""), (200_000, "&inline=1024"), (250_000, "&nconnect=2")] {
        let (port, connections) = breaking(rdma_port(&server), after);
        let url = format!(
            "nfs://127.0.0.1:{}/export/file?rdma&rdmaport={port}&rsize=65536&wsize=65536{options}",
            server.port("port")
        );
        place.onego(&format!("nfs put there {url}"));
        place.onego(&format!("nfs cp {url} back"));
        assert!(std::fs::read(place.path("back")).unwrap() == bytes, "{options}");
        let connections = connections.load(Ordering::Relaxed);
        assert!(connections > 4, "{connections} connections with {options}");
        std::fs::remove_file(place.path("back")).unwrap();
        place.onego(&format!("nfs rm {}", url_of(&server, "file", "")));
    }
}

#[test]
fn a_client_that_cannot_be_let_in_is_told_why() {
    let place = Place::new();
    let server = start(&place, "");
    // MPA in revision 9: the refusal says which there is (RFC 5044, section 7.1).
    let mut stream = connect(&server);
    stream.write_all(b"MPA ID Req Frame\x00\x09\x00\x00").unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    assert!(said.starts_with(b"MPA ID Rep Frame") && said[16] & 0x20 != 0, "{said:x?}");
    // A segment of no known kind is answered by a Terminate message.
    let mut stream = connect(&server);
    stream.write_all(b"MPA ID Req Frame\x00\x01\x00\x00").unwrap();
    let mut reply = [0; 20];
    stream.read_exact(&mut reply).unwrap();
    let told = u16::from_be_bytes([reply[18], reply[19]]);
    stream.read_exact(&mut vec![0; told.into()]).unwrap();
    stream
        .write_all(&[0, 18, 0x41, 0x4f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0])
        .unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    assert_eq!(said.get(3).map(|control| control & 0xf), Some(7), "{said:x?}");
    // The server is there for others.
    assert_eq!(place.onego(&format!("nfs ls {}", url_of(&server, "", ""))), "");
}

#[test]
fn a_refused_host_is_logged_once() {
    let place = Place::new();
    let line = "nfs serve --mem --tcp 0 --rdma 0 --format json --die-with-parent";
    let mut command = place.command(line);
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let port = serde_json::from_str::<serde_json::Value>(&said).unwrap()["port"].as_u64().unwrap();
    for _ in 0..3 {
        place.onego_fails(&format!("nfs ls nfs://127.0.0.1:{port}/export?noresvport"));
    }
    server.kill().unwrap();
    let logged = String::from_utf8(server.wait_with_output().unwrap().stderr).unwrap();
    let refusals =
        logged.lines().filter(|line| line.contains("calls are refused") && line.contains("--insecure"));
    assert_eq!(refusals.count(), 1, "{logged}");
}
