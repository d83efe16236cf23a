//! Files that a command reports as written are synced before that: their data survives a power cut.

use crate::support::{FileServer, Place};
use std::fs;
use std::process::{Command, Stdio};

/// A library for `LD_PRELOAD` that writes the path of each file that is synced to the file that `SYNCED` names.
const RECORDER: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void note(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    int to = open(getenv("SYNCED"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (length > 0 && to >= 0) {
        path[length] = '\n';
        if (write(to, path, length + 1) < 0) abort();
    }
    close(to);
}

int fsync(int fd) { note(fd); return syscall(SYS_fsync, fd); }
int fdatasync(int fd) { note(fd); return syscall(SYS_fdatasync, fd); }
"#;

#[test]
fn files_that_commands_write_are_synced() {
    let place = Place::with_cluster("--osds 1");
    let server = FileServer::start(&place, "");
    let url = server.url("f");
    fs::write(place.path("recorder.c"), RECORDER).unwrap();
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o", "recorder.so", "recorder.c"])
        .current_dir(place.path("."))
        .status();
    assert!(compiled.unwrap().success());
    fs::write(place.path("original"), "bytes").unwrap();
    place.onego(&format!("nfs put original {url}"));
    place.onego("rbd import original rbd/disk");
    place.onego("rbd snap create rbd/disk@s");
    place.onego("rbd export-diff rbd/disk@s first.diff");
    place.onego("rbd export-diff --from-snap s rbd/disk second.diff");
    place.onego("rados -p rbd put object original");
    place.onego("rados -p rbd setomapval object key value");
    // Not `cp --in-place`: it flushes a disk, by a system call that no library sees.
    for (line, file) in [
        ("cp original a", "a"),
        ("cp original a --replace", "a"),
        (&*format!("nfs cp {url} b"), "b"),
        (&*format!("nfs cp --in-place {url} b"), "b"),
        (&*format!("nfs cp --in-place {url} new"), "new"),
        ("rbd export rbd/disk c", "c"),
        ("rbd export --export-format 2 rbd/disk d", "d"),
        ("rbd export-diff rbd/disk e", "e"),
        ("rbd merge-diff first.diff second.diff f", "f"),
        ("rados -p rbd get object g", "g"),
        ("rados -p rbd getomapval object key h", "h"),
        ("ceph osd getcrushmap -o i", "i"),
    ] {
        let log = place.path("synced");
        let _ = fs::remove_file(&log);
        let mut command = place.command(line);
        command.env("LD_PRELOAD", place.path("recorder.so")).env("SYNCED", &log).stdout(Stdio::null());
        let output = command.stderr(Stdio::piped()).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        let synced = fs::read_to_string(&log).unwrap_or_default();
        // A file is synced under the name that it has until it is whole.
        let (name, partial) = (format!("/{file}"), format!("/.{file}.onego-partial"));
        let is_synced = synced.lines().any(|path| path.ends_with(&name) || path.ends_with(&partial));
        assert!(is_synced, "{line} syncs {synced}");
    }
}
