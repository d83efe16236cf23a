//! Decodes a diff that arrives in pieces of any size.

use super::error::StreamError;
use super::input::StreamBytes;
use super::record::{DiffRecord, DiffVersion, MAX_NAME, tag};
use onego_buf::{List, Segment};
use onego_wire::text;

/// Decoded part of a diff.
#[derive(Debug, Clone)]
pub enum DiffEvent {
    /// A record.
    Record(DiffRecord),
    /// Some of the data of the last record, a [`DiffRecord::Write`].
    Data(List),
}

/// Decodes a diff of either version. Buffers only undecoded bytes.
#[derive(Debug, Default)]
pub struct DiffDecoder {
    input: StreamBytes,
    parser: DiffParser,
}

impl DiffDecoder {
    /// Creates a decoder at the first byte of a diff.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes of the stream. Bytes past the diff's end stay undecoded.
    pub fn push(&mut self, bytes: impl Into<Segment>) {
        self.input.push(bytes);
    }

    /// Returns the next event. `None`: more bytes are needed, or the diff has ended. The decoder is unusable after an error.
    pub fn next_event(&mut self) -> Result<Option<DiffEvent>, StreamError> {
        self.parser.next(&mut self.input)
    }

    /// Returns up to `most` bytes of the last record's data, a [`DiffRecord::Write`]. Empty: more bytes are needed, or the
    /// record has ended.
    pub fn take_data(&mut self, most: u64) -> List {
        self.parser.take_data(&mut self.input, most)
    }

    /// Returns the bytes of the last record's data that were not taken yet.
    pub fn data_left(&self) -> u64 {
        self.parser.data_left()
    }

    /// Returns the version, once its banner is decoded.
    pub fn version(&self) -> Option<DiffVersion> {
        self.parser.version
    }

    /// Returns the number of decoded bytes.
    pub fn position(&self) -> u64 {
        self.input.position()
    }

