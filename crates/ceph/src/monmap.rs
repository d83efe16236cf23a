//! Monitor map (ceph `src/mon/MonMap.{h,cc}`).

use crate::types::{Epoch, Utime, Uuid};
use onego_msgr::addr::AddrVec;
use onego_msgr::encoding::{Decode, Encode, envelope, write_envelope};
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::collections::{BTreeMap, BTreeSet};

/// Monitor (`mon_info_t`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MonInfo {
    /// Name without `mon.`.
    pub name: String,
    /// Addresses.
    pub public_addrs: AddrVec,
    /// Clients try lower values first.
    pub priority: u16,
    /// Within a priority, clients prefer higher weights.
    pub weight: u16,
    /// CRUSH location: bucket type, bucket name.
    pub crush_location: BTreeMap<String, String>,
    /// Time at which it was added; zero before Tentacle.
    pub time_added: Utime,
}

/// Leader election strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum ElectionStrategy {
    /// Lowest rank.
    #[default]
    Classic = 1,
    /// Lowest rank that is not disallowed.
    Disallow = 2,
    /// Best connectivity.
    Connectivity = 3,
}

/// Map of a cluster's monitors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonMap {
    /// Id of the cluster.
    pub fsid: Uuid,
    /// Version of the map.
    pub epoch: Epoch,
    /// Time of the last change.
    pub last_changed: Utime,
    /// Creation time of the cluster.
    pub created: Utime,
    /// Features that all monitors must have permanently.
    pub persistent_features: u64,
    /// Features that all monitors must currently have.
    pub optional_features: u64,
    /// Monitors by name.
    pub monitors: BTreeMap<String, MonInfo>,
    /// Names of the monitors by rank.
    pub ranks: Vec<String>,
    /// Oldest release of a monitor that may join.
    pub min_mon_release: u8,
    /// Ranks that the last change removed.
    pub removed_ranks: BTreeSet<u32>,
    /// Election strategy.
    pub strategy: ElectionStrategy,
    /// Monitors that must not become leader.
    pub disallowed_leaders: BTreeSet<String>,
    /// Whether the cluster is stretched over two sites.
    pub stretch_mode_enabled: bool,
    /// Tiebreaker monitor of a stretched cluster.
    pub tiebreaker: String,
    /// Monitors of a lost site.
    pub stretch_marked_down: BTreeSet<String>,
}

impl Default for MonMap {
    fn default() -> Self {
        Self {
            fsid: Uuid::default(),
            epoch: 0,
            last_changed: Utime::default(),
            created: Utime::default(),
            persistent_features: 0,
            optional_features: 0,
            monitors: BTreeMap::new(),
            ranks: Vec::new(),
            min_mon_release: 0,
            removed_ranks: BTreeSet::new(),
            strategy: ElectionStrategy::Classic,
            disallowed_leaders: BTreeSet::new(),
            stretch_mode_enabled: false,
            tiebreaker: String::new(),
            stretch_marked_down: BTreeSet::new(),
        }
    }
}

impl MonMap {
    /// Adds a monitor with the next rank.
    pub fn add(&mut self, monitor: MonInfo) {
        self.ranks.push(monitor.name.clone());
        self.monitors.insert(monitor.name.clone(), monitor);
    }

    /// Returns the monitor with this rank.
    pub fn by_rank(&self, rank: usize) -> Option<&MonInfo> {
        self.monitors.get(self.ranks.get(rank)?)
    }
}

/// Decodes monitor features (`mon_feature_t`).
fn decode_features(r: &mut Reader<'_>) -> Decoded<u64> {
    envelope(r, 1, "monitor features", |_, r| r.u64("monitor features"))
}

fn encode_features(w: &mut Writer, features: u64) {
    write_envelope(w, 1, 1, |w| w.u64(features));
}

