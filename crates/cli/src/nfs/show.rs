//! `onego nfs ls`, `stat` and `df`: what is known of files.

use crate::access::Access;
use crate::failure::Failure;
use crate::nfs_files::{Url, join, last_name, url_form};
use crate::output::{self, Format};
use crate::size;
use onego::nfs::{Attributes, Dir, Escaped, FileType, Found, Time};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::time::{Duration, UNIX_EPOCH};

#[derive(clap::Args)]
pub(crate) struct LsOptions {
    /// The directory, or a file
    #[arg(value_name = "URL", value_parser = Url::parser())]
    url: Url,
    /// Show what is known of each file
    #[arg(short, long)]
    long: bool,
    /// List what directories have in them, too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// How to print them
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn ls(access: &Access, options: &LsOptions) -> Result<(), Failure> {
    options.url.mount(access)?.run(async |mount, path| {
        let found = mount.stat(path).await?;
        if !found.is_dir() {
            return options.print(&[(last_name(path).to_vec(), Some(found.attributes))]);
        }
        let mut dirs = VecDeque::from([(Vec::new(), mount.dir(path).await?)]);
        while let Some((above, dir)) = dirs.pop_front() {
            let mut lines = Vec::new();
            for (name, found) in options.list(&dir).await? {
                let path = join(&above, &name);
                if options.recursive
                    && let Some(found) = found.filter(Found::is_dir)
                {
                    dirs.push_back((path.clone(), dir.below(&name, found.handle)));
                }
                lines.push((path, found.map(|found| found.attributes)));
            }
            options.print(&lines)?;
        }
        Ok(())
    })
}

impl LsOptions {
    /// All names of a directory, in order, with what is known of the files as far as it is shown.
    async fn list(&self, dir: &Dir) -> Result<Vec<(Vec<u8>, Option<Found>)>, Failure> {
        let shows_files = self.long || self.recursive || matches!(self.format, Format::Json);
        let mut files = Vec::new();
        let mut entries = dir.entries();
        while let Some(entry) = entries.try_next().await? {
            let found = match (entry.handle, entry.attributes) {
                (Some(handle), Some(attributes)) => Some(Found { handle, attributes }),
                // A server need not tell; a file that is gone meanwhile has a name only.
                _ if shows_files => dir.lookup(&entry.name).await.ok(),
                _ => None,
            };
            files.push((entry.name, found));
        }
        files.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(files)
    }

    fn print(&self, files: &[(Vec<u8>, Option<Attributes>)]) -> Result<(), Failure> {
        let is_terminal = std::io::stdout().is_terminal();
        let mut text = Vec::new();
        for (name, known) in files {
            match (self.format, known) {
                (Format::Json, Some(known)) => text.extend(described(name, known).to_string().bytes()),
                (Format::Json, None) => text.extend(Value::Object(named(name)).to_string().bytes()),
                (Format::Plain, Some(known)) if self.long => {
                    text.extend(line(known).bytes());
                    text.extend(shown(name, is_terminal));
                }
                (Format::Plain, _) => text.extend(shown(name, is_terminal)),
            }
            text.push(b'\n');
        }
        output::bytes(&text)
    }
}

/// A name as it is printed: escaped on a terminal, whose state it could change, and as it is for programs.
fn shown(name: &[u8], is_terminal: bool) -> Vec<u8> {
    if is_terminal { Escaped(name).to_string().into_bytes() } else { name.to_vec() }
}

/// The begin of a line as `ls -l` has it, before the name.
fn line(known: &Attributes) -> String {
    let Attributes { links, uid, gid, size, .. } = known;
    let written = humantime::format_rfc3339_seconds(system_time(known.mtime));
    format!("{} {links:>3} {uid:>6} {gid:>6} {size:>14} {written} ", mode(known))
}

/// Type and permissions as `ls` writes them.
fn mode(known: &Attributes) -> String {
    let mut text = letter(known.file_type).to_string();
    for (shift, special, there, alone) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = known.mode >> shift;
        text.push(if bits & 4 > 0 { 'r' } else { '-' });
        text.push(if bits & 2 > 0 { 'w' } else { '-' });
        text.push(match (bits & 1 > 0, known.mode & special > 0) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => there,
            (false, true) => alone,
        });
    }
    text
}

fn letter(file_type: FileType) -> char {
    match file_type {
        FileType::Regular => '-',
        FileType::Directory => 'd',
        FileType::BlockDevice => 'b',
        FileType::CharacterDevice => 'c',
        FileType::Symlink => 'l',
        FileType::Socket => 's',
        FileType::Fifo => 'p',
    }
}

fn type_name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Regular => "file",
        FileType::Directory => "directory",
        FileType::BlockDevice => "block device",
        FileType::CharacterDevice => "character device",
        FileType::Symlink => "symbolic link",
        FileType::Socket => "socket",
        FileType::Fifo => "named pipe",
    }
}

