//! What a start finds, whatever a crash has left, and what it refuses.

use super::entry::{Entry, Life};
use super::files::{Directory, LogId, checkpoint_name};
use super::log::{Append, Journal, Sizes};
use super::record::{HEADER, zeros_behind};
use super::snapshot::Kept;
use super::{BLOCK, DataError, Files, Restored, Snapshot, Writer, write_checkpoint};
use crate::mon::{MapHistory, MonSettings};
use crate::osd::tests::{Bench, write};
use crate::osd::{Config, Osd};
use onego_buf::{List, Segment};
use onego_ceph::messages::LogEntry;
use onego_ceph::ops::{Omap, Op};
use onego_ceph::osdmap::{OsdMap, Pool};
use onego_ceph::types::{PgId, SnapContext};
use onego_msgr::auth::{Keyring, Secret};
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

const MEMORY: u64 = 64 << 20;

/// The salt of the logs of a [`Story`], and of those that follow it.
const SALT: u64 = 0x5a17_5a17_5a17_5a17;

fn log_id(first: u64) -> LogId {
    LogId { first, salt: SALT }
}

fn log_name(first: u64) -> String {
    log_id(first).to_string()
}

/// A history of one map, with the pool that the bench has.
fn maps() -> MapHistory {
    let mut map = OsdMap { version: OsdMap::VERSION_NAUTILUS, epoch: 1, ..OsdMap::default() };
    map.set_max_osd(1);
    map.pools.insert(Bench::POOL, Pool { pg_num: 8, pgp_num: 8, ..Pool::default() });
    MapHistory::new(map)
}

/// All that an OSD has, as bytes.
fn content(osd: &Osd) -> Vec<Vec<u8>> {
    let bytes = |entry: Entry| {
        let body = entry.encode();
        [body.front.as_slice(), &body.payload.to_vec()].concat()
    };
    let objects = osd.objects().map(|(pool, name, state)| Entry::Object { osd: 0, pool, name, state });
    let groups = osd.groups_as_they_are();
    let groups = groups.map(|(pg, group)| Entry::Group { osd: 0, pg, group: Box::new(group) });
    let mut all: Vec<Vec<u8>> = objects.chain(groups).map(bytes).collect();
    all.sort();
    all
}

/// A log, where each of its records ends, and what the OSD has behind each. Each record was synced, and begins with a block.
struct Story {
    bytes: Vec<u8>,
    starts: Vec<usize>,
    ends: Vec<usize>,
    contents: Vec<Vec<Vec<u8>>>,
}

fn keyring() -> Keyring {
    Keyring::parse("[client.a]\n\tkey = AQCgVgJrs8D4DxAAAwVHrSAYoubf0Y/TyXuxEw==\n\tcaps mon = \"allow r\"\n")
        .unwrap()
}

impl Story {
    /// A log of requests, before some of which a snapshot is taken. Each record knows that all were durable that are two and
    /// more before it.
    fn new(requests: Vec<(u8, Op)>) -> Self {
        Self::salted(SALT, requests)
    }

    fn salted(salt: u64, requests: Vec<(u8, Op)>) -> Self {
        let mut bench = Bench::with(Config { transactions: true, memory_limit: MEMORY, ..Config::default() });
        let mut journal = Journal::new(LogId { first: 1, salt }, Sizes::default(), u64::MAX, false);
        let mut story =
            Self { bytes: Vec::new(), starts: Vec::new(), ends: Vec::new(), contents: Vec::new() };
        let settings = MonSettings { keyring: Some(keyring()), ..MonSettings::default() };
        story.add(&mut journal, &Entry::Monitor { maps: maps().kept(), settings }, &bench.osd);
        let life = Life { number: 3, memory_limit: MEMORY, ..Life::default() };
        story.add(&mut journal, &Entry::Started(life), &bench.osd);
        let mut snaps = SnapContext::default();
        for (object, op) in requests {
            if object >= 200 {
                snaps.seq += 1;
                snaps.snaps.insert(0, snaps.seq);
            }
            bench.ask_knowing(snaps.clone(), &format!("object{}", object % 4), vec![op]);
            let transaction = bench.transaction.take().expect("a write makes a transaction");
            story.add(&mut journal, &Entry::Write { osds: vec![0], transaction }, &bench.osd);
        }
        story
    }

