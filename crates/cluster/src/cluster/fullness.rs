//! OSDs tell the monitor how full they are, and the monitor hears how full pools are.
//!
//! Ceph's OSDs report it with their heartbeats. Here an OSD that has become fuller says so at once, because between two
//! heartbeats clients could fill all of its memory; what has become emptier, and what pools use of their quotas, is
//! looked at from time to time, so that not every write makes a new map where an OSD is at one of the marks. OSDs are full as well
//! while the log of a kept cluster has no reserve of space on its disk.

use super::connections::ClusterConnections;
use super::daemons::Daemons;
use super::osd_daemon::OsdDaemon;
use crate::mon::{Fullness, Marks};
use onego_ceph::osdmap::OsdMap;
use onego_ceph::types::Epoch;
use onego_wire::Time;
use std::time::Duration;

/// How often it is looked at whether OSDs have become emptier and pools have used up their quotas. Ceph takes five
/// seconds and more (`mgr_stats_period`, `osd_heartbeat_interval`).
const INTERVAL: Duration = Duration::from_secs(1);

impl Daemons {
    /// Has one of these OSDs become fuller than the map says?
    pub(super) fn is_fuller(&self, mut osds: impl Iterator<Item = i32>) -> bool {
        osds.any(|osd| self.osds[osd as usize].is_fuller())
    }

    /// Tells the monitor of all OSDs that have become fuller than the map says.
    pub(super) fn report_fuller(&mut self, now: Time, connections: &mut ClusterConnections) {
        if self.osds.iter().any(OsdDaemon::is_fuller) {
            let before = self.mon.osdmap().epoch;
            self.report(now, |is, was| is > was);
            self.follow_reports(now, before, connections);
        }
    }

    /// Looks at all OSDs, and at what pools use of their quotas, if it is time.
    pub(super) fn look_at_fullness(&mut self, now: Time, connections: &mut ClusterConnections) {
        if self.fullness_due.is_none_or(|due| now < due) {
            return;
        }
        self.fullness_due = None;
        let before = self.mon.osdmap().epoch;
        self.report(now, |is, was| is != was);
        if self.mon.has_quotas() {
            let usage = self.usage();
            self.mon.check_quotas(now, &usage);
        }
        self.follow_reports(now, before, connections);
    }

    /// The disk of a kept cluster is full, or is not any more: so are all OSDs.
    pub(super) fn set_disk_full(&mut self, now: Time, is_full: bool, connections: &mut ClusterConnections) {
        self.is_disk_full = is_full;
        let before = self.mon.osdmap().epoch;
        self.report(now, |is, was| is != was);
        self.follow_reports(now, before, connections);
    }

    /// Tells the monitor of the OSDs that `is_told` wants it to hear of, by what they are and what the map says.
    fn report(&mut self, now: Time, is_told: impl Fn(Fullness, Fullness) -> bool) {
        let map = self.mon.osdmap();
        let report = |(id, daemon): (i32, &OsdDaemon)| {
            let is = match self.is_disk_full {
                true => Fullness::Full,
                false => marks(map, daemon).fullness(daemon.osd.used()),
            };
            let told = daemon.running && map.is_up(id) && is_told(is, Fullness::of(map, id));
            told.then_some((id, is))
        };
        let reports: Vec<_> = (0..).zip(&self.osds).filter_map(report).collect();
        self.mon.osds_filled(now, &reports);
    }

    fn follow_reports(&mut self, now: Time, before: Epoch, connections: &mut ClusterConnections) {
        if self.mon.osdmap().epoch == before {
            self.set_marks(now);
        } else {
            self.map_changed(now, connections);
        }
    }

    /// Goes by a new map: finds out from where on OSDs have something to report, and whether that has to be looked at.
    pub(super) fn set_marks(&mut self, now: Time) {
        let map = self.mon.osdmap();
        for (id, daemon) in (0..).zip(&mut self.osds) {
            let reports = daemon.running && map.is_up(id);
            daemon.fuller_above =
                if reports { marks(map, daemon).above(Fullness::of(map, id)) } else { u64::MAX };
        }
        let watched = self.mon.watches_fullness() || self.osds.iter().any(OsdDaemon::is_fuller);
        self.fullness_due = if watched { self.fullness_due.or(Some(now + INTERVAL)) } else { None };
    }
}

fn marks(map: &OsdMap, daemon: &OsdDaemon) -> Marks {
    Marks::of(&map.ratios, daemon.osd.memory_limit())
}

impl OsdDaemon {
    fn is_fuller(&self) -> bool {
        self.osd.used() > self.fuller_above
    }
}
