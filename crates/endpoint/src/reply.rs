//! HTTP replies (RFC 9112, section 4), after which the connection is closed.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    Misdirected,
    HeadTooLarge,
    Unavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::Misdirected => "421 Misdirected Request",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}

pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageReply {
    pub(crate) status: Status,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

impl PageReply {
    pub(crate) fn line(status: Status, body: &str) -> Self {
        Self { status, content_type: TEXT, body: format!("{body}\n") }
    }

    pub(crate) fn refusal(status: Status) -> Self {
        Self::line(status, status.line())
    }

    /// Encodes the reply, or only its head.
    pub(crate) fn into_bytes(self, head_only: bool) -> Vec<u8> {
        let Self { status, content_type, body } = self;
        // RFC 9110, section 15.5.6: the reply must list the allowed methods.
        let allow = if status == Status::MethodNotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
        let (line, length) = (status.line(), body.len());
        let head = format!(
            "HTTP/1.1 {line}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
             Cache-Control: no-store\r\n{allow}Connection: close\r\n\r\n"
        );
        let mut bytes = head.into_bytes();
        if !head_only {
            bytes.extend_from_slice(body.as_bytes());
        }
        bytes
    }
}
