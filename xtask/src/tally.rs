//! Counts of what passed and what failed.

/// What was run, and how it went.
#[derive(Default, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, part: Self) {
        self.passed += part.passed;
        self.failed += part.failed;
    }

    /// Reads `test result: ok. 3 passed; 0 failed; ...`, the last line of a test program.
    pub(crate) fn of_summary(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |what: &str| {
            counts
                .split("; ")
                .find_map(|part| part.strip_suffix(what))
                .and_then(|number| number.trim().parse().ok())
        };
        Some(Self { passed: count("passed")?, failed: count("failed")? })
    }
}

/// Whether this line of a test program says that a test failed: `test a::b ... FAILED`.
pub(crate) fn is_failure(line: &str) -> bool {
    line.starts_with("test ") && line.ends_with("... FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_a_test_program_is_read() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.01s";
        assert_eq!(Tally::of_summary(line), Some(Tally { passed: 12, failed: 3 }));
        assert_eq!(Tally::of_summary("test result_is_read ... ok"), None);
        assert!(
            !is_failure(line) && !is_failure("test is_read ... ok") && is_failure("test is_read ... FAILED")
        );
    }
}
