//! Lists the objects of a placement group (ceph `src/osd/PrimaryLogPG.cc`, do_pg_op).

use super::ending::{Ending, Results};
use crate::osd::daemon::Osd;
use crate::osd::errno::{Errno, Outcome};
use crate::osd::store;
use onego_buf::List;
use onego_ceph::messages::{OpResult, OsdOp};
use onego_ceph::ops::Op;
use onego_ceph::osdmap::{OsdMap, Pool};
use onego_ceph::outputs::{Listed, Listing};
use onego_ceph::types::{HObject, PgId};
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::Reader;

/// Most objects in one reply (`osd_max_pgls`).
const MAX_OBJECTS: u64 = 1024;

/// The namespace that stands for all of them (`librados::all_nspaces`).
const ALL_NAMESPACES: &[u8] = b"\x01";

/// The result that says that the listing is at its end.
const AT_END: i32 = 1;

impl Osd {
    pub(super) fn list(&self, request: &mut OsdOp, map: &OsdMap) -> Ending {
        let pg = request.pg.pg;
        let Some(pool) = map.pools.get(&pg.pool) else { return Ending::failed(Errno::NOENT, &request.ops) };
        let pg = pool.pg(pg);
        let mut results = Results::new();
        let mut result = 0;
        for (op, _) in request.ops.drain(..) {
            let code = op.code();
            let (number, output) = match op {
                _ if result < 0 => (0, List::new()),
                Op::PgNls { count, cursor, .. } => {
                    match self.list_some(pg, pool, (&request.locator.namespace, request.snap), count, &cursor)
                    {
                        Ok((at_end, listing)) => (if at_end { AT_END } else { 0 }, listing.to_bytes().into()),
                        Err(error) => (error.result(), List::new()),
                    }
                }
                _ => (Errno::OPNOTSUPP.result(), List::new()),
            };
            result = if result < 0 { result } else { number };
            // That it is at its end is said of the request alone.
            results.push(OpResult { code, result: number.min(0), output });
        }
        Ending { result, results, ..Ending::new(true) }
    }

    fn list_some(
        &self,
        pg: PgId,
        pool: &Pool,
        (namespace, snap): (&[u8], u64),
        count: u64,
        cursor: &List,
    ) -> Outcome<(bool, Listing)> {
        let cursor = HObject::decode(&mut Reader::new(&cursor.to_segment())).map_err(|_| Errno::INVAL)?;
        let (first, last) = store::hash_range(pg, pool.pg_num);
        let (_, end) = store::bounds(pg, pool.pg_num);
        let within = cursor.pool == pg.pool && (first..=last).contains(&cursor.hash.reverse_bits());
        if !cursor.is_min() && !cursor.max && !within {
            return Err(Errno::INVAL);
        }
        let mut listing = Listing { cursor: end, objects: Vec::new() };
        if cursor.max {
            return Ok((true, listing));
        }
        let count = count.min(MAX_OBJECTS) as usize;
        for (seen, object) in self.store.list(pg, pool, &cursor, snap).enumerate() {
            let place = object.place();
            if seen == count {
                listing.cursor = place;
                return Ok((false, listing));
            }
            if namespace == ALL_NAMESPACES || namespace == place.namespace {
                let HObject { key, name, namespace, .. } = place;
                listing.objects.push(Listed { namespace, name, key });
            }
        }
        Ok((true, listing))
    }
}
