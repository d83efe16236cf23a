//! Crash states of a recording, by the rules of POSIX alone: what a sync has covered survives, and of every other change any
//! part may: sizes without bytes, bytes by sectors, names without files. A rename is done or not.

use super::trace::{Change, Recording};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that a device writes as a whole.
const SECTOR: usize = 512;

/// Zeros that a crash state leaves out of its files.
const HOLE: usize = 64 << 10;

type Number = usize;

#[derive(Debug, Clone)]
enum Part {
    Write { offset: usize, data: Arc<Vec<u8>> },
    Zero { offset: usize, len: usize },
    Extend(usize),
    Truncate(usize),
}

#[derive(Debug, Default)]
struct Node {
    is_dir: bool,
    durable: Vec<u8>,
    /// Size with all changes.
    len: usize,
    /// Changes that no sync has covered, by the number of their call.
    pending: Vec<(Number, Part)>,
}

/// Names that one call changes, all or none: directory, name, file.
type Names = Vec<(Number, OsString, Option<Number>)>;

/// Parts of the changes that no sync has covered which a crash leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Nothing,
    Everything,
    /// Names and sizes, and no bytes.
    Metadata,
    /// All that came before some call.
    Prefix(Number),
    Any,
}

/// The disk under a recording.
pub(crate) struct Disk<'a> {
    recording: &'a Recording,
    nodes: Vec<Node>,
    /// Names in directories, as the program sees them and as they are durable.
    live: BTreeMap<(Number, OsString), Number>,
    durable: BTreeMap<(Number, OsString), Number>,
    pending: Vec<(Number, Names)>,
    /// Calls that have ended.
    ended: BTreeSet<Number>,
    /// By the call of a sync: what it covers.
    syncs: HashMap<Number, Vec<Number>>,
    at: usize,
    random: SmallRng,
    drops_half: bool,
    /// Bytes of writes of which only a front was recorded, by the end of the file's name.
    content: Option<(&'a str, &'a [u8])>,
}

impl<'a> Disk<'a> {
    /// A disk with the files of a folder, all durable. `drops_half`: of the syncs.
    pub(crate) fn new(recording: &'a Recording, base: &Path, seed: u64, drops_half: bool) -> Self {
        let mut this = Self {
            recording,
            nodes: vec![Node { is_dir: true, ..Node::default() }],
            live: BTreeMap::new(),
            durable: BTreeMap::new(),
            pending: Vec::new(),
            ended: BTreeSet::new(),
            syncs: HashMap::new(),
            at: 0,
            random: SmallRng::seed_from_u64(seed),
            drops_half,
            content: None,
        };
        this.add(base, 0);
        this.live = this.durable.clone();
        this
    }

    /// Gives the bytes of files whose names contain `name`, for writes of which only a front was recorded.
    pub(crate) fn with_content(mut self, name: &'a str, bytes: &'a [u8]) -> Self {
        self.content = Some((name, bytes));
        self
    }

