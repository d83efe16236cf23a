//! The programs NFS and MOUNT: a call in, a reply out, over any transport.

use super::call::{Call, put_results, results};
use super::caller::Caller;
use super::duplicate_request_cache::{DuplicateRequestCache, Request, RequestKey, is_cached};
use super::export::Export;
use super::file_system::{Context, FileSystem};
use super::job::{self, Done, Job, Work};
use super::operations::{CountedCall, Operations};
use super::procedures::limits::receive_buffer;
use onego_buf::{List, Pool, Segment, SegmentMut};
use onego_nfs::mount::{self, Exported, Exports, Host, Mount, MountStatus, Mounts};
use onego_nfs::rpc::{
    Accepted, Credential, Denied, Header, HeaderError, Procedure, Record, Reply, Split, Splitter, flavor,
};
use onego_nfs::v3;
use onego_nfs::xdr::{Body as _, Reader, Writer, Xdr};
use onego_wire::Time;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

/// Most mounts that are remembered. They serve DUMP alone.
const MOUNTS_MAX: usize = 1024;

/// How calls are carried out.
pub(super) enum Execution {
    /// As they arrive, by this file system.
    Inline(Box<dyn FileSystem>),
    /// As jobs, on threads that may block. Data of WRITEs is received into memory of the pool.
    Jobs(Pool),
}

/// The server's side of both programs.
pub(super) struct Program {
    execution: Execution,
    export: Export,
    duplicates: DuplicateRequestCache,
    mounts: BTreeSet<(IpAddr, mount::Path)>,
    refused: RefusedHosts,
    /// The front of the reply that is made.
    front: Writer,
    calls: u64,
    pub(super) operations: Operations,
}

/// Most hosts whose refusals are logged: a log has a bound, too.
const LOGGED_MAX: usize = 1024;

/// Hosts whose refusal has been logged.
#[derive(Debug, Default)]
struct RefusedHosts(BTreeSet<IpAddr>);

impl RefusedHosts {
    /// Returns whether a refusal of that host is to be logged: once, at most.
    fn is_new(&mut self, host: IpAddr) -> bool {
        self.0.len() < LOGGED_MAX && self.0.insert(host)
    }
}

/// The client at the other end of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    host: IpAddr,
    port: u16,
    is_rdma: bool,
    /// The credential of the last call, as its header has it: mostly that of the next call, too.
    last: Option<(u32, Vec<u8>)>,
    caller: Caller,
}

impl Peer {
    pub(super) fn new(peer: SocketAddr, is_rdma: bool) -> Self {
        let (host, port, caller) = (peer.ip(), peer.port(), Caller::nobody());
        Self { host, port, is_rdma, last: None, caller }
    }

    /// Returns whether calls from its port are admitted; those of NFS from any port over RDMA.
    fn is_trusted(&self, export: &Export, is_nfs: bool, refused: &mut RefusedHosts) -> bool {
        let trusted = export.takes(self.port) || (is_nfs && self.is_rdma);
        if !trusted && refused.is_new(self.host) {
            let Self { host, port, .. } = self;
            tracing::warn!(%host, port, "calls are refused: they come from a port that is not below 1024 (--insecure admits them)");
        }
        trusted
    }

    /// Finds out the caller.
    fn identify(&mut self, header: &Header<'_>, export: &Export) -> Result<(), Denied> {
        let known = |(flavor, words): &(u32, Vec<u8>)| *flavor == header.flavor && words == header.credential;
        if self.last.as_ref().is_some_and(known) {
            return Ok(());
        }
        let credential =
            Credential::of(header.flavor, header.credential).map_err(|_| Denied::BAD_CREDENTIAL)?;
        self.caller = export.caller(credential)?;
        self.last = Some((header.flavor, header.credential.to_vec()));
        Ok(())
    }
}

/// The outcome of a message.
pub(super) enum Outcome<'a> {
    /// It is answered.
    Reply(&'a [u8], List),
    /// The call is to be carried out as a job.
    Job(Box<Job>),
    /// The same call is in progress already.
    InProgress(RequestKey),
    /// The message is no call: there is nothing to answer.
    NoCall,
}

impl Program {
    pub(super) fn new(execution: Execution, export: Export) -> Self {
        let (duplicates, mounts, front) = (DuplicateRequestCache::new(), BTreeSet::new(), Writer::new());
        let (refused, operations) = (RefusedHosts::default(), Operations::default());
        Self { execution, export, duplicates, mounts, refused, front, calls: 0, operations }
    }

    /// Logs that a host is refused, the first time.
    pub(super) fn log_refused_host(&mut self, host: IpAddr) {
        if self.refused.is_new(host) {
            tracing::warn!(%host, "connections are refused: the export is not for this host");
        }
    }

