//! A file system in memory whose server may crash: it loses the unstable writes that were not committed.

use crate::files::store::Store;
use onego_buf::{List, Pool, SegmentMut};
use onego_nfs::mount::MountStatus;
use onego_nfs::v3::{
    self, Attributes, Change, CommitOk, Handle, ReadArgs, Stability, Verifier, WriteArgs, WriteOk,
};
use onego_nfs_server::{Context, FileSystem, Limits, Memory, Results};
use onego_wire::Time;
use std::sync::{Arc, Mutex, MutexGuard};

/// The durable state, and writes that a crash loses.
struct VolatileState {
    durable: Memory,
    /// Writes that are not committed, in order.
    unstable: Vec<(Handle, u64, List)>,
    /// Starts of the server.
    starts: u64,
    /// Writes that crashes have lost.
    lost: u64,
}

/// A file system that several servers serve, one after the other.
#[derive(Clone)]
pub(crate) struct Volatile(Arc<Mutex<VolatileState>>);

impl Volatile {
    fn lock(&self) -> MutexGuard<'_, VolatileState> {
        self.0.lock().expect("nothing panics with it")
    }
}

impl Store for Volatile {
    type Fs = Self;
    const COMMAND: &'static str = "-p onego-testkit --release --test it files::";
    const LOSES_WRITES: bool = true;
    const HAS_SAME_BYTES: bool = true;

    fn new(seed: u64, now: Time) -> Self {
        let limits = Limits { bytes: 1 << 30, files: 1 << 16 };
        let durable = Memory::new(limits, seed, Pool::new(1 << 20), now);
        Self(Arc::new(Mutex::new(VolatileState { durable, unstable: Vec::new(), starts: 0, lost: 0 })))
    }

    fn file_system(&self) -> Self {
        self.clone()
    }

    fn crash(&mut self) {
        let mut state = self.lock();
        state.lost += state.unstable.len() as u64;
        state.unstable.clear();
        state.starts += 1;
    }

    fn lost_writes(&self) -> u64 {
        self.lock().lost
    }

    fn durably<T>(&self, act: impl FnOnce(&mut dyn FileSystem) -> T) -> T {
        act(&mut self.lock().durable)
    }
}

impl VolatileState {
    fn verifier(&self) -> Verifier {
        self.starts.to_be_bytes()
    }

    /// Makes the unstable writes of a file durable.
    fn commit(&mut self, cx: Context<'_>, committed: Handle) {
        for (file, offset, data) in std::mem::take(&mut self.unstable) {
            if file == committed {
                let stable = Stability::FileSync;
                self.durable.write(cx, WriteArgs { file, offset, stable, data }).expect("there is room");
            } else {
                self.unstable.push((file, offset, data));
            }
        }
    }
}

macro_rules! as_it_is {
    ($($method:ident: $args:ty => $procedure:ident;)*) => {$(
        fn $method(&mut self, cx: Context<'_>, args: $args) -> Results<v3::$procedure> {
            self.lock().durable.$method(cx, args)
        }
    )*};
}

impl FileSystem for Volatile {
    fn mount(&mut self, cx: Context<'_>, path: &[u8]) -> Result<Handle, MountStatus> {
        self.lock().durable.mount(cx, path)
    }

    fn place(&mut self, len: usize) -> Option<SegmentMut> {
        self.lock().durable.place(len)
    }

    fn write(&mut self, cx: Context<'_>, args: WriteArgs) -> Results<v3::Write> {
        let mut state = self.lock();
        let (file, offset, stable) = (args.file, args.offset, args.stable);
        let (verifier, count) = (state.verifier(), args.data.len() as u32);
        if stable == Stability::Unstable {
            state.unstable.push((file, offset, args.data));
            let file = Change { before: None, after: None::<Attributes> };
            return Ok(WriteOk { file, count, committed: Stability::Unstable, verifier });
        }
        // Earlier writes must not come after it.
        state.commit(cx, file);
        Ok(WriteOk { verifier, ..state.durable.write(cx, args)? })
    }

    fn commit(&mut self, cx: Context<'_>, args: v3::CommitArgs) -> Results<v3::Commit> {
        let mut state = self.lock();
        state.commit(cx, args.file);
        Ok(CommitOk { verifier: state.verifier(), ..state.durable.commit(cx, args)? })
    }

    as_it_is! {
        getattr: Handle => Getattr;
        setattr: v3::SetattrArgs => Setattr;
        lookup: v3::Place => Lookup;
        access: v3::AccessArgs => Access;
        readlink: Handle => Readlink;
        read: ReadArgs => Read;
        create: v3::CreateArgs => Create;
        mkdir: v3::MkdirArgs => Mkdir;
        symlink: v3::SymlinkArgs => Symlink;
        mknod: v3::MknodArgs => Mknod;
        remove: v3::Place => Remove;
        rmdir: v3::Place => Rmdir;
        rename: v3::RenameArgs => Rename;
        link: v3::LinkArgs => Link;
        readdir: v3::ReaddirArgs => Readdir;
        readdirplus: v3::ReaddirplusArgs => Readdirplus;
        fsstat: Handle => Fsstat;
        fsinfo: Handle => Fsinfo;
        pathconf: Handle => Pathconf;
    }
}
