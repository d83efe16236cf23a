//! Gives programs the new entries of the cluster's log.

use crate::border::{Opaque, local_time};
use crate::runtime::{Callbacks, lock, next_of};
use onego::rados::{ClusterLog, LogEntry};
use std::ffi::{CString, c_char};
use std::sync::{Arc, Mutex};

pub(super) type Word = *const c_char;

/// Told of an entry: the program's argument, the entry as a line, who wrote it, seconds, nanoseconds, the writer's number for
/// it, its level, and what it says (`rados_log_callback_t`).
pub(super) type Tell = extern "C" fn(Opaque, Word, Word, u64, u64, u64, Word, Word);

/// The same with the channel behind the line, and the writer's name behind its rank (`rados_log_callback2_t`).
pub(super) type TellMore = extern "C" fn(Opaque, Word, Word, Word, Word, u64, u64, u64, Word, Word);

/// How a program is told.
#[derive(Clone, Copy)]
pub(super) enum LogTold {
    Short(Tell),
    Long(TellMore),
}

/// A program's callback for new entries.
pub(super) struct LogFollower {
    /// `None`: the program wants to be told no more.
    pub(super) log: Mutex<Option<ClusterLog>>,
    pub(super) told: LogTold,
    pub(super) argument: Opaque,
}

impl LogFollower {
    /// Tells of entries until there are no more.
    pub(super) async fn follow(self: Arc<Self>, callbacks: Arc<Callbacks>) {
        while let Some(entry) = next_of(&self.log, ClusterLog::next).await {
            let follower = Arc::clone(&self);
            callbacks.call(move || follower.tell(&entry));
        }
    }

    fn tell(&self, entry: &LogEntry) {
        if lock(&self.log).is_none() {
            return;
        }
        let level = entry.level.tag();
        let line = format!("{} {} {level} {}", stamp(entry), entry.name, entry.text);
        let texts = [
            line,
            entry.channel.clone(),
            entry.rank.to_string(),
            entry.name.to_string(),
            level.into(),
            entry.text.clone(),
        ];
        let texts = texts.map(|text| CString::new(text.replace('\0', " ")).unwrap_or_default());
        let [line, channel, rank, name, level, text] = texts.each_ref().map(|text| text.as_ptr());
        let (seconds, nanoseconds) = (entry.stamp.sec.into(), entry.stamp.nsec.into());
        match self.told {
            LogTold::Short(tell) => {
                tell(self.argument, line, rank, seconds, nanoseconds, entry.seq, level, text);
            }
            LogTold::Long(tell) => {
                tell(self.argument, line, channel, rank, name, seconds, nanoseconds, entry.seq, level, text);
            }
        }
    }

    /// The program is told no more.
    pub(super) fn end(&self) {
        let log = lock(&self.log).take();
        drop(log);
    }
}

fn stamp(entry: &LogEntry) -> String {
    local_time(entry.stamp.sec.into(), entry.stamp.nsec)
}
