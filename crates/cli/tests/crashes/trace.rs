//! Recorder: the changes and syncs of a program's files, from the system calls that strace reports.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// System calls that change or sync files, or move the position at which they are written.
const CALLS: &str = "openat,open,creat,lseek,write,writev,pwrite64,pwritev,pwritev2,ftruncate,truncate,fallocate,rename,\
    renameat,renameat2,link,linkat,unlink,unlinkat,rmdir,mkdir,mkdirat,symlink,symlinkat,fsync,fdatasync,sync,syncfs,\
    copy_file_range,sendfile,splice";

/// A change of one file, or of names.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Create { path: PathBuf, truncates: bool },
    Mkdir { path: PathBuf },
    Write { path: PathBuf, offset: u64, data: Vec<u8>, len: u64, is_durable: bool },
    Append { path: PathBuf, data: Vec<u8>, len: u64 },
    Truncate { path: PathBuf, len: u64 },
    Allocate { path: PathBuf, end: u64 },
    Zero { path: PathBuf, offset: u64, len: u64 },
    Rename { from: PathBuf, to: PathBuf },
    Link { from: PathBuf, to: PathBuf },
    Unlink { path: PathBuf },
    Sync { path: PathBuf },
    SyncAll,
}

/// The beginning or the end of a change, in the order of a recording.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Seconds since 1970, by the clock of the machine.
    pub(crate) time: f64,
    /// Number of the change.
    pub(crate) change: usize,
    pub(crate) is_end: bool,
}

/// All changes of some programs, below one folder.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub(crate) changes: Vec<Change>,
    pub(crate) steps: Vec<Step>,
    root: PathBuf,
    cwd: PathBuf,
    /// By descriptor: position of the next write, and whether it is the end of the file.
    positions: HashMap<String, (u64, bool)>,
}

/// Starts `program` under strace, in the folder `cwd`. `data` is the number of bytes of each write that are recorded.
pub(crate) fn start(program: &Command, cwd: &Path, log: &Path, data: usize) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "--seccomp-bpf", "-ttt", "-T", "-y", "-xx", "-qqq", "-e", "signal=none"]);
    command.args(["-e", &format!("trace={CALLS}"), "-s", &data.to_string(), "-o"]).arg(log);
    command.arg("--").arg(program.get_program()).args(program.get_args()).current_dir(cwd);
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Returns the process that strace started.
pub(crate) fn traced(strace: &Child) -> rustix::process::Pid {
    let path = format!("/proc/{0}/task/{0}/children", strace.id());
    let children = std::fs::read_to_string(path).unwrap();
    let pid = children.split_whitespace().next().expect("strace has started no program").parse().unwrap();
    rustix::process::Pid::from_raw(pid).unwrap()
}

impl Recording {
    pub(crate) fn of(root: &Path, cwd: &Path) -> Self {
        Self { root: root.to_owned(), cwd: cwd.to_owned(), ..Self::default() }
    }

