//! Numbers of message types (`CEPH_MSG_*`, `MSG_*`).
#![allow(missing_docs)]

pub const PING: u16 = 2;
pub const MON_MAP: u16 = 4;
pub const MON_GET_MAP: u16 = 5;
pub const STATFS: u16 = 13;
pub const STATFS_REPLY: u16 = 14;
pub const MON_SUBSCRIBE: u16 = 15;
pub const MON_SUBSCRIBE_ACK: u16 = 16;
pub const AUTH: u16 = 17;
pub const AUTH_REPLY: u16 = 18;
pub const MON_GET_VERSION: u16 = 19;
pub const MON_GET_VERSION_REPLY: u16 = 20;
pub const OSD_MAP: u16 = 41;
pub const OSD_OP: u16 = 42;
pub const OSD_OP_REPLY: u16 = 43;
pub const WATCH_NOTIFY: u16 = 44;
pub const POOL_OP_REPLY: u16 = 48;
pub const POOL_OP: u16 = 49;
pub const MON_COMMAND: u16 = 50;
pub const MON_COMMAND_ACK: u16 = 51;
pub const LOG: u16 = 52;
pub const GET_POOL_STATS: u16 = 58;
pub const GET_POOL_STATS_REPLY: u16 = 59;
pub const OSD_BACKOFF: u16 = 61;
pub const CONFIG: u16 = 62;
pub const GET_CONFIG: u16 = 63;
pub const COMMAND: u16 = 97;
pub const COMMAND_REPLY: u16 = 98;
pub const MGR_MAP: u16 = 0x704;
pub const MGR_COMMAND: u16 = 0x709;
pub const MGR_COMMAND_REPLY: u16 = 0x70a;
