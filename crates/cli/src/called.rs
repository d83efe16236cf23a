//! What the program was called as: by the name of Ceph's `rbd` it does as that, so that scripts written for it run.

use crate::failure::Failure;
use onego_bench::report::progress;
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
            // Ceph's program takes it before any command, and ours where there is progress to show.
            let options =
                arguments.iter().skip(1).take_while(|word| word.as_encoded_bytes().starts_with(b"-"));
            let before = 1 + options.count();
            let hides = arguments.extract_if(1..before, |word| word == "--no-progress").count() > 0;
            if hides {
                progress::hide();
            }
            arguments.insert(1, "rbd".into());
            return Self::Rbd(arguments);
        }
        Self::Onego(arguments)
    }

    pub(crate) fn arguments(&self) -> &[OsString] {
        let (Self::Onego(arguments) | Self::Rbd(arguments)) = self;
        arguments
    }

    /// Help and errors as the program that was called says them: `rbd` is no command of itself.
    pub(crate) fn said(&self, said: &str) -> String {
        match self {
            Self::Onego(_) => said.to_owned(),
            Self::Rbd(_) => said.replace("rbd rbd", "rbd"),
        }
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
        assert_eq!(
            called("rbd --no-progress object-map check").arguments(),
            ["rbd", "rbd", "object-map", "check"]
        );
        assert_eq!(as_rbd.said("Usage: rbd rbd ls [POOL]"), "Usage: rbd ls [POOL]");
        let as_onego = called("onego rbd ls");
        assert!(matches!(as_onego, Called::Onego(_)));
        assert_eq!(as_onego.arguments(), ["onego", "rbd", "ls"]);
    }
}
