//! The size of an image, as its header gives it.

use onego_buf::List;
use onego_ceph::cls::Method as _;
use onego_ceph::cls::rbd::GetSize;
use onego_ceph::ops::Op;
use onego_ceph::types::NOSNAP;

/// Asks an image's header for its size.
pub(crate) fn size_query() -> Op {
    SIZE_QUERY.call()
}

/// The method that gives the size of an image.
pub(crate) const SIZE_QUERY: GetSize = GetSize { snap: NOSNAP };

/// The size in a header's answer.
pub(crate) fn parse_size(output: &List) -> Option<u64> {
    GetSize::reply(output).ok().map(|reply| reply.size)
}