impl Decode for MonInfo {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        const WHAT: &str = "monitor";
        envelope(r, 6, WHAT, |version, r| {
            let mut info = Self {
                name: r.string("monitor name")?,
                public_addrs: AddrVec::decode(r)?,
                priority: if version >= 2 { r.u16(WHAT)? } else { 0 },
                ..Self::default()
            };
            if version >= 4 {
                info.weight = r.u16(WHAT)?;
            }
            if version >= 5 {
                info.crush_location = BTreeMap::decode(r)?;
            }
            if version >= 6 {
                info.time_added = Utime::decode(r)?;
            }
            Ok(info)
        })
    }
}

impl Encode for MonInfo {
    fn encode(&self, w: &mut Writer) {
        // Version 6 only adds the time. Without it, all releases write version 5.
        let version = if self.time_added == Utime::default() { 5 } else { 6 };
        write_envelope(w, version, 1, |w| {
            w.string(&self.name);
            self.public_addrs.encode(w);
            w.u16(self.priority);
            w.u16(self.weight);
            self.crush_location.encode(w);
            if version >= 6 {
                self.time_added.encode(w);
            }
        });
    }
}

impl Decode for MonMap {
    fn decode(r: &mut Reader<'_>) -> Decoded<Self> {
        const WHAT: &str = "monmap";
        envelope(r, 9, WHAT, |version, r| {
            if version < 7 {
                return Err(DecodeError::TooOld { what: WHAT, version, oldest: 7 });
            }
            let mut map = Self {
                fsid: Uuid::decode(r)?,
                epoch: r.u32(WHAT)?,
                last_changed: Utime::decode(r)?,
                created: Utime::decode(r)?,
                persistent_features: decode_features(r)?,
                optional_features: decode_features(r)?,
                monitors: BTreeMap::decode(r)?,
                ranks: Vec::decode(r)?,
                min_mon_release: r.u8(WHAT)?,
                ..Self::default()
            };
            if version >= 8 {
                map.removed_ranks = BTreeSet::decode(r)?;
                map.strategy = match r.u8(WHAT)? {
                    1 => ElectionStrategy::Classic,
                    2 => ElectionStrategy::Disallow,
                    3 => ElectionStrategy::Connectivity,
                    value => {
                        return Err(DecodeError::Invalid { what: "election strategy", value: value.into() });
                    }
                };
                map.disallowed_leaders = BTreeSet::decode(r)?;
            }
            if version >= 9 {
                map.stretch_mode_enabled = r.bool(WHAT)?;
                map.tiebreaker = String::decode(r)?;
                map.stretch_marked_down = BTreeSet::decode(r)?;
            }
            Ok(map)
        })
    }
}

impl Encode for MonMap {
    fn encode(&self, w: &mut Writer) {
        write_envelope(w, 9, 6, |w| {
            self.fsid.encode(w);
            w.u32(self.epoch);
            self.last_changed.encode(w);
            self.created.encode(w);
            encode_features(w, self.persistent_features);
            encode_features(w, self.optional_features);
            self.monitors.encode(w);
            self.ranks.encode(w);
            w.u8(self.min_mon_release);
            self.removed_ranks.encode(w);
            w.u8(self.strategy as u8);
            self.disallowed_leaders.encode(w);
            w.bool(self.stretch_mode_enabled);
            w.string(&self.tiebreaker);
            self.stretch_marked_down.encode(w);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_survives_the_wire() {
        let mut map = MonMap { epoch: 3, strategy: ElectionStrategy::Connectivity, ..MonMap::default() };
        for (name, time_added) in [("b", Utime::default()), ("a", Utime { sec: 5, nsec: 6 })] {
            let public_addrs = "[v2:10.0.0.1:3300/0,v1:10.0.0.1:6789/0]".parse().unwrap();
            map.add(MonInfo { name: name.into(), public_addrs, weight: 3, time_added, ..MonInfo::default() });
        }
        map.disallowed_leaders.insert("a".into());
        assert_eq!(MonMap::from_bytes(&map.to_bytes()).as_ref(), Ok(&map));
        assert_eq!(map.by_rank(0).unwrap().name, "b");
        assert_eq!(map.by_rank(2), None);
    }
}