    /// Marks the end of the stream. Fails unless the diff has ended.
    pub fn finish(&self) -> Result<(), StreamError> {
        if self.parser.is_ended() {
            return Ok(());
        }
        Err(StreamError::Truncated { position: self.input.position() })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum DiffState {
    #[default]
    Banner,
    Record,
    Data {
        left: u64,
    },
    /// Within a record of an unknown kind.
    Skip {
        left: u64,
    },
    Ended,
}

/// Decodes a diff from an input that may continue past its end.
#[derive(Debug, Default)]
pub(super) struct DiffParser {
    state: DiffState,
    version: Option<DiffVersion>,
    has_data: bool,
    /// Tags of the header records decoded so far.
    header: Vec<u8>,
}

impl DiffParser {
    pub(super) fn is_ended(&self) -> bool {
        self.state == DiffState::Ended
    }

    pub(super) fn data_left(&self) -> u64 {
        if let DiffState::Data { left } = self.state { left } else { 0 }
    }

    pub(super) fn next(&mut self, input: &mut StreamBytes) -> Result<Option<DiffEvent>, StreamError> {
        loop {
            match self.state {
                DiffState::Banner => {
                    let Some(version) = banner(input)? else { return Ok(None) };
                    (self.version, self.state) = (Some(version), DiffState::Record);
                }
                DiffState::Data { left: 0 } | DiffState::Skip { left: 0 } => self.state = DiffState::Record,
                DiffState::Data { .. } => {
                    let data = self.take_data(input, u64::MAX);
                    return Ok((!data.is_empty()).then_some(DiffEvent::Data(data)));
                }
                DiffState::Skip { left } => {
                    let skipped = input.take(left).len() as u64;
                    if skipped == 0 {
                        return Ok(None);
                    }
                    self.state = DiffState::Skip { left: left - skipped };
                }
                DiffState::Record => {
                    let Some(record) = self.record(input)? else { return Ok(None) };
                    if let Some(record) = record {
                        return Ok(Some(DiffEvent::Record(record)));
                    }
                }
                DiffState::Ended => return Ok(None),
            }
        }
    }

    pub(super) fn take_data(&mut self, input: &mut StreamBytes, most: u64) -> List {
        let DiffState::Data { left } = self.state else { return List::new() };
        let data = input.take(most.min(left));
        self.state = DiffState::Data { left: left - data.len() as u64 };
        data
    }

    /// Returns the next record, once all of it but its data is buffered; the inner `None` is a record of an unknown kind.
    fn record(&mut self, input: &mut StreamBytes) -> Result<Option<Option<DiffRecord>>, StreamError> {
        let Some(tag) = input.peek_byte() else { return Ok(None) };
        if tag == tag::END {
            input.advance(1);
            self.state = DiffState::Ended;
            return Ok(Some(Some(DiffRecord::End)));
        }
        let is_sized = self.version == Some(DiffVersion::V2);
        let header = if is_sized { 9 } else { 1 };
        let length = if is_sized {
            let Some(length) = input.peek_number::<8>(1) else { return Ok(None) };
            Some(length)
        } else {
            None
        };
        let at = Body { tag, position: input.position(), header, length };
        let Some(record) = at.decode(input)? else { return Ok(None) };
        match &record {
            Some(DiffRecord::Write { length, .. }) => self.state = DiffState::Data { left: *length },
            None => self.state = DiffState::Skip { left: length.unwrap_or(0) },
            Some(_) => {}
        }
        let is_data = matches!(record, Some(DiffRecord::Write { .. } | DiffRecord::Zero { .. }));
        if record.is_some() && !is_data {
            self.check_header(tag, at.position)?;
        }
        self.has_data |= is_data;
        Ok(Some(record))
    }
}

impl DiffParser {
    fn check_header(&mut self, tag: u8, position: u64) -> Result<(), StreamError> {
        let shown = char::from(tag);
        if self.has_data {
            return Err(StreamError::Late { position, tag: shown });
        }
        if self.header.contains(&tag) {
            return Err(StreamError::Repeated { position, tag: shown });
        }
        self.header.push(tag);
        Ok(())
    }
}

fn banner(input: &mut StreamBytes) -> Result<Option<DiffVersion>, StreamError> {
    let expected = DiffVersion::V1.banner();
    let Some(found) = input.peek(expected.len()) else { return Ok(None) };
    let version = [DiffVersion::V1, DiffVersion::V2].into_iter().find(|v| v.banner().as_bytes() == found);
    let Some(version) = version else {
        return Err(StreamError::Banner { expected, found: String::from_utf8_lossy(&found).into_owned() });
    };
    input.advance(expected.len());
    Ok(Some(version))
}

struct Body {
    tag: u8,
    position: u64,
    /// Length of tag and length field in bytes.
    header: usize,
    /// Length of the content in bytes; version 2 only.
    length: Option<u64>,
}

impl Body {
    fn decode(&self, input: &mut StreamBytes) -> Result<Option<Option<DiffRecord>>, StreamError> {
        Ok(match self.tag {
            tag::FROM => self.name(input)?.map(|name| Some(DiffRecord::From(name))),
            tag::TO => self.name(input)?.map(|name| Some(DiffRecord::To(name))),
            // Version 1 has no such record.
            tag::PROTECTED if self.length.is_some() => self.protection(input)?.map(Some),
            tag::SIZE => self.number::<8>(input)?.map(|size| Some(DiffRecord::Size(size))),
            tag::WRITE => self
                .range(input, |length| length.checked_add(16))?
                .map(|(offset, length)| Some(DiffRecord::Write { offset, length })),
            tag::ZERO => self
                .range(input, |_| Some(16))?
                .map(|(offset, length)| Some(DiffRecord::Zero { offset, length })),
            tag => match self.length {
                None => return Err(StreamError::Tag { position: self.position, tag }),
                Some(_) => {
                    input.advance(self.header);
                    Some(None)
                }
            },
        })
    }

    /// Fails if the record has a length that differs from its content's.
    fn check_length(&self, length: Option<u64>) -> Result<(), StreamError> {
        match self.length {
            Some(said) if length != Some(said) => Err(self.wrong_length(said)),
            _ => Ok(()),
        }
    }

    fn wrong_length(&self, length: u64) -> StreamError {
        StreamError::Length { position: self.position, tag: char::from(self.tag), length }
    }

    fn number<const N: usize>(&self, input: &mut StreamBytes) -> Result<Option<u64>, StreamError> {
        self.check_length(Some(N as u64))?;
        let Some(number) = input.peek_number::<N>(self.header) else { return Ok(None) };
        input.advance(self.header + N);
        Ok(Some(number))
    }

    fn protection(&self, input: &mut StreamBytes) -> Result<Option<DiffRecord>, StreamError> {
        // Ceph's exporter up to 17.2 writes a length of 8 and one byte; its importer reads one.
        if self.length != Some(8) {
            self.check_length(Some(1))?;
        }
        let Some(is_protected) = input.peek_number::<1>(self.header) else { return Ok(None) };
        input.advance(self.header + 1);
        Ok(Some(DiffRecord::Protected(is_protected != 0)))
    }

    fn name(&self, input: &mut StreamBytes) -> Result<Option<String>, StreamError> {
        let Some(length) = input.peek_number::<4>(self.header) else { return Ok(None) };
        self.check_length(Some(4 + length))?;
        if length > MAX_NAME {
            return Err(self.wrong_length(length));
        }
        let start = self.header + 4;
        let Some(mut bytes) = input.peek(start + length as usize) else { return Ok(None) };
        input.advance(bytes.len());
        Ok(Some(text::from_bytes(&bytes.split_off(start)).into_owned()))
    }

    /// Reads offset and length. `expected` computes the record's own length from the latter.
    fn range(
        &self,
        input: &mut StreamBytes,
        expected: impl FnOnce(u64) -> Option<u64>,
    ) -> Result<Option<(u64, u64)>, StreamError> {
        let Some(offset) = input.peek_number::<8>(self.header) else { return Ok(None) };
        let Some(length) = input.peek_number::<8>(self.header + 8) else { return Ok(None) };
        self.check_length(expected(length))?;
        if offset.checked_add(length).is_none() {
            return Err(StreamError::Range { position: self.position, offset, length });
        }
        input.advance(self.header + 16);
        Ok(Some((offset, length)))
    }
}
