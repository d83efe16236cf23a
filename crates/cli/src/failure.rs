//! Why a command failed, what the user is told, and the code that the program ends with.

use crate::nbd_driver::DriverError;
use crate::signal;
use onego::ErrorKind;
use onego::ceph::{Config, Errno};
use onego::nfs::MountStatus;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use thiserror::Error;

/// What `onego --help` says about exit codes.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    failed: a file, the network, this machine
  2    the command line makes no sense
  3    a pool, image or file that is named does not exist
  4    what is to be made exists already
  5    the cluster or server refused, or does not support it
  6    verification found other bytes than were written
  7    the cluster or server does not answer
  130  interrupted (SIGINT); 143: terminated (SIGTERM)
  141  nobody reads the output any more

Called \"rbd\", \"rados\" or \"ceph\" (by a link), it accepts the command lines of Ceph's program of that name; as \"rbd\" it exits with the error's number.

Example:
  onego demo";

/// The code that the program ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    Exists = 4,
    Refused = 5,
    Corrupt = 6,
    NoAnswer = 7,
    Interrupted = 130,
    Unread = 141,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// Why a command failed.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Client(#[from] onego::ceph::Error),
    #[error(
        "no monitor has answered within {waited:?} at {addresses}: is the cluster up, and are these its addresses?"
    )]
    NoAnswer { addresses: String, waited: Duration },
    #[error(transparent)]
    Nfs(#[from] onego::nfs::Error),
    #[error(transparent)]
    Bench(#[from] onego_bench::Error),
    #[error(transparent)]
    Server(#[from] onego_cluster::Error),
    #[error(transparent)]
    Copy(#[from] onego::block::copy::CopyError),
    #[error(transparent)]
    Nbd(#[from] onego::block::NbdError),
    #[error(transparent)]
    Disk(#[from] onego_disk::OpenError),
    #[error(transparent)]
    NfsServer(#[from] onego_nfs_server::Error),
    #[error("cannot read metrics at {addr}: {source}")]
    Metrics { addr: std::net::SocketAddr, source: io::Error },
    #[error(transparent)]
    Endpoint(#[from] onego_endpoint::EndpointError),
    #[error(transparent)]
    Ublk(#[from] onego_ublk::Error),
    #[error(transparent)]
    PartialBlock(#[from] onego::block::PartialBlock),
    #[error(transparent)]
    NbdDriver(#[from] DriverError),
    /// A block device cannot be made, or not be removed.
    #[error("{0}")]
    Device(String),
    /// What is to be removed is not there.
    #[error("{0}")]
    NotMapped(String),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("{what}: {source}")]
    Io { what: &'static str, source: io::Error },
    #[error("writing to standard output: {0}")]
    Output(io::Error),
    /// A signal has asked the program to end.
    #[error("interrupted")]
    Interrupted,
    /// The source of a command is an image that an import or copy has not finished.
    #[error(
        "image {image} is incomplete ({state}): finish it with --resume of the command that fills it, such as \"onego rbd import\" or \
         \"onego cp\", or read it as it is with --allow-incomplete"
    )]
    Incomplete { image: String, state: String },
    /// The command line can be read, but not be done.
    #[error("{0}")]
    Usage(String),
    #[error(
        "verification failed: {0} blocks do not hold what was written to them, or could not be read or written"
    )]
    Corrupt(u64),
    #[error("{0} requests failed")]
    Requests(u64),
    /// A command that Ceph's programs have failed as theirs does: with their words and their code. No words: all is said.
    #[error("{said}")]
    AsCeph { code: u8, said: String },
}

impl Failure {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }

    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    /// Says where nobody answered, if that is what the failure is.
    pub(crate) fn at(config: &Config) -> impl Fn(onego_bench::Error) -> Self {
        let addresses = config.monitors.iter().map(|monitor| monitor.addrs.to_string());
        let addresses = addresses.collect::<Vec<_>>().join(", ");
        move |error| match error {
            onego_bench::Error::Client(onego::ceph::Error::NoAnswer { waited, waiting: None }) => {
                Self::NoAnswer { addresses: addresses.clone(), waited }
            }
            other => other.into(),
        }
    }

    /// Is there nobody to be told? A reader that stops reading, as `head` does, knows.
    pub(crate) fn is_quiet(&self) -> bool {
        self.code() == Code::Unread || (self.code() == Code::Interrupted && signal::is_unread())
    }

    /// Returns whether an image is to blame, as one with a damaged header is: others can be looked at.
    pub(crate) fn is_of_one_image(&self) -> bool {
        use ErrorKind as K;
        let Self::Client(error) = self else { return false };
        !matches!(error.kind(), K::TimedOut | K::Disconnected | K::Closed | K::System)
    }

    /// How the program ends.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match (self, self.code()) {
            (Self::AsCeph { code, .. }, _) => (*code).into(),
            (_, Code::Interrupted) => signal::exit_code().into(),
            (_, code) => code.into(),
        }
    }

    /// The code that the program ends with.
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Client(error) | Self::Bench(onego_bench::Error::Client(error)) => code_of(error),
            Self::Nfs(error) | Self::Bench(onego_bench::Error::Nfs(error)) => code_of_nfs(error),
            Self::File { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => Code::Exists,
            Self::Bench(onego_bench::Error::Unfit(_)) | Self::Usage(_) => Code::Usage,
            Self::Interrupted | Self::Bench(onego_bench::Error::Interrupted) => Code::Interrupted,
            Self::Output(source) if source.kind() == io::ErrorKind::BrokenPipe => Code::Unread,
            Self::Corrupt(_) => Code::Corrupt,
            Self::NoAnswer { .. } => Code::NoAnswer,
            Self::NfsServer(onego_nfs_server::Error::Path(_)) => Code::Usage,
            Self::Ublk(onego_ublk::Error::NotPermitted(_))
            | Self::NbdDriver(DriverError::NotPermitted)
            | Self::PartialBlock(_)
            | Self::Incomplete { .. }
            | Self::Device(_) => Code::Refused,
            Self::Ublk(onego_ublk::Error::NoDevice(_)) | Self::NotMapped(_) => Code::NotFound,
            Self::Disk(error) => code_of_disk(error),
            Self::Nbd(error) => code_of_nbd(error),
            Self::Copy(error) => code_of_copy(error),
            Self::Server(_)
            | Self::Ublk(_)
            | Self::NbdDriver(_)
            | Self::NfsServer(_)
            | Self::Endpoint(_)
            | Self::Metrics { .. }
            | Self::File { .. }
            | Self::Io { .. }
            | Self::Output(_)
            | Self::Bench(_)
            | Self::Requests(_)
            | Self::AsCeph { .. } => Code::Failed,
        }
    }

    /// How the program ends if it is called as Ceph's own `rbd`: with the number of the error.
    pub(crate) fn rbd_exit_code(&self) -> ExitCode {
        let number = match self {
            Self::Client(error) => rbd_number(error),
            Self::Usage(_) => Errno::INVAL.0,
            Self::NoAnswer { .. } => Errno::TIMEDOUT.0,
            Self::File { source, .. } | Self::Io { source, .. } => source.raw_os_error().unwrap_or(1),
            _ => return self.exit_code(),
        };
        ExitCode::from(u8::try_from(number).unwrap_or(1))
    }

    /// What went wrong, with what, and what can be done about it, in one line.
    pub(crate) fn sentence(&self) -> String {
        let advice = match self {
            Self::Client(error) | Self::Bench(onego_bench::Error::Client(error)) => advice_on(error),
            Self::Disk(onego_disk::OpenError::Backing { .. }) => {
                Some("if you trust the file, open those that it names with --follow-backing-files")
            }
            Self::Disk(onego_disk::OpenError::Container { .. }) => {
                Some("convert it with \"qemu-img convert -O raw\" if QEMU can read it")
            }
            // Errors of this program say it themselves.
            Self::File { source, .. }
                if source.kind() == io::ErrorKind::AlreadyExists && source.get_ref().is_none() =>
            {
                Some("remove it, or choose another name")
            }
            _ => None,
        };
        let said = match self {
            Self::Client(onego::ceph::Error::Command { what, status, errno }) => {
                let because = if status.is_empty() { &errno.to_string() } else { status };
                format!("{}: {because}", command_name(what))
            }
            other => other.to_string(),
        };
        let text = match advice {
            Some(advice) => format!("{said}: {advice}"),
            None => said,
        };
        // Names come from the network: none may change the terminal.
        let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
        text.replace('\n', " ").chars().map(shown).collect()
    }
}

/// What people call a command to the monitors, which is JSON with its name in it.
fn command_name(json: &str) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_str(json).ok();
    let prefix = parsed.as_ref().and_then(|command| command.get("prefix")).and_then(|prefix| prefix.as_str());
    prefix.unwrap_or(json).to_owned()
}

/// What a cluster answers that could do what is asked, and will not: EPERM, EACCES, ENOSPC, EROFS, EDQUOT.
const REFUSALS: [i32; 5] = [-1, -13, -28, -30, -122];

/// The number by which `rbd` ends on such an error.
fn rbd_number(error: &onego::ceph::Error) -> i32 {
    use onego::ceph::Error as E;
    match error {
        E::NotFound { .. } => Errno::NOENT.0,
        E::Exists { .. } => Errno::EXIST.0,
        E::Busy { .. } => Errno::BUSY.0,
        E::Snapshots { .. } => Errno::NOTEMPTY.0,
        E::Unmet { errno, .. } | E::Refused { errno, .. } | E::Command { errno, .. } => errno.0,
        E::Protocol(error) if error.errno() < 0 => -error.errno(),
        E::Features { .. } => Errno::NOSYS.0,
        E::Encryption { source, .. } => source.errno().0,
        error if error.kind() == ErrorKind::TimedOut => Errno::TIMEDOUT.0,
        error if error.kind() == ErrorKind::Busy => Errno::ROFS.0,
        error if error.kind() == ErrorKind::InvalidInput => Errno::INVAL.0,
        _ => 1,
    }
}

fn code_of(error: &onego::ceph::Error) -> Code {
    use onego::ceph::Error as E;
    match error {
        E::NotFound { .. } | E::Command { errno: Errno::NOENT, .. } => Code::NotFound,
        E::Exists { .. } | E::Command { errno: Errno::EXIST, .. } => Code::Exists,
        E::Auth(_)
        | E::Refused { .. }
        | E::Command { .. }
        | E::Busy { .. }
        | E::Unmet { .. }
        | E::Snapshots { .. }
        | E::Features { .. } => Code::Refused,
        error @ E::Encryption { .. } if error.kind() == ErrorKind::PermissionDenied => Code::Refused,
        E::Protocol(error) if REFUSALS.contains(&error.errno()) => Code::Refused,
        error if error.kind() == ErrorKind::TimedOut => Code::NoAnswer,
        E::Invalid(_) | E::Layout(_) => Code::Usage,
        _ => Code::Failed,
    }
}

fn code_of_nfs(error: &onego::nfs::Error) -> Code {
    use onego::nfs::{CallError, Error as E, Status as S};
    match error {
        E::Call { source: CallError::Failed(status), .. } => match status {
            S::Noent | S::Stale => Code::NotFound,
            S::Exist => Code::Exists,
            S::Io | S::Serverfault => Code::Failed,
            _ => Code::Refused,
        },
        E::Call { source: CallError::Unreachable { .. } | CallError::NoReply { .. }, .. } => Code::NoAnswer,
        E::Call { source: CallError::Denied(_) | CallError::Refused(_), .. } => Code::Refused,
        E::NoProgram { .. } | E::Resolve { .. } => Code::NoAnswer,
        E::Mount { status: MountStatus::Noent, .. } => Code::NotFound,
        E::Mount { .. } | E::Loop { .. } => Code::Refused,
        E::Url { .. } | E::Invalid(_) => Code::Usage,
        _ => Code::Failed,
    }
}

fn code_of_nbd(error: &onego::block::NbdError) -> Code {
    use onego::block::{ClientError as C, NbdError as E};
    match error {
        E::Url { .. } => Code::Usage,
        E::Resolve { .. } => Code::NoAnswer,
        E::Server { source, .. } => match source {
            C::Unreachable(_) | C::Silent => Code::NoAnswer,
            C::NoExport { .. } => Code::NotFound,
            C::TlsRequired | C::NoTls { .. } | C::Tls(_) | C::TlsEnded | C::Refused { .. } => Code::Refused,
            _ => Code::Failed,
        },
        _ => Code::Failed,
    }
}

fn code_of_copy(error: &onego::block::copy::CopyError) -> Code {
    use onego::block::Error as E;
    use onego::block::copy::CopyError as C;
    let source = match error {
        C::Device { source, .. } | C::Flush(source) => source,
        C::TooSmall { .. } | C::ReadOnly => return Code::Usage,
        _ => return Code::Failed,
    };
    match source {
        E::ReadOnly | E::NotPermitted(_) | E::NoSpace(_) => Code::Refused,
        E::TimedOut(_) => Code::NoAnswer,
        _ => Code::Failed,
    }
}

fn code_of_disk(error: &onego_disk::OpenError) -> Code {
    use onego_disk::OpenError as E;
    match error {
        E::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => Code::NotFound,
        E::Kind(_) => Code::Usage,
        E::Busy(_) | E::Backing { .. } => Code::Refused,
        _ => Code::Failed,
    }
}

fn advice_on(error: &onego::ceph::Error) -> Option<&'static str> {
    use onego::ceph::Error as E;
    match error {
        E::NotFound { what } if what.starts_with("pool") => {
            Some("\"onego pool ls\" shows the pools, \"onego pool create\" makes one")
        }
        E::NotFound { what } if what.ends_with("in the trash") => {
            Some("\"onego rbd trash ls POOL\" shows the ids of a pool's trash")
        }
        E::NotFound { what } if what.starts_with("image") => {
            Some("\"onego rbd ls POOL\" shows a pool's images")
        }
        E::Exists { what } if what.starts_with("image") => {
            Some("choose another name, or remove it with \"onego rbd rm\"")
        }
        E::Busy { reason, .. } if reason.ends_with("has it open") => Some(
            "close it there; after a crash, wait until its watch ends (osd_client_watch_timeout, 30 s), or shut it out at once \
                 by \"ceph osd blocklist add ADDRESS\"",
        ),
        E::Config { .. } => Some("name the cluster's ceph.conf with --conf, or its monitors with --mon-host"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_code_of_their_kind_and_say_what_to_do() {
        let advice = "\"rbd snap purge\" removes them".to_owned();
        let (image, count) = ("image rbd/disk".to_owned(), 2);
        let full = Failure::from(onego::ceph::Error::Snapshots { image, count, advice });
        assert_eq!(full.code(), Code::Refused);
        // It need not be closed anywhere.
        assert_eq!(full.sentence(), "image rbd/disk has 2 snapshots; \"rbd snap purge\" removes them");
        let reason = "client.4123 at 10.0.0.7:0/17 has it open".to_owned();
        let busy = Failure::from(onego::ceph::Error::Busy { what: "image rbd/disk".into(), reason });
        assert_eq!(busy.code(), Code::Refused);
        assert!(busy.sentence().contains("\"ceph osd blocklist add ADDRESS\""), "{}", busy.sentence());
        let missing = Failure::from(onego::ceph::Error::NotFound { what: "image 7 in the trash".into() });
        assert!(
            missing.sentence().contains("does not exist: \"onego rbd trash ls"),
            "{}",
            missing.sentence()
        );
        let own = io::Error::new(io::ErrorKind::AlreadyExists, "it is not ours: remove it");
        assert_eq!(Failure::file(Path::new("f"))(own).sentence(), "f: it is not ours: remove it");
        let missing = Failure::from(onego::ceph::Error::NotFound { what: "pool nowhere".into() });
        assert_eq!(missing.code(), Code::NotFound);
        assert!(missing.sentence().starts_with("pool nowhere does not exist: \"onego pool ls\""));

        let there = Failure::file(Path::new("a.raw"))(io::ErrorKind::AlreadyExists.into());
        assert_eq!(there.code(), Code::Exists);
        let unreadable = Failure::file(Path::new("a.raw"))(io::ErrorKind::PermissionDenied.into());
        assert_eq!(unreadable.code(), Code::Failed);
        assert!(unreadable.sentence().starts_with("a.raw: "));
        let evil = Failure::file(Path::new("\u{1b}[2J"))(io::ErrorKind::PermissionDenied.into());
        assert!(evil.sentence().starts_with("\\u{1b}[2J: "), "{}", evil.sentence());
    }

    #[test]
    fn called_as_rbd_the_program_ends_with_the_number_of_the_error() {
        use onego::ceph::Error as E;
        let what = || "snapshot disk@monday".to_owned();
        for (error, number) in [
            (E::NotFound { what: what() }, 2),
            (E::Busy { what: what(), reason: String::new() }, 16),
            (E::Exists { what: what() }, 17),
            (E::Invalid(what()), 22),
            (E::Snapshots { image: what(), count: 1, advice: String::new() }, 39),
            (E::Unmet { what: what(), errno: Errno::DQUOT }, 122),
        ] {
            assert_eq!(Failure::from(error).rbd_exit_code(), ExitCode::from(number), "{number}");
        }
        assert_eq!(Failure::Usage(String::new()).rbd_exit_code(), ExitCode::from(22));
    }

    #[test]
    fn commands_are_called_by_their_names() {
        let refused = Failure::from(onego::ceph::Error::Command {
            what: r#"{"ids":["9"],"prefix":"osd stop"}"#.into(),
            status: "there is no osd.9".into(),
            errno: onego::ceph::Errno::NOENT,
        });
        assert_eq!(refused.sentence(), "osd stop: there is no osd.9");
        assert_eq!(refused.code(), Code::NotFound);
    }

    #[test]
    fn every_code_is_documented() {
        use Code::*;
        for code in [Failed, Usage, NotFound, Exists, Refused, Corrupt, NoAnswer, Interrupted, Unread] {
            let code = code as u8;
            assert!(EXIT_CODES.contains(&format!("\n  {code:<3}  ")), "{code}");
        }
    }
}
