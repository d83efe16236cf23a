//! Records next to unfinished copies: their source, the bytes that are durable, and the process that writes them.

use crate::partial::fnv;
use std::collections::{BTreeSet, hash_map::RandomState};
use std::fmt;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

/// Bytes of a slot: a sector. A record has two, which are rewritten in turn, so that a write torn by a power cut leaves one.
pub(super) const SLOT: usize = 512;

/// Bytes of a record.
pub(crate) const RECORD_LEN: usize = 2 * SLOT;

/// First word of a record: other files of its name are not this program's.
const MAGIC: &str = "onego-partial-copy";

/// A record of an unfinished copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Identity of the source. `None`: nothing tells whether it changed.
    pub(crate) source: Option<String>,
    /// Number of the file that has the bytes. `None`: a power cut damaged the record.
    pub(crate) file: Option<u64>,
    /// Bytes from the begin on that survive a power cut.
    pub(crate) synced: u64,
    /// Process that writes the copy, where the file system has no locks.
    pub(crate) owner: Option<Owner>,
}

impl Record {
    /// Text of [`RECORD_LEN`] bytes: the same slot twice.
    pub(crate) fn text(&self) -> String {
        self.slot().repeat(2)
    }

    /// Text of [`SLOT`] bytes.
    pub(super) fn slot(&self) -> String {
        let source = self.source.as_deref().unwrap_or("-");
        let owner = self.owner.as_ref().map_or_else(|| "-".to_owned(), Owner::to_string);
        let (file, synced) = (self.file.unwrap_or(0), self.synced);
        let said = format!("file={file} synced={synced} owner={owner} source={source}");
        let line = format!("{MAGIC} {:016x} {said}", fnv(said.as_bytes()));
        format!("{line:<width$}\n", width = SLOT - 1)
    }

    /// Reads a record. `None`: the bytes are no record of this program.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let slots = bytes.chunks(SLOT).filter_map(Self::parse_slot);
        let damaged = || {
            let is_ours = bytes.chunks(SLOT).any(|slot| slot.starts_with(MAGIC.as_bytes()));
            is_ours.then_some(Self { source: None, file: None, synced: 0, owner: None })
        };
        // Within a copy, what is synced grows.
        slots.max_by_key(|record| record.synced).or_else(|| Self::parse_earlier(bytes)).or_else(damaged)
    }

    fn parse_slot(bytes: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?.trim_end();
        let (sum, said) = line.strip_prefix(MAGIC)?.strip_prefix(' ')?.split_once(' ')?;
        if u64::from_str_radix(sum, 16) != Ok(fnv(said.as_bytes())) {
            return None;
        }
        let mut words = said.split(' ');
        let mut value = |key: &str| words.next()?.strip_prefix(key)?.strip_prefix('=');
        let (file, synced) = (value("file")?.parse().ok()?, value("synced")?.parse().ok()?);
        let owner = Some(value("owner")?).filter(|owner| *owner != "-").map(str::parse).transpose().ok()?;
        let source = Some(value("source")?).filter(|source| *source != "-").map(str::to_owned);
        Some(Self { source, file: Some(file), synced, owner })
    }

    /// Reads a record of an earlier version: the source and the file. None of its bytes is known to be durable.
    fn parse_earlier(bytes: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
        let (source, file) = line.rsplit_once(' ')?;
        let is_source = source.starts_with("file:") && !source.contains(char::is_whitespace);
        let file = file.parse().ok().filter(|_| is_source)?;
        Some(Self { source: Some(source.to_owned()), file: Some(file), synced: 0, owner: None })
    }

    /// Returns whether it is about this file.
    pub(crate) fn is_of(&self, file: u64) -> bool {
        self.file.is_none_or(|named| named == file)
    }
}

/// A process that writes a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The running system, and its namespace of process ids.
    system: String,
    process: u32,
    /// Time when the process started, in ticks since the system did: ids of processes are reused.
    started: u64,
    /// Tells copies of one process apart.
    token: u64,
}

/// Liveness of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    Alive,
    Dead,
    /// It runs elsewhere, where this system cannot look.
    Unknown,
}

/// Copies that this process writes.
static OWN: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

