//! `onego export nbd`, up to its clients.

use crate::support::{Place, signal};
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that has said it is ready, with what it said.
fn serve(place: &Place, line: &str) -> (Child, String) {
    ready(place.command(line).stdout(Stdio::piped()).spawn().unwrap())
}

/// The same of one that was started.
fn ready(mut child: Child) -> (Child, String) {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let ready = lines.into_iter().find_map(|line| line.strip_prefix("ready: ").map(str::to_owned));
    (child, ready.expect("the server does not start"))
}

/// Ends it, and says with which code it ended.
fn stop(mut child: Child) -> Option<i32> {
    signal(&child, Signal::TERM);
    child.wait().unwrap().code()
}

/// Does a server of NBD greet there (nbd proto.md, 'Newstyle negotiation')?
fn greets(mut stream: impl std::io::Read) {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
}

#[test]
fn memory_is_served_over_tcp_until_a_signal_comes() {
    let place = Place::new();
    let (server, uri) = serve(&place, "export nbd mem:16M --listen 127.0.0.1:0");
    let addr = uri.strip_prefix("nbd://").unwrap().strip_suffix("/mem").unwrap();
    greets(TcpStream::connect(addr).unwrap());
    assert_eq!(stop(server), Some(0));
    assert!(TcpStream::connect(addr).is_err());
}

#[test]
fn a_unix_socket_is_made_replaced_when_left_and_removed() {
    let place = Place::new();
    let line = "export nbd null:1G --socket nbd.sock --reactors 2";
    let (mut server, uri) = serve(&place, line);
    assert_eq!(uri, "nbd+unix:///null?socket=nbd.sock");
    for _ in 0..8 {
        greets(UnixStream::connect(place.path("nbd.sock")).unwrap());
    }
    // One that is served is not taken away.
    let (code, said) = place.onego_fails(line);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("is another server there?"), "{said}");
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(place.path("nbd.sock").exists());
    let (server, _) = serve(&place, line);
    greets(UnixStream::connect(place.path("nbd.sock")).unwrap());
    assert_eq!(stop(server), Some(0));
    assert!(!place.path("nbd.sock").exists());
}

#[test]
fn what_is_no_socket_is_not_replaced_by_one() {
    let place = Place::new();
    let image = vec![7; 1 << 20];
    std::fs::write(place.path("a.bin"), &image).unwrap();
    std::os::unix::fs::symlink("a.bin", place.path("link")).unwrap();
    std::os::unix::fs::symlink("nothing", place.path("dangling")).unwrap();
    std::fs::create_dir(place.path("folder")).unwrap();
    for at in ["a.bin", "link", "dangling", "folder"] {
        for line in ["nbd mem:1M", "vhost-user mem:1M", "nbd a.bin", "vhost-user a.bin"] {
            let (code, said) = place.onego_fails(&format!("export {line} --socket {at}"));
            assert!(code == 2 && said.contains("no socket"), "{line} at {at}: {code}, {said}");
        }
        assert!(place.path(at).symlink_metadata().is_ok_and(|found| !found.file_type().is_socket()), "{at}");
    }
    assert_eq!(std::fs::read(place.path("link")).unwrap(), image);
}

#[test]
fn a_disk_is_not_served_without_its_last_bytes() {
    let place = Place::new();
    for size in [0, 100, 1_000_003] {
        std::fs::write(place.path("disk.img"), vec![7; size]).unwrap();
        let (code, said) = place.onego_fails("export vhost-user disk.img --socket disk.sock");
        assert!(
            code == 5 && said.contains(&format!("{size} bytes")) && said.contains("NBD"),
            "{code}: {said}"
        );
    }
}

#[test]
fn a_file_that_took_the_place_of_a_socket_stays() {
    let place = Place::new();
    let (server, _) = serve(&place, "export nbd null:1G --socket nbd.sock");
    std::fs::remove_file(place.path("nbd.sock")).unwrap();
    std::fs::write(place.path("nbd.sock"), "precious").unwrap();
    assert_eq!(stop(server), Some(0));
    assert_eq!(std::fs::read_to_string(place.path("nbd.sock")).unwrap(), "precious");
}

#[test]
fn sockets_of_the_service_manager_are_served_and_left() {
    let place = Place::new();
    let unix = UnixListener::bind(place.path("passed.sock")).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    // A service manager names the process and how many sockets it has, from descriptor 3 on (systemd sd_listen_fds(3)).
    let serves = |options: &str, stdin: OwnedFd| {
        let mut shell = Command::new("sh");
        let line =
            format!("LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" export nbd null:1M {options} 3<&0 0</dev/null");
        shell.args(["-c", &line]).arg(place.command("").get_program()).current_dir(place.path("."));
        shell.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    };
    let (server, uri) = ready(serves("", unix.try_clone().unwrap().into()).spawn().unwrap());
    assert!(uri.starts_with("nbd+unix:///null?socket=") && uri.ends_with("passed.sock"), "{uri}");
    greets(UnixStream::connect(place.path("passed.sock")).unwrap());
    assert_eq!(stop(server), Some(0));
    assert!(place.path("passed.sock").exists(), "the path is the service manager's");
    let (server, uri) = ready(serves("", tcp.try_clone().unwrap().into()).spawn().unwrap());
    assert_eq!(uri, format!("nbd://127.0.0.1:{port}/null"));
    greets(TcpStream::connect(("127.0.0.1", port)).unwrap());
    assert_eq!(stop(server), Some(0));
    // It says what it cannot do.
    let (one, other) = UnixStream::pair().unwrap();
    for (options, socket, words) in [
        ("--listen 127.0.0.1:0", OwnedFd::from(tcp), "leave out --listen"),
        ("", one.into(), "no listening stream socket"),
    ] {
        let output = serves(options, socket).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
    drop(other);
    // What was meant for another process is none of its business.
    let mut command = place.command("export nbd null:1M --listen 127.0.0.1:0");
    command.env("LISTEN_PID", "1").env("LISTEN_FDS", "1");
    let (server, _) = ready(command.stdout(Stdio::piped()).spawn().unwrap());
    assert_eq!(stop(server), Some(0));
}

#[test]
fn a_service_manager_learns_that_a_server_is_ready_and_ends() {
    let place = Place::new();
    let manager = UnixDatagram::bind(place.path("notify.sock")).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let said = || {
        let mut bytes = [0; 64];
        let length = manager.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].into()).unwrap()
    };
    for line in [
        "export nbd null:1M --socket nbd.sock",
        "export vhost-user null:1M --socket vhost.sock",
        "nfs serve --mem --tcp 0",
        "cluster start --conf-dir .",
    ] {
        let mut command = place.command(line);
        command.env("NOTIFY_SOCKET", place.path("notify.sock")).stdout(Stdio::null());
        let server = command.spawn().unwrap();
        assert_eq!(said().trim_end(), "READY=1", "{line}");
        assert_eq!(stop(server), Some(0), "{line}");
        assert_eq!(said().trim_end(), "STOPPING=1", "{line}");
    }
}

