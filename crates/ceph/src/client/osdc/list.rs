//! Lists the objects of a pool.
//!
//! Source: ceph `src/osdc/Objecter.cc`, Objecter::list_nobjects; `src/osd/PrimaryLogPG.cc`, do_pg_op.

use crate::client::request::Request;
use crate::messages::ObjectName;
use crate::ops::{Op, flag};
use crate::outputs::Listing;
use crate::types::HObject;
use onego_buf::List;
use onego_msgr::encoding::Encode;

/// Namespace that stands for all namespaces (`LIBRADOS_ALL_NSPACES`).
pub const ALL_NAMESPACES: &str = "\u{1}";

impl Listing {
    /// Builds a request for at most `max` objects of a pool from `from` on: initially [`HObject::min`], then the cursor of
    /// the last reply, until that is [`HObject::max`].
    ///
    /// The cursor is a position in the order of all objects, in which each placement group is a range; its hash selects
    /// the group. So it stays valid when groups are split or merged.
    pub fn request(pool: i64, namespace: &[u8], from: &HObject, max: u64) -> Request {
        let op = Op::PgNls { count: max, epoch: 0, cursor: List::from(from.to_bytes()) };
        let mut request = Request::one(pool, ObjectName::default(), op)
            .in_namespace(namespace)
            .with_flags(flag::READ | flag::PG_OP | flag::IGNORE_OVERLAY | flag::IGNORE_CACHE);
        request.group = Some(from.hash);
        request
    }
}
