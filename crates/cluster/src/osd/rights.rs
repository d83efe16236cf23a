//! What a client may do with objects.

use super::admit;
use onego_ceph::caps::{OsdCap, Place, PoolGrants};
use onego_ceph::messages::OsdOp;
use onego_ceph::ops::Op;
use onego_ceph::osdmap::OsdMap;
use onego_ceph::types::{Epoch, ObjectLocator};
use rustc_hash::FxHashMap;

/// What a client may do.
#[derive(Debug)]
pub struct Rights {
    /// None: everything.
    cap: Option<OsdCap>,
    /// What that comes to in each pool that the client used, by the map of this epoch.
    pools: FxHashMap<i64, PoolGrants>,
    epoch: Epoch,
}

impl Rights {
    /// Everything: the cluster does not authenticate clients.
    pub fn everything() -> Self {
        Self { cap: None, pools: FxHashMap::default(), epoch: 0 }
    }

    /// What is written.
    pub fn limited_to(cap: OsdCap) -> Self {
        Self { cap: Some(cap), ..Self::everything() }
    }

    /// Is everything allowed, in all pools?
    pub(super) fn allow_everything(&self) -> bool {
        self.cap.as_ref().is_none_or(OsdCap::allows_everything)
    }

    /// May a request be carried out? Its pool must be in the map. (ceph `PrimaryLogPG::op_has_sufficient_caps`)
    ///
    /// What it copies must be readable, too: Ceph's OSDs read sources with their own rights, so that `copy_from` reads what
    /// its client may not.
    pub(super) fn allow(&mut self, request: &OsdOp, ops: &[(Op, u32)], map: &OsdMap) -> bool {
        if self.cap.is_none() {
            return true;
        }
        self.allow_at(request.pg.pg.pool, (&request.locator, &request.object), ops, map)
            && ops.iter().all(|(op, _)| match op {
                Op::CopyFrom(copy) if map.pools.contains_key(&copy.locator.pool) => {
                    let object = (&copy.locator, &copy.name[..]);
                    self.allow_at(copy.locator.pool, object, &[(Op::Stat, 0)], map)
                }
                _ => true,
            })
    }

    fn allow_at(
        &mut self,
        id: i64,
        (locator, name): (&ObjectLocator, &[u8]),
        ops: &[(Op, u32)],
        map: &OsdMap,
    ) -> bool {
        let Some(cap) = &self.cap else { return true };
        if self.epoch != map.epoch {
            // A pool may have got another name, or another application.
            self.pools.clear();
            self.epoch = map.epoch;
        }
        let grants = self.pools.entry(id).or_insert_with(|| {
            let name = map.pool_names.get(&id).map_or("", String::as_str);
            let none = Default::default();
            cap.in_pool(name, map.pools.get(&id).map_or(&none, |pool| &pool.application_metadata))
        });
        let wanted = admit::wanted(ops);
        let object = if locator.key.is_empty() { name } else { &locator.key };
        let place = || Place { namespace: locator.namespace.as_ref(), object };
        grants.allows_anywhere(wanted) || grants.allows(place(), wanted, &admit::calls(ops))
    }
}