    /// Appends what a log of strace says. Returns the number of steps so far.
    pub(crate) fn read(&mut self, log: &Path) -> usize {
        let text = std::fs::read_to_string(log).unwrap();
        // By thread: the time and the text of a call that another thread's call has interrupted.
        let mut unfinished: HashMap<&str, (f64, String)> = HashMap::new();
        let mut steps = Vec::new();
        self.positions.clear();
        for line in text.lines() {
            let Some((pid, rest)) = line.split_once(' ') else { continue };
            let Some((time, rest)) = rest.trim_start().split_once(' ') else { continue };
            let (time, rest): (f64, _) = (time.parse().unwrap(), rest.trim_start());
            if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
                unfinished.insert(pid, (time, begun.trim_end().to_owned()));
            } else if let Some(resumed) = rest.strip_prefix("<... ") {
                let (Some((begin, call)), Some((_, end))) =
                    (unfinished.remove(pid), resumed.split_once("resumed>"))
                else {
                    continue;
                };
                self.call(&format!("{call}{end}"), begin, Some(time), &mut steps);
            } else if let Some((_, took)) = rest.rsplit_once('<') {
                let took: f64 = took.trim_end_matches('>').parse().unwrap_or(0.0);
                self.call(rest, time, Some(time + took), &mut steps);
            }
        }
        // Calls in which the program was killed.
        for (begin, call) in unfinished.into_values() {
            self.call(&format!("{call}) = 0 <0>"), begin, None, &mut steps);
        }
        steps
            .sort_by(|one: &Step, other| one.time.total_cmp(&other.time).then(one.is_end.cmp(&other.is_end)));
        self.steps.append(&mut steps);
        self.steps.len()
    }

    fn call(&mut self, text: &str, begin: f64, end: Option<f64>, steps: &mut Vec<Step>) {
        let Some((name, rest)) = text.split_once('(') else { return };
        let Some((arguments, result)) = rest.rsplit_once(") = ") else { return };
        if result.starts_with(['-', '?']) {
            return;
        }
        let arguments = split(arguments);
        for change in self.change(name, &arguments, result) {
            let number = self.changes.len();
            self.changes.push(change);
            // The times are rounded: a call has ended before the next one of its thread begins.
            let end = end.map(|end| begin.max(end - 1e-6));
            steps.push(Step { time: begin, change: number, is_end: false });
            if let Some(end) = end {
                steps.push(Step { time: end, change: number, is_end: true });
            }
        }
    }

    /// Path that a call names, relative to the root; `None` outside of it.
    fn below(&self, path: &Path) -> Option<PathBuf> {
        self.cwd.join(path).strip_prefix(&self.root).ok().map(Path::to_owned)
    }

    /// Path of a string, in the directory of a descriptor.
    fn at(&self, dir: &str, name: &str) -> Option<PathBuf> {
        let dir = path_of(dir).unwrap_or_else(|| self.cwd.clone());
        self.below(&dir.join(as_path(&string(name)?.0)))
    }

    fn change(&mut self, name: &str, args: &[&str], result: &str) -> Vec<Change> {
        self.change_of(name, args, result).into_iter().flatten().collect()
    }

    fn change_of(&mut self, name: &str, args: &[&str], result: &str) -> Option<Vec<Change>> {
        let here = "AT_FDCWD";
        let descriptor = || self.below(&path_of(args[0])?);
        let number = |at: usize| args[at].parse::<u64>().unwrap();
        let one = match name {
            "openat" | "open" | "creat" => return self.open(name, args, result),
            "lseek" => {
                let id = args[0].split('<').next()?.to_owned();
                let to = result.split_whitespace().next()?.parse().ok()?;
                self.positions.entry(id).or_default().0 = to;
                return None;
            }
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" => {
                let path = descriptor()?;
                return Some(vec![self.write(name, args, path, result)?]);
            }
            "ftruncate" => Change::Truncate { path: descriptor()?, len: number(1) },
            "truncate" => Change::Truncate { path: self.at(here, args[0])?, len: number(1) },
            "fallocate" => {
                let (path, offset, len) = (descriptor()?, number(2), number(3));
                match args[1] {
                    "0" => Change::Allocate { path, end: offset + len },
                    mode if mode.contains("KEEP_SIZE")
                        && !mode.contains("PUNCH")
                        && !mode.contains("ZERO") =>
                    {
                        return None;
                    }
                    mode if mode.contains("PUNCH") || mode.contains("ZERO_RANGE") => {
                        Change::Zero { path, offset, len }
                    }
                    mode => panic!("the recorder does not know fallocate with {mode}"),
                }
            }
            "mkdir" => Change::Mkdir { path: self.at(here, args[0])? },
            "mkdirat" => Change::Mkdir { path: self.at(args[0], args[1])? },
            "rename" => Change::Rename { from: self.at(here, args[0])?, to: self.at(here, args[1])? },
            "renameat" | "renameat2" => {
                Change::Rename { from: self.at(args[0], args[1])?, to: self.at(args[2], args[3])? }
            }
            "link" => Change::Link { from: self.at(here, args[0])?, to: self.at(here, args[1])? },
            "linkat" => Change::Link { from: self.at(args[0], args[1])?, to: self.at(args[2], args[3])? },
            "unlink" | "rmdir" => Change::Unlink { path: self.at(here, args[0])? },
            "unlinkat" => Change::Unlink { path: self.at(args[0], args[1])? },
            "fsync" | "fdatasync" => Change::Sync { path: descriptor()? },
            "sync" | "syncfs" => Change::SyncAll,
            "symlink" | "symlinkat" => {
                self.at(here, args[args.len() - 1])?;
                panic!("the recorder does not know {name}")
            }
            _ => {
                let is_below =
                    args.iter().filter_map(|arg| path_of(arg)).any(|path| self.below(&path).is_some());
                assert!(!is_below, "the recorder does not know {name}");
                return None;
            }
        };
        Some(vec![one])
    }

    fn open(&mut self, name: &str, args: &[&str], result: &str) -> Option<Vec<Change>> {
        assert_ne!(name, "creat", "the recorder does not know creat");
        let args = if name == "open" { [&["AT_FDCWD"], args].concat() } else { args.to_vec() };
        let flags = args[2];
        let id = result.split('<').next()?.split_whitespace().next()?.to_owned();
        let path = self.below(&path_of(result)?)?;
        self.positions.insert(id, (0, flags.contains("O_APPEND")));
        let writes = flags.contains("O_WRONLY") || flags.contains("O_RDWR");
        let is_unknown = writes && flags.contains("SYNC") || flags.contains("O_TMPFILE");
        assert!(!is_unknown, "the recorder does not know {flags}");
        let (creates, truncates) = (flags.contains("O_CREAT"), flags.contains("O_TRUNC"));
        (creates || truncates).then(|| vec![Change::Create { path, truncates }])
    }

    fn write(&mut self, name: &str, args: &[&str], path: PathBuf, result: &str) -> Option<Change> {
        let len: u64 = result.split_whitespace().next()?.parse().ok()?;
        let mut data = Vec::new();
        if name.starts_with('p') && name != "pwrite64" || name == "writev" {
            let mut rest = args[1];
            while let Some((_, from)) = rest.split_once("iov_base=") {
                let (bytes, is_whole) = string(from)?;
                let (_, length) = from.split_once("iov_len=")?;
                let length: usize = length.split(['}', ',']).next()?.parse().ok()?;
                data.extend(&bytes);
                rest = length_rest(from);
                // Only a front of the bytes can be known.
                if !is_whole || bytes.len() < length {
                    break;
                }
            }
        } else {
            data = string(args[1])?.0;
        }
        data.truncate(usize::try_from(len).unwrap());
        // A killed program's call has a result of 0.
        let len = len.max(data.len() as u64);
        Some(match name {
            "write" | "writev" => {
                let id = args[0].split('<').next()?.to_owned();
                let (position, appends) = self.positions.entry(id).or_default();
                if *appends {
                    return Some(Change::Append { path, data, len });
                }
                let offset = *position;
                *position += len;
                Change::Write { path, offset, data, len, is_durable: false }
            }
            _ => {
                let offset = args[3].parse().unwrap();
                let is_durable = args.get(4).is_some_and(|flags| flags.contains("SYNC"));
                Change::Write { path, offset, data, len, is_durable }
            }
        })
    }
}

