//! An NFSv3 client that sends any caller and any attributes (RFC 1813, RFC 5531).
//!
//! It has encoders of its own, so it does not repeat errors of the server's.

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
const VERSION: u32 = 3;

/// Time limit of a reply.
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

/// Statuses of NFS and MOUNT.
pub(super) const OK: u32 = 0;
pub(super) const PERM: u32 = 1;
pub(super) const ACCES: u32 = 13;
pub(super) const INVAL: u32 = 22;
pub(super) const STALE: u32 = 70;

/// Reason for which a call is denied (`AUTH_TOOWEAK`).
pub(super) const TOO_WEAK: u32 = 5;

/// A caller's credentials.
#[derive(Debug, Clone)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: Vec<u32>,
}

/// Returns a user with a group of the same number.
pub(super) fn user(uid: u32) -> User {
    User { uid, gid: uid, groups: Vec::new() }
}

/// Attributes to set.
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

/// A result, or the status of a refusal.
pub(super) type Answer<T> = std::result::Result<T, u32>;

/// Turns a refusal into an error that names the procedure.
pub(super) fn granted<T>(procedure: &str, answer: Answer<T>) -> Result<T> {
    answer.map_err(|status| anyhow!("{procedure} fails with status {status}"))
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Results, beginning with a status.
    Results(Vec<u8>),
    /// The reason for which the call was denied.
    Denied(u32),
}

/// Encoder of XDR (RFC 4506).
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

    /// Appends a directory and a name in it.
    pub(super) fn place(self, dir: &Handle, name: &str) -> Self {
        self.opaque(dir).opaque(name.as_bytes())
    }

    /// Appends attributes, without times.
    pub(super) fn set(self, set: &Set) -> Self {
        let words = [set.mode, set.uid, set.gid].into_iter().fold(self, |words, value| match value {
            Some(value) => words.u32(1).u32(value),
            None => words.u32(0),
        });
        let words = match set.size {
            Some(size) => words.u32(1).u64(size),
            None => words.u32(0),
        };
        words.u32(0).u32(0)
    }

    fn user(self, user: &User) -> Self {
        let body = Self::default().u32(0).opaque(b"attacker").u32(user.uid).u32(user.gid);
        let body = user.groups.iter().fold(body.u32(user.groups.len() as u32), |body, id| body.u32(*id));
        self.u32(1).opaque(&body.0)
    }
}

/// Decoder of XDR.
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
        Ok(self.take(len.next_multiple_of(4))?[..len].to_vec())
    }

    /// Skips optional attributes and returns whether they were present.
    pub(super) fn attributes(&mut self) -> Result<bool> {
        let present = self.u32()? == 1;
        self.skip(if present { 21 } else { 0 })?;
        Ok(present)
    }

    pub(super) fn optional_handle(&mut self) -> Result<Option<Handle>> {
        if self.u32()? == 1 { self.opaque().map(Some) } else { Ok(None) }
    }
}

/// Reads results, or the status of a refusal.
fn answer<'a, T>(results: &'a [u8], read: impl FnOnce(&mut Reader<'a>) -> Result<T>) -> Result<Answer<T>> {
    let mut reader = Reader(results);
    match reader.u32()? {
        OK => read(&mut reader).map(Ok),
        status => Ok(Err(status)),
    }
}

/// A connection.
pub(super) struct Attacker {
    stream: TcpStream,
}

