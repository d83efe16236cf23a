//! Manager map (ceph `src/mon/MgrMap.{h,cc}`).
//!
//! Decodes every encoding from Pacific to Tentacle, and encodes Tentacle's.

use crate::types::{Epoch, Utime};
use onego_msgr::addr::AddrVec;
use onego_msgr::encoding::{Decode, Encode, envelope, write_envelope};
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::collections::{BTreeMap, BTreeSet};

/// Module of a manager (`MgrMap::ModuleInfo`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MgrModule {
    /// Name.
    pub name: String,
    /// Whether the module can run.
    pub can_run: bool,
    /// Reason why it cannot run.
    pub error: String,
    /// Encoded options, which only managers and the dashboard use.
    pub options: Vec<u8>,
}

/// Standby manager (`MgrMap::StandbyInfo`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StandbyMgr {
    /// Global id.
    pub gid: u64,
    /// Name without `mgr.`.
    pub name: String,
    /// Available modules.
    pub modules: Vec<MgrModule>,
    /// Feature bits.
    pub features: u64,
}

/// Map of a cluster's managers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MgrMap {
    /// Version of the map.
    pub epoch: Epoch,
    /// Addresses of the active manager.
    pub active_addrs: AddrVec,
    /// Global id of the active manager, or 0.
    pub active_gid: u64,
    /// Whether the active manager is ready.
    pub available: bool,
    /// Name of the active manager without `mgr.`.
    pub active_name: String,
    /// Standby managers by global id.
    pub standbys: BTreeMap<u64, StandbyMgr>,
    /// Enabled modules.
    pub modules: BTreeSet<String>,
    /// Services of modules: name, URI.
    pub services: BTreeMap<String, String>,
    /// Modules that the active manager has.
    pub available_modules: Vec<MgrModule>,
    /// Time of the last change of the active manager.
    pub active_change: Utime,
    /// Modules that cannot be disabled, by release.
    pub always_on_modules: BTreeMap<u32, BTreeSet<String>>,
    /// Feature bits of the active manager.
    pub active_features: u64,
    /// Epoch of the OSD map in which a manager was last blocklisted.
    pub last_failure_osd_epoch: Epoch,
    /// Clients of the manager's modules: name and addresses.
    pub clients: Vec<(String, AddrVec)>,
    /// Flags: 1 is `down`.
    pub flags: u64,
    /// Modules that are disabled despite being always on.
    pub force_disabled_modules: BTreeSet<String>,
}

impl Decode for MgrModule {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        envelope(r, 2, "mgr module", |_, r| {
            Ok(Self {
                name: r.string("mgr module name")?,
                can_run: r.bool("mgr module")?,
                error: r.string("mgr module error")?,
                options: r.rest().to_vec(),
            })
        })
    }
}

impl Encode for MgrModule {
    fn encode(&self, w: &mut Writer) {
        const EMPTY: [u8; 4] = [0; 4];
        write_envelope(w, 2, 1, |w| {
            w.string(&self.name);
            w.bool(self.can_run);
            w.string(&self.error);
            w.put(if self.options.is_empty() { &EMPTY } else { &self.options });
        });
    }
}

impl Decode for StandbyMgr {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        const WHAT: &str = "standby mgr";
        envelope(r, 4, WHAT, |version, r| {
            if version < 4 {
                return Err(DecodeError::TooOld { what: WHAT, version, oldest: 4 });
            }
            let (gid, name) = (r.u64(WHAT)?, r.string("standby mgr name")?);
            Vec::<String>::decode(r)?; // the modules' names, for readers before Mimic
            Ok(Self { gid, name, modules: Vec::decode(r)?, features: r.u64(WHAT)? })
        })
    }
}

impl Encode for StandbyMgr {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 4, 1, |w| {
            w.u64(self.gid);
            w.string(&self.name);
            let names: BTreeSet<&str> = self.modules.iter().map(|module| module.name.as_str()).collect();
            w.count(names.len());
            names.into_iter().for_each(|name| w.string(name));
            self.modules.encode(w);
            w.u64(self.features);
        });
    }
}

impl Decode for MgrMap {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        const WHAT: &str = "mgrmap";
        envelope(r, 14, WHAT, |version, r| {
            if version < 11 {
                return Err(DecodeError::TooOld { what: WHAT, version, oldest: 11 });
            }
            let mut map = Self {
                epoch: r.u32(WHAT)?,
                active_addrs: AddrVec::decode(r)?,
                active_gid: r.u64(WHAT)?,
                available: r.bool(WHAT)?,
                active_name: r.string("active mgr name")?,
                standbys: BTreeMap::decode(r)?,
                modules: BTreeSet::decode(r)?,
                services: BTreeMap::decode(r)?,
                available_modules: Vec::decode(r)?,
                active_change: Utime::decode(r)?,
                always_on_modules: BTreeMap::decode(r)?,
                active_features: r.u64(WHAT)?,
                last_failure_osd_epoch: r.u32(WHAT)?,
                ..Self::default()
            };
            let addrs: Vec<AddrVec> = Vec::decode(r)?;
            let mut names: Vec<String> = if version >= 12 { Vec::decode(r)? } else { Vec::new() };
            if version >= 12 && names.len() != addrs.len() {
                return Err(DecodeError::Invalid {
                    what: "number of mgr clients",
                    value: names.len() as u64,
                });
            }
            names.resize(addrs.len(), String::new());
            map.clients = names.into_iter().zip(addrs).collect();
            if version >= 13 {
                map.flags = r.u64(WHAT)?;
            }
            if version >= 14 {
                map.force_disabled_modules = BTreeSet::decode(r)?;
            }
            Ok(map)
        })
    }
}

impl Encode for MgrMap {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 14, 6, |w| {
            w.u32(self.epoch);
            self.active_addrs.encode(w);
            w.u64(self.active_gid);
            w.bool(self.available);
            w.string(&self.active_name);
            self.standbys.encode(w);
            self.modules.encode(w);
            self.services.encode(w);
            self.available_modules.encode(w);
            self.active_change.encode(w);
            self.always_on_modules.encode(w);
            w.u64(self.active_features);
            w.u32(self.last_failure_osd_epoch);
            w.count(self.clients.len());
            self.clients.iter().for_each(|(_, addrs)| addrs.encode(w));
            w.count(self.clients.len());
            self.clients.iter().for_each(|(name, _)| w.string(name));
            w.u64(self.flags);
            self.force_disabled_modules.encode(w);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_survives_the_wire() {
        let mut map = MgrMap { epoch: 7, available: true, active_name: "x".into(), ..MgrMap::default() };
        map.active_addrs = "v2:10.0.0.1:6800/5".parse().unwrap();
        map.clients = vec![("rbd_support".into(), map.active_addrs.clone())];
        let module =
            MgrModule { name: "iostat".into(), can_run: true, options: vec![0; 4], ..Default::default() };
        map.available_modules.push(module.clone());
        let standby = StandbyMgr { gid: 4, name: "y".into(), modules: vec![module], features: 9 };
        map.standbys.insert(4, standby);
        assert_eq!(MgrMap::from_bytes(&map.to_bytes()), Ok(map));
    }
}
