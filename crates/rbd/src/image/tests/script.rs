//! Scripted host of the machine under test.

use crate::data::{DataObjects, ExternalBytes};
use crate::error::Error;
use crate::facts::{ImageFacts, ImageState};
use crate::host::{Host, Ticket};
use crate::image::OpenImage;
use crate::notify::{Notification, Operation};
use crate::request::{Io, Outcome};
use onego_buf::List;
use onego_ceph::client::{self, OpReply, Request, WatchId, WatchTarget};
use onego_ceph::cls::Method;
use onego_ceph::cls::rbd::{Format1Header, Format1Snapshot, ParentImageSpec};
use onego_ceph::messages::{ObjectName, OpResult};
use onego_ceph::ops::Op;
use onego_ceph::rbd::{DataNames, Features, ImageFormat, Layout, header_object};
use onego_ceph::types::{NOSNAP, SnapContext};
use onego_msgr::encoding::{Decode as _, Encode as _};
use onego_wire::{Time, Writer};
use std::collections::VecDeque;
use std::ops::Range;

pub(super) const US: u64 = 4100;
pub(super) const WATCH: u64 = 7;
pub(super) const OBJECT: u64 = 4096;

#[derive(Debug)]
pub(super) enum Wanted {
    Request(Box<Request>, Ticket),
    Watch(Ticket),
    Unwatch(Ticket),
    Notify(Notification, Ticket),
    Command(String, Ticket),
    NewestMap(Ticket),
    Map(u32, Ticket),
}

#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) asked: VecDeque<Wanted>,
    pub(super) acknowledged: Vec<(u64, List)>,
    pub(super) finished: Vec<(u32, Result<Outcome, Error>)>,
    pub(super) operations: Vec<(u32, Operation)>,
    pub(super) broken_off: Vec<u32>,
    /// Object copies: number, whether to include the ancestors' bytes, the image's snapshots.
    pub(super) copies: Vec<(u64, bool, Vec<u64>)>,
    pub(super) external: VecDeque<(Range<u64>, Ticket)>,
    pub(super) wake_at: Option<Time>,
    pub(super) epoch: u32,
}

impl Host<u32> for Script {
    fn request(&mut self, request: Request, ticket: Ticket) {
        self.asked.push_back(Wanted::Request(Box::new(request), ticket));
    }

    fn watch(&mut self, _target: WatchTarget, ticket: Ticket) {
        self.asked.push_back(Wanted::Watch(ticket));
    }

    fn unwatch(&mut self, _watch: WatchId, ticket: Ticket) {
        self.asked.push_back(Wanted::Unwatch(ticket));
    }

    fn notify(&mut self, _target: WatchTarget, payload: List, _timeout: u32, ticket: Ticket) {
        let notification = Notification::from_bytes(&payload.to_segment()).expect("a notification");
        self.asked.push_back(Wanted::Notify(notification, ticket));
    }

    fn acknowledge(&mut self, _watch: WatchId, notify_id: u64, reply: List) {
        self.acknowledged.push((notify_id, reply));
    }

    fn command(&mut self, json: &str, ticket: Ticket) {
        self.asked.push_back(Wanted::Command(json.to_owned(), ticket));
    }

    fn newest_map(&mut self, ticket: Ticket) {
        self.asked.push_back(Wanted::NewestMap(ticket));
    }

    fn wait_for_map(&mut self, epoch: u32, ticket: Ticket) {
        self.asked.push_back(Wanted::Map(epoch, ticket));
    }

    fn wake_at(&mut self, time: Time) {
        self.wake_at = Some(time);
    }

    fn operate(&mut self, number: u32, operation: Operation) {
        self.operations.push((number, operation));
    }

    fn copy_object(&mut self, object: u64, is_whole: bool, snaps: &[u64]) {
        self.copies.push((object, is_whole, snaps.to_vec()));
    }