    fn add(&mut self, journal: &mut Journal, entry: &Entry, osd: &Osd) {
        let record = journal.append(entry);
        self.bytes.extend(zeros_behind(self.bytes.len() as u64));
        self.starts.push(self.bytes.len());
        self.bytes.extend(journal.take().expect("a record").bytes.to_vec());
        if record > 1 {
            journal.durable_up_to(record - 1);
        }
        self.ends.push(self.bytes.len());
        self.contents.push(content(osd));
    }

    /// The records that are whole in the first `len` bytes.
    fn whole(&self, len: usize) -> usize {
        self.ends.iter().filter(|end| **end <= len).count()
    }

    /// The offsets of all bytes of records.
    fn offsets(&self) -> Vec<usize> {
        self.starts.iter().zip(&self.ends).flat_map(|(start, end)| *start..*end).collect()
    }
}

fn request() -> impl Strategy<Value = (u8, Op)> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    let key = || prop::collection::vec(b'a'..b'd', 1..3);
    let op = prop_oneof![
        4 => (0..100_u64, bytes()).prop_map(|(offset, bytes)| write(offset, &bytes)),
        1 => bytes().prop_map(|bytes| Op::WriteFull { data: bytes.into() }),
        1 => (0..100_u64).prop_map(|size| Op::Truncate { size }),
        1 => (0..100_u64, 1..50_u64).prop_map(|(offset, length)| Op::Zero { offset, length }),
        1 => bytes().prop_map(|value| Op::SetXattr { name: "x".into(), value: value.into() }),
        1 => (key(), bytes()).prop_map(|(key, value)| {
            Op::OmapSetVals { entries: Omap::from([(key, value.into())]) }
        }),
        1 => any::<bool>().prop_map(|exclusive| Op::Create { exclusive }),
        1 => Just(Op::Delete),
        1 => (0..4_u64).prop_map(|snap| Op::Rollback { snap }),
    ];
    (any::<u8>(), op)
}

/// A directory with these files.
fn directory(files: &[(String, &[u8])]) -> (tempfile::TempDir, Directory) {
    let folder = tempfile::tempdir().unwrap();
    let directory = Directory::open(&folder.path().join("data")).unwrap();
    for (name, bytes) in files {
        fs::write(directory.path().join(name), bytes).unwrap();
    }
    (folder, directory)
}

/// Files in memory, of which none is ever made: there are many to be read.
struct InMemory<'a>(RefCell<BTreeMap<String, &'a [u8]>>);

impl Files for InMemory<'_> {
    type File = io::Sink;

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.0.borrow().keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<(Box<dyn io::Read + '_>, u64)> {
        let bytes = self.0.borrow()[name];
        Ok((Box::new(bytes), bytes.len() as u64))
    }

    fn create(&self, _: &str) -> io::Result<io::Sink> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn reuse(&self, _: &str, _: &str) -> io::Result<io::Sink> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self, _: &mut io::Sink) -> io::Result<()> {
        Ok(())
    }

    fn finish(&self, _: &mut io::Sink) -> io::Result<()> {
        Ok(())
    }

    fn cut(&self, name: &str, len: u64) -> io::Result<()> {
        let whole = self.0.borrow()[name];
        let cut = &whole[..len as usize];
        self.0.borrow_mut().insert(name.to_owned(), cut);
        Ok(())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.borrow_mut().remove(name);
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }
}

