//! A client of NFS version 3 that says whatever it is told to say: every caller, every attribute (RFC 1813, 5531).
//!
//! It has its own encoders, so that an error in those of the server is not made twice.

use anyhow::{Context as _, Result, bail, ensure};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
const VERSION: u32 = 3;

/// How long to wait for a reply. None takes a hundredth of it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Procedures of NFS.
pub(super) const GETATTR: u32 = 1;
pub(super) const SETATTR: u32 = 2;
pub(super) const LOOKUP: u32 = 3;
pub(super) const READ: u32 = 6;
pub(super) const WRITE: u32 = 7;
pub(super) const CREATE: u32 = 8;
pub(super) const MKDIR: u32 = 9;
pub(super) const SYMLINK: u32 = 10;
pub(super) const MKNOD: u32 = 11;
pub(super) const REMOVE: u32 = 12;
pub(super) const RENAME: u32 = 14;
pub(super) const LINK: u32 = 15;
pub(super) const READDIR: u32 = 16;
pub(super) const READDIRPLUS: u32 = 17;

/// Statuses of NFS and of MOUNT.
pub(super) const OK: u32 = 0;
pub(super) const PERM: u32 = 1;
pub(super) const ACCES: u32 = 13;
pub(super) const INVAL: u32 = 22;
pub(super) const STALE: u32 = 70;

/// The reason for which a call is denied (`AUTH_TOOWEAK`).
pub(super) const TOO_WEAK: u32 = 5;

/// The user that a call names.
#[derive(Debug, Clone)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: Vec<u32>,
}

/// A user with a group of the same number.
pub(super) fn user(uid: u32) -> User {
    User { uid, gid: uid, groups: Vec::new() }
}

/// Attributes to be set.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Set {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
}

pub(super) fn mode(mode: u32) -> Set {
    Set { mode: Some(mode), ..Set::default() }
}

pub(super) type Handle = Vec<u8>;

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Results, which begin with a status.
    Results(Vec<u8>),
    /// The call was denied for that reason.
    Denied(u32),
}

/// Words for a message.
#[derive(Default)]
pub(super) struct Words(Vec<u8>);

impl Words {
    pub(super) fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn opaque(self, bytes: &[u8]) -> Self {
        let mut words = self.u32(bytes.len() as u32);
        words.0.extend(bytes);
        words.0.resize(words.0.len().next_multiple_of(4), 0);
        words
    }

    /// A name in a directory.
    pub(super) fn place(self, dir: &Handle, name: &str) -> Self {
        self.opaque(dir).opaque(name.as_bytes())
    }

    pub(super) fn set(self, set: &Set) -> Self {
        let some = |words: Self, value: Option<u32>| match value {
            Some(value) => words.u32(1).u32(value),
            None => words.u32(0),
        };
        let words = [set.mode, set.uid, set.gid].into_iter().fold(self, some);
        let words = match set.size {
            Some(size) => words.u32(1).u64(size),
            None => words.u32(0),
        };
        // The times are left.
        words.u32(0).u32(0)
    }

    fn user(self, user: &User) -> Self {
        let body = Self::default().u32(0).opaque(b"attacker").u32(user.uid).u32(user.gid);
        let body =
            user.groups.iter().fold(body.u32(user.groups.len() as u32), |body, group| body.u32(*group));
        self.u32(1).opaque(&body.0)
    }
}

/// Reads a reply.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).context("a reply is too short")?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(self.take(4)?.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)))
    }

    pub(super) fn skip(&mut self, words: usize) -> Result<()> {
        self.take(4 * words).map(drop)
    }

    pub(super) fn opaque(&mut self) -> Result<Vec<u8>> {
        let len = self.u32()? as usize;
        let bytes = self.take(len)?.to_vec();
        self.take(len.next_multiple_of(4) - len)?;
        Ok(bytes)
    }

    /// Attributes that may be there.
    pub(super) fn attributes(&mut self) -> Result<bool> {
        let there = self.u32()? == 1;
        if there {
            self.skip(21)?;
        }
        Ok(there)
    }

    /// A handle that may be there.
    pub(super) fn handle(&mut self) -> Result<Option<Handle>> {
        Ok(if self.u32()? == 1 { Some(self.opaque()?) } else { None })
    }
}

/// The number of the last call on any connection: the server gives one that comes again the reply of the first time.
static LAST_XID: AtomicU32 = AtomicU32::new(0);

/// A connection.
pub(super) struct Attacker {
    stream: TcpStream,
}