impl Attacker {
    pub(super) fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).context("the server accepts no connection")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream })
    }

    fn call(&mut self, program: u32, procedure: u32, user: &User, args: &Words) -> Result<Reply> {
        self.stream.write_all(&message(program, procedure, user, args))?;
        self.reply()
    }

    /// Sends calls in one write and waits for their replies.
    pub(super) fn at_once(&mut self, user: &User, calls: &[(u32, Words)]) -> Result<()> {
        let messages = calls.iter().flat_map(|(procedure, args)| nfs_message(*procedure, user, args));
        self.stream.write_all(&messages.collect::<Vec<_>>())?;
        calls.iter().try_for_each(|_| self.reply().map(drop))
    }

    fn reply(&mut self) -> Result<Reply> {
        let (mut record, mut mark) = (Vec::new(), [0; 4]);
        // The first bit of a mark is set for the last fragment (RFC 5531, 11).
        while mark[0] & 0x80 == 0 {
            self.stream.read_exact(&mut mark).context("the server does not reply")?;
            let start = record.len();
            record.resize(start + (u32::from_be_bytes(mark) & !(1 << 31)) as usize, 0);
            self.stream.read_exact(&mut record[start..])?;
        }
        let mut reader = Reader(&record);
        reader.skip(1)?;
        ensure!(reader.u32()? == 1, "the server sends a call");
        if reader.u32()? == 1 {
            ensure!(reader.u32()? == 1, "the server denies this version of RPC");
            return Ok(Reply::Denied(reader.u32()?));
        }
        reader.skip(1)?;
        reader.opaque()?;
        let status = reader.u32()?;
        ensure!(status == 0, "the server does not accept the call: {status}");
        Ok(Reply::Results(reader.0.to_vec()))
    }

    /// Makes an NFS call and returns its results.
    pub(super) fn results(&mut self, procedure: u32, user: &User, args: &Words) -> Result<Vec<u8>> {
        match self.call(NFS, procedure, user, args)? {
            Reply::Results(results) => Ok(results),
            Reply::Denied(reason) => bail!("procedure {procedure} is denied for reason {reason}"),
        }
    }

    /// Makes an NFS call and returns its status.
    pub(super) fn status(&mut self, procedure: u32, user: &User, args: &Words) -> Result<u32> {
        Reader(&self.results(procedure, user, args)?).u32()
    }

    pub(super) fn mount(&mut self, user: &User, path: &str) -> Result<Answer<Handle>> {
        match self.call(MOUNT, 1, user, &Words::default().opaque(path.as_bytes()))? {
            Reply::Results(results) => answer(&results, Reader::opaque),
            Reply::Denied(reason) => bail!("MOUNT is denied for reason {reason}"),
        }
    }

    /// Calls GETATTR, to see whether the server accepts calls.
    pub(super) fn ping(&mut self, user: &User, file: &Handle) -> Result<Reply> {
        self.call(NFS, GETATTR, user, &Words::default().opaque(file))
    }

    pub(super) fn look_up(&mut self, user: &User, dir: &Handle, name: &str) -> Result<Answer<Handle>> {
        answer(&self.results(LOOKUP, user, &Words::default().place(dir, name))?, Reader::opaque)
    }

    /// Creates a file that does not exist.
    pub(super) fn create(
        &mut self,
        user: &User,
        dir: &Handle,
        name: &str,
        set: &Set,
    ) -> Result<Answer<Handle>> {
        let results = self.results(CREATE, user, &Words::default().place(dir, name).u32(1).set(set))?;
        answer(&results, |reader| reader.optional_handle()?.context("CREATE returns no handle"))
    }

    pub(super) fn set(&mut self, user: &User, file: &Handle, set: &Set) -> Result<u32> {
        self.status(SETATTR, user, &Words::default().opaque(file).set(set).u32(0))
    }

    pub(super) fn write(&mut self, user: &User, file: &Handle, data: &[u8]) -> Result<u32> {
        let args = Words::default().opaque(file).u64(0).u32(data.len() as u32).u32(2).opaque(data);
        self.status(WRITE, user, &args)
    }

    /// Reads the first 1,000 bytes of a file.
    pub(super) fn read(&mut self, user: &User, file: &Handle) -> Result<Answer<Vec<u8>>> {
        let results = self.results(READ, user, &Words::default().opaque(file).u64(0).u32(1000))?;
        answer(&results, |reader| {
            reader.attributes()?;
            reader.skip(2)?;
            reader.opaque()
        })
    }
}

/// Returns an NFS call as it is sent.
pub(super) fn nfs_message(procedure: u32, user: &User, args: &Words) -> Vec<u8> {
    message(NFS, procedure, user, args)
}

fn message(program: u32, procedure: u32, user: &User, args: &Words) -> Vec<u8> {
    // Shared by all connections: the server replies to a repeated number from its cache.
    static XIDS: AtomicU32 = AtomicU32::new(1);
    let header = Words::default().u32(XIDS.fetch_add(1, Ordering::Relaxed)).u32(0).u32(2);
    let mut words = header.u32(program).u32(VERSION).u32(procedure).user(user).u32(0).u32(0);
    words.0.extend(&args.0);
    // The record is one fragment, the last.
    [&(1 << 31 | words.0.len() as u32).to_be_bytes(), &words.0[..]].concat()
}
