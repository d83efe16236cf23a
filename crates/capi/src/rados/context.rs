//! The contexts from which programs have handles made.
//!
//! A context is mostly one of our handles, by `rados_cct`. A program that is linked with Ceph's `libceph-common`, too, has contexts
//! of its own (`CephContext`): such a program, like rbd-fuse, has that library read its command line. What those objects
//! hold is private to that library, so the command line is read here as that library does.
//!
//! Source: ceph `src/common/ceph_argparse.cc` (`ceph_argparse_early_args`), `src/common/config.cc` (`parse_argv`).

use super::conf::Conf;
use crate::border::Errno;
use crate::runtime::lock;
use onego::ceph::{AuthName, CephArgs};
use std::collections::BTreeSet;
use std::sync::Mutex;

/// The handles of ours that the program has, by their addresses.
static OURS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Notes that the program has a handle.
pub(super) fn given(address: usize) {
    lock(&OURS).insert(address);
}

/// Notes that it has given one back.
pub(super) fn taken(address: usize) {
    lock(&OURS).remove(&address);
}

/// Is that one of our handles?
pub(super) fn is_ours(address: usize) -> bool {
    lock(&OURS).contains(&address)
}

/// The configuration of a context that is not ours.
pub(super) fn foreign() -> Result<Conf, Errno> {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    conf_of(CephArgs::from_environment()?, &words)
}

/// What the words of a command line say, over what `CEPH_ARGS` does. The words may be about other things, too.
fn conf_of(args: CephArgs, words: &[String]) -> Result<Conf, Errno> {
    let CephArgs { conf: file, identity } = early(args, words)?;
    let mut conf = Conf::new(identity);
    let place = file.or_else(|| conf.places().into_iter().find(|place| place.exists()));
    if let Some(place) = place {
        conf.read_file(&place)?;
    }
    conf.take_arguments(words)?;
    Ok(conf)
}

/// What has to be known before a configuration is read: which one, and who reads it.
fn early(mut args: CephArgs, words: &[String]) -> Result<CephArgs, Errno> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let (option, inline) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (word.as_str(), None),
        };
        at += 1;
        if !["-c", "--conf", "--cluster", "--id", "--user", "-n", "--name"].contains(&option) {
            continue;
        }
        let value = match inline {
            Some(value) => value,
            None => {
                at += 1;
                words.get(at - 1).ok_or(Errno::INVAL)?
            }
        };
        match option {
            "-c" | "--conf" => args.conf = Some(value.into()),
            "--cluster" => args.identity.cluster = Some(value.to_owned()),
            "--id" | "--user" => args.identity.name = Some(AuthName::client(value)),
            _ => args.identity.name = Some(value.parse().map_err(|_| Errno::INVAL)?),
        }
    }
    Ok(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_read_among_words_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ceph.conf");
        std::fs::write(&file, "[global]\nmon host = 10.0.0.1\n[client.b]\nrbd cache = false\n").unwrap();
        let line =
            format!("-f -p images -c {} /mnt -o ro --name=client.b --rados-osd-op-timeout 7", file.display());
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let conf = conf_of(CephArgs::parse("--id a --keyring ring").unwrap(), &words).unwrap();
        assert_eq!(conf.identity.name, Some(AuthName::client("b")));
        let value = |name| conf.get(name).unwrap();
        assert_eq!(value("keyring"), "ring");
        assert_eq!((value("mon_host").as_str(), value("rbd_cache").as_str()), ("10.0.0.1", "false"));
        assert_eq!(conf.number("rados_osd_op_timeout"), Some(7));
    }

    #[test]
    fn what_is_wrong_with_a_command_line_is_refused() {
        for words in [&["-c"][..], &["-c", "/no/such/file"], &["--name", "b"]] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert!(conf_of(CephArgs::default(), &words).is_err(), "{words:?}");
        }
    }
}
