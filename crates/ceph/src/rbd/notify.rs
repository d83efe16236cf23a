/// Notification of a changed header, after which watchers read it again.
///
/// Source: ceph `src/librbd/WatchNotifyTypes.h`: an envelope of version 7, readable from 1 on, around the number of
/// the notification (`NOTIFY_OP_HEADER_UPDATE`).
pub const HEADER_UPDATE: [u8; 10] = [7, 1, 4, 0, 0, 0, 3, 0, 0, 0];
