//! What a cluster's refusals are called by Ceph's programs.

use crate::failure::Failure;
use onego::ceph::{Errno, Error};
use std::fmt::Display;
use std::io;

/// The number by which librados would say an error; `None`: it has none for it.
pub(crate) fn number(error: &Error) -> Option<i32> {
    Some(match error {
        Error::NotFound { .. } => Errno::NOENT.0,
        Error::Exists { .. } => Errno::EXIST.0,
        Error::Busy { .. } => Errno::BUSY.0,
        Error::Refused { errno, .. } | Error::Command { errno, .. } => errno.0,
        Error::Protocol(error) => -error.errno(),
        Error::NoAnswer { .. } => Errno::TIMEDOUT.0,
        Error::Auth(_) => Errno::ACCES.0,
        _ => return None,
    })
}

/// A number and what it says: "(2) No such file or directory".
pub(crate) fn sentence(number: i32) -> String {
    let said = io::Error::from_raw_os_error(number).to_string();
    let said = said.strip_suffix(&format!(" (os error {number})")).map(str::to_owned).unwrap_or(said);
    format!("({number}) {said}")
}

/// The names of numbers from 0 on, as Linux has them and Python spells them.
#[rustfmt::skip]
const NAMES: [&str; 134] = [
    "", "EPERM", "ENOENT", "ESRCH", "EINTR", "EIO", "ENXIO", "E2BIG", "ENOEXEC", "EBADF", "ECHILD",
    "EAGAIN", "ENOMEM", "EACCES", "EFAULT", "ENOTBLK", "EBUSY", "EEXIST", "EXDEV", "ENODEV", "ENOTDIR",
    "EISDIR", "EINVAL", "ENFILE", "EMFILE", "ENOTTY", "ETXTBSY", "EFBIG", "ENOSPC", "ESPIPE", "EROFS",
    "EMLINK", "EPIPE", "EDOM", "ERANGE", "EDEADLOCK", "ENAMETOOLONG", "ENOLCK", "ENOSYS", "ENOTEMPTY",
    "ELOOP", "", "ENOMSG", "EIDRM", "ECHRNG", "EL2NSYNC", "EL3HLT", "EL3RST", "ELNRNG", "EUNATCH",
    "ENOCSI", "EL2HLT", "EBADE", "EBADR", "EXFULL", "ENOANO", "EBADRQC", "EBADSLT", "", "EBFONT", "ENOSTR",
    "ENODATA", "ETIME", "ENOSR", "ENONET", "ENOPKG", "EREMOTE", "ENOLINK", "EADV", "ESRMNT", "ECOMM",
    "EPROTO", "EMULTIHOP", "EDOTDOT", "EBADMSG", "EOVERFLOW", "ENOTUNIQ", "EBADFD", "EREMCHG", "ELIBACC",
    "ELIBBAD", "ELIBSCN", "ELIBMAX", "ELIBEXEC", "EILSEQ", "ERESTART", "ESTRPIPE", "EUSERS", "ENOTSOCK",
    "EDESTADDRREQ", "EMSGSIZE", "EPROTOTYPE", "ENOPROTOOPT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT",
    "ENOTSUP", "EPFNOSUPPORT", "EAFNOSUPPORT", "EADDRINUSE", "EADDRNOTAVAIL", "ENETDOWN", "ENETUNREACH",
    "ENETRESET", "ECONNABORTED", "ECONNRESET", "ENOBUFS", "EISCONN", "ENOTCONN", "ESHUTDOWN",
    "ETOOMANYREFS", "ETIMEDOUT", "ECONNREFUSED", "EHOSTDOWN", "EHOSTUNREACH", "EALREADY", "EINPROGRESS",
    "ESTALE", "EUCLEAN", "ENOTNAM", "ENAVAIL", "EISNAM", "EREMOTEIO", "EDQUOT", "ENOMEDIUM", "EMEDIUMTYPE",
    "ECANCELED", "ENOKEY", "EKEYEXPIRED", "EKEYREVOKED", "EKEYREJECTED", "EOWNERDEAD", "ENOTRECOVERABLE",
    "ERFKILL", "",
];

/// A number's name, like "ENOENT".
pub(crate) fn name(number: i32) -> &'static str {
    let name = usize::try_from(number).ok().and_then(|index| NAMES.get(index));
    name.filter(|name| !name.is_empty()).unwrap_or(&"Unknown")
}

/// How a command that Ceph's programs have ends: with their words and code 1.
pub(crate) fn failed(said: impl Into<String>) -> Failure {
    Failure::AsCeph { code: 1, said: said.into() }
}

/// A failure in which Ceph's programs say what they tried and what the cluster answered.
pub(crate) fn because(what: impl Display) -> impl FnOnce(Error) -> Failure {
    move |error| match number(&error) {
        Some(number) => failed(format!("{what}: {}", sentence(number))),
        None => error.into(),
    }
}

/// The same, with the line by which `rados` ends where it goes on after the words.
pub(crate) fn because_twice(what: impl Display) -> impl FnOnce(Error) -> Failure {
    move |error| match number(&error) {
        Some(number) => failed(format!("{what}: {0}\nerror {number}: {0}", sentence(number))),
        None => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_said_as_ceph_says_them() {
        assert_eq!(sentence(2), "(2) No such file or directory");
        assert_eq!([name(2), name(110), name(0), name(9999)], ["ENOENT", "ETIMEDOUT", "Unknown", "Unknown"]);
        let missing = Error::NotFound { what: "object a".into() };
        let Failure::AsCeph { code, said } = because_twice("error getting a")(missing) else {
            panic!("it has a number");
        };
        assert_eq!(code, 1);
        let expected =
            "error getting a: (2) No such file or directory\nerror 2: (2) No such file or directory";
        assert_eq!(said, expected);
    }
}