    fn add(&mut self, folder: &Path, dir: Number) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let is_dir = entry.file_type().unwrap().is_dir();
            let durable = if is_dir { Vec::new() } else { fs::read(entry.path()).unwrap() };
            let number = self.nodes.len();
            self.nodes.push(Node { is_dir, len: durable.len(), durable, pending: Vec::new() });
            self.durable.insert((dir, entry.file_name()), number);
            if is_dir {
                self.add(&entry.path(), number);
            }
        }
    }

    fn find(&self, path: &Path) -> Option<Number> {
        path.iter().try_fold(0, |dir, name| self.live.get(&(dir, name.to_owned())).copied())
    }

    /// Directory and name of a path.
    fn place(&self, path: &Path) -> Option<(Number, OsString)> {
        Some((self.find(path.parent()?)?, path.file_name()?.to_owned()))
    }

    /// Carries out the steps before `until`.
    pub(crate) fn advance(&mut self, until: usize) {
        while self.at < until {
            let step = &self.recording.steps[self.at];
            let (call, is_end) = (step.change, step.is_end);
            self.at += 1;
            if is_end {
                self.end(call);
            } else {
                let change = self.recording.changes[call].clone();
                self.begin(call, change);
            }
        }
    }

    fn begin(&mut self, call: Number, change: Change) {
        match change {
            Change::Create { path, truncates } => match self.find(&path) {
                Some(node) if truncates => self.push(node, call, Part::Truncate(0)),
                Some(_) => {}
                None => drop(self.make(call, &path, false)),
            },
            Change::Mkdir { path } => drop(self.make(call, &path, true)),
            Change::Write { path, offset, data, len, .. } => self.write(call, &path, Some(offset), data, len),
            Change::Append { path, data, len } => self.write(call, &path, None, data, len),
            Change::Truncate { path, len } => {
                let Some(node) = self.find(&path) else { return };
                self.push(node, call, Part::Truncate(len as usize));
            }
            Change::Allocate { path, end } => {
                let Some(node) = self.find(&path) else { return };
                self.push(node, call, Part::Extend(end as usize));
            }
            Change::Zero { path, offset, len } => {
                let Some(node) = self.find(&path) else { return };
                self.push(node, call, Part::Zero { offset: offset as usize, len: len as usize });
            }
            Change::Rename { from, to } => {
                let (Some(node), Some(from), Some(to)) =
                    (self.find(&from), self.place(&from), self.place(&to))
                else {
                    return;
                };
                self.rename(call, vec![(from.0, from.1, None), (to.0, to.1, Some(node))]);
            }
            Change::Link { from, to } => {
                let (Some(node), Some(to)) = (self.find(&from), self.place(&to)) else { return };
                self.rename(call, vec![(to.0, to.1, Some(node))]);
            }
            Change::Unlink { path } => {
                let Some(place) = self.place(&path) else { return };
                self.rename(call, vec![(place.0, place.1, None)]);
            }
            Change::Sync { path } => {
                let Some(node) = self.find(&path) else { return };
                let mut covered: Vec<Number> =
                    self.nodes[node].pending.iter().map(|(call, _)| *call).collect();
                let of_names =
                    self.pending.iter().filter(|(_, names)| names.iter().any(|(dir, ..)| *dir == node));
                covered.extend(of_names.map(|(call, _)| *call));
                self.sync(call, covered);
            }
            Change::SyncAll => self.sync(call, (0..call).collect()),
        }
    }

    fn sync(&mut self, call: Number, mut covered: Vec<Number>) {
        covered.retain(|call| self.ended.contains(call));
        self.syncs.insert(call, covered);
    }

    fn make(&mut self, call: Number, path: &Path, is_dir: bool) -> Option<()> {
        let (dir, name) = self.place(path)?;
        self.nodes.push(Node { is_dir, ..Node::default() });
        self.rename(call, vec![(dir, name, Some(self.nodes.len() - 1))]);
        Some(())
    }

    fn rename(&mut self, call: Number, names: Names) {
        apply(&mut self.live, &names);
        self.pending.push((call, names));
    }

    fn write(&mut self, call: Number, path: &Path, offset: Option<u64>, mut data: Vec<u8>, len: u64) {
        let Some(node) = self.find(path) else { return };
        let offset = offset.map_or(self.nodes[node].len, |offset| offset as usize);
        let len = len as usize;
        if data.len() < len {
            let (name, content) = self.content.expect("all bytes are recorded");
            assert!(path.to_string_lossy().contains(name), "{} bytes of {}", data.len(), path.display());
            assert!(content[offset..].starts_with(&data), "{} has other bytes at {offset}", path.display());
            data = content[offset..offset + len].to_vec();
        }
        if offset + len > self.nodes[node].len {
            self.push(node, call, Part::Extend(offset + len));
        }
        self.push(node, call, Part::Write { offset, data: Arc::new(data) });
    }

    fn push(&mut self, node: Number, call: Number, part: Part) {
        let node = &mut self.nodes[node];
        match part {
            Part::Truncate(len) => node.len = len,
            Part::Extend(len) => node.len = node.len.max(len),
            Part::Write { .. } | Part::Zero { .. } => {}
        }
        node.pending.push((call, part));
    }

    fn end(&mut self, call: Number) {
        self.ended.insert(call);
        let Some(covered) = self.syncs.remove(&call).or_else(|| self.own(call)) else { return };
        if self.drops_half && self.random.random_bool(0.5) {
            return;
        }
        let covered: BTreeSet<Number> = covered.into_iter().collect();
        let durable = &mut self.durable;
        self.pending.retain(|(call, names)| {
            let is_covered = covered.contains(call);
            if is_covered {
                apply(durable, names);
            }
            !is_covered
        });
        for node in &mut self.nodes {
            let bytes = &mut node.durable;
            node.pending.retain(|(call, part)| {
                let is_covered = covered.contains(call);
                if is_covered {
                    part.apply(bytes, None);
                }
                !is_covered
            });
        }
    }

    /// Changes that a durable write covers: itself, and earlier ones of its bytes.
    fn own(&self, call: Number) -> Option<Vec<Number>> {
        let Change::Write { path, offset, len, is_durable: true, .. } = &self.recording.changes[call] else {
            return None;
        };
        let (begin, end) = (*offset as usize, (offset + len) as usize);
        let of_file = &self.nodes[self.find(path)?].pending;
        let overlaps = |part: &Part| match part {
            Part::Write { offset, data } => *offset < end && begin < offset + data.len(),
            Part::Zero { offset, len } => *offset < end && begin < offset + len,
            Part::Extend(_) | Part::Truncate(_) => true,
        };
        let covered = of_file.iter().filter(|(_, part)| overlaps(part)).map(|(call, _)| *call);
        Some(covered.filter(|call| self.ended.contains(call)).collect())
    }

    /// Writes a crash state into a new folder.
    pub(crate) fn crash(&mut self, folder: &Path) {
        let calls = self.recording.changes.len();
        let style = match self.random.random_range(0..8) {
            0 => Style::Nothing,
            1 => Style::Everything,
            2 => Style::Metadata,
            3 => Style::Prefix(self.random.random_range(0..=calls)),
            _ => Style::Any,
        };
        let mut names = self.durable.clone();
        for (call, changed) in &self.pending {
            if style.keeps_metadata(*call, &mut self.random) {
                apply(&mut names, changed);
            }
        }
        fs::DirBuilder::new().mode(0o700).create(folder).unwrap();
        let mut written = HashMap::new();
        self.write_folder(folder, 0, &names, style, &mut written);
    }

    fn write_folder(
        &mut self,
        folder: &Path,
        dir: Number,
        names: &BTreeMap<(Number, OsString), Number>,
        style: Style,
        written: &mut HashMap<Number, PathBuf>,
    ) {
        for ((_, name), number) in names.range((dir, OsString::new())..(dir + 1, OsString::new())) {
            let path = folder.join(name);
            if self.nodes[*number].is_dir {
                fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
                self.write_folder(&path, *number, names, style, written);
            } else if let Some(other) = written.get(number) {
                fs::hard_link(other, &path).unwrap();
            } else {
                let bytes = self.nodes[*number].crash(style, &mut self.random);
                write_sparse(&path, &bytes);
                written.insert(*number, path);
            }
        }
    }
}

