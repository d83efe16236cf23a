//! `onego nfs ls`, `stat` and `df`: what is known of files.

use super::target::Url;
use crate::access::Access;
use crate::failure::Failure;
use crate::output::{self, Format};
use crate::size;
use onego::nfs::{Attributes, DirEntry, FileType, Found, Mount, Time};
use serde_json::{Value, json};
use std::collections::VecDeque;

#[derive(clap::Args)]
pub(crate) struct LsOptions {
    /// The directory, or a file
    #[arg(value_name = "URL")]
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
            let name = path.rsplit('/').next().unwrap_or(path);
            return options.print(&[(name.to_owned(), Some(found.attributes))]);
        }
        let mut dirs = VecDeque::from([String::new()]);
        while let Some(dir) = dirs.pop_front() {
            let entries = list(mount, &join(path, &dir)).await?;
            let mut lines = Vec::new();
            for entry in entries {
                let name = join(&dir, &String::from_utf8_lossy(&entry.name));
                let is_dir = entry.attributes.is_some_and(|found| found.file_type == FileType::Directory);
                if options.recursive && is_dir {
                    dirs.push_back(name.clone());
                }
                lines.push((name, entry.attributes));
            }
            options.print(&lines)?;
        }
        Ok(())
    })
}

/// All names of a directory, in order, with what is known of the files.
async fn list(mount: &Mount, path: &str) -> Result<Vec<DirEntry>, Failure> {
    let mut entries = mount.read_dir(path).await?.all().await?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

impl LsOptions {
    fn print(&self, files: &[(String, Option<Attributes>)]) -> Result<(), Failure> {
        match self.format {
            Format::Json => output::lines(files.iter().map(|(name, known)| match known {
                Some(known) => described(name, known),
                None => json!({ "name": name }),
            })),
            Format::Plain if self.long => output::lines(files.iter().map(|(name, known)| match known {
                Some(known) => line(name, known),
                None => name.clone(),
            })),
            Format::Plain => output::lines(files.iter().map(|(name, _)| name)),
        }
    }
}

/// A line as `ls -l` has it.
fn line(name: &str, known: &Attributes) -> String {
    let Attributes { links, uid, gid, size, .. } = known;
    format!("{} {links:>3} {uid:>6} {gid:>6} {size:>14} {} {name}", mode(known), when(known.mtime))
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

/// A time in UTC, as RFC 3339 writes it.
fn when(time: Time) -> String {
    humantime::format_rfc3339_seconds(
        std::time::UNIX_EPOCH + std::time::Duration::from_secs(time.seconds.into()),
    )
    .to_string()
}

fn described(name: &str, known: &Attributes) -> Value {
    json!({
        "name": name,
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
    })
}

#[derive(clap::Args)]
pub(crate) struct StatOptions {
    /// The file
    #[arg(value_name = "URL")]
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
            format!("{name}: {}", type_name(known.file_type)),
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
    #[arg(value_name = "URL")]
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
        let time = Time { seconds: 1_700_000_000, nanoseconds: 0 };
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
        assert_eq!(
            line("dir", &known),
            "drwxr-sr-T   2   1000    100           4096 2023-11-14T22:13:20Z dir"
        );
    }
}