    pub(super) fn export(&self) -> &Export {
        &self.export
    }

    /// Calls that were answered.
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// Carries out a call.
    pub(super) fn answer(&mut self, now: Time, peer: &mut Peer, record: Record) -> Outcome<'_> {
        let Record { front, payload, placed, broken } = record;
        let payload = placed.map_or(payload, List::from);
        self.front.clear();
        self.calls += 1;
        let mut r = Reader::new(&front);
        let header = match Header::read(&mut r) {
            Ok(header) => header,
            Err(HeaderError::NoCall) => return Outcome::NoCall,
            // No other status comes closer.
            Err(HeaderError::Short(xid)) => return self.say(xid, Ok(Accepted::GarbageArguments)),
            Err(HeaderError::Denied(xid, denied)) => return self.say(xid, Err(denied)),
        };
        let arguments = front.slice(front.len() - r.left()..);
        if let Some(refused) = refusal(&header) {
            return self.say(header.xid, Ok(refused));
        }
        if header.procedure == v3::Null::NUMBER {
            // NULL needs no credential, but clients try flavors by it.
            if ![flavor::NONE, flavor::SYS].contains(&header.flavor) {
                return self.say(header.xid, Err(Denied::TOO_WEAK));
            }
        } else {
            // MOUNT has a status of its own for that, and its other answers are no secret.
            let trusted =
                header.program == mount::PROGRAM || peer.is_trusted(&self.export, true, &mut self.refused);
            let identified =
                if trusted { peer.identify(&header, &self.export) } else { Err(Denied::TOO_WEAK) };
            if let Err(denied) = identified {
                return self.say(header.xid, Err(denied));
            }
        }
        if broken {
            return self.say(header.xid, Ok(Accepted::GarbageArguments));
        }
        if header.program == mount::PROGRAM {
            return self.mount_call(now, peer, &header, &arguments);
        }
        self.nfs_call(now, peer, &header, arguments, payload)
    }

    /// A reply without results.
    fn say(&mut self, xid: u32, result: Result<Accepted, Denied>) -> Outcome<'_> {
        self.front.clear();
        Reply { xid, result }.encode(&mut self.front);
        Outcome::Reply(self.front.as_slice(), List::new())
    }

    fn nfs_call(
        &mut self,
        now: Time,
        peer: &Peer,
        header: &Header<'_>,
        arguments: Segment,
        payload: List,
    ) -> Outcome<'_> {
        let (xid, procedure, read_only) = (header.xid, header.procedure, self.export.read_only);
        let key = is_cached(procedure)
            .then(|| RequestKey::new((peer.host, peer.caller.uid), xid, procedure, &arguments, &payload));
        match key.map(|key| self.duplicates.begin(key)) {
            None | Some(Request::New) => {}
            // There is a key.
            Some(Request::InProgress) => return key.map_or(Outcome::NoCall, Outcome::InProgress),
            Some(Request::Done(reply)) => {
                self.front.append(reply);
                return Outcome::Reply(self.front.as_slice(), List::new());
            }
        }
        let asked = CountedCall::nfs(now, procedure, payload.len());
        self.operations.begin();
        let fs = match &mut self.execution {
            Execution::Inline(fs) => fs,
            Execution::Jobs(_) => {
                let work = Work::Call { procedure, read_only, arguments, payload };
                return job(now, asked, peer, xid, key, work);
            }
        };
        let cx = Context { caller: &peer.caller, now };
        let call = Call { xid, procedure, cx, read_only, arguments: &arguments };
        let payload = call.carry_out(&mut **fs, payload, &mut self.front);
        self.operations.end(now, &asked, self.front.as_slice(), payload.len());
        if let Some(key) = key {
            self.duplicates.end(key, self.front.as_slice());
        }
        Outcome::Reply(self.front.as_slice(), payload)
    }

    fn mount_call(
        &mut self,
        now: Time,
        peer: &mut Peer,
        header: &Header<'_>,
        arguments: &[u8],
    ) -> Outcome<'_> {
        let xid = header.xid;
        if header.procedure == mount::Mnt::NUMBER {
            return self.mount(now, peer, xid, arguments);
        }
        let Self { export, mounts, front, .. } = self;
        let (none, mut out) = (List::new(), List::new());
        let results = match header.procedure {
            mount::Dump::NUMBER => results::<mount::Dump>(xid, arguments, none, front, &mut out, |()| {
                let mounts = mounts.iter().map(|(host, path)| Mount { host: name(host), path: path.clone() });
                Mounts(mounts.collect())
            }),
            mount::Umnt::NUMBER => results::<mount::Umnt>(xid, arguments, none, front, &mut out, |path| {
                mounts.remove(&(peer.host, path));
            }),
            mount::Umntall::NUMBER => {
                results::<mount::Umntall>(xid, arguments, none, front, &mut out, |()| {
                    mounts.retain(|(host, _)| *host != peer.host);
                })
            }
            mount::Export::NUMBER => results::<mount::Export>(xid, arguments, none, front, &mut out, |()| {
                let groups = export.allow.iter().map(name).collect();
                Exports(vec![Exported { path: mount::Path(export.path.clone().into()), groups }])
            }),
            _ => results::<mount::Null>(xid, arguments, none, front, &mut out, |()| ()),
        };
        match results {
            Ok(()) => Outcome::Reply(self.front.as_slice(), out),
            Err(_) => self.say(xid, Ok(Accepted::GarbageArguments)),
        }
    }

    fn mount(&mut self, now: Time, peer: &mut Peer, xid: u32, arguments: &[u8]) -> Outcome<'_> {
        let Ok(path) = mount::Path::read_all(arguments, List::new()) else {
            return self.say(xid, Ok(Accepted::GarbageArguments));
        };
        if !peer.is_trusted(&self.export, false, &mut self.refused) {
            let refused = Err(MountStatus::Access);
            put_results::<mount::Mnt>(xid, refused, &mut self.front, &mut List::new());
            return Outcome::Reply(self.front.as_slice(), List::new());
        }
        let inner = self.export.within(&path.0);
        let host = peer.host;
        let asked = CountedCall::mount(now);
        self.operations.begin();
        match &mut self.execution {
            Execution::Inline(fs) => {
                let cx = Context { caller: &peer.caller, now };
                if job::mount(xid, cx, inner, &mut **fs, &mut self.front) {
                    self.note_mount(host, path);
                }
                self.operations.end(now, &asked, self.front.as_slice(), 0);
                Outcome::Reply(self.front.as_slice(), List::new())
            }
            Execution::Jobs(_) => {
                let inner = inner.map(<[u8]>::to_vec);
                job(now, asked, peer, xid, None, Work::Mount { host, path, inner })
            }
        }
    }

    fn note_mount(&mut self, host: IpAddr, path: mount::Path) {
        if self.mounts.len() < MOUNTS_MAX {
            self.mounts.insert((host, path));
        }
    }

    /// A job is done: its reply and its mount are remembered.
    pub(super) fn done(&mut self, now: Time, done: &mut Done) {
        self.operations.end(now, &done.asked, done.front.as_slice(), done.payload.len());
        if let Some(key) = done.key {
            self.duplicates.end(key, done.front.as_slice());
        }
        if let Some((host, path)) = done.mounted.take() {
            self.note_mount(host, path);
        }
    }
}

