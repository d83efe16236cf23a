//! Integration tests of `onego-cluster`.

mod capabilities;
mod cluster_attacks;
mod keeping;
mod monitor;
mod operators;
mod osd_replay;
mod placement;
mod reply_attacks;
mod requests;
mod snapshots;
mod start;
mod support;
