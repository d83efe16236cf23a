//! Replies to calls that must not be carried out twice (RFC 1813, section 4.5): they are given again when the same call
//! comes again, which a client sends whose connection broke before it had the reply.
//!
//! A WRITE is one of them. The first copy of it may still be on its way when the second is answered: in what the system
//! has received of the old connection, or on a thread that waits for a disk. If it were carried out then, its bytes
//! would replace those of a later WRITE that was acknowledged in between.
//!
//! A call is known by its number, its client and its user, its procedure and its arguments, of data as much as the kernel's
//! server takes. (Two programs on a host may number their calls alike; no user gets the reply to another.) The client's port is no part of that: a client that connects anew may have another, and over RDMA it has no say
//! in it. Clients number calls anew after a restart, so that the number alone does not do.

use onego_buf::List;
use onego_nfs::rpc::Procedure as _;
use onego_nfs::v3;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher as _};
use std::net::IpAddr;

/// Replies that are kept: some seconds of a few clients that do nothing but make and remove files.
const REPLIES_MAX: usize = 1 << 16;
/// Those to WRITEs, which must not push the others out: far more than can be between two copies of one, which is what the
/// system receives of a connection ahead of us, and what is in work.
const WRITES_MAX: usize = 1 << 14;
/// Bytes of replies that are kept, of either sort.
const BYTES_MAX: usize = 32 << 20;

/// Bytes of data by which a call is known, beside their number: as many as `RC_CSUMLEN` of Linux.
const DATA_MAX: usize = 256;

/// Procedures that do something else if they are carried out again.
pub(super) fn is_once(procedure: u32) -> bool {
    matches!(
        procedure,
        v3::Setattr::NUMBER
            | v3::Write::NUMBER
            | v3::Create::NUMBER
            | v3::Mkdir::NUMBER
            | v3::Symlink::NUMBER
            | v3::Mknod::NUMBER
            | v3::Remove::NUMBER
            | v3::Rmdir::NUMBER
            | v3::Rename::NUMBER
            | v3::Link::NUMBER
    )
}

/// A call of a procedure of NFS version 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    from: IpAddr,
    uid: u32,
    xid: u32,
    procedure: u32,
    arguments: u64,
}

impl Key {
    /// A call by a user of a host.
    pub(super) fn new(
        (from, uid): (IpAddr, u32),
        xid: u32,
        procedure: u32,
        front: &[u8],
        payload: &List,
    ) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(front);
        hasher.write_usize(payload.len());
        let mut left = DATA_MAX;
        for segment in payload.segments() {
            let taken = segment.len().min(left);
            hasher.write(&segment[..taken]);
            left -= taken;
            if left == 0 {
                break;
            }
        }
        Self { from, uid, xid, procedure, arguments: hasher.finish() }
    }
}

/// What is known of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known<'a> {
    /// Nothing: it is new, and in work from here on.
    New,
    /// It is in work: the reply is on its way.
    InWork,
    /// It has been carried out, with this reply.
    Done(&'a [u8]),
}

/// The replies.
#[derive(Debug)]
pub(super) struct Replies {
    writes: Kept,
    others: Kept,
}

impl Replies {
    pub(super) fn new() -> Self {
        Self { writes: Kept::new(WRITES_MAX), others: Kept::new(REPLIES_MAX) }
    }

    fn kept(&mut self, key: Key) -> &mut Kept {
        if key.procedure == v3::Write::NUMBER { &mut self.writes } else { &mut self.others }
    }

    /// A call is here.
    pub(super) fn begin(&mut self, key: Key) -> Known<'_> {
        self.kept(key).begin(key)
    }

    /// A call that was new has been carried out.
    pub(super) fn end(&mut self, key: Key, reply: &[u8]) {
        self.kept(key).end(key, reply);
    }
}

/// Replies of one sort.
#[derive(Debug)]
struct Kept {
    /// None: in work.
    replies: FxHashMap<Key, Option<Box<[u8]>>>,
    /// In the order in which they came.
    order: VecDeque<Key>,
    bytes: usize,
    max: usize,
}

impl Kept {
    fn new(max: usize) -> Self {
        Self { replies: FxHashMap::default(), order: VecDeque::new(), bytes: 0, max }
    }

