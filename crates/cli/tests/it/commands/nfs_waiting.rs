//! What `onego` says while it waits for a server of files: for which, and why.

use crate::support::{FileServer, Place};
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, Stdio};

/// A command that writes to standard error what it waits for.
struct Waiter {
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Waiter {
    fn start(place: &Place, line: &str) -> Self {
        let mut command = place.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        Self { child, said }
    }

    /// The next line that says what is waited for.
    fn waits_for(&mut self) -> String {
        let lines = self.said.by_ref().lines().map_while(Result::ok);
        let mut waiting = lines.skip_while(|line| !line.contains("waiting for"));
        waiting.next().expect("the command ended without a word")
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_port_where_nobody_listens_is_named_at_once() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let (code, said) = place.onego_fails(&format!("nfs ls nfs://127.0.0.1:{port}/export"));
    assert_eq!(code, 7, "{said}");
    assert!(said.contains(&format!("127.0.0.1:{port}")) && said.contains("refused"), "{said}");
}

#[test]
fn a_listener_that_never_answers_is_waited_for_by_name() {
    let place = Place::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    for line in ["nfs ls", "bench nfs --no-floor --server"] {
        let mut waiter = Waiter::start(&place, &format!("{line} nfs://127.0.0.1:{port}/export"));
        let said = waiter.waits_for();
        assert!(said.contains(&format!("a reply of the MOUNT server at 127.0.0.1:{port}")), "{line}: {said}");
        assert!(said.ends_with("because it has not answered the call"), "{line}: {said}");
    }
}

#[test]
fn a_server_that_hangs_or_is_gone_while_a_file_is_written_is_named_with_the_reason() {
    let place = Place::new();
    let mut server = FileServer::start(&place, "");
    let port = server.port("port");
    let mut waiter = Waiter::start(&place, &format!("nfs put - nfs://127.0.0.1:{port}/export/file"));
    let mut input = waiter.child.stdin.take().unwrap();
    let piece = vec![7; 4 << 20];
    input.write_all(&piece).unwrap();
    server.signal(Signal::STOP);
    // It ends when the command does.
    std::thread::spawn(move || while input.write_all(&piece).is_ok() {});
    let said = waiter.waits_for();
    assert!(said.contains(&format!("a reply of the NFS server at 127.0.0.1:{port}")), "{said}");
    assert!(said.ends_with("because it has not answered the call"), "{said}");
    server.kill();
    let said = waiter.waits_for();
    assert!(said.contains(&format!("a connection to the NFS server at 127.0.0.1:{port}")), "{said}");
    assert!(said.contains("because the last connection failed") && said.contains("refused"), "{said}");
}

#[test]
fn a_reader_that_is_slow_to_take_what_has_come_is_not_said_to_wait() {
    let place = Place::new();
    let server = FileServer::start(&place, "");
    let url = server.url("file");
    std::fs::write(place.path("file"), vec![7; 64 << 20]).unwrap();
    place.onego(&format!("nfs put file {url}"));
    let mut waiter = Waiter::start(&place, &format!("nfs cat {url}"));
    std::thread::sleep(std::time::Duration::from_secs(4));
    let mut content = Vec::new();
    waiter.child.stdout.take().unwrap().read_to_end(&mut content).unwrap();
    assert_eq!(content.len(), 64 << 20);
    let mut said = String::new();
    waiter.said.read_to_string(&mut said).unwrap();
    assert!(!said.contains("waiting"), "{said}");
}
