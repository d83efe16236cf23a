//! The duplicate request cache: replies to calls that must not be carried out twice (RFC 1813, section 4.5). A client
//! whose connection broke before the reply arrived sends the same call again, and gets the first reply.
//!
//! WRITE is one of these calls. Its first copy may still be on its way when the second is answered: among the bytes that
//! the system has received of the old connection, or on a thread that waits for a disk. If it were carried out then, its
//! bytes would replace those of a later WRITE that was acknowledged in between.
//!
//! The key of a call is its number, its client and its user, its procedure and its arguments, with as many bytes of data as
//! the kernel's server takes. Two programs on a host may number their calls alike, and no user gets the reply to another.
//! The client's port is not part of the key: a client that connects anew may have another, and over RDMA it cannot choose
//! one. The number alone is not enough, because clients number calls anew after a restart.

use onego_buf::List;
use onego_nfs::rpc::Procedure as _;
use onego_nfs::v3;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher as _};
use std::net::IpAddr;

/// Most replies that are kept: a few clients that only make and remove files take some seconds to fill them.
const REPLIES_MAX: usize = 1 << 16;
/// Most replies to WRITEs. They are kept apart, so that they do not evict the others. Between two copies of a WRITE there are
/// far fewer: those in the system's receive buffer of a connection, and those in progress.
const WRITES_MAX: usize = 1 << 14;
/// Most bytes of replies in each partition.
const BYTES_MAX: usize = 32 << 20;

/// Bytes of data that are part of a key, beside their number: as many as `RC_CSUMLEN` of Linux.
const DATA_MAX: usize = 256;

/// Are the replies of a procedure cached? Carried out again, it would have another effect.
pub(super) fn is_cached(procedure: u32) -> bool {
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

/// The key of a call of NFS version 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RequestKey {
    from: IpAddr,
    uid: u32,
    xid: u32,
    procedure: u32,
    arguments: u64,
}

impl RequestKey {
    /// The key of a call by a user of a host.
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

/// What the cache knows of a call that has arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request<'a> {
    /// Nothing. The call is in progress from here on.
    New,
    /// The call is in progress, without a reply so far.
    InProgress,
    /// The call was carried out, with this reply.
    Done(&'a [u8]),
}

/// The duplicate request cache.
#[derive(Debug)]
pub(super) struct DuplicateRequestCache {
    writes: Partition,
    others: Partition,
}

impl DuplicateRequestCache {
    pub(super) fn new() -> Self {
        Self { writes: Partition::new(WRITES_MAX), others: Partition::new(REPLIES_MAX) }
    }

    fn partition(&mut self, key: RequestKey) -> &mut Partition {
        if key.procedure == v3::Write::NUMBER { &mut self.writes } else { &mut self.others }
    }

    /// A call has arrived.
    pub(super) fn begin(&mut self, key: RequestKey) -> Request<'_> {
        self.partition(key).begin(key)
    }

    /// A new call was carried out, with this reply.
    pub(super) fn end(&mut self, key: RequestKey, reply: &[u8]) {
        self.partition(key).end(key, reply);
    }
}

/// Replies of some procedures.
#[derive(Debug)]
struct Partition {
    /// `None`: in progress.
    replies: FxHashMap<RequestKey, Option<Box<[u8]>>>,
    /// In the order of arrival.
    order: VecDeque<RequestKey>,
    bytes: usize,
    max: usize,
}

impl Partition {
    fn new(max: usize) -> Self {
        Self { replies: FxHashMap::default(), order: VecDeque::new(), bytes: 0, max }
    }

    fn begin(&mut self, key: RequestKey) -> Request<'_> {
        // Two lookups: the borrow of one would last as long as the answer.
        if self.replies.contains_key(&key) {
            return match &self.replies[&key] {
                Some(reply) => Request::Done(reply),
                None => Request::InProgress,
            };
        }
        self.make_room();
        self.replies.insert(key, None);
        self.order.push_back(key);
        Request::New
    }

    fn end(&mut self, key: RequestKey, reply: &[u8]) {
        if let Some(kept) = self.replies.get_mut(&key) {
            self.bytes += reply.len();
            *kept = Some(reply.into());
        }
    }

    /// Evicts the oldest replies. Calls in progress stay; their number has a bound elsewhere.
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

    fn key(xid: u32, arguments: &[u8]) -> RequestKey {
        RequestKey::new((IpAddr::V4(Ipv4Addr::LOCALHOST), 7), xid, 14, arguments, &List::new())
    }

    #[test]
    fn a_call_that_comes_again_gets_the_reply_that_it_had() {
        let mut cache = DuplicateRequestCache::new();
        assert_eq!(cache.begin(key(1, b"a")), Request::New);
        assert_eq!(cache.begin(key(1, b"a")), Request::InProgress);
        cache.end(key(1, b"a"), b"reply");
        assert_eq!(cache.begin(key(1, b"a")), Request::Done(b"reply"));
        // A client that has started anew may use the number for another call.
        assert_eq!(cache.begin(key(1, b"b")), Request::New);
        let elsewhere = RequestKey { from: "10.0.0.1".parse().unwrap(), ..key(1, b"a") };
        assert_eq!(cache.begin(elsewhere), Request::New);
    }

    #[test]
    fn the_oldest_are_evicted_but_not_calls_in_progress() {
        let mut partition = Partition::new(REPLIES_MAX);
        let large = vec![0; BYTES_MAX / 8];
        partition.begin(key(0, b""));
        for xid in 1..100 {
            partition.begin(key(xid, b""));
            partition.end(key(xid, b""), &large);
        }
        assert!(partition.bytes <= BYTES_MAX + large.len());
        assert_eq!(partition.order.len(), partition.replies.len());
        assert_eq!(partition.begin(key(0, b"")), Request::InProgress);
        assert_eq!(partition.begin(key(1, b"")), Request::New);
        assert_eq!(partition.begin(key(99, b"")), Request::Done(&large));
        for xid in 100..REPLIES_MAX as u32 * 2 {
            partition.begin(key(xid, b""));
            partition.end(key(xid, b""), b"");
        }
        assert!(partition.replies.len() <= REPLIES_MAX);
    }

    #[test]
    fn a_write_is_known_by_the_beginning_of_its_data_and_pushes_nothing_else_out() {
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let write = |xid, data: &[&[u8]]| {
            let data = data.iter().fold(List::new(), |mut list, piece| {
                list.append(List::from(piece.to_vec()));
                list
            });
            RequestKey::new((from, 7), xid, v3::Write::NUMBER, b"front", &data)
        };
        let bytes = [7; 1000];
        assert_eq!(write(1, &[&bytes]), write(1, &[&bytes[..100], &bytes[100..]]));
        assert_ne!(write(1, &[&bytes]), write(1, &[&bytes[1..]]));
        let mut other = bytes;
        other[255] = 8;
        assert_ne!(write(1, &[&bytes]), write(1, &[&other]));
        let mut cache = DuplicateRequestCache::new();
        cache.begin(key(1, b"remove"));
        cache.end(key(1, b"remove"), b"reply");
        for xid in 0..2 * REPLIES_MAX as u32 {
            assert_eq!(cache.begin(write(xid, &[&bytes])), Request::New);
            cache.end(write(xid, &[&bytes]), b"written");
        }
        assert_eq!(cache.begin(key(1, b"remove")), Request::Done(b"reply"));
        assert_eq!(cache.writes.replies.len(), WRITES_MAX);
    }
}
