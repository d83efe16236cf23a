//! The file systems that the simulated servers serve: one in memory, and a directory of this machine.

use onego_nfs::v3::{Handle, ReadArgs};
use onego_nfs_server::{Caller, Context, FileSystem};
use onego_wire::Time;

/// A file system that outlives its servers.
pub(crate) trait Store: Sized {
    /// What a server serves. Clones are the same file system.
    type Fs: FileSystem + Clone + 'static;
    /// Arguments of `cargo test` that run its simulations.
    const COMMAND: &'static str;
    /// Does a crash of the server lose uncommitted writes?
    const LOSES_WRITES: bool;
    /// Does a seed have the same bytes in every run? Files of this machine have other numbers and times each time.
    const HAS_SAME_BYTES: bool;

    fn new(seed: u64, now: Time) -> Self;

    /// What a server that starts at this moment serves.
    fn file_system(&self) -> Self::Fs;

    /// Closes files that were not used since the last call.
    fn sweep(_: &Self::Fs) {}

    /// The server is gone. All that was not durable may be lost.
    fn crash(&mut self);

    /// Writes that crashes have lost.
    fn lost_writes(&self) -> u64;

    /// Uses the durable state of the file system.
    fn durably<T>(&self, act: impl FnOnce(&mut dyn FileSystem) -> T) -> T;

    /// Uses the durable state as a user who may do everything.
    fn with<T>(&self, now: Time, act: impl FnOnce(&mut dyn FileSystem, Context<'_>) -> T) -> T {
        let caller = Caller { uid: 0, gid: 0, groups: Vec::new() };
        self.durably(|fs| act(fs, Context { caller: &caller, now }))
    }

    /// The durable bytes of a file.
    fn content(&self, now: Time, file: Handle) -> Vec<u8> {
        let args = ReadArgs { file, offset: 0, count: 1 << 20 };
        self.with(now, |fs, cx| fs.read(cx, args)).expect("the file is there").data.to_vec()
    }
}
