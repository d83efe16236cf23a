//! Lists the objects of a placement group (ceph `src/osd/PrimaryLogPG.cc`, do_pg_op).

use super::ending::{Ending, Results};
use crate::osd::daemon::Osd;
use crate::osd::errno::{Errno, Outcome};
use crate::osd::store;
use crate::osd::store::clones::Shown;
use crate::osd::store::object::State;
use onego_buf::List;
use onego_ceph::messages::{OpResult, OsdOp};
use onego_ceph::ops::Op;
use onego_ceph::osdmap::{OsdMap, Pool};
use onego_ceph::outputs::{Listed, Listing};
use onego_ceph::types::{HObject, NOSNAP, PgId};
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::{Decoded, Reader};

/// Most objects in one listing (`osd_max_pgls`).
pub(in crate::osd) const MAX_LISTED: u64 = 1024;

/// Most objects that one listing looks at: those that do not exist at its snapshot are not counted as listed.
const MAX_LOOKED_AT: usize = 16 * MAX_LISTED as usize;

/// The namespace that stands for all of them (`librados::all_nspaces`).
const ALL_NAMESPACES: &[u8] = b"\x01";

/// The result that says that the listing is at its end.
const AT_END: i32 = 1;

impl Osd {
    pub(super) fn list(&self, request: &mut OsdOp, map: &OsdMap, room: usize) -> Ending {
        let pg = request.pg.pg;
        let Some(pool) = map.pools.get(&pg.pool) else { return Ending::failed(Errno::NOENT, &request.ops) };
        let pg = pool.pg(pg);
        let mut results = Results::new();
        let (mut result, mut left) = (0, room);
        for (op, _) in request.ops.drain(..) {
            let code = op.code();
            let place = (&request.locator.namespace[..], request.snap);
            let outcome = match op {
                _ if result < 0 => Ok((0, List::new())),
                Op::PgNls { count, cursor, .. } => {
                    self.list_some(pg, pool, place, count, &mut Reader::new(&cursor.to_segment()), None)
                }
                Op::PgNlsFilter { count, input, .. } => {
                    let input = input.to_segment();
                    let r = &mut Reader::new(&input);
                    Filter::decode(r)
                        .and_then(|filter| self.list_some(pg, pool, place, count, r, Some(&filter)))
                }
                _ => Err(Errno::OPNOTSUPP),
            };
            let outcome = outcome.and_then(|(number, output)| {
                left = left.checked_sub(output.len()).ok_or(Errno::OVERFLOW)?;
                Ok((number, output))
            });
            let (number, output) = outcome.unwrap_or_else(|error| (error.result(), List::new()));
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
        cursor: &mut Reader<'_>,
        filter: Option<&Filter>,
    ) -> Outcome<(i32, List)> {
        let cursor = HObject::decode(cursor).map_err(|_| Errno::INVAL)?;
        let (first, last) = store::hash_range(pg, pool.pg_num);
        let (_, end) = store::bounds(pg, pool.pg_num);
        let within = cursor.pool == pg.pool && (first..=last).contains(&cursor.hash.reverse_bits());
        if !cursor.is_min() && !cursor.max && !within {
            return Err(Errno::INVAL);
        }
        let mut listing = Listing { cursor: end, objects: Vec::new() };
        if cursor.max {
            return Ok((AT_END, listing.to_bytes().into()));
        }
        let count = count.min(MAX_LISTED) as usize;
        let mut seen = 0;
        for (looked_at, object) in self.store.list(pg, pool, &cursor).enumerate() {
            if seen == count || looked_at == MAX_LOOKED_AT {
                listing.cursor = object.place();
                return Ok((0, listing.to_bytes().into()));
            }
            if !object.state.exists_at(snap) {
                continue;
            }
            seen += 1;
            let place = object.place();
            let is_wanted = filter.is_none_or(|filter| filter.admits(&object.state, snap));
            if is_wanted && (namespace == ALL_NAMESPACES || namespace == place.namespace) {
                let HObject { key, name, namespace, .. } = place;
                listing.objects.push(Listed { namespace, name, key });
            }
        }
        Ok((AT_END, listing.to_bytes().into()))
    }
}

/// A filter of listings: objects with an attribute of this value (ceph `src/osd/PrimaryLogPG.cc`, `get_pgls_filter`,
/// `PGLSPlainFilter`; `src/cls/hello/cls_hello.cc`, whose filter does the same).
struct Filter {
    /// As the store has it: attributes of clients begin with `_`.
    attribute: Vec<u8>,
    value: Vec<u8>,
}

impl Filter {
    /// EINVAL: there is no such filter.
    fn decode(r: &mut Reader<'_>) -> Outcome<Self> {
        let mut read = || -> Decoded<_> {
            // The class and method by which old OSDs called filters.
            r.blob("class")?;
            r.blob("method")?;
            let name = r.blob("filter")?;
            Ok((name, r.blob("attribute")?.to_vec(), r.blob("value")?.to_vec()))
        };
        match read() {
            Ok((b"plain" | b"hello.hello", attribute, value)) => Ok(Self { attribute, value }),
            _ => Err(Errno::INVAL),
        }
    }

    fn admits(&self, state: &State, snap: u64) -> bool {
        let shown = match state.at_snapshot(snap) {
            Shown::Clone(clone) if snap != NOSNAP => &clone.state,
            _ => state,
        };
        let value = self.attribute.strip_prefix(b"_").and_then(|name| shown.meta().xattrs().get(name));
        value == Some(&self.value)
    }
}