    fn begin(&mut self, key: Key) -> Known<'_> {
        // Looked up twice, because what is borrowed for an answer stays borrowed otherwise.
        if self.replies.contains_key(&key) {
            return match &self.replies[&key] {
                Some(reply) => Known::Done(reply),
                None => Known::InWork,
            };
        }
        self.make_room();
        self.replies.insert(key, None);
        self.order.push_back(key);
        Known::New
    }

    fn end(&mut self, key: Key, reply: &[u8]) {
        if let Some(kept) = self.replies.get_mut(&key) {
            self.bytes += reply.len();
            *kept = Some(reply.into());
        }
    }

    /// Forgets the oldest replies. Calls in work are not forgotten: there are as many as there may be at a time.
    fn make_room(&mut self) {
        for _ in 0..self.order.len() {
            if self.order.len() < self.max && self.bytes < BYTES_MAX {
                return;
            }
            let Some(oldest) = self.order.pop_front() else { return };
            match self.replies.get(&oldest) {
                Some(None) => self.order.push_back(oldest),
                _ => {
                    let reply = self.replies.remove(&oldest).flatten();
                    self.bytes -= reply.map_or(0, |reply| reply.len());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn key(xid: u32, arguments: &[u8]) -> Key {
        Key::new((IpAddr::V4(Ipv4Addr::LOCALHOST), 7), xid, 14, arguments, &List::new())
    }

    #[test]
    fn a_call_that_comes_again_gets_the_reply_that_it_had() {
        let mut replies = Replies::new();
        assert_eq!(replies.begin(key(1, b"a")), Known::New);
        assert_eq!(replies.begin(key(1, b"a")), Known::InWork);
        replies.end(key(1, b"a"), b"reply");
        assert_eq!(replies.begin(key(1, b"a")), Known::Done(b"reply"));
        // A client that has started anew may use the number for another call.
        assert_eq!(replies.begin(key(1, b"b")), Known::New);
        let elsewhere = Key { from: "10.0.0.1".parse().unwrap(), ..key(1, b"a") };
        assert_eq!(replies.begin(elsewhere), Known::New);
    }

    #[test]
    fn the_oldest_are_forgotten_but_not_what_is_in_work() {
        let mut replies = Kept::new(REPLIES_MAX);
        let large = vec![0; BYTES_MAX / 8];
        replies.begin(key(0, b""));
        for xid in 1..100 {
            replies.begin(key(xid, b""));
            replies.end(key(xid, b""), &large);
        }
        assert!(replies.bytes <= BYTES_MAX + large.len());
        assert_eq!(replies.order.len(), replies.replies.len());
        assert_eq!(replies.begin(key(0, b"")), Known::InWork);
        assert_eq!(replies.begin(key(1, b"")), Known::New);
        assert_eq!(replies.begin(key(99, b"")), Known::Done(&large));
        for xid in 100..REPLIES_MAX as u32 * 2 {
            replies.begin(key(xid, b""));
            replies.end(key(xid, b""), b"");
        }
        assert!(replies.replies.len() <= REPLIES_MAX);
    }

    #[test]
    fn a_write_is_known_by_the_beginning_of_its_data_and_pushes_nothing_else_out() {
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let write = |xid, data: &[&[u8]]| {
            let data = data.iter().fold(List::new(), |mut list, piece| {
                list.append(List::from(piece.to_vec()));
                list
            });
            Key::new((from, 7), xid, v3::Write::NUMBER, b"front", &data)
        };
        let bytes = [7; 1000];
        assert_eq!(write(1, &[&bytes]), write(1, &[&bytes[..100], &bytes[100..]]));
        assert_ne!(write(1, &[&bytes]), write(1, &[&bytes[1..]]));
        let mut other = bytes;
        other[255] = 8;
        assert_ne!(write(1, &[&bytes]), write(1, &[&other]));
        let mut replies = Replies::new();
        replies.begin(key(1, b"remove"));
        replies.end(key(1, b"remove"), b"reply");
        for xid in 0..2 * REPLIES_MAX as u32 {
            assert_eq!(replies.begin(write(xid, &[&bytes])), Known::New);
            replies.end(write(xid, &[&bytes]), b"written");
        }
        assert_eq!(replies.begin(key(1, b"remove")), Known::Done(b"reply"));
        assert_eq!(replies.writes.replies.len(), WRITES_MAX);
    }
}
