//! Targets of loads, and the sessions of their clients.

use crate::Error;
use onego::{List, SegmentMut};

#[derive(Debug)]
pub(crate) enum Request {
    /// Fills the buffer, which comes back.
    /// Fills the buffer, which comes back.
    Read { offset: u64, buffer: SegmentMut },
    /// Writes the bytes.
    Write { offset: u64, data: List },
}

pub(crate) trait Session {
    fn has_room(&self) -> bool;

    fn submit(&mut self, request: Request, tag: u64) -> Result<(), Error>;

    fn completion(&mut self) -> Option<(u64, Result<Option<SegmentMut>, Error>)>;

    fn turn(&mut self) -> Result<(), Error>;

    /// Starts the next pass of sequential writes. No request is in flight.
    fn start_over(&mut self) -> Result<(), Error>;

    fn close(self) -> Result<(), Error>;
}

pub(crate) trait Target: Sync {
    type Session: Session;

    fn bench(&self) -> &str;

    fn mode(&self) -> &str;

    fn engine(&self) -> String;

    fn size(&self) -> u64;

    fn server(&self) -> Option<u32>;

    fn open(&self) -> Result<Self::Session, Error>;

    fn is_full(&self) -> Result<bool, Error>;
}
