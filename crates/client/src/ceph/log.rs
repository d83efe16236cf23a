use futures_channel::mpsc;
use onego_ceph::messages::LogEntry;

/// Receivers of new entries. A single subscription to all levels serves them all; each filters its own.
#[derive(Default)]
pub(super) struct LogFollowers {
    followers: Vec<mpsc::Sender<LogEntry>>,
}

impl LogFollowers {
    pub(super) fn add(&mut self, follower: mpsc::Sender<LogEntry>) {
        self.followers.push(follower);
    }

    /// Sends the entries to all followers. One that falls behind is dropped, because a stream with a gap would look
    /// complete.
    pub(super) fn tell(&mut self, entries: &[LogEntry]) {
        self.followers
            .retain_mut(|follower| entries.iter().all(|entry| follower.try_send(entry.clone()).is_ok()));
    }

    /// Drops closed followers; returns whether none is left.
    pub(super) fn sweep(&mut self) -> bool {
        self.followers.retain(|follower| !follower.is_closed());
        self.followers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> LogEntry {
        LogEntry { text: text.into(), ..LogEntry::default() }
    }

    #[test]
    fn a_slow_follower_is_dropped_and_the_others_are_not() {
        let mut followers = LogFollowers::default();
        // A channel has one extra slot for each sender.
        let ((slow, slow_end), (quick, quick_end)) = (mpsc::channel(0), mpsc::channel(9));
        followers.add(slow);
        followers.add(quick);
        followers.tell(&[entry("a"), entry("b")]);
        followers.tell(&[entry("c")]);
        let texts = |mut end: mpsc::Receiver<LogEntry>| {
            let mut texts = Vec::new();
            while let Ok(entry) = end.try_recv() {
                texts.push(entry.text);
            }
            texts
        };
        assert_eq!(texts(slow_end), ["a"]);
        assert!(!followers.sweep());
        assert_eq!(texts(quick_end), ["a", "b", "c"]);
        assert!(followers.sweep());
    }
}