    fn read_external(&mut self, _bytes: &dyn ExternalBytes, range: Range<u64>, ticket: Ticket) {
        self.external.push_back((range, ticket));
    }

    fn break_off(&mut self, number: u32) {
        self.broken_off.push(number);
    }

    fn finished(&mut self, token: u32, result: Result<Outcome, Error>) {
        self.finished.push((token, result));
    }

    fn epoch(&self) -> u32 {
        self.epoch
    }

    fn global_id(&self) -> u64 {
        US
    }
}

pub(super) struct Harness {
    pub(super) image: OpenImage<u32>,
    pub(super) script: Script,
    pub(super) now: Time,
    pub(super) state: ImageState,
}

pub(super) fn facts(features: Features) -> ImageFacts {
    ImageFacts {
        id: "abc".into(),
        header: WatchTarget { pool: 1, object: header_object("abc"), namespace: Vec::new() },
        format: ImageFormat::V2,
        data: DataObjects {
            pool: 1,
            namespace: String::new(),
            flags: 0,
            names: DataNames::new("rbd_data.abc"),
            layout: Layout::plain(12).unwrap(),
            snap: NOSNAP,
            encryption: None,
        },
        state: ImageState {
            size: 10 * OBJECT,
            features,
            flags: 0,
            snap_context: SnapContext::default(),
            parent: ParentImageSpec::default(),
            overlap: 0,
        },
        parent: None,
    }
}

impl Harness {
    pub(super) fn open(facts: ImageFacts) -> Self {
        Self::open_as(facts, |_| {})
    }

    /// Opens an image that receives a notification before its header is read.
    pub(super) fn open_as(facts: ImageFacts, tell: impl FnOnce(&mut OpenImage<u32>)) -> Self {
        let mut script = Script::default();
        let state = facts.state.clone();
        let mut image = OpenImage::watched(&mut script, facts, 0);
        tell(&mut image);
        let mut harness = Self { image, script, now: Time::default(), state };
        harness.watch(WATCH);
        harness.refresh();
        let (token, result) = harness.script.finished.remove(0);
        assert!(token == 0 && result.is_ok() && harness.script.finished.is_empty(), "it does not open");
        harness
    }

    pub(super) fn watch(&mut self, cookie: u64) {
        let Some(Wanted::Watch(ticket)) = self.script.asked.pop_front() else { panic!("no watch") };
        self.complete(ticket, Ok(client::Outcome::Watching(WatchId::from_cookie(cookie))));
    }

    pub(super) fn refresh(&mut self) {
        let header = self.image.facts.header.object.to_string();
        let (request, ticket) = self.request(&header);
        let outputs = match self.image.facts.format {
            ImageFormat::V1 => vec![header_of(&self.state)],
            ImageFormat::V2 => outputs_of(&self.state),
        };
        assert_eq!(request.ops.len(), outputs.len());
        self.reply(ticket, 0, outputs);
    }

    pub(super) fn submit(&mut self, io: Io, token: u32) {
        self.image.submit(self.now, &mut self.script, io, token);
    }

    /// Changes the size while nothing is in flight.
    pub(super) fn resize(&mut self, size: u64, token: u32) {
        self.image.begin_resize(self.now, &mut self.script, size, token.into(), token);
        if self.script.finished.iter().any(|(done, result)| *done == token && result.is_ok()) {
            self.is_done(token);
            self.image.finish_resize(self.now, &mut self.script, token.into(), token);
        }
    }

    pub(super) fn write(&mut self, object: u64, token: u32) {
        let data = vec![token as u8; 512].into();
        self.submit(Io::Write { offset: object * OBJECT, data }, token);
    }

    pub(super) fn complete(&mut self, ticket: Ticket, outcome: Result<client::Outcome, client::Error>) {
        self.image.completed(self.now, &mut self.script, ticket, outcome, None);
    }