impl Style {
    fn keeps_metadata(self, call: Number, random: &mut SmallRng) -> bool {
        match self {
            Style::Nothing => false,
            Style::Everything | Style::Metadata => true,
            Style::Prefix(end) => call < end,
            Style::Any => random.random_bool(0.5),
        }
    }
}

impl Node {
    fn crash(&self, style: Style, random: &mut SmallRng) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for (call, part) in &self.pending {
            let is_data = matches!(part, Part::Write { .. } | Part::Zero { .. });
            if is_data && style == Style::Any && random.random_bool(0.2) {
                part.apply(&mut bytes, Some(random));
            } else if !(is_data && style == Style::Metadata) && style.keeps_metadata(*call, random) {
                part.apply(&mut bytes, None);
            }
        }
        bytes
    }
}

impl Part {
    /// Applies all of a change, or by `torn` some sectors of it.
    fn apply(&self, bytes: &mut Vec<u8>, torn: Option<&mut SmallRng>) {
        match self {
            Part::Truncate(len) => bytes.resize(*len, 0),
            Part::Extend(len) => bytes.resize(bytes.len().max(*len), 0),
            Part::Zero { offset, len } => {
                let end = bytes.len().min(offset + len);
                bytes[(*offset).min(end)..end].fill(0);
            }
            Part::Write { offset, data } => {
                bytes.resize(bytes.len().max(offset + data.len()), 0);
                let Some(random) = torn else {
                    bytes[*offset..offset + data.len()].copy_from_slice(data);
                    return;
                };
                let mut at = *offset;
                while at < offset + data.len() {
                    let end = (at / SECTOR + 1).saturating_mul(SECTOR).min(offset + data.len());
                    if random.random_bool(0.5) {
                        bytes[at..end].copy_from_slice(&data[at - offset..end - offset]);
                    }
                    at = end;
                }
            }
        }
    }
}

fn apply(names: &mut BTreeMap<(Number, OsString), Number>, changed: &Names) {
    for (dir, name, node) in changed {
        match node {
            Some(node) => names.insert((*dir, name.clone()), *node),
            None => names.remove(&(*dir, name.clone())),
        };
    }
}

/// Writes a file that only its owner may read, without long zeros.
fn write_sparse(path: &Path, bytes: &[u8]) {
    let file = File::options().write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (at, chunk) in bytes.chunks(HOLE).enumerate() {
        if chunk.iter().any(|byte| *byte != 0) {
            file.write_all_at(chunk, (at * HOLE) as u64).unwrap();
        }
    }
}

/// Cuts of a recording: checks `count` crash states, at random places of it, in order. Returns the errors of those that are
/// wrong; `check` takes the folder of a state and the time of the cut.
pub(crate) fn cut(
    disk: &mut Disk<'_>,
    count: usize,
    folder: &Path,
    mut check: impl FnMut(&Path, f64) -> Result<(), String>,
) -> Vec<String> {
    let steps = &disk.recording.steps;
    assert!(steps.len() > 1, "nothing is recorded");
    let mut places: Vec<usize> = (0..count).map(|_| disk.random.random_range(1..=steps.len())).collect();
    // The state after the last reply is always among them.
    places[0] = steps.len();
    places.sort_unstable();
    let mut wrong = Vec::new();
    for (number, place) in places.into_iter().enumerate() {
        disk.advance(place);
        let time = steps.get(place).map_or(f64::INFINITY, |step| step.time);
        let state = folder.join(format!("state-{number}"));
        disk.crash(&state);
        if let Err(error) = check(&state, time) {
            wrong.push(format!("cut {number}, before step {place} of {}: {error}", steps.len()));
        }
        fs::remove_dir_all(&state).unwrap();
    }
    wrong
}
