//! One request of HTTP, bounded.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a process may take to be reached, and to send something.
const PATIENCE: Duration = Duration::from_secs(5);

/// Most bytes of a reply: those of thousands of exports.
const REPLY_MAX: u64 = 64 << 20;

/// The metrics of a process.
pub(super) fn metrics(addr: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: {addr}\r\nAccept: text/plain\r\nConnection: close\r\n\r\n"
    )?;
    let mut reply = String::new();
    stream.take(REPLY_MAX).read_to_string(&mut reply)?;
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let (head, body) = reply.split_once("\r\n\r\n").ok_or_else(|| invalid("it does not answer by HTTP"))?;
    match head.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => Err(invalid(&format!("it has no metrics: {}", head.lines().next().unwrap_or_default()))),
    }
}
