//! Where a handle's configuration comes from: files, the environment, arguments, and single settings.

use super::cluster::Rados;
use crate::border::{Errno, Handle, In, Out, Text, done};
use onego_wire::text::to_bytes;
use std::ffi::c_int;
use std::path::PathBuf;

#[unsafe(no_mangle)]
extern "C" fn rados_conf_read_file(cluster: Handle<Rados>, path: Text) -> c_int {
    done(|| {
        let mut conf = cluster.get()?.conf();
        if !path.is_null() {
            // A list of paths, of which the first that is there counts.
            let paths = path.text()?.into_owned();
            let mut paths = paths.split(',').map(|path| PathBuf::from(conf.settings.expand(path.trim())));
            let path = paths.find(|path| path.exists()).ok_or(Errno::NOENT)?;
            return conf.read_file(&path);
        }
        let place = conf.places().into_iter().find(|place| place.exists());
        conf.read_file(&place.ok_or(Errno::NOENT)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_conf_set(cluster: Handle<Rados>, option: Text, value: Text) -> c_int {
    done(|| cluster.get()?.conf().set(&option.text()?, &value.text()?))
}

#[unsafe(no_mangle)]
extern "C" fn rados_conf_get(cluster: Handle<Rados>, option: Text, buf: Out<u8>, len: usize) -> c_int {
    done(|| {
        let value = cluster.get()?.conf().get(&option.text()?).ok_or(Errno::NOENT)?;
        buf.copy_text(&to_bytes(&value), len).map_err(|_| Errno::NAMETOOLONG)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_conf_parse_env(cluster: Handle<Rados>, variable: Text) -> c_int {
    done(|| {
        let variable = if variable.is_null() { "CEPH_ARGS".into() } else { variable.text()? };
        cluster.get()?.conf().take_environment(&variable)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_conf_parse_argv(cluster: Handle<Rados>, count: c_int, arguments: In<Text>) -> c_int {
    done(|| take_arguments(cluster, count, arguments).map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn rados_conf_parse_argv_remainder(
    cluster: Handle<Rados>,
    count: c_int,
    arguments: In<Text>,
    rest: Out<Text>,
) -> c_int {
    done(|| {
        let all = arguments.slice(usize::try_from(count).map_err(|_| Errno::INVAL)?)?;
        let left = take_arguments(cluster, count, arguments)?;
        let mut left: Vec<Text> = left.into_iter().map(|at| all[at]).collect();
        left.resize(all.len(), Text::NULL);
        rest.copy(&left, all.len())
    })
}

/// The first argument is the program's name.
fn take_arguments(cluster: Handle<Rados>, count: c_int, arguments: In<Text>) -> Result<Vec<usize>, Errno> {
    let arguments = arguments.slice(usize::try_from(count).map_err(|_| Errno::INVAL)?)?;
    let words: Vec<String> = arguments.iter().map(|word| word.text_or_empty().into_owned()).collect();
    cluster.get()?.conf().take_arguments(&words)
}
