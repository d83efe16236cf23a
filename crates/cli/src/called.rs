//! What the program was called as: by the name of Ceph's `rbd` it does as that, so that scripts written for it run.

use crate::failure::Failure;
use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// What the program was called as, and with what.
pub(crate) enum Called {
    Onego(Vec<OsString>),
    /// `rbd`, which is `onego rbd` but for how it ends.
    Rbd(Vec<OsString>),
}

impl Called {
    pub(crate) fn by_this_process() -> Self {
        Self::by(env::args_os().collect())
    }

    fn by(mut arguments: Vec<OsString>) -> Self {
        let name = arguments.first().and_then(|name| Path::new(name).file_name());
        if name.is_some_and(|name| name == "rbd") {
            arguments.insert(1, "rbd".into());
            return Self::Rbd(arguments);
        }
        Self::Onego(arguments)
    }

    pub(crate) fn arguments(&self) -> &[OsString] {
        let (Self::Onego(arguments) | Self::Rbd(arguments)) = self;
        arguments
    }

    /// How the program ends where the command line cannot be read; `code` is how it ends otherwise.
    pub(crate) fn unread_code(&self, code: ExitCode) -> ExitCode {
        match self {
            Self::Rbd(_) if code != ExitCode::SUCCESS => ExitCode::FAILURE,
            _ => code,
        }
    }

    /// How the program ends on a failure.
    pub(crate) fn exit_code(&self, failure: &Failure) -> ExitCode {
        match self {
            Self::Onego(_) => failure.exit_code(),
            Self::Rbd(_) => failure.rbd_exit_code(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_called_rbd_takes_the_commands_of_rbd() {
        let called = |words: &str| Called::by(words.split(' ').map(OsString::from).collect());
        let as_rbd = called("/usr/local/bin/rbd snap ls disk");
        assert!(matches!(as_rbd, Called::Rbd(_)));
        assert_eq!(as_rbd.arguments(), ["/usr/local/bin/rbd", "rbd", "snap", "ls", "disk"]);
        let as_onego = called("onego rbd ls");
        assert!(matches!(as_onego, Called::Onego(_)));
        assert_eq!(as_onego.arguments(), ["onego", "rbd", "ls"]);
    }
}
