//! Calls that are carried out elsewhere: on threads, where the file system may block.

use super::call::{Call, put_results};
use super::caller::Caller;
use super::duplicate_request_cache::{RequestKey, is_cached};
use super::file_system::{Context, FileSystem};
use super::operations::CountedCall;
use super::procedures::limits::{LISTING_MAX, TRANSFER_MAX};
use onego_buf::{List, Segment};
use onego_nfs::mount::{self, MountStatus, Mounted};
use onego_nfs::rpc::{Procedure as _, flavor};
use onego_nfs::v3::{self, Handle};
use onego_nfs::xdr::{Reader, Writer, Xdr as _};
use onego_wire::{ConnId, Time};
use std::net::IpAddr;

/// A call to be carried out.
#[derive(Debug)]
pub struct Job {
    /// The connection that it came on.
    pub(super) conn: Option<ConnId>,
    pub(super) xid: u32,
    pub(super) caller: Caller,
    pub(super) now: Time,
    pub(super) asked: CountedCall,
    /// The reply has to be kept for this call.
    pub(super) key: Option<RequestKey>,
    pub(super) work: Work,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Work {
    /// A procedure of NFS.
    Call { procedure: u32, read_only: bool, arguments: Segment, payload: List },
    /// A directory is mounted by this path, which is that one from the root.
    Mount { host: IpAddr, path: mount::Path, inner: Option<Vec<u8>> },
}

/// A call that was carried out.
#[derive(Debug)]
pub struct Done {
    /// Most bytes of its reply, as they were counted before.
    pub(super) reply_max: usize,
    pub(super) conn: Option<ConnId>,
    pub(super) asked: CountedCall,
    pub(super) key: Option<RequestKey>,
    /// What has been mounted.
    pub(super) mounted: Option<(IpAddr, mount::Path)>,
    pub(super) front: Writer,
    pub(super) payload: List,
}

impl Job {
    /// Most bytes of memory that its reply takes.
    pub(super) fn reply_max(&self) -> usize {
        const SMALL: usize = 4 << 10;
        match &self.work {
            Work::Call { procedure: v3::Read::NUMBER, arguments, .. } => {
                // The count comes last. Memory is taken in powers of two.
                let count = arguments.last_chunk().map_or(0, |count| u32::from_be_bytes(*count) as usize);
                SMALL + count.min(TRANSFER_MAX).next_power_of_two()
            }
            Work::Call { procedure: v3::Readdir::NUMBER | v3::Readdirplus::NUMBER, .. } => {
                SMALL + LISTING_MAX as usize
            }
            _ => SMALL,
        }
    }

    /// Returns whether the call changes something that has to be durable before its reply.
    pub(super) fn may_wait_for_sync(&self) -> bool {
        let Work::Call { procedure, arguments, .. } = &self.work else { return false };
        match *procedure {
            v3::Write::NUMBER => is_stable_write(arguments),
            v3::Commit::NUMBER => true,
            // What would have another effect if it were carried out again has changed something.
            procedure => is_cached(procedure),
        }
    }

    /// Carries the call out.
    pub fn carry_out(self, fs: &mut dyn FileSystem) -> Done {
        let reply_max = self.reply_max();
        let Self { conn, xid, caller, now, asked, key, work } = self;
        let cx = Context { caller: &caller, now };
        let mut front = Writer::new();
        let (payload, mounted) = match work {
            Work::Call { procedure, read_only, arguments, payload } => {
                let call = Call { xid, procedure, cx, read_only, arguments: &arguments };
                (call.carry_out(fs, payload, &mut front), None)
            }
            Work::Mount { host, path, inner } => {
                let is_mounted = mount(xid, cx, inner.as_deref(), fs, &mut front);
                (List::new(), is_mounted.then_some((host, path)))
            }
        };
        Done { reply_max, conn, asked, key, mounted, front, payload }
    }
}

/// Returns whether a WRITE has to be durable before its reply. What cannot be decoded is not carried out.
fn is_stable_write(arguments: &[u8]) -> bool {
    let mut r = Reader::new(arguments);
    let mut stability = || {
        Handle::decode(&mut r)?;
        r.u64("offset")?;
        r.u32("count")?;
        v3::Stability::decode(&mut r)
    };
    stability().is_ok_and(|stable| stable != v3::Stability::Unstable)
}

/// Mounts a directory by its path from the root, if it has one, and appends the reply. `true`: it went well.
pub(super) fn mount(
    xid: u32,
    cx: Context<'_>,
    inner: Option<&[u8]>,
    fs: &mut dyn FileSystem,
    front: &mut Writer,
) -> bool {
    let root = inner.ok_or(MountStatus::Noent).and_then(|inner| fs.mount(cx, inner));
    let mounted = root.map(|root| Mounted { root, flavors: vec![flavor::SYS, flavor::NONE] });
    let is_mounted = mounted.is_ok();
    put_results::<mount::Mnt>(xid, mounted, front, &mut List::new());
    is_mounted
}
