//! Creates maps.
//!
//! Source: ceph `src/osd/OSDMap.cc`, `build_simple_crush_map`; `src/crush/CrushWrapper.cc`, `add_simple_rule_at`.

use super::bucket::{Bucket, Weights};
use super::map::{CrushMap, WEIGHT_ONE};
use super::rule::{Rule, Step, StepOp};
use super::tunables::Tunables;
use std::collections::BTreeMap;

const TYPE_NAMES: [&str; 12] =
    ["osd", "host", "chassis", "rack", "row", "pdu", "pod", "room", "datacenter", "zone", "region", "root"];
const OSD: u16 = 0;
const HOST: u16 = 1;
const ROOT: u16 = 11;

/// Distribution of a new map's devices over hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One host: replicas go to different devices.
    OneHost,
    /// One host per device: replicas go to different hosts.
    HostPerDevice,
}

impl CrushMap {
    /// Creates a map of these devices, all of weight 1, in hosts below the root "default", with the tunables and the one
    /// rule ("replicated_rule", number 0) of a new cluster.
    pub fn flat(devices: &[i32], layout: Layout) -> Self {
        const ROOT_ID: i32 = -1;
        let hosts: Vec<&[i32]> = match layout {
            Layout::OneHost => vec![devices],
            Layout::HostPerDevice => devices.chunks(1).collect(),
        };
        let hosts: Vec<Bucket> = (ROOT_ID - hosts.len() as i32..ROOT_ID)
            .rev()
            .zip(hosts)
            .map(|(id, devices)| Bucket::straw2(id, HOST, devices.iter().map(|&device| (device, WEIGHT_ONE))))
            .collect();
        let root = Bucket::straw2(ROOT_ID, ROOT, hosts.iter().map(|host| (host.id, host.weight)));
        let failure_domain = if layout == Layout::OneHost { OSD } else { HOST };

        let types = TYPE_NAMES.iter().map(|&name| name.to_owned());
        let mut item_names: BTreeMap<i32, String> =
            hosts.iter().enumerate().map(|(n, host)| (host.id, format!("host{n}"))).collect();
        item_names.extend(devices.iter().map(|&device| (device, format!("osd.{device}"))));
        item_names.insert(ROOT_ID, "default".to_owned());
        Self {
            buckets: std::iter::once(root).chain(hosts).map(Some).collect(),
            rules: vec![Some(Rule::replicated(0, ROOT_ID, failure_domain))],
            max_devices: devices.iter().max().map_or(0, |last| last + 1),
            type_names: (0..).zip(types).collect(),
            item_names,
            rule_names: BTreeMap::from([(0, "replicated_rule".to_owned())]),
            tunables: Tunables::OPTIMAL,
            classes: BTreeMap::new(),
            class_names: BTreeMap::new(),
            class_buckets: BTreeMap::new(),
            choose_args: BTreeMap::new(),
        }
    }
}

impl Bucket {
    /// Creates a straw2 bucket of these items and weights.
    pub fn straw2(id: i32, kind: u16, items: impl IntoIterator<Item = (i32, u32)>) -> Self {
        let (items, weights): (Vec<i32>, Vec<u32>) = items.into_iter().unzip();
        let weight = weights.iter().fold(0u32, |sum, &weight| sum.saturating_add(weight));
        Self { id, kind, hash: 0, weight, items, weights: Weights::Straw2 { items: weights } }
    }
}

impl Rule {
    /// Creates a rule for replicated pools: devices below `root`, in different items of the type
    /// `failure_domain`.
    pub fn replicated(number: u8, root: i32, failure_domain: u16) -> Self {
        let choose = if failure_domain == OSD { StepOp::CHOOSE_FIRSTN } else { StepOp::CHOOSELEAF_FIRSTN };
        let steps = [(StepOp::TAKE, root, 0), (choose, 0, failure_domain.into()), (StepOp::EMIT, 0, 0)];
        Self {
            ruleset: number,
            kind: Self::REPLICATED,
            // Written by Ceph 17 and later, for older readers.
            min_size: 1,
            max_size: 100,
            steps: steps.map(|(op, arg1, arg2)| Step { op, arg1, arg2 }).to_vec(),
        }
    }
}