/// Text after an element of a list of buffers.
fn length_rest(from: &str) -> &str {
    from.split_once("iov_len=").map_or("", |(_, rest)| rest)
}

/// Splits arguments at commas that are in no brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' | b'{' | b'<' => depth += 1,
            b']' | b'}' | b'>' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

/// Bytes of a string at the front of `text`, and whether they are all of them.
fn string(text: &str) -> Option<(Vec<u8>, bool)> {
    let (hex, rest) = text.trim_start().strip_prefix('"')?.split_once('"')?;
    Some((unescape(hex), !rest.starts_with("...")))
}

/// Path that strace adds to a descriptor.
fn path_of(descriptor: &str) -> Option<PathBuf> {
    let (_, rest) = descriptor.split_once('<')?;
    let (hex, rest) = rest.split_once('>')?;
    let path = as_path(&unescape(hex));
    (path.is_absolute() && !rest.starts_with("(deleted)")).then_some(path)
}

fn as_path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    std::ffi::OsStr::from_bytes(bytes).into()
}

/// Bytes of `\x68\x65`.
fn unescape(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| if byte.is_ascii_digit() { byte - b'0' } else { byte - b'a' + 10 };
    let hex = hex.as_bytes();
    if !hex.starts_with(b"\\x") {
        return hex.to_vec();
    }
    hex.chunks_exact(4).map(|four| digit(four[2]) << 4 | digit(four[3])).collect()
}