fn load(files: &[(String, &[u8])]) -> Result<(Restored, Vec<Vec<u8>>), DataError> {
    let files = InMemory(RefCell::new(files.iter().cloned().collect()));
    let restored = Restored::load(&files, Some(MEMORY), SALT)?;
    let content = restored.kept.as_ref().map(|kept| content(&kept.osds[0])).unwrap_or_default();
    Ok((restored, content))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn every_prefix_of_a_log_gives_a_prefix_of_what_was_done(requests in prop::collection::vec(request(), 1..8)) {
        let story = Story::new(requests);
        for len in story.offsets().into_iter().chain([story.bytes.len()]) {
            let (restored, content) = load(&[(log_name(1), &story.bytes[..len])]).unwrap();
            let whole = story.whole(len);
            prop_assert_eq!(restored.log().first as usize, whole + 1);
            prop_assert_eq!(content, whole.checked_sub(1).map(|last| story.contents[last].clone()).unwrap_or_default());
        }
    }

    #[test]
    fn a_bit_that_flips_is_an_error_unless_it_may_be_the_torn_end(
        requests in prop::collection::vec(request(), 2..8), at in any::<prop::sample::Index>(), bit in 0..8
    ) {
        let mut story = Story::new(requests);
        let at = *at.get(&story.offsets());
        story.bytes[at] ^= 1_u8 << bit;
        let hit = story.whole(at);
        match load(&[(log_name(1), &story.bytes)]) {
            // The last two are not known to have been durable.
            Ok((restored, content)) => {
                prop_assert!(hit + 2 >= story.ends.len());
                prop_assert_eq!(restored.log().first as usize, hit + 1);
                prop_assert_eq!(&content, &story.contents[hit - 1]);
            }
            Err(DataError::Corrupt { file, offset, .. }) => {
                prop_assert!(hit + 2 < story.ends.len());
                prop_assert_eq!((file, offset as usize), (log_name(1), story.starts[hit]));
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_checkpoint_has_what_the_log_before_it_had(
        requests in prop::collection::vec(request(), 1..20), flip in any::<prop::sample::Index>()
    ) {
        let story = Story::new(requests);
        let (_folder, directory) = directory(&[(log_name(1), &story.bytes)]);
        let restored = Restored::load(&directory, Some(MEMORY), SALT).unwrap();
        let (next, kept) = (restored.log().first, restored.kept.unwrap());
        Writer::begin(&directory, log_id(next)).unwrap();
        write_checkpoint(&directory, snapshot(next, &kept)).unwrap();
        let mut names = directory.names().unwrap();
        names.sort();
        prop_assert_eq!(names, [&checkpoint_name(next), &log_name(next), "newest-log", "onego-cluster", "spare.log"]);
        let again = Restored::load(&directory, Some(MEMORY), SALT).unwrap();
        prop_assert_eq!(again.log().first, next);
        let again = again.kept.unwrap();
        prop_assert_eq!((&again.life, &again.settings), (&kept.life, &kept.settings));
        prop_assert_eq!(content(&again.osds[0]), story.contents.last().unwrap().clone());
        prop_assert_eq!(again.osds[0].usage().bytes, kept.osds[0].usage().bytes);

        let path = directory.path().join(checkpoint_name(next));
        let mut bytes = fs::read(&path).unwrap();
        let at = flip.index(bytes.len());
        fs::write(&path, &bytes[..at]).unwrap();
        prop_assert!(matches!(Restored::load(&directory, Some(MEMORY), SALT), Err(DataError::Corrupt { .. })), "cut at {at}");
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        prop_assert!(matches!(Restored::load(&directory, Some(MEMORY), SALT), Err(DataError::Corrupt { .. })), "flip at {at}");
    }
}

fn snapshot(before: u64, kept: &Kept) -> Snapshot {
    let monitor = (&kept.maps, kept.settings.clone(), kept.log.clone());
    Snapshot::new(before, monitor, kept.life.clone(), &kept.groups, kept.osds.iter())
}

#[test]
fn logs_of_several_lives_follow_each_other_and_none_may_be_missing() {
    let story = Story::new((0..6).map(|n| (n, write(0, &[n]))).collect());
    let (a, b) = (story.starts[3], story.starts[6]);
    let files = [
        (log_name(1), &story.bytes[..a]),
        (log_name(4), &story.bytes[a..b]),
        (log_name(7), &story.bytes[b..]),
    ];
    let (restored, content) = load(&files).unwrap();
    assert_eq!((restored.log().first, &content), (9, story.contents.last().unwrap()));
    let missing = load(&[files[0].clone(), files[2].clone()]).unwrap_err();
    assert!(matches!(&missing, DataError::Missing { file } if file == "log.0000000000000004.*"), "{missing}");
    // The end of a log that another follows was durable.
    let torn = load(&[files[0].clone(), (log_name(4), &story.bytes[a..story.ends[5] - 1]), files[2].clone()]);
    assert!(matches!(torn, Err(DataError::Corrupt { .. })), "{torn:?}");
}

#[test]
fn a_start_misses_the_newest_log() {
    let story = Story::new((0..6).map(|n| (n, write(0, &[n]))).collect());
    let (_folder, directory) = directory(&[(log_name(1), &story.bytes)]);
    let mut names = Vec::new();
    for first in [9, 10] {
        assert_eq!(Restored::load(&directory, Some(MEMORY), SALT).unwrap().log().first, first);
        let mut writer = Writer::begin(&directory, log_id(first)).unwrap();
        let mut journal = Journal::new(log_id(first), Sizes::default(), u64::MAX, false);
        journal.append(&Entry::Log(Vec::new()));
        writer.append(&directory, journal.take()).unwrap();
        names.push(log_name(first));
    }
    let path = directory.path().to_owned();
    let load = || Restored::load(&directory, Some(MEMORY), SALT);
    assert_eq!(load().unwrap().log().first, 11);
    let aside = path.join("aside");
    for (name, first) in names.iter().zip([9, 10]) {
        fs::rename(path.join(name), &aside).unwrap();
        let missing = load().unwrap_err();
        let wanted = format!("log.{first:016x}.*");
        assert!(matches!(&missing, DataError::Missing { file } if *file == wanted), "{missing}");
        fs::rename(&aside, path.join(name)).unwrap();
    }
    // Versions that note no newest log have left none, or an older one.
    fs::write(path.join("newest-log"), format!("{}\n", names[0])).unwrap();
    assert_eq!(load().unwrap().log().first, 11);
    fs::write(path.join("newest-log"), "log.1\n").unwrap();
    assert!(matches!(load(), Err(DataError::File { file, .. }) if file == "newest-log"));
    fs::remove_file(path.join("newest-log")).unwrap();
    assert_eq!(load().unwrap().log().first, 11);
    // A checkpoint stands for all logs before it, also for the one that is noted.
    fs::write(path.join("newest-log"), format!("{}\n", names[0])).unwrap();
    let kept = load().unwrap().kept.unwrap();
    Writer::begin(&directory, log_id(11)).unwrap();
    write_checkpoint(&directory, snapshot(11, &kept)).unwrap();
    fs::write(path.join("newest-log"), format!("{}\n", names[1])).unwrap();
    assert_eq!(load().unwrap().log().first, 11);
}

#[test]
fn records_of_the_log_into_whose_file_another_is_written_are_none_of_it() {
    let story = Story::new((0..12).map(|n| (n, write(u64::from(n), &[n; 30]))).collect());
    let (old, new) = story.bytes.split_at(story.starts[7]);
    let lens = story.offsets().into_iter().filter_map(|at| at.checked_sub(old.len()));
    for len in lens.chain([new.len()]) {
        let mut file = new[..len].to_vec();
        file.extend(old.get(len..).unwrap_or_default());
        let (restored, content) = load(&[(log_name(1), old), (log_name(8), &file)]).unwrap();
        let whole = story.whole(old.len() + len);
        assert_eq!(
            (restored.log().first as usize, &content),
            (whole + 1, &story.contents[whole - 1]),
            "{len} bytes"
        );
    }
}

/// Records that a client could make, for any place and for none.
fn forged(first: u64, salt: u64) -> Vec<u8> {
    let mut journal = Journal::new(LogId { first, salt }, Sizes::default(), u64::MAX, false);
    journal.append(&Entry::Log(Vec::new()));
    journal.durable_up_to(first - 1);
    journal.take().expect("a record").bytes.to_vec()
}

#[test]
fn no_payload_behind_the_end_of_a_log_is_taken_for_a_record() {
    let story = Story::new((0..5).map(|n| (n, write(0, &[n; 30]))).collect());
    let last = *story.ends.last().unwrap();
    for cut in [last, last - 1] {
        // At every place that a record may have, with any numbers, but without the log's own salt.
        for salt in [0, 1, SALT ^ 1 << 40, u64::MAX] {
            let mut file = story.bytes[..cut].to_vec();
            for first in 2..300 {
                file.extend(zeros_behind(file.len() as u64));
                file.extend(forged(first, salt));
            }
            let (restored, content) = load(&[(log_name(1), &file)]).unwrap();
            let whole = story.whole(cut);
            assert_eq!((restored.log().first as usize, &content), (whole + 1, &story.contents[whole - 1]));
        }
    }
    // With it, they would count.
    let mut file = story.bytes[..last - 1].to_vec();
    file.extend(zeros_behind(file.len() as u64));
    file.extend(forged(9, SALT));
    assert!(matches!(load(&[(log_name(1), &file)]), Err(DataError::Corrupt { .. })));
}

/// Something that an older log, or a client without the salt, may have left behind the end of a log.
fn piece(random: &mut SmallRng, story: &Story, foreign: &Story) -> Vec<u8> {
    let len = random.random_range(0..2 * BLOCK);
    match random.random_range(0..9) {
        0 => vec![0; len],
        1 => (0..len).map(|_| random.random()).collect(),
        2 => vec![random.random(); len],
        // Numbers that could pass for lengths and sequences.
        3 => (0..len as u64 / 16)
            .flat_map(|at| [at, random.random_range(0..9)])
            .flat_map(u64::to_le_bytes)
            .collect(),
        4 => forged(random.random_range(2..400), random.random()),
        5 => forged(random.random_range(2..400), SALT ^ 1 << random.random_range(40..64)),
        // A header that asks for more than there is.
        6 => [&u32::MAX.to_le_bytes()[..], &[random.random(); HEADER]].concat(),
        // The same log, stored by a client or in its older half.
        7 => {
            let at = random.random_range(0..foreign.starts.len());
            foreign.bytes[foreign.starts[at]..].to_vec()
        }
        _ => {
            let at = random.random_range(0..2);
            story.bytes[story.starts[at]..story.ends[at]].to_vec()
        }
    }
}

#[test]
fn ten_thousand_tails_of_a_log_change_nothing() {
    let requests = || (0..3).map(|n| (n, write(0, &[n; 30]))).collect();
    let (story, foreign) = (Story::new(requests()), Story::salted(SALT ^ 1 << 50, requests()));
    let mut random = SmallRng::seed_from_u64(1);
    let mut torn = 0;
    for n in 0..10_000 {
        // From behind the second record on, so that all that a client has is in the tail.
        let cut = random.random_range(story.ends[1]..=story.bytes.len());
        let mut file = story.bytes[..cut].to_vec();
        for _ in 0..random.random_range(1..6) {
            // At a place of a record, or anywhere.
            if random.random_range(0..4) > 0 {
                file.extend(zeros_behind(file.len() as u64));
            }
            file.extend(piece(&mut random, &story, &foreign));
        }
        let whole = story.whole(cut);
        let (restored, content) =
            load(&[(log_name(1), &file)]).unwrap_or_else(|error| panic!("tail {n}: {error}"));
        // A tail may go on as the record did that was cut.
        let first = restored.log().first as usize;
        assert!(first == whole + 1 || file.starts_with(&story.bytes[..story.ends[whole]]), "tail {n}");
        assert_eq!(content, story.contents[first - 2], "tail {n}");
        torn += usize::from(!story.ends.contains(&cut));
    }
    assert!(torn > 1000, "{torn} torn records");
}

#[test]
fn an_empty_log_of_a_life_that_ended_early_gives_its_file_to_the_next() {
    let (_folder, directory) = directory(&[]);
    let story = Story::new(Vec::new());
    for salt in [1, 2, 3] {
        let restored = Restored::load(&directory, Some(MEMORY), salt).unwrap();
        let log = restored.log();
        assert_eq!(log, LogId { first: 1, salt });
        Writer::begin(&directory, log).unwrap();
        let mut names = directory.names().unwrap();
        names.sort();
        assert_eq!(names, [log.to_string().as_str(), "newest-log", "onego-cluster"]);
        // Garbage that is no record of it.
        fs::write(directory.path().join(log.to_string()), &story.bytes).unwrap();
    }
}

#[test]
fn the_files_of_old_logs_and_checkpoints_are_written_anew() {
    let story = Story::new((0..40).map(|n| (n, write(0, &[n; 1000]))).collect());
    let (_folder, directory) = directory(&[(log_name(1), &story.bytes)]);
    for (first, spares) in [(43, &["spare.log"][..]), (44, &["spare.checkpoint", "spare.log"])] {
        let restored = Restored::load(&directory, Some(MEMORY), SALT).unwrap();
        assert_eq!(restored.log().first, first);
        let mut writer = Writer::begin(&directory, log_id(first)).unwrap();
        write_checkpoint(&directory, snapshot(first, &restored.kept.unwrap())).unwrap();
        let mut names = directory.names().unwrap();
        names.retain(|name| name.starts_with("spare"));
        names.sort();
        assert_eq!(names, spares);
        // What is written is shorter than what the file had.
        let mut journal = Journal::new(log_id(first), Sizes::default(), u64::MAX, false);
        journal.append(&Entry::Log(Vec::new()));
        writer.append(&directory, journal.take()).unwrap();
    }
    let restored = Restored::load(&directory, Some(MEMORY), SALT).unwrap();
    assert_eq!(restored.log().first, 45);
    assert_eq!(content(&restored.kept.unwrap().osds[0]), *story.contents.last().unwrap());
}

#[test]
fn what_a_crash_has_torn_is_cut_off_for_good() {
    let story = Story::new(vec![(0, write(0, b"one")), (0, write(0, b"two"))]);
    let (_folder, directory) = directory(&[(log_name(1), &story.bytes[..story.bytes.len() - 1])]);
    let restored = Restored::load(&directory, Some(MEMORY), SALT).unwrap();
    assert_eq!(restored.log().first, 4);
    let len = fs::metadata(directory.path().join(log_name(1))).unwrap().len();
    assert_eq!(len as usize, story.starts[3]);
}

#[test]
fn the_records_of_several_jobs_are_synced_once() {
    let (_folder, directory) = directory(&[]);
    let mut writer = Writer::begin(&directory, log_id(1)).unwrap();
    let append = |last, sync| Append { bytes: vec![last as u8; 3].into(), last, sync, aligned: false };
    assert_eq!(writer.append(&directory, [append(1, true), append(2, true)]).unwrap(), Some(2));
    let log = || fs::read(directory.path().join(log_name(1))).unwrap();
    let synced = [vec![1, 1, 1, 2, 2, 2], vec![0; BLOCK - 6]].concat();
    assert!(log().starts_with(&synced) && log()[BLOCK..].iter().all(|byte| *byte == 0));
    // What need not be durable waits until there is nothing else to do, and is there when the log ends.
    assert_eq!(writer.append(&directory, [append(3, false)]).unwrap(), None);
    assert!(writer.is_unflushed());
    writer.flush().unwrap();
    assert!(!writer.is_unflushed() && log()[BLOCK..].starts_with(&[3, 3, 3, 0]));
    writer.finish(&directory).unwrap();
    assert!(log() == [synced, vec![3; 3], vec![0; BLOCK - 3]].concat());
}

#[test]
fn large_payloads_begin_with_a_block_of_the_file_and_are_there_again() {
    let large = [vec![7; 70_000], vec![9; 300_000]];
    let mut requests = vec![(0, write(0, b"small")), (1, write(10, &large[0])), (2, write(0, b"small"))];
    requests.push((3, write(0, &large[1])));
    let (_folder, directory) = directory(&[]);
    let mut writer = Writer::begin(&directory, log_id(1)).unwrap();
    let mut bench = Bench::with(Config { transactions: true, memory_limit: MEMORY, ..Config::default() });
    let mut journal = Journal::new(log_id(1), Sizes::default(), u64::MAX, false);
    journal.append(&Entry::Monitor { maps: maps().kept(), settings: MonSettings::default() });
    journal.append(&Entry::Started(Life { number: 1, memory_limit: MEMORY, ..Life::default() }));
    // Several records a job, and several jobs a sync.
    for two in requests.chunks(2) {
        for (object, op) in two {
            bench.ask(&format!("object{object}"), vec![op.clone()]);
            let transaction = bench.transaction.take().expect("a write makes a transaction");
            journal.append(&Entry::Write { osds: vec![0], transaction });
        }
        let small = Append { bytes: List::new(), last: 0, sync: false, aligned: false };
        writer.append(&directory, [small, journal.take().unwrap()]).unwrap();
    }
    writer.finish(&directory).unwrap();
    let log = fs::read(directory.path().join(log_name(1))).unwrap();
    for payload in &large {
        let starts_at = |at: &usize| log[*at..].starts_with(payload);
        assert!((0..log.len()).step_by(BLOCK).any(|at| starts_at(&at)), "{} bytes", payload.len());
    }
    let kept = Restored::load(&directory, Some(MEMORY), SALT).unwrap().kept.unwrap();
    assert_eq!(content(&kept.osds[0]), content(&bench.osd));
    // And of a checkpoint, too.
    let next = 7;
    writer = Writer::begin(&directory, log_id(next)).unwrap();
    write_checkpoint(&directory, snapshot(next, &kept)).unwrap();
    writer.finish(&directory).unwrap();
    let checkpoint = fs::read(directory.path().join(checkpoint_name(next))).unwrap();
    for payload in &large {
        assert!((0..checkpoint.len()).step_by(BLOCK).any(|at| checkpoint[at..].starts_with(payload)));
    }
    let again = Restored::load(&directory, Some(MEMORY), SALT).unwrap().kept.unwrap();
    assert_eq!(content(&again.osds[0]), content(&bench.osd));
}

#[test]
fn a_directory_of_a_format_before_is_read_and_marked_with_the_new_one() {
    let story = Story::salted(0, vec![(0, write(0, b"one"))]);
    for format in [3, 4, 5] {
        let (folder, before) = directory(&[(LogId { first: 1, salt: 0 }.to_string(), &story.bytes)]);
        drop(before);
        let path = folder.path().join("data");
        fs::write(path.join("onego-cluster"), format!("Onego cluster, format {format}\n")).unwrap();
        let directory = Directory::open(&path).unwrap();
        assert!(Restored::load(&directory, Some(MEMORY), SALT).unwrap().kept.is_some());
        assert_eq!(fs::read_to_string(path.join("onego-cluster")).unwrap(), "Onego cluster, format 6\n");
    }
}

#[test]
fn a_group_of_a_format_without_clones_has_none() {
    let mut body = Entry::Group { osd: 4, pg: PgId { pool: 1, seed: 2 }, group: Box::default() }.encode();
    let kind = HEADER;
    let mut bytes = std::mem::take(&mut body.front).into_vec();
    // The number of the record before format 5, which ended before the clones.
    bytes[kind] = 17;
    bytes.truncate(bytes.len() - 8);
    let entry = Entry::decode(&Segment::from(bytes.split_off(kind))).unwrap();
    assert!(matches!(entry, Entry::Group { osd: 4, group, .. } if group.contents.clones == 0));
}

#[test]
fn what_does_not_fit_the_memory_is_refused_with_how_much_it_had() {
    let story = Story::new(vec![(0, write(0, &[7; 100_000]))]);
    let (_folder, directory) = directory(&[(log_name(1), &story.bytes)]);
    let error = Restored::load(&directory, Some(50_000), SALT).unwrap_err();
    assert!(matches!(error, DataError::TooLarge { osd: 0, limit: 50_000, was: MEMORY }), "{error}");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_directory_is_for_one_cluster_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/new/one");
    let directory = Directory::open(&path).unwrap();
    assert_eq!(mode(&path), 0o700);
    let mut log = directory.create("log").unwrap();
    log.write_all(b"secret").unwrap();
    for name in ["log", "onego-cluster"] {
        assert_eq!(mode(&path.join(name)), 0o600, "{name}");
    }
    assert!(matches!(Directory::open(&path), Err(DataError::InUse { .. })));
    drop(directory);
    Directory::open(&path).unwrap();

    fs::write(path.join("onego-cluster"), "Onego cluster, format 999\n").unwrap();
    assert!(matches!(Directory::open(&path), Err(DataError::Format { .. })));
    fs::remove_file(path.join("onego-cluster")).unwrap();
    assert!(matches!(Directory::open(&path), Err(DataError::Foreign { .. })));
    // A start that ended early leaves nothing that is in the way of the next.
    fs::write(path.join("onego-cluster"), "Onego").unwrap();
    assert!(matches!(Directory::open(&path), Err(DataError::Format { .. })), "there is a log of something");
    fs::remove_file(path.join("log")).unwrap();
    Directory::open(&path).unwrap();
    fs::write(path.join("onego-cluster"), [0; 24]).unwrap();
    Directory::open(&path).unwrap();
    assert_eq!(fs::read_to_string(path.join("onego-cluster")).unwrap(), "Onego cluster, format 6\n");
}

#[test]
fn of_many_that_make_a_directory_at_once_one_has_it() {
    const OPENERS: usize = 6;
    for _ in 0..50 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let start = Barrier::new(OPENERS);
        let open = || {
            start.wait();
            Directory::open(&path)
        };
        let opened: Vec<_> = thread::scope(|scope| {
            let openers: Vec<_> = (0..OPENERS).map(|_| scope.spawn(open)).collect();
            openers.into_iter().map(|opener| opener.join().unwrap()).collect()
        });
        assert_eq!(opened.iter().filter(|opened| opened.is_ok()).count(), 1, "{opened:?}");
        let in_use = |opened: &Result<_, _>| matches!(opened, Ok(_) | Err(DataError::InUse { .. }));
        assert!(opened.iter().all(in_use), "{opened:?}");
    }
}

#[test]
fn settings_are_kept() {
    let config = BTreeMap::from([("global".to_owned(), BTreeMap::from([("a".to_owned(), "b".to_owned())]))]);
    // That nobody has a key is not that nobody needs one.
    for keyring in [Some(keyring()), Some(Keyring::default()), None] {
        let config_keys = BTreeMap::from([("mgr/a".to_owned(), vec![0, 255])]);
        let service_secret = Secret::new(vec![7; 32 * usize::from(keyring.is_some())]);
        let unchecked = keyring.is_none().then(self::keyring);
        let settings =
            MonSettings { config: config.clone(), config_keys, keyring, service_secret, unchecked };
        let body = Entry::Settings(settings.clone()).encode();
        let bytes = body.front.as_slice()[super::record::HEADER..].to_vec();
        let Ok(Entry::Settings(read)) = Entry::decode(&bytes.into()) else { panic!("other settings") };
        assert_eq!(read, settings);
    }
}

#[test]
fn the_newest_entries_of_the_log_are_kept() {
    let mut kept = Kept::new(maps(), MonSettings::default(), &Config::default());
    let entry = |n: usize| LogEntry { text: format!("entry {n}"), ..LogEntry::default() };
    for from in (0..1500).step_by(100) {
        let body = Entry::Log((from..from + 100).map(entry).collect()).encode();
        let bytes = body.front.as_slice()[super::record::HEADER..].to_vec();
        kept.apply(Entry::decode(&bytes.into()).unwrap()).unwrap();
    }
    let texts: Vec<&str> = kept.log.iter().map(|entry| entry.text.as_str()).collect();
    assert_eq!((texts.len(), texts[0], texts[999]), (1000, "entry 500", "entry 1499"));
}
