//! Bounded parsing of request heads (RFC 9112, sections 2 to 5).

use crate::reply::Status;
use onego_metrics::Format;
use std::net::IpAddr;

/// Maximum size of a head in bytes. Prometheus sends about 300.
pub(crate) const HEAD_MAX: usize = 8 << 10;

const FIELDS_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageRequest {
    pub(crate) head_only: bool,
    /// Path without the query.
    pub(crate) path: String,
    pub(crate) format: Format,
    /// `Host` is an IP address, `localhost`, or absent.
    pub(crate) host_is_local: bool,
}

impl PageRequest {
    /// Parses a request once its head is complete. An error is the status to reply with.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Self>, Status> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut head = httparse::Request::new(&mut fields);
        match head.parse(bytes) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) if bytes.len() < HEAD_MAX => return Ok(None),
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Err(Status::HeadTooLarge);
            }
            Err(_) => return Err(Status::BadRequest),
        }
        let head_only = match head.method {
            Some("GET") => false,
            Some("HEAD") => true,
            _ => return Err(Status::MethodNotAllowed),
        };
        let target = head.path.unwrap_or_default();
        let path = target.split('?').next().unwrap_or_default().to_owned();
        let accept = head.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("accept"));
        let accept: Vec<_> = accept.map(|field| String::from_utf8_lossy(field.value)).collect();
        let host_is_local = head
            .headers
            .iter()
            .filter(|field| field.name.eq_ignore_ascii_case("host"))
            .all(|host| is_local(host.value));
        Ok(Some(Self { head_only, path, format: Format::of_accept(&accept.join(",")), host_is_local }))
    }
}

/// Returns whether a value of `Host` is an IP address or `localhost`, with or without a port (RFC 3986, section 3.2.2).
fn is_local(host: &[u8]) -> bool {
    let Ok(host) = str::from_utf8(host) else { return false };
    let host = host.trim();
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_parsed_once_its_head_is_complete() {
        let text = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nACCEPT: application/openmetrics-text\r\n\r\n";
        for len in 0..text.len() {
            assert_eq!(PageRequest::read(&text[..len]), Ok(None), "{len}");
        }
        let request = PageRequest {
            head_only: false,
            path: "/metrics".into(),
            format: Format::OpenMetrics,
            host_is_local: false,
        };
        assert_eq!(PageRequest::read(text), Ok(Some(request)));
    }

    #[test]
    fn only_addresses_and_localhost_are_local() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:9719",
            "[::1]:9719",
            "[::1]",
            "10.1.2.3:80",
            "localhost:9719",
            "LOCALHOST",
        ] {
            assert!(is_local(host.as_bytes()), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9719",
            "localhost.evil.example",
            "",
            "127.0.0.1.evil.example",
            "[evil]",
        ] {
            assert!(!is_local(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn invalid_requests_are_rejected() {
        let refused = |text: &[u8]| PageRequest::read(text).unwrap_err();
        assert_eq!(refused(b"\x16\x03\x01\x02\x00\x01\x00"), Status::BadRequest);
        assert_eq!(refused(b"GET / HTTP/9.9\r\n\r\n"), Status::BadRequest);
        assert_eq!(refused(b"POST /metrics HTTP/1.1\r\n\r\n"), Status::MethodNotAllowed);
        assert_eq!(refused(&[b"GET /".as_slice(), &[b'a'; HEAD_MAX]].concat()), Status::HeadTooLarge);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(FIELDS_MAX + 1));
        assert_eq!(refused(many.as_bytes()), Status::HeadTooLarge);
    }
}
