//! Bytes and descriptors of files of a front end, until they are messages.

use super::codec::{HEADER_LEN, Header};
use super::error::MessageError;
use super::limits::MESSAGE_MAX;
use onego_wire::Landing;
use std::os::fd::OwnedFd;

/// The message that comes in. Each part is received by itself, so that descriptors are those of the message they came with.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    header: Option<Header>,
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// A message that is here.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) header: Header,
    pub(super) payload: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
}

impl Inbound {
    fn missing(&self) -> usize {
        self.header.map_or(HEADER_LEN, |header| header.size as usize) - self.bytes.len()
    }

    pub(super) fn landing(&self) -> Landing {
        Landing { ahead: self.missing(), descriptors: Landing::DESCRIPTORS_MAX, ..Landing::default() }
    }

    /// Descriptors came. More than a message has are closed, and too few of the others are left.
    pub(super) fn descriptors(&mut self, descriptors: Vec<OwnedFd>) {
        let room = Landing::DESCRIPTORS_MAX.saturating_sub(self.descriptors.len());
        self.descriptors.extend(descriptors.into_iter().take(room));
    }

    /// Bytes came, no more than were asked for: the message, once it is whole.
    pub(super) fn received(&mut self, bytes: &[u8]) -> Result<Option<Whole>, MessageError> {
        self.bytes.extend_from_slice(bytes);
        if self.header.is_none()
            && let Ok(bytes) = <&[u8; HEADER_LEN]>::try_from(&self.bytes[..])
        {
            let header = Header::decode(bytes);
            if header.version() != 1 {
                return Err(MessageError::Version(header.version()));
            }
            if header.size as usize > MESSAGE_MAX {
                return Err(MessageError::TooLong(header.size));
            }
            self.header = Some(header);
            self.bytes.clear();
        }
        let Some(header) = self.header.filter(|_| self.missing() == 0) else { return Ok(None) };
        self.header = None;
        let (payload, descriptors) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.descriptors));
        Ok(Some(Whole { header, payload, descriptors }))
    }
}
