//! Which OSDs a map has, and which of them are up and in.

use onego_ceph::osdmap::{OsdMap, state};

/// The numbers of the OSDs of a map.
pub(crate) fn ids(map: &OsdMap) -> impl Iterator<Item = i32> {
    (0..).zip(&map.osd_state).filter(|(_, bits)| **bits & state::EXISTS != 0).map(|(id, _)| id)
}

/// Does the map give data to this OSD?
pub(crate) fn is_in(map: &OsdMap, osd: i32) -> bool {
    map.exists(osd) && map.osd_weight[osd as usize] != 0
}

/// How many OSDs there are, are up and are in.
pub(super) fn counts(map: &OsdMap) -> (usize, usize, usize) {
    let up = ids(map).filter(|osd| map.is_up(*osd)).count();
    let taken_in = ids(map).filter(|osd| is_in(map, *osd)).count();
    (ids(map).count(), up, taken_in)
}

/// The same in words.
pub(super) fn summary(map: &OsdMap) -> String {
    let (all, up, taken_in) = counts(map);
    format!("{all} total, {up} up, {taken_in} in")
}

/// What is to be done with an OSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Stop(i32),
    Start(i32),
}