#[test]
fn limits_bound_what_clients_do_a_second() {
    let place = Place::new();
    for (limit, seconds) in [("--limit-iops 50,10", 0.6), ("--limit-total-bps 100K,10K", 1.5)] {
        let (server, uri) = serve(&place, &format!("export nbd null:1M --listen 127.0.0.1:0 {limit}"));
        let mut stream =
            TcpStream::connect(uri.strip_prefix("nbd://").unwrap().strip_suffix("/null").unwrap()).unwrap();
        greets(&stream);
        // The flags, and the option that chooses the default export; it is answered by size, flags and nothing more.
        stream.write_all(&[&[0, 0, 0, 3], &b"IHAVEOPT"[..], &[0, 0, 0, 1, 0, 0, 0, 0]].concat()).unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        let begun = Instant::now();
        for cookie in 0..40_u64 {
            // Reads of 4 KiB.
            let request =
                [&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, 0][..], &cookie.to_be_bytes(), &[0; 8], &[0, 0, 16, 0]];
            stream.write_all(&request.concat()).unwrap();
        }
        stream.read_exact(&mut [0; 40 * (16 + 4096)]).unwrap();
        let took = begun.elapsed().as_secs_f64();
        // A debt may be left at the end.
        assert!(took > seconds * 0.9 && took < seconds + 3.0, "{limit}: {took} s");
        assert_eq!(stop(server), Some(0));
    }
}

#[test]
fn images_are_named_by_their_path_and_kept_in_use() {
    let place = Place::with_cluster("");
    place.onego("rbd create disk --size 16M");
    let (server, uri) = serve(&place, "export nbd rbd:disk mem:1M --listen 127.0.0.1:0");
    assert!(uri.ends_with("/rbd/disk"), "{uri}");
    let (code, said) = place.onego_fails("rbd rm disk");
    assert!(said.contains("in use"), "{code}: {said}");
    assert_eq!(stop(server), Some(0));
    // It was given up with the server, and nobody waits for its watch to time out.
    place.onego("rbd rm disk");
}

#[test]
fn all_images_of_a_pool_are_served_by_name() {
    let place = Place::with_cluster("");
    for image in ["one", "two", "three"] {
        place.onego(&format!("rbd create {image} --size 16M"));
    }
    let (server, uri) = serve(&place, "export nbd rbd:rbd/ --listen 127.0.0.1:0");
    for image in ["one", "two", "three"] {
        // It is there, of that size, and empty.
        place.onego(&format!("cp {uri}rbd/{image} {image}.raw"));
        assert_eq!(std::fs::metadata(place.path(&format!("{image}.raw"))).unwrap().len(), 16 << 20);
    }
    assert_eq!(place.onego_fails(&format!("cp {uri}rbd/four four.raw")).0, 3);
    assert_eq!(stop(server), Some(0));
}

#[test]
fn what_cannot_be_served_is_refused_with_its_code() {
    let place = Place::with_cluster("");
    for (line, code, words) in [
        ("export nbd disk", 3, "disk"),
        ("export nbd mem:0", 2, "mem:0"),
        ("export nbd mem:1M mem:2M --listen 127.0.0.1:0", 2, "already"),
        ("export nbd mem:1M --reactors 2 --listen 127.0.0.1:0", 2, "one thread"),
        ("export nbd rbd:nosuch --listen 127.0.0.1:0", 3, "nosuch"),
        ("export nbd rbd:nopool/disk --listen 127.0.0.1:0", 3, "nopool"),
        ("export nbd mem:1M --tls-cert ceph.conf", 2, "--tls-key"),
        ("export nbd mem:1M --tls-cert nosuch.pem --tls-key nosuch.key", 1, "nosuch.key"),
        ("export nbd mem:1M --tls-cert ceph.conf --tls-key ceph.conf", 2, "no certificate"),
        ("export nbd mem:1M --tls require", 2, "--tls-cert"),
        ("export nbd null:1M --limit-iops 0 --listen 127.0.0.1:0", 2, "at least 1"),
        ("export nbd null:1M --limit-bps 1M --reactors 2 --listen 127.0.0.1:0", 2, "one thread"),
        ("export nbd mem:1M --socket /nosuch/folder/sock", 1, "socket"),
    ] {
        let (got, said) = place.onego_fails(line);
        assert_eq!(got, code, "{line}: {said}");
        assert!(said.contains(words), "{line}: {said}");
    }
}