    pub(super) fn reply(&mut self, ticket: Ticket, result: i32, outputs: Vec<Vec<u8>>) {
        let ops = outputs
            .into_iter()
            .map(|output| OpResult { code: 0, result: 0, output: output.into() })
            .collect();
        let reply = OpReply { result, ops, ..OpReply::default() };
        self.complete(ticket, Ok(client::Outcome::Reply(reply)));
    }

    pub(super) fn request(&mut self, object: &str) -> (Request, Ticket) {
        match self.script.asked.pop_front() {
            Some(Wanted::Request(request, ticket)) if request.object == ObjectName::from(object) => {
                (*request, ticket)
            }
            other => panic!("expected a request to {object}, not {other:?}"),
        }
    }

    /// Answers the next request, which must be a single call of this method on this object.
    pub(super) fn call<M: Method>(&mut self, object: &str, result: i32, output: Vec<u8>) -> M {
        let (request, ticket) = self.request(object);
        let called =
            method_of::<M>(&request).unwrap_or_else(|| panic!("{request:?} does not call {}", M::NAME));
        self.reply(ticket, result, vec![output]);
        called
    }

    /// Expects a request to a data object, answers it, and returns its operations.
    pub(super) fn data(&mut self, object: u64, result: i32) -> Vec<Op> {
        let (request, ticket) = self.request(&format!("rbd_data.abc.{object:016x}"));
        self.reply(ticket, result, Vec::new());
        request.ops.into_iter().map(|(op, _)| op).collect()
    }

    pub(super) fn notify(&mut self) -> (Notification, Ticket) {
        match self.script.asked.pop_front() {
            Some(Wanted::Notify(notification, ticket)) => (notification, ticket),
            other => panic!("expected a notification, not {other:?}"),
        }
    }

    pub(super) fn told(&mut self, notification: &Notification, notify_id: u64) {
        let (watch, payload) = (WatchId::from_cookie(WATCH), notification.to_bytes().into());
        self.image.notified(self.now, &mut self.script, watch, notify_id, &payload);
    }

    /// Acquires the lock for waiting requests; the header is not locked.
    pub(super) fn take_lock(&mut self) {
        self.call::<onego_ceph::cls::lock::Lock>("rbd_header.abc", 0, Vec::new());
        self.refresh();
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.script.asked.is_empty()
    }

    /// Expects exactly one result since the last check, a success.
    pub(super) fn is_done(&mut self, token: u32) {
        let finished = std::mem::take(&mut self.script.finished);
        assert!(
            matches!(finished.as_slice(), [(done, Ok(_))] if *done == token),
            "expected the success of {token}, not {finished:?}"
        );
    }
}

pub(super) fn method_of<M: Method>(request: &Request) -> Option<M> {
    request.ops.iter().find_map(|(op, _)| match op {
        Op::Call { class, method, input } if class == M::CLASS && method == M::NAME => {
            Some(M::from_bytes(&input.to_segment()).expect("arguments"))
        }
        _ => None,
    })
}

fn header_of(state: &ImageState) -> Vec<u8> {
    let SnapContext { seq, snaps } = &state.snap_context;
    let snapshot = |id: &u64| Format1Snapshot { id: *id, image_size: 5 * OBJECT, name: format!("s{id}") };
    let snapshots = snaps.iter().map(snapshot).collect();
    let header = Format1Header::new("rb.0.1.2", 12, state.size);
    Format1Header { snap_seq: *seq, snapshots, ..header }.to_bytes()
}

fn outputs_of(state: &ImageState) -> Vec<Vec<u8>> {
    let pair = |first: u64, second: u64| {
        let mut w = Writer::new();
        w.u64(first);
        w.u64(second);
        w.into_vec()
    };
    let mut size = Writer::new();
    size.u8(12);
    size.u64(state.size);
    vec![
        size.into_vec(),
        pair(state.features.0, 0),
        state.flags.to_bytes(),
        state.snap_context.to_bytes(),
        state.parent.to_bytes(),
        Some(state.overlap).filter(|overlap| *overlap > 0).to_bytes(),
    ]
}
