//! Targets of loads, and the sessions of their clients.

use crate::Error;
use onego::{List, SegmentMut};

/// A request for a range of bytes of an image or a file.
#[derive(Debug)]
pub(crate) enum Request {
    /// Fills the buffer, which comes back.
    Read { offset: u64, buffer: SegmentMut },
    /// Writes the bytes.
    Write { offset: u64, data: List },
}

/// An open image or file with its connection, driven by the thread that owns it.
pub(crate) trait Session {
    /// Returns whether another request may be submitted.
    fn has_room(&self) -> bool;

    /// Submits a request; its completion has `tag`.
    fn submit(&mut self, request: Request, tag: u64) -> Result<(), Error>;

    /// Returns the next completed request, with the buffer of a read.
    fn completion(&mut self) -> Option<(u64, Result<Option<SegmentMut>, Error>)>;

    /// Makes progress, and sleeps until there is something to do.
    fn turn(&mut self) -> Result<(), Error>;

    /// Starts the next pass of sequential writes. No request is in flight.
    fn start_over(&mut self) -> Result<(), Error>;

    fn close(self) -> Result<(), Error>;
}

pub(crate) trait Target: Sync {
    type Session: Session;

    /// Returns the name of the benchmark.
    fn bench(&self) -> &str;

    /// Returns the name of the access path, for tables.
    fn mode(&self) -> &str;

    /// Returns the name of the client's engine.
    fn engine(&self) -> String;

    /// Returns the size in bytes.
    fn size(&self) -> u64;

    /// Returns the server's process id, if it is a process of this machine.
    fn server(&self) -> Option<u32>;

    fn open(&self) -> Result<Self::Session, Error>;

    /// Returns whether every byte has been written.
    fn is_full(&self) -> Result<bool, Error>;
}
