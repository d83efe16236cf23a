//! OSDs come and go, and get more or less of the data.
//!
//! Source: ceph `src/mon/OSDMonitor.cc` (`prepare_boot`, "osd down", "osd out", "osd in", "osd reweight").

use super::state::Mon;
use crate::mon::osds::Order;
use onego_ceph::messages::LogLevel;
use onego_ceph::osdmap::{WEIGHT_IN, state};
use onego_ceph::types::{Epoch, PgId};
use onego_msgr::addr::AddrVec;
use onego_wire::Time;

impl Mon {
    /// OSDs have gone. Those that are down already stay so.
    pub(crate) fn osds_down(&mut self, now: Time, osds: impl IntoIterator<Item = i32>) -> Epoch {
        let map = self.osdmap();
        let up: Vec<i32> = osds.into_iter().filter(|osd| map.is_up(*osd)).collect();
        if up.is_empty() {
            return self.maps.epoch();
        }
        for osd in &up {
            self.log(now, LogLevel::Info, format!("osd.{osd} is down"));
        }
        let mut change = self.maps.change(now);
        // What is named here is flipped.
        change.new_state = up.into_iter().map(|osd| (osd, state::UP)).collect();
        change.new_last_up_change = change.modified;
        self.commit(change)
    }

    /// OSDs are back, at these addresses.
    pub(crate) fn osds_up(&mut self, now: Time, osds: &[(i32, AddrVec)]) -> Epoch {
        let mut change = self.maps.change(now);
        for (osd, addrs) in osds {
            self.log(now, LogLevel::Info, format!("osd.{osd} {addrs} boot"));
            change.new_up_client.insert(*osd, addrs.clone());
            change.new_up_cluster.insert(*osd, addrs.clone());
            change.new_heartbeat_back_up.insert(*osd, addrs.clone());
            change.new_heartbeat_front_up.insert(*osd, addrs.clone());
            change.new_up_thru.insert(*osd, change.epoch);
        }
        change.new_last_up_change = change.modified;
        self.commit(change)
    }

    /// Groups are served by other OSDs than those where they belong, or again by those.
    pub(crate) fn serve_elsewhere(&mut self, now: Time, groups: Vec<(PgId, Vec<i32>)>) -> Epoch {
        let mut change = self.maps.change(now);
        change.new_pg_temp = groups.into_iter().collect();
        self.commit(change)
    }

    /// A command asks for an OSD to be stopped or started.
    pub(in crate::mon) fn order(&mut self, order: Order) {
        self.orders.push(order);
    }

    /// What OSDs are to be stopped or started.
    pub(crate) fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// OSDs get a share of the data, in parts of [`WEIGHT_IN`]; 0: they are out.
    pub(crate) fn weigh_osds(
        &mut self,
        now: Time,
        osds: impl IntoIterator<Item = i32>,
        weight: u32,
    ) -> Epoch {
        let map = self.osdmap();
        let weight = weight.min(WEIGHT_IN);
        let differs = |osd: &i32| map.exists(*osd) && map.osd_weight[*osd as usize] != weight;
        let changed: Vec<i32> = osds.into_iter().filter(differs).collect();
        if changed.is_empty() {
            return self.maps.epoch();
        }
        let mut change = self.maps.change(now);
        change.new_weight = changed.into_iter().map(|osd| (osd, weight)).collect();
        change.new_last_in_change = change.modified;
        self.commit(change)
    }
}
