//! The journal of a running cluster, without I/O: what is to be appended to the log, and what must not be told to
//! anybody before that is durable.
//!
//! Records are numbered. A reply depends on a record: it is held until that one, and so all before it, is durable. The
//! driver of the cluster takes [`Job`]s and says what is [`Done`]; one that fails must not go on.

use super::entry::Entry;
use super::files::LogId;
use super::record::{seal, zeros_behind};
use super::snapshot::Snapshot;
use onego_buf::List;
use onego_ceph::messages::{MapUpdate, OsdOpReply};
use onego_msgr::Message;
use onego_wire::{ConnId, Time};
use std::collections::VecDeque;

/// Bytes that may wait to be durable before no more is read from clients: several turns of a fast disk.
const UNWRITTEN_LIMIT: u64 = 64 << 20;

/// Answers that may be held back before no more is read from clients.
const HELD_LIMIT: usize = 16_384;

/// How many times as long as the last checkpoint a log becomes before the next one: checkpoints then cost half as many bytes as
/// logs.
const LOGS_PER_CHECKPOINT: u64 = 2;

/// Part of the stored bytes that must be removed, as a divisor, before a checkpoint is tried again on a full disk.
const SMALLER_BY: u64 = 8;

/// Something to be done with the files of a data directory, in the order in which it is given.
#[derive(Debug)]
pub enum Job {
    /// Append to the log.
    Append(Append),
    /// Begin a new log, and write what the one before and all older ones come to into a file.
    Checkpoint(Box<Snapshot>),
}

/// What is to be appended to the log.
#[derive(Debug)]
pub struct Append {
    /// Records, as they are to be written.
    pub bytes: List,
    /// The last record's number.
    pub last: u64,
    /// Must it be made durable, and be reported then?
    pub sync: bool,
    /// Must it begin with a block?
    pub(crate) aligned: bool,
}

/// What has been done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// All records up to this one are durable.
    Durable(u64),
    /// A checkpoint of that many bytes is durable, and the logs before it are gone.
    Checkpoint(u64),
    /// The disk was too full for a checkpoint. The logs before it stay.
    NoCheckpoint,
    /// The log has a reserve of space, or has none any more.
    Reserve(bool),
}

/// What is counted of a request once it is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    /// When it came.
    pub(crate) since: Time,
    pub(crate) pool: i64,
    /// Could it change anything?
    pub(crate) writes: bool,
    /// Bytes that it brought, or that its reply has.
    pub(crate) bytes: u64,
    pub(crate) has_failed: bool,
}

/// An answer that is held back.
#[derive(Debug)]
pub(crate) enum Held {
    /// To a request, with its transaction id, and what is counted of it then.
    Reply(u64, Box<OsdOpReply>, Counted),
    Map(Box<MapUpdate>),
    Mon(Message),
}

/// What the files of a data directory come to, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sizes {
    /// The logs since the last checkpoint.
    pub(crate) log: u64,
    pub(crate) checkpoint: u64,
}

/// The journal.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Added to the numbers of records in the file.
    salt: u64,
    /// The number of the next record.
    next: u64,
    /// The number of the last record that says something.
    last: u64,
    /// All records up to this one are durable.
    durable: u64,
    /// Records that nobody has taken yet, and whether any of them says something.
    new: List,
    new_sync: bool,
    /// One of them has bytes of objects that begin with a block if the first record does.
    new_aligned: bool,
    /// What was taken and is not durable yet: numbers of last records, and bytes.
    taken: VecDeque<(u64, u64)>,
    /// Bytes that are not durable.
    unwritten: u64,
    /// Answers with the records that they rest on, which only grow.
    held: VecDeque<(u64, ConnId, Held)>,
    sizes: Sizes,
    /// A log is given up for a checkpoint from this size on, unless the last checkpoint is large.
    log_limit: u64,
    checkpointing: bool,
    /// A checkpoint is due, however long the log is.
    due: bool,
    /// Bytes in the stores when the disk was too full for a checkpoint of them.
    too_many: Option<u64>,
    /// The log has no reserve of space.
    is_disk_full: bool,
}

impl Journal {
    /// A journal that goes on with this log; all before is durable. `due`: a checkpoint should be made soon.
    pub(crate) fn new(log: LogId, sizes: Sizes, log_limit: u64, due: bool) -> Self {
        let LogId { first: next, salt } = log;
        Self {
            salt,
            next,
            last: next - 1,
            durable: next - 1,
            new: List::new(),
            new_sync: false,
            new_aligned: false,
            taken: VecDeque::new(),
            unwritten: 0,
            held: VecDeque::new(),
            sizes,
            log_limit,
            checkpointing: false,
            due,
            too_many: None,
            is_disk_full: false,
        }
    }

