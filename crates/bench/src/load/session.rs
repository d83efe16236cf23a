//! What a load is put on, and how a client of it is driven.

use crate::Error;
use onego::{List, SegmentMut};

/// A request to a range of bytes: of an image, or of a file.
#[derive(Debug)]
pub(crate) enum Request {
    /// Fills the buffer, which comes back.
    Read { offset: u64, buffer: SegmentMut },
    /// Writes the bytes.
    Write { offset: u64, data: List },
}

/// An open image or file, and the connection that it is reached by; driven by the thread that owns it.
pub(crate) trait Session {
    /// May another request be submitted?
    fn has_room(&self) -> bool;

    /// Submits a request; its completion bears `tag`.
    fn submit(&mut self, request: Request, tag: u64) -> Result<(), Error>;

    /// The next request that is done, with the buffer of a read.
    fn completion(&mut self) -> Option<(u64, Result<Option<SegmentMut>, Error>)>;

    /// Moves what can be moved, and sleeps until there is something to do.
    fn turn(&mut self) -> Result<(), Error>;

    /// A pass of writes in order has come to its end, and the next begins. Nothing is in flight.
    fn start_over(&mut self) -> Result<(), Error>;

    /// Closes it.
    fn close(self) -> Result<(), Error>;
}

/// What a load is put on.
pub(crate) trait Target: Sync {
    /// A client of it.
    type Session: Session;

    /// What the measurement is called.
    fn bench(&self) -> &str;

    /// How it is reached, for the tables.
    fn mode(&self) -> &str;

    /// What moves the bytes of the client.
    fn engine(&self) -> String;

    /// Its bytes.
    fn size(&self) -> u64;

    /// The server's process, if it is one and on this machine.
    fn server(&self) -> Option<u32>;

    /// Opens it.
    fn open(&self) -> Result<Self::Session, Error>;

    /// Has every byte been written?
    fn is_full(&self) -> Result<bool, Error>;
}
