use super::super::diff::{Diff, DiffRange};
use super::super::image::Image;
use crate::ceph::error::Error;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use onego_buf::List;
use onego_rbd::stream::{DiffRecord, DiffVersion};

const PIECE: u64 = 1 << 20;

/// Reads in flight: enough for any network, with little memory.
const WINDOW: usize = 32;

const ZEROS_AT_A_TIME: u64 = 1 << 20;

/// Records of a diff's ranges: one for each range, with its data unless that is all zeros.
pub(super) struct RangeWriter {
    diff: Diff,
    image: Image,
    version: DiffVersion,
    /// Remainder of the diff's last range that is still to be read.
    unread: Option<(DiffRange, u64)>,
    is_exhausted: bool,
    reading: FuturesOrdered<BoxFuture<'static, Result<RangePiece, Error>>>,
    /// Length of the current range's leading zeros, while it contains nothing else.
    leading_zeros: Option<u64>,
    /// Data to write, preceded by a number of zeros.
    owed: (u64, List),
    at: u64,
}

struct RangePiece {
    range: DiffRange,
    is_first: bool,
    is_last: bool,
    /// Empty for a range that does not exist.
    data: List,
}

impl RangeWriter {
    pub(super) fn new(diff: Diff, image: Image, version: DiffVersion) -> Self {
        Self {
            diff,
            image,
            version,
            unread: None,
            is_exhausted: false,
            reading: FuturesOrdered::new(),
            leading_zeros: None,
            owed: (0, List::new()),
            at: 0,
        }
    }

    /// Skips the records before byte `offset`, which must be a record boundary.
    pub(super) fn skip_to(&mut self, offset: u64) {
        self.diff.skip_to(offset);
        self.at = offset;
    }

    /// Returns the offset in the image up to which everything is written.
    pub(super) fn position(&self) -> u64 {
        self.at
    }

    /// Returns the stream's next bytes, or `None` after the last record.
    pub(super) async fn next(&mut self) -> Result<Option<List>, Error> {
        loop {
            if let Some(bytes) = self.take_owed() {
                return Ok(Some(bytes));
            }
            self.read_ahead().await?;
            let Some(piece) = self.reading.next().await else { return Ok(None) };
            let bytes = self.write(piece?);
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
    }

    fn take_owed(&mut self) -> Option<List> {
        let (zeros, data) = &mut self.owed;
        if *zeros == 0 {
            return Some(std::mem::take(data)).filter(|data| !data.is_empty());
        }
        let mut out = List::new();
        let now = (*zeros).min(ZEROS_AT_A_TIME);
        *zeros -= now;
        out.push_zeros(now);
        Some(out)
    }

    async fn read_ahead(&mut self) -> Result<(), Error> {
        while self.reading.len() < WINDOW && !self.is_exhausted {
            let Some((range, done)) = self.unread.take() else {
                self.unread = self.diff.next().await?.map(|range| (range, 0));
                self.is_exhausted = self.unread.is_none();
                continue;
            };
            let (offset, left) = (range.offset + done, range.length - done);
            let length = if range.exists { left.min(PIECE) } else { left };
            let (is_first, is_last) = (done == 0, length == left);
            if !is_last {
                self.unread = Some((range, done + length));
            }
            let image = self.image.clone();
            self.reading.push_back(Box::pin(async move {
                let data = if range.exists { image.read(offset, length).await? } else { List::new() };
                Ok(RangePiece { range, is_first, is_last, data })
            }));
        }
        Ok(())
    }

    /// Adds a part of a range, and returns the bytes to write now. The range counts as all zeros until a part is not.
    fn write(&mut self, piece: RangePiece) -> List {
        let RangePiece { range: DiffRange { offset, length, exists }, is_first, is_last, data } = piece;
        if is_first {
            self.leading_zeros = Some(0);
        }
        let read = data.len() as u64;
        if is_last {
            self.at = offset + length;
        }
        let Some(zeros) = self.leading_zeros else { return data };
        let mut record = Vec::new();
        if !exists || data.is_zeros() {
            self.leading_zeros = Some(zeros + read);
            if is_last {
                DiffRecord::Zero { offset, length }.encode(self.version, &mut record);
            }
        } else {
            self.leading_zeros = None;
            self.owed = (zeros, data);
            DiffRecord::Write { offset, length }.encode(self.version, &mut record);
        }
        record.into()
    }
}
