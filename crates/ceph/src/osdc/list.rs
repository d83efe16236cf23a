//! Listing the objects of a pool, placement group by placement group.
//!
//! Source: ceph `src/osdc/Objecter.cc`, Objecter::list_nobjects.

use crate::client::Request;
use crate::encoding::Encode;
use crate::messages::ObjectName;
use crate::ops::{Op, flag};
use crate::outputs::Listing;
use crate::types::HObject;
use onego_buf::List;

/// Lists the objects of all namespaces (`LIBRADOS_ALL_NSPACES`).
pub const ALL_NAMESPACES: &str = "\u{1}";

impl Listing {
    /// A request for at most `max` objects of a pool's group `seed`, from `from` on ([`HObject::min`] to begin with).
    ///
    /// Objects are found once if the listing goes through the groups from 0 to the pool's last, in each from the
    /// cursor of the last reply until that is [`HObject::max`]. When groups are split meanwhile, the new ones have
    /// higher numbers than those they come from, and objects that were listed already are listed again.
    pub fn request(pool: i64, seed: u32, namespace: &str, from: &HObject, max: u64) -> Request {
        let op = Op::PgNls { count: max, epoch: 0, cursor: List::from(from.to_bytes()) };
        let mut request = Request::one(pool, ObjectName::default(), op)
            .in_namespace(namespace)
            .with_flags(flag::READ | flag::PG_OP | flag::IGNORE_OVERLAY | flag::IGNORE_CACHE);
        request.group = Some(seed);
        request
    }
}
