//! Data that a server has accepted but may still lose: it is kept until it is committed.

use crate::v3::Verifier;
use onego_buf::List;
use std::collections::BTreeMap;

#[derive(Debug)]
struct Run {
    data: List,
    /// Write verifier under which the server accepted the data; `None` if it has lost it since.
    verifier: Option<Verifier>,
    number: u64,
}

/// The byte ranges of a file that are not durable. Newer data replaces older: runs never overlap.
#[derive(Debug, Default)]
pub(super) struct Unstable {
    runs: BTreeMap<u64, Run>,
    bytes: usize,
    numbers: u64,
}

impl Unstable {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn mark(&self) -> u64 {
        self.numbers
    }

    /// Adds data that the server accepted under `verifier`, or has lost.
    pub(super) fn put(&mut self, offset: u64, data: List, verifier: Option<Verifier>) {
        self.cut(offset, data.len() as u64);
        let number = self.numbers;
        self.numbers += 1;
        self.insert(offset, Run { data, verifier, number });
    }

    /// Removes a byte range that is durable or was overwritten.
    pub(super) fn cut(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        while let Some((&start, _)) = self.runs.range(..end).next_back() {
            let run = &self.runs[&start];
            if start + run.data.len() as u64 <= offset {
                return;
            }
            let mut run = self.runs.remove(&start).expect("the run was just seen");
            self.bytes -= run.data.len();
            let (verifier, number) = (run.verifier, run.number);
            if start < offset {
                let data = run.data.split_to((offset - start) as usize);
                self.insert(start, Run { data, verifier, number });
            }
            let cut = end.saturating_sub(start.max(offset)) as usize;
            if cut < run.data.len() {
                run.data.advance(cut);
                self.insert(end, Run { data: run.data, verifier, number });
            }
        }
    }

    /// Drops the runs before `mark` that were accepted under `verifier`: they are durable. Returns whether others
    /// before `mark` were lost.
    pub(super) fn committed(&mut self, mark: u64, verifier: Verifier) -> bool {
        self.drop_runs(|run| run.number < mark && run.verifier == Some(verifier));
        let mut lost = false;
        for run in self.runs.values_mut().filter(|run| run.number < mark) {
            run.verifier = None;
            lost = true;
        }
        lost
    }

    pub(super) fn take_lost(&mut self) -> Vec<(u64, List)> {
        let lost = self.runs.extract_if(.., |_, run| run.verifier.is_none());
        let lost: Vec<_> = lost.map(|(offset, run)| (offset, run.data)).collect();
        self.bytes -= lost.iter().map(|(_, data)| data.len()).sum::<usize>();
        lost
    }

    pub(super) fn forget(&mut self, mark: u64) {
        self.drop_runs(|run| run.number < mark);
    }

    fn drop_runs(&mut self, which: impl Fn(&Run) -> bool) {
        let dropped = self.runs.extract_if(.., |_, run| which(run));
        self.bytes -= dropped.map(|(_, run)| run.data.len()).sum::<usize>();
    }

    fn insert(&mut self, offset: u64, run: Run) {
        if !run.data.is_empty() {
            self.bytes += run.data.len();
            self.runs.insert(offset, run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Verifier = [1; 8];
    const SECOND: Verifier = [2; 8];

    fn bytes(lost: Vec<(u64, List)>) -> Vec<(u64, Vec<u8>)> {
        lost.into_iter().map(|(offset, data)| (offset, data.to_vec())).collect()
    }

    fn data(bytes: &[u8]) -> List {
        List::from(bytes.to_vec())
    }

    #[test]
    fn the_newest_bytes_win() {
        let mut unstable = Unstable::default();
        unstable.put(10, data(b"abcdef"), Some(FIRST));
        unstable.put(12, data(b"XY"), Some(FIRST));
        unstable.put(15, data(b"12345"), Some(FIRST));
        unstable.put(8, data(b"_"), Some(FIRST));
        assert_eq!(unstable.bytes(), 11);
        assert!(unstable.committed(unstable.mark(), SECOND));
        let lost = bytes(unstable.take_lost());
        let expected: [(u64, &[u8]); 5] = [(8, b"_"), (10, b"ab"), (12, b"XY"), (14, b"e"), (15, b"12345")];
        assert_eq!(lost, expected.map(|(offset, data)| (offset, data.to_vec())));
        assert!(unstable.is_empty() && unstable.bytes() == 0);
    }

    #[test]
    fn a_commit_does_not_cover_later_writes() {
        let mut unstable = Unstable::default();
        unstable.put(0, data(b"old"), Some(FIRST));
        let mark = unstable.mark();
        unstable.put(1, data(b"new"), Some(FIRST));
        assert!(!unstable.committed(mark, FIRST));
        assert_eq!(unstable.bytes(), 3);
        assert!(unstable.take_lost().is_empty());
        assert!(unstable.committed(unstable.mark(), SECOND));
        assert_eq!(bytes(unstable.take_lost()), [(1, b"new".to_vec())]);
    }

    #[test]
    fn durable_data_is_dropped() {
        let mut unstable = Unstable::default();
        unstable.put(0, data(b"0123456789"), Some(FIRST));
        unstable.cut(3, 4);
        assert_eq!(unstable.bytes(), 6);
        unstable.cut(0, 100);
        assert!(unstable.is_empty());
    }
}