impl Attacker {
    pub(super) fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).context("the server takes no connections")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream })
    }

    /// Makes a call and waits for its reply.
    pub(super) fn call(&mut self, program: u32, procedure: u32, user: &User, args: Words) -> Result<Reply> {
        let message = Self::message(program, procedure, user, &args);
        self.stream.write_all(&message)?;
        self.reply().map(|(_, reply)| reply)
    }

    /// Makes calls all at once and waits for their replies.
    pub(super) fn at_once(&mut self, user: &User, calls: Vec<(u32, Words)>) -> Result<()> {
        let count = calls.len();
        let messages: Vec<u8> = calls
            .into_iter()
            .flat_map(|(procedure, args)| Self::message(NFS, procedure, user, &args))
            .collect();
        self.stream.write_all(&messages)?;
        (0..count).try_for_each(|_| self.reply().map(drop))
    }

    /// A call of NFS as it is sent.
    pub(super) fn nfs_message(procedure: u32, user: &User, args: &Words) -> Vec<u8> {
        Self::message(NFS, procedure, user, args)
    }

    fn message(program: u32, procedure: u32, user: &User, args: &Words) -> Vec<u8> {
        let xid = LAST_XID.fetch_add(1, Ordering::Relaxed) + 1;
        let header = Words::default().u32(xid).u32(0).u32(2).u32(program).u32(VERSION).u32(procedure);
        let mut words = header.user(user).u32(0).u32(0);
        words.0.extend(&args.0);
        // One fragment, the last.
        [&(1 << 31 | words.0.len() as u32).to_be_bytes(), &words.0[..]].concat()
    }

    fn reply(&mut self) -> Result<(u32, Reply)> {
        let mut record = Vec::new();
        loop {
            let mut mark = [0; 4];
            self.stream.read_exact(&mut mark).context("the server does not answer")?;
            let mark = u32::from_be_bytes(mark);
            let start = record.len();
            record.resize(start + (mark & !(1 << 31)) as usize, 0);
            self.stream.read_exact(&mut record[start..])?;
            if mark & 1 << 31 != 0 {
                break;
            }
        }
        let mut r = Reader(&record);
        let xid = r.u32()?;
        ensure!(r.u32()? == 1, "the server sends no reply");
        if r.u32()? == 1 {
            ensure!(r.u32()? == 1, "the server speaks another version of RPC");
            return Ok((xid, Reply::Denied(r.u32()?)));
        }
        r.skip(1)?;
        r.opaque()?;
        match r.u32()? {
            0 => Ok((xid, Reply::Results(r.0.to_vec()))),
            status => bail!("the server does not take the call: {status}"),
        }
    }

    /// Makes a call of NFS: its results.
    pub(super) fn results(&mut self, procedure: u32, user: &User, args: Words) -> Result<Vec<u8>> {
        match self.call(NFS, procedure, user, args)? {
            Reply::Results(results) => Ok(results),
            Reply::Denied(reason) => bail!("procedure {procedure} is denied: {reason}"),
        }
    }

    /// Makes a call of NFS: its status.
    pub(super) fn status(&mut self, procedure: u32, user: &User, args: Words) -> Result<u32> {
        Reader(&self.results(procedure, user, args)?).u32()
    }

    /// The handle of a directory by its path, or the status.
    pub(super) fn mount(&mut self, user: &User, path: &str) -> Result<Result<Handle, u32>> {
        let Reply::Results(results) = self.call(MOUNT, 1, user, Words::default().opaque(path.as_bytes()))?
        else {
            bail!("MOUNT is denied");
        };
        let mut r = Reader(&results);
        Ok(match r.u32()? {
            OK => Ok(r.opaque()?),
            status => Err(status),
        })
    }

    /// GETATTR without what it returns: how the server takes a call.
    pub(super) fn ping(&mut self, user: &User, file: &Handle) -> Result<Reply> {
        self.call(NFS, GETATTR, user, Words::default().opaque(file))
    }

    pub(super) fn look_up(&mut self, user: &User, dir: &Handle, name: &str) -> Result<Result<Handle, u32>> {
        let results = self.results(LOOKUP, user, Words::default().place(dir, name))?;
        let mut r = Reader(&results);
        Ok(match r.u32()? {
            OK => Ok(r.opaque()?),
            status => Err(status),
        })
    }

    /// CREATE of a file that is not there.
    pub(super) fn create(
        &mut self,
        user: &User,
        dir: &Handle,
        name: &str,
        set: &Set,
    ) -> Result<Result<Handle, u32>> {
        let args = Words::default().place(dir, name).u32(1).set(set);
        let results = self.results(CREATE, user, args)?;
        let mut r = Reader(&results);
        Ok(match r.u32()? {
            OK => Ok(r.handle()?.context("CREATE gives no handle")?),
            status => Err(status),
        })
    }

    pub(super) fn set(&mut self, user: &User, file: &Handle, set: &Set) -> Result<u32> {
        self.status(SETATTR, user, Words::default().opaque(file).set(set).u32(0))
    }

    pub(super) fn write(&mut self, user: &User, file: &Handle, data: &[u8]) -> Result<u32> {
        let args = Words::default().opaque(file).u64(0).u32(data.len() as u32).u32(2).opaque(data);
        self.status(WRITE, user, args)
    }

    /// The first bytes of a file, or the status.
    pub(super) fn read(&mut self, user: &User, file: &Handle) -> Result<Result<Vec<u8>, u32>> {
        let results = self.results(READ, user, Words::default().opaque(file).u64(0).u32(1000))?;
        let mut r = Reader(&results);
        Ok(match r.u32()? {
            OK => {
                r.attributes()?;
                r.skip(2)?;
                Ok(r.opaque()?)
            }
            status => Err(status),
        })
    }
}
