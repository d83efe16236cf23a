//! Merges two consecutive diffs into one.

use super::decoder::{DiffDecoder, DiffEvent};
use super::error::{MergeError, StreamError};
use super::record::{DiffRecord, DiffVersion};
use onego_buf::{List, Segment};

/// One of the two diffs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeInput {
    /// The earlier one.
    First,
    /// The later one.
    Second,
}

/// Next step of a merge.
#[derive(Debug, Clone)]
pub enum MergeStep {
    /// More bytes of a diff are needed.
    Need(MergeInput),
    /// The next bytes of the merged diff: at most as many as were pushed, plus a record.
    Bytes(List),
    /// The merged diff is complete.
    Done,
}

/// Merges two diffs: the second takes precedence. Buffers only unmerged bytes, so its memory is bounded by the bytes that its
/// caller pushes ahead.
///
/// The merged diff has version 1 if both have. Its records are those that `rbd merge-diff` writes: those of the second diff
/// whole, those of the first cut at them, none joined (ceph `src/tools/rbd/action/MergeDiff.cc`).
#[derive(Debug, Default)]
pub struct Merge {
    first: MergeSide,
    second: MergeSide,
    state: MergeState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum MergeState {
    #[default]
    Headers,
    Records,
    /// Copies a record's data to the merged diff, or skips it.
    Data {
        of: MergeInput,
        left: u64,
        is_kept: bool,
    },
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Change {
    Write,
    #[default]
    Zero,
    /// The range is past the end of the image.
    Cut,
}

#[derive(Debug, Default)]
struct MergeSide {
    decoder: DiffDecoder,
    from: Option<String>,
    to: Option<String>,
    protected: Option<bool>,
    size: Option<u64>,
    /// First record after the header, until it is processed.
    ahead: Option<DiffRecord>,
    change: Change,
    /// Start of the range, or end of the last one.
    offset: u64,
    length: u64,
    has_ended: bool,
}

/// More bytes of a diff are needed.
struct Starved;

impl MergeSide {
    fn header(&mut self) -> Result<Result<(), Starved>, StreamError> {
        while self.ahead.is_none() {
            match self.decoder.next_event()? {
                None => return Ok(Err(Starved)),
                Some(DiffEvent::Record(DiffRecord::From(name))) => self.from = Some(name),
                Some(DiffEvent::Record(DiffRecord::To(name))) => self.to = Some(name),
                Some(DiffEvent::Record(DiffRecord::Protected(is))) => self.protected = Some(is),
                Some(DiffEvent::Record(DiffRecord::Size(size))) => self.size = Some(size),
                Some(DiffEvent::Record(record)) => self.ahead = Some(record),
                Some(DiffEvent::Data(_)) => {}
            }
        }
        Ok(Ok(()))
    }

    /// Reads the next range, unless one is pending or the diff has ended. Returns a record that is out of order or exceeds `size`.
    fn range(&mut self, size: u64) -> Result<Result<Option<DiffRecord>, Starved>, StreamError> {
        if self.has_ended || self.length > 0 {
            return Ok(Ok(None));
        }
        let record = match self.ahead.take() {
            Some(record) => record,
            None => match self.decoder.next_event()? {
                Some(DiffEvent::Record(record)) => record,
                Some(DiffEvent::Data(_)) | None => return Ok(Err(Starved)),
            },
        };
        let (change, offset, length) = match record {
            DiffRecord::Write { offset, length } => (Change::Write, offset, length),
            DiffRecord::Zero { offset, length } => (Change::Zero, offset, length),
            _ => {
                self.has_ended = true;
                return Ok(Ok(None));
            }
        };
        // An empty range cannot be out of order.
        if length > 0 && (offset < self.offset || offset + length > size) {
            return Ok(Ok(Some(record)));
        }
        if length > 0 {
            (self.change, self.offset, self.length) = (change, offset, length);
        }
        Ok(Ok(None))
    }

    fn end(&self) -> u64 {
        self.offset + self.length
    }
}

impl Merge {
    /// Creates a merge of two diffs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes of a diff.
    pub fn push(&mut self, to: MergeInput, bytes: impl Into<Segment>) {
        self.side(to).decoder.push(bytes);
    }

    /// Marks the end of a diff. Fails unless it is complete.
    pub fn finish(&mut self, input: MergeInput) -> Result<(), MergeError> {
        self.side(input).decoder.finish().map_err(|error| at(input, error))
    }

    fn side(&mut self, input: MergeInput) -> &mut MergeSide {
        match input {
            MergeInput::First => &mut self.first,
            MergeInput::Second => &mut self.second,
        }
    }

    /// Proceeds until a step is due. The merge is unusable after an error.
    pub fn step(&mut self) -> Result<MergeStep, MergeError> {
        loop {
            let step = match self.state {
                MergeState::Headers => self.headers()?,
                MergeState::Records => self.records()?,
                MergeState::Data { left: 0, .. } => {
                    self.state = MergeState::Records;
                    None
                }
                MergeState::Data { of, left, is_kept } => Some(self.data(of, left, is_kept)),
                MergeState::Ended => Some(MergeStep::Done),
            };
            match step {
                Some(MergeStep::Bytes(bytes)) if bytes.is_empty() => {}
                Some(step) => return Ok(step),
                None => {}
            }
        }
    }

    fn headers(&mut self) -> Result<Option<MergeStep>, MergeError> {
        for input in [MergeInput::First, MergeInput::Second] {
            if self.side(input).header().map_err(|error| at(input, error))?.is_err() {
                return Ok(Some(MergeStep::Need(input)));
            }
        }
        let (first, second) = (&self.first, &self.second);
        if first.to != second.from {
            return Err(MergeError::NotAdjacent { first: first.to.clone(), second: second.from.clone() });
        }
        let (Some(_), Some(size)) = (first.size, second.size) else { return Err(MergeError::NoSize) };
        let version = self.version();
        let mut out = version.banner().as_bytes().to_vec();
        let records = [
            first.from.clone().map(DiffRecord::From),
            second.to.clone().map(DiffRecord::To),
            second.protected.filter(|_| version == DiffVersion::V2).map(DiffRecord::Protected),
            Some(DiffRecord::Size(size)),
        ];
        records.into_iter().flatten().for_each(|record| record.encode(version, &mut out));
        self.state = MergeState::Records;
        Ok(Some(MergeStep::Bytes(out.into())))
    }

    fn version(&self) -> DiffVersion {
        let versions = [&self.first, &self.second].map(|side| side.decoder.version());
        versions.into_iter().flatten().max().unwrap_or(DiffVersion::V1)
    }

    /// Reads the next range of each diff and merges the earlier one.
    fn records(&mut self) -> Result<Option<MergeStep>, MergeError> {
        let sizes = [self.first.size.unwrap_or(0), self.second.size.unwrap_or(0)];
        for (input, size) in [MergeInput::First, MergeInput::Second].into_iter().zip(sizes) {
            let side = self.side(input);
            let had_ended = side.has_ended;
            match side.range(size).map_err(|error| at(input, error))? {
                Err(Starved) => return Ok(Some(MergeStep::Need(input))),
                Ok(Some(DiffRecord::Write { offset, length } | DiffRecord::Zero { offset, length })) => {
                    return Err(MergeError::Order { offset, length });
                }
                Ok(_) => {}
            }
            if !side.has_ended && side.length == 0 {
                // It was an empty range.
                return Ok(None);
            }
            if side.has_ended && !had_ended {
                // Past the end of the first image the second shows zeros, unless its diff has a record there; past its own
                // end it shows nothing.
                let change = if input == MergeInput::First { Change::Zero } else { Change::Cut };
                let other = if input == MergeInput::First { sizes[1] } else { sizes[0] };
                (side.change, side.offset, side.length) = (change, size, other.saturating_sub(size));
            }
        }
        Ok(Some(self.next_range()))
    }

    fn next_range(&mut self) -> MergeStep {
        let (first, second) = (&self.first, &self.second);
        // The part of the first diff's range before the second's, then the part that the second covers.
        let before = second.offset.saturating_sub(first.offset).min(first.length);
        let covered = second.end().saturating_sub(first.offset).min(first.length);
        if before > 0 {
            return self.pass(MergeInput::First, before, true);
        }
        if covered > 0 {
            return self.pass(MergeInput::First, covered, false);
        }
        if second.length > 0 {
            return self.pass(MergeInput::Second, second.length, true);
        }
        let mut out = Vec::new();
        DiffRecord::End.encode(self.version(), &mut out);
        self.state = MergeState::Ended;
        MergeStep::Bytes(out.into())
    }

    /// Consumes the next bytes of a diff's range: copies them to the merged diff, or skips them.
    fn pass(&mut self, of: MergeInput, length: u64, is_kept: bool) -> MergeStep {
        let version = self.version();
        let side = self.side(of);
        let (change, offset) = (side.change, side.offset);
        side.offset += length;
        side.length -= length;
        if change == Change::Write {
            self.state = MergeState::Data { of, left: length, is_kept };
        }
        let record = match change {
            Change::Write => DiffRecord::Write { offset, length },
            Change::Zero => DiffRecord::Zero { offset, length },
            Change::Cut => return MergeStep::Bytes(List::new()),
        };
        let mut out = Vec::new();
        if is_kept {
            record.encode(version, &mut out);
        }
        MergeStep::Bytes(out.into())
    }

    fn data(&mut self, of: MergeInput, left: u64, is_kept: bool) -> MergeStep {
        let data = self.side(of).decoder.take_data(left);
        if data.is_empty() {
            return MergeStep::Need(of);
        }
        self.state = MergeState::Data { of, left: left - data.len() as u64, is_kept };
        MergeStep::Bytes(if is_kept { data } else { List::new() })
    }
}

fn at(input: MergeInput, error: StreamError) -> MergeError {
    match input {
        MergeInput::First => MergeError::First(error),
        MergeInput::Second => MergeError::Second(error),
    }
}