    /// The number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Appends a record, and says its number.
    pub(crate) fn append(&mut self, entry: &Entry) -> u64 {
        self.push(entry);
        self.last = self.next - 1;
        self.new_sync = true;
        self.last
    }

    fn push(&mut self, entry: &Entry) {
        let body = entry.encode();
        self.new_aligned |= body.is_aligned();
        let record = seal(self.next, self.durable, self.salt, self.new.len() as u64, body);
        self.next += 1;
        self.unwritten += record.len() as u64;
        self.sizes.log += record.len() as u64;
        self.new.append(record);
    }

    /// May replies that depend on this record be sent? One that is not written yet stands for all that are.
    pub(crate) fn is_durable(&self, record: u64) -> bool {
        record.min(self.last) <= self.durable
    }

    /// Holds a reply until what it depends on is durable.
    pub(crate) fn hold(&mut self, record: u64, conn: ConnId, answer: Held) {
        // What is behind others waits for what they wait for: it is one sync more at most.
        let before = self.held.back().map_or(0, |(record, ..)| *record);
        self.held.push_back((record.min(self.last).max(before), conn, answer));
    }

    /// The next answer that need not be held back any more.
    pub(crate) fn release(&mut self) -> Option<(ConnId, Held)> {
        let (_, conn, answer) = self.held.pop_front_if(|(record, ..)| *record <= self.durable)?;
        Some((conn, answer))
    }

    /// Is so much under way that clients have to wait?
    pub(crate) fn is_full(&self) -> bool {
        self.unwritten > UNWRITTEN_LIMIT || self.held.len() > HELD_LIMIT
    }

    /// Returns whether there is something to write, where the stores have `stored` bytes.
    pub(crate) fn has_job(&self, stored: u64) -> bool {
        !self.new.is_empty() || self.wants_checkpoint(stored)
    }

