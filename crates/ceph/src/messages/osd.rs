//! Unsolicited messages of OSDs and monitors: maps, backoffs, and notifications of watched objects.

use crate::types::{HObject, SpgId, Uuid};
use onego_buf::List;
use onego_msgr::encoding::{Decode, Encode};
use onego_msgr::types::{Payload, kind};
use onego_wire::{DecodeError, Decoded, Reader, Writer};
use std::collections::BTreeMap;

/// OSD maps (`MOSDMap`), full and incremental, each still encoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MapUpdate {
    /// Id of the cluster.
    pub fsid: Uuid,
    /// Increments by the epoch that they lead to.
    pub incrementals: BTreeMap<u32, Vec<u8>>,
    /// Full maps by epoch.
    pub full: BTreeMap<u32, Vec<u8>>,
    /// Oldest epoch that the sender has.
    pub oldest: u32,
    /// Newest epoch that the sender has.
    pub newest: u32,
}

fn decode_maps(r: &mut Reader<'_>) -> Decoded<BTreeMap<u32, Vec<u8>>> {
    let n = r.count(8, "maps")?;
    (0..n).map(|_| Ok((r.u32("epoch")?, r.blob("map")?.to_vec()))).collect()
}

fn encode_maps(w: &mut Writer, maps: &BTreeMap<u32, Vec<u8>>) {
    w.count(maps.len());
    for (epoch, map) in maps {
        w.u32(*epoch);
        w.blob(map);
    }
}

impl Payload for MapUpdate {
    const KIND: u16 = kind::OSD_MAP;
    const VERSION: u16 = 4;
    const COMPAT: u16 = 3;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        self.fsid.encode(w);
        encode_maps(w, &self.incrementals);
        encode_maps(w, &self.full);
        w.u32(self.oldest);
        w.u32(self.newest);
        w.count(0); // no gap in removed snapshots
    }

    fn decode(version: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        let mut update = Self {
            fsid: Uuid::decode(r)?,
            incrementals: decode_maps(r)?,
            full: decode_maps(r)?,
            ..Self::default()
        };
        if version >= 2 {
            update.oldest = r.u32("oldest map")?;
            update.newest = r.u32("newest map")?;
        }
        Ok(update)
    }
}

/// Operation of a backoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackoffOp {
    /// Stop sending requests to the range: the OSD drops them.
    Block = 1,
    /// Acknowledgement of the client.
    AckBlock = 2,
    /// Send requests again.
    Unblock = 3,
}

/// Backoff for a range of objects (`MOSDBackoff`).
///
/// Source: ceph `doc/dev/rados-client-protocol.rst`, "Backoff".
#[derive(Debug, Clone, PartialEq)]
pub struct Backoff {
    /// Placement group.
    pub pg: SpgId,
    /// Epoch of the sender.
    pub epoch: u32,
    /// Operation.
    pub op: BackoffOp,
    /// Id of the backoff within the session.
    pub id: u64,
    /// First object of the range.
    pub begin: HObject,
    /// End of the range, exclusive; equal to `begin` for a single object.
    pub end: HObject,
}

impl Payload for Backoff {
    const KIND: u16 = kind::OSD_BACKOFF;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, _: &mut List) {
        self.pg.encode(w);
        w.u32(self.epoch);
        w.u8(self.op as u8);
        w.u64(self.id);
        self.begin.encode(w);
        self.end.encode(w);
    }

    fn decode(_: u16, front: &[u8], _: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        Ok(Self {
            pg: SpgId::decode(r)?,
            epoch: r.u32("epoch")?,
            op: match r.u8("backoff operation")? {
                1 => BackoffOp::Block,
                2 => BackoffOp::AckBlock,
                3 => BackoffOp::Unblock,
                value => return Err(DecodeError::Invalid { what: "backoff operation", value: value.into() }),
            },
            id: r.u64("backoff id")?,
            begin: HObject::decode(r)?,
            end: HObject::decode(r)?,
        })
    }
}

/// Event of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEvent {
    /// A notification: answer with an acknowledgement.
    Notify = 1,
    /// For the notifier: all watchers have answered, or the timeout has expired.
    NotifyComplete = 2,
    /// The watch is lost.
    Disconnect = 3,
}

/// Event of a watched object (`MWatchNotify`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchNotify {
    /// Event.
    pub event: WatchEvent,
    /// Cookie of the watcher or, on completion, of the notifier.
    pub cookie: u64,
    /// Version of the object.
    pub version: u64,
    /// Id of the notification.
    pub notify_id: u64,
    /// Payload of the notification, or the watchers' replies.
    pub payload: Vec<u8>,
    /// On completion: 0, or -ETIMEDOUT if a watcher did not answer.
    pub result: i32,
    /// Global id of the notifier.
    pub notifier: u64,
}

impl Payload for WatchNotify {
    const KIND: u16 = kind::WATCH_NOTIFY;
    const VERSION: u16 = 3;
    const COMPAT: u16 = 1;

    fn encode(&self, w: &mut Writer, data: &mut List) {
        // Replies are in the message's data, notifications in its front (Watch.cc, Notify::maybe_complete_notify).
        let replies = self.event == WatchEvent::NotifyComplete;
        w.u8(1); // version of the message, older than those of headers
        w.u8(self.event as u8);
        w.u64(self.cookie);
        w.u64(self.version);
        w.u64(self.notify_id);
        w.blob(if replies { &[] } else { &self.payload });
        if replies {
            data.append(self.payload.clone().into());
        }
        w.i32(self.result);
        w.u64(self.notifier);
    }

    fn decode(version: u16, front: &[u8], data: List) -> Decoded<Self> {
        let r = &mut Reader::new(front);
        let inner = r.u8("watch-notify version")?;
        let event = match r.u8("watch event")? {
            1 => WatchEvent::Notify,
            2 => WatchEvent::NotifyComplete,
            3 => WatchEvent::Disconnect,
            value => return Err(DecodeError::Invalid { what: "watch event", value: value.into() }),
        };
        let (cookie, object_version, notify_id) = (r.u64("cookie")?, r.u64("version")?, r.u64("notify id")?);
        let payload = if inner >= 1 { r.blob("notify payload")?.to_vec() } else { Vec::new() };
        Ok(Self {
            event,
            cookie,
            version: object_version,
            notify_id,
            payload: if event == WatchEvent::NotifyComplete { data.to_vec() } else { payload },
            result: if version >= 2 { r.i32("notify result")? } else { 0 },
            notifier: if version >= 3 { r.u64("notifier")? } else { 0 },
        })
    }
}