fn own() -> std::sync::MutexGuard<'static, BTreeSet<u64>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Owner {
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    pub(crate) fn liveness(&self) -> Liveness {
        match system() {
            Some(system) if system == self.system => {}
            _ => return Liveness::Unknown,
        }
        let is_alive = match self.process == std::process::id() {
            true => own().contains(&self.token),
            false => started(self.process) == Some(self.started),
        };
        if is_alive { Liveness::Alive } else { Liveness::Dead }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { system, process, started, token } = self;
        write!(f, "{system}/{process}/{started}/{token:016x}")
    }
}

impl FromStr for Owner {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let words: Vec<_> = text.split('/').collect();
        let [system, process, started, token] = words[..] else { return Err(()) };
        Ok(Self {
            system: system.to_owned(),
            process: process.parse().map_err(drop)?,
            started: started.parse().map_err(drop)?,
            token: u64::from_str_radix(token, 16).map_err(drop)?,
        })
    }
}

/// A copy of this process, as others see it while this lives.
#[derive(Debug)]
pub(crate) struct Claim(Owner);

impl Claim {
    pub(crate) fn new() -> Self {
        let token = RandomState::new().build_hasher().finish();
        own().insert(token);
        let process = std::process::id();
        let (system, started) = (system().unwrap_or_default(), started(process).unwrap_or(0));
        Self(Owner { system, process, started, token })
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.0
    }

    pub(crate) fn token(&self) -> u64 {
        self.0.token
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        own().remove(&self.0.token);
    }
}

/// Names the running system and the namespace of process ids, in hexadecimal.
fn system() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::metadata("/proc/self/ns/pid").ok()?.ino();
    Some(format!("{:016x}{namespace:x}", fnv(boot.trim().as_bytes())))
}

/// Start time of a process, in ticks. `None`: there is none, or it has ended.
fn started(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may have spaces and parentheses in it; the state is next, and the time field 22.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    fields.nth(18)?.parse().ok().filter(|_| !matches!(state, "Z" | "X"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written_and_nothing_else_is_one() {
        let claim = Claim::new();
        for (source, owner) in [(None, None), (Some("file:1:2:3.4:5.6"), Some(claim.owner().clone()))] {
            let source = source.map(str::to_owned);
            let record = Record { source, file: Some(u64::MAX), synced: u64::MAX, owner };
            assert_eq!(record.text().len(), RECORD_LEN);
            assert_eq!(Record::parse(record.text().as_bytes()), Some(record));
        }
        let earlier = Record::parse(b"file:1:2:3.000000004:5.000000006 7\n").unwrap();
        assert_eq!((earlier.file, earlier.synced), (Some(7), 0));
        for other in ["", "\n", "notes 7\n", "file:1 of mine 7\n", "file:1 7"] {
            assert_eq!(Record::parse(other.as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn a_torn_write_of_a_record_leaves_the_slot_before_it() {
        let old = Record { source: None, file: Some(7), synced: 99, owner: None };
        let new = Record { synced: 100, ..old.clone() };
        for torn in 0..SLOT {
            let mut bytes = old.text().into_bytes();
            bytes[..torn].copy_from_slice(&new.slot().as_bytes()[..torn]);
            let read = Record::parse(&bytes).unwrap();
            assert!(read == old || read == new, "{torn}: {read:?}");
            bytes.truncate(torn);
            let alone = Record::parse(&bytes);
            assert!(alone.is_none_or(|read| read.synced == 0), "{torn}");
        }
    }

    #[test]
    fn an_owner_is_alive_while_its_copy_is_written() {
        let claim = Claim::new();
        let owner = claim.owner().clone();
        assert_eq!(owner.liveness(), Liveness::Alive);
        drop(claim);
        assert_eq!(owner.liveness(), Liveness::Dead, "the process goes on without the copy");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let other = Owner { process: child.id(), started: started(child.id()).unwrap(), ..owner.clone() };
        assert_eq!(other.liveness(), Liveness::Alive);
        let reused = Owner { started: other.started + 1, ..other.clone() };
        assert_eq!(reused.liveness(), Liveness::Dead, "another process has its number");
        child.kill().unwrap();
        assert!(matches!(other.liveness(), Liveness::Dead | Liveness::Alive));
        child.wait().unwrap();
        assert_eq!(other.liveness(), Liveness::Dead);
        let elsewhere = Owner { system: "elsewhere".into(), ..owner };
        assert_eq!(elsewhere.liveness(), Liveness::Unknown);
    }
}