    /// The next records to be written.
    pub(crate) fn take(&mut self) -> Option<Append> {
        if self.new.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.new);
        let last = self.next - 1;
        // A sync writes whole blocks.
        self.sizes.log += zeros_behind(bytes.len() as u64).len() as u64;
        let taken: u64 = self.taken.iter().map(|(_, bytes)| bytes).sum();
        self.taken.push_back((last, self.unwritten - taken));
        let (sync, aligned) = (std::mem::take(&mut self.new_sync), std::mem::take(&mut self.new_aligned));
        Some(Append { bytes, last, sync, aligned })
    }

    /// Returns whether the log is long enough for a checkpoint of `stored` bytes, or so much was removed that a full disk may
    /// have room for one.
    pub(crate) fn wants_checkpoint(&self, stored: u64) -> bool {
        let is_smaller = match self.too_many {
            Some(many) => stored < many - many / SMALLER_BY,
            // A checkpoint frees at least as much as it takes.
            None => self.is_disk_full && stored < (self.sizes.log + self.sizes.checkpoint) / 2,
        };
        let is_long = self.sizes.log >= self.log_limit.max(LOGS_PER_CHECKPOINT * self.sizes.checkpoint);
        !self.checkpointing && (is_long || self.due || is_smaller)
    }

    /// A checkpoint is begun: from here on there is a new log.
    pub(crate) fn checkpoint_begun(&mut self) {
        self.checkpointing = true;
        (self.due, self.too_many) = (false, None);
        self.sizes.log = 0;
    }

    pub(crate) fn checkpoint_done(&mut self, size: u64) {
        self.checkpointing = false;
        self.sizes.checkpoint = size;
    }

    /// The log has no reserve of space any more, or has one again.
    pub(crate) fn set_disk_full(&mut self, is_full: bool) {
        self.is_disk_full = is_full;
    }

    /// The disk was too full for a checkpoint of `stored` bytes.
    pub(crate) fn checkpoint_refused(&mut self, stored: u64) {
        self.checkpointing = false;
        self.too_many = Some(stored);
    }

    /// All records up to this one are durable.
    pub(crate) fn durable_up_to(&mut self, record: u64) {
        self.durable = self.durable.max(record);
        while let Some((_, bytes)) = self.taken.pop_front_if(|(last, _)| *last <= record) {
            self.unwritten -= bytes;
        }
        // A reader of the log must know that its end was durable, also if nothing more is ever written.
        if self.durable + 1 == self.next {
            self.push(&Entry::Mark);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onego_wire::ConnTable;

    fn journal() -> Journal {
        Journal::new(LogId { first: 1, salt: 7 }, Sizes::default(), u64::MAX, false)
    }

    fn conn() -> ConnId {
        ConnTable::default().insert(())
    }

    fn hold(journal: &mut Journal, record: u64) {
        journal.hold(record, conn(), Held::Mon(Message::new(0, 1, 1, Vec::new())));
    }

    #[test]
    fn answers_are_held_until_what_they_rest_on_is_durable() {
        let mut journal = journal();
        let first = journal.append(&Entry::Wipe { osd: 0 });
        let taken = journal.take().unwrap();
        let second = journal.append(&Entry::Wipe { osd: 1 });
        hold(&mut journal, first);
        hold(&mut journal, u64::MAX);
        assert!(journal.release().is_none() && !journal.is_durable(first));
        journal.durable_up_to(taken.last);
        assert!(journal.is_durable(first) && !journal.is_durable(second) && !journal.is_durable(u64::MAX));
        assert!(journal.release().is_some() && journal.release().is_none());
        let taken = journal.take().unwrap();
        journal.durable_up_to(taken.last);
        assert!(journal.release().is_some() && journal.is_durable(u64::MAX));
    }

    #[test]
    fn an_end_that_is_durable_is_said_to_be_once_and_nobody_waits_for_that() {
        let mut journal = journal();
        journal.append(&Entry::Wipe { osd: 0 });
        let taken = journal.take().unwrap();
        assert!(taken.sync);
        journal.durable_up_to(taken.last);
        let mark = journal.take().unwrap();
        assert!(!mark.sync && mark.last == taken.last + 1);
        assert!(journal.is_durable(u64::MAX) && !journal.has_job(0));
    }

    #[test]
    fn clients_wait_while_too_much_is_under_way() {
        let mut journal = journal();
        journal.append(&Entry::Groups(vec![0; UNWRITTEN_LIMIT as usize]));
        assert!(journal.is_full());
        let taken = journal.take().unwrap();
        assert!(journal.is_full());
        journal.durable_up_to(taken.last);
        assert!(!journal.is_full());
        (0..=HELD_LIMIT).for_each(|_| hold(&mut journal, u64::MAX));
        assert!(journal.is_full());
    }

    #[test]
    fn a_checkpoint_is_due_once_the_log_is_twice_as_long_as_the_last() {
        let mut journal =
            Journal::new(LogId { first: 1, salt: 7 }, Sizes { log: 0, checkpoint: 1000 }, 500, false);
        journal.append(&Entry::Groups(vec![0; 1100]));
        assert!(!journal.wants_checkpoint(1000));
        journal.append(&Entry::Groups(vec![0; 1100]));
        assert!(journal.wants_checkpoint(1000));
        journal.checkpoint_begun();
        journal.append(&Entry::Groups(vec![0; 2200]));
        assert!(!journal.wants_checkpoint(1000), "one at a time");
        journal.checkpoint_done(1100);
        assert!(journal.wants_checkpoint(1000));
    }

    #[test]
    fn a_full_disk_has_a_checkpoint_as_soon_as_that_frees_space() {
        let sizes = Sizes { log: 700, checkpoint: 300 };
        let mut journal = Journal::new(LogId { first: 1, salt: 7 }, sizes, 10_000, false);
        assert!(!journal.wants_checkpoint(0));
        journal.set_disk_full(true);
        assert!(!journal.wants_checkpoint(500) && journal.wants_checkpoint(499));
    }

    #[test]
    fn a_checkpoint_that_a_full_disk_refused_is_tried_again_once_there_is_less_or_the_log_is_long() {
        let mut journal = Journal::new(LogId { first: 1, salt: 7 }, Sizes::default(), 500, true);
        journal.checkpoint_begun();
        journal.checkpoint_refused(800);
        assert!(!journal.wants_checkpoint(800) && !journal.wants_checkpoint(700));
        assert!(journal.wants_checkpoint(699));
        journal.set_disk_full(true);
        assert!(!journal.wants_checkpoint(700), "it was refused for little more");
        journal.append(&Entry::Groups(vec![0; 600]));
        assert!(journal.wants_checkpoint(800));
    }
}