/// A call that is to be carried out as a job.
fn job<'a>(
    now: Time,
    asked: CountedCall,
    peer: &Peer,
    xid: u32,
    key: Option<RequestKey>,
    work: Work,
) -> Outcome<'a> {
    Outcome::Job(Box::new(Job { conn: None, xid, caller: peer.caller.clone(), now, asked, key, work }))
}

impl Splitter for Program {
    fn split(&mut self, start: &[u8]) -> Split {
        v3::split_call(start)
    }

    fn place(&mut self, _: &[u8], payload: usize) -> Option<SegmentMut> {
        match &mut self.execution {
            Execution::Inline(fs) => fs.place(payload),
            Execution::Jobs(pool) => receive_buffer(pool, payload),
        }
    }
}

/// The name of a host or a network, for people.
fn name(of: &impl ToString) -> Host {
    Host(of.to_string().into())
}

/// Why a call cannot be carried out, if its program or its procedure is not here.
fn refusal(header: &Header<'_>) -> Option<Accepted> {
    let (version, last) = match header.program {
        v3::PROGRAM => (v3::VERSION, v3::Commit::NUMBER),
        mount::PROGRAM => (mount::VERSION, mount::Export::NUMBER),
        _ => return Some(Accepted::ProgramUnavailable),
    };
    if header.version != version {
        Some(Accepted::ProgramMismatch(version, version))
    } else if header.procedure > last {
        Some(Accepted::ProcedureUnavailable)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_refusal_is_logged_once_for_each_host_and_for_a_bounded_number_of_them() {
        let mut refused = RefusedHosts::default();
        let mut logged = |host: u32| refused.is_new(Ipv4Addr::from_bits(host).into());
        assert!(logged(1) && !logged(1) && logged(2));
        assert_eq!((0..10_000).filter(|host| logged(*host)).count(), LOGGED_MAX - 2);
    }
}