fn system_time(time: Time) -> std::time::SystemTime {
    UNIX_EPOCH + Duration::new(time.seconds.into(), time.nanoseconds.min(999_999_999))
}

/// A time in UTC to the nanosecond, as RFC 3339 writes it.
fn when(time: Time) -> String {
    humantime::format_rfc3339_nanos(system_time(time)).to_string()
}

/// A name in JSON. A name that is not UTF-8 is also given in the form that URLs have, which says every byte.
fn named(name: &[u8]) -> serde_json::Map<String, Value> {
    let mut value = serde_json::Map::from_iter([("name".to_owned(), String::from_utf8_lossy(name).into())]);
    if std::str::from_utf8(name).is_err() {
        value.insert("name_url".to_owned(), url_form(name).into());
    }
    value
}

fn described(name: &[u8], known: &Attributes) -> Value {
    let mut value = named(name);
    let Value::Object(attributes) = json!({
        "type": type_name(known.file_type),
        "mode": format!("{:04o}", known.mode & 0o7777),
        "links": known.links,
        "uid": known.uid,
        "gid": known.gid,
        "size": known.size,
        "used": known.used,
        "fileid": known.fileid,
        "atime": when(known.atime),
        "mtime": when(known.mtime),
        "ctime": when(known.ctime),
    }) else {
        return Value::Null;
    };
    value.extend(attributes);
    Value::Object(value)
}

#[derive(clap::Args)]
pub(crate) struct StatOptions {
    /// The file
    #[arg(value_name = "URL", value_parser = Url::parser())]
    url: Url,
    /// Show what a symbolic link leads to
    #[arg(short = 'L', long)]
    dereference: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn stat(access: &Access, options: &StatOptions) -> Result<(), Failure> {
    let Found { attributes: known, .. } = options.url.mount(access)?.run(async |mount, path| {
        Ok(if options.dereference { mount.stat(path).await? } else { mount.lstat(path).await? })
    })?;
    let name = options.url.path();
    match options.format {
        Format::Json => output::json(&described(name, &known)),
        Format::Plain => output::lines([
            format!("{}: {}", Escaped(name), type_name(known.file_type)),
            format!(
                "  size    {} ({}), {} on the server's disk",
                known.size,
                size::human(known.size),
                size::human(known.used)
            ),
            format!("  mode    {} ({:04o})", mode(&known), known.mode & 0o7777),
            format!("  owner   {}:{}", known.uid, known.gid),
            format!("  links   {}", known.links),
            format!("  fileid  {}", known.fileid),
            format!("  read    {}", when(known.atime)),
            format!("  written {}", when(known.mtime)),
            format!("  changed {}", when(known.ctime)),
        ]),
    }
}

#[derive(clap::Args)]
pub(crate) struct DfOptions {
    /// A file system, or anything in it
    #[arg(value_name = "URL", value_parser = Url::parser())]
    url: Url,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn df(access: &Access, options: &DfOptions) -> Result<(), Failure> {
    let stat = options.url.mount(access)?.run(async |mount, _| Ok(mount.statfs().await?))?;
    let used = stat.total_bytes.saturating_sub(stat.free_bytes);
    match options.format {
        Format::Json => output::json(&json!({
            "total_bytes": stat.total_bytes,
            "used_bytes": used,
            "available_bytes": stat.available_bytes,
            "total_files": stat.total_files,
            "free_files": stat.free_files,
        })),
        Format::Plain => output::lines([
            format!("{:>12} {:>12} {:>12} {:>12} {:>12}", "size", "used", "available", "files", "free files"),
            format!(
                "{:>12} {:>12} {:>12} {:>12} {:>12}",
                size::human(stat.total_bytes),
                size::human(used),
                size::human(stat.available_bytes),
                stat.total_files,
                stat.free_files
            ),
        ]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_shown_as_ls_shows_them() {
        let time = Time { seconds: 1_700_000_000, nanoseconds: 7 };
        let known = Attributes {
            file_type: FileType::Directory,
            mode: 0o3754,
            links: 2,
            uid: 1000,
            gid: 100,
            size: 4096,
            used: 4096,
            device: Default::default(),
            fsid: 1,
            fileid: 9,
            atime: time,
            mtime: time,
            ctime: time,
        };
        assert_eq!(line(&known), "drwxr-sr-T   2   1000    100           4096 2023-11-14T22:13:20Z ");
        let value = described(b"bad\xff", &known);
        assert_eq!((&value["name"], &value["name_url"]), (&json!("bad\u{fffd}"), &json!("bad%FF")));
        assert_eq!(value["mtime"], "2023-11-14T22:13:20.000000007Z");
    }

    #[test]
    fn names_do_not_reach_a_terminal_as_they_are() {
        assert_eq!(shown(b"\x1b[2J\xff\n", true), b"\\u{1b}[2J\\xff\\n");
        assert_eq!(shown(b"\x1b[2J\xff\n", false), b"\x1b[2J\xff\n");
    }
}
