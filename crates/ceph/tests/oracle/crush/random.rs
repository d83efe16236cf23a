//! Random maps in crushtool's language.

use std::fmt::Write;

/// Deterministic pseudo-random numbers (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn in_range(&mut self, range: std::ops::RangeInclusive<i64>) -> i64 {
        range.start() + (self.next() % (range.end() - range.start() + 1) as u64) as i64
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.in_range(0..=from.len() as i64 - 1) as usize]
    }
}

struct RandomNode {
    name: String,
    weight: f64,
}

struct Generator<'r> {
    random: &'r mut Random,
    text: String,
    algorithms: &'static [&'static str],
    next_id: i64,
    /// Ids and sizes of straw2 buckets.
    straw2: Vec<(i64, usize)>,
}

/// Generates a map of devices in hosts in racks below a root, of random shape, with rules of all kinds of steps.
///
/// `algorithms` are those of its buckets; with device classes they must not include "uniform", of which
/// crushtool cannot create an empty shadow.
pub(crate) fn map(random: &mut Random, algorithms: &'static [&'static str], classes: bool) -> String {
    let mut generator =
        Generator { random, text: String::new(), algorithms, next_id: -1, straw2: Vec::new() };
    generator.tunables();
    let racks = generator.random.in_range(1..=6);
    let hosts: Vec<i64> = (0..racks).map(|_| generator.random.in_range(1..=6)).collect();
    let devices: Vec<i64> =
        (0..hosts.iter().sum::<i64>()).map(|_| generator.random.in_range(1..=7)).collect();
    generator.devices(devices.iter().sum(), classes);
    generator.text += "type 0 osd\ntype 1 host\ntype 3 rack\ntype 11 root\n";

    let (mut device, mut host) = (0, 0);
    let mut rack_nodes = Vec::new();
    for (rack, &hosts) in hosts.iter().enumerate() {
        let mut host_nodes = Vec::new();
        for _ in 0..hosts {
            let of_host = devices[host];
            let nodes = (device..device + of_host).map(|n| generator.device(n)).collect();
            device += of_host;
            host_nodes.push(generator.bucket("host", format!("host{host}"), nodes));
            host += 1;
        }
        rack_nodes.push(generator.bucket("rack", format!("rack{rack}"), host_nodes));
    }
    generator.bucket("root", "default".to_owned(), rack_nodes);
    for rule in 0..6 {
        generator.rule(rule, classes);
    }
    generator.choose_args();
    generator.text
}

impl Generator<'_> {
    fn tunables(&mut self) {
        let legacy = self.random.chance(40);
        let mut tunable = |name: &str, range: std::ops::RangeInclusive<i64>, optimal: i64| {
            let value = if legacy { self.random.in_range(range) } else { optimal };
            writeln!(self.text, "tunable {name} {value}").unwrap();
        };
        tunable("choose_local_tries", 0..=3, 0);
        tunable("choose_local_fallback_tries", 0..=6, 0);
        tunable("choose_total_tries", 5..=60, 50);
        tunable("chooseleaf_descend_once", 0..=1, 1);
        tunable("chooseleaf_vary_r", 0..=4, 1);
        tunable("chooseleaf_stable", 0..=1, 1);
        tunable("straw_calc_version", 0..=1, 1);
        self.text += "tunable allowed_bucket_algs 62\n";
    }

    fn devices(&mut self, count: i64, classes: bool) {
        for n in 0..count {
            let class = if classes { *self.random.pick(&["", " class hdd", " class ssd"]) } else { "" };
            writeln!(self.text, "device {n} osd.{n}{class}").unwrap();
        }
    }

    fn device(&mut self, n: i64) -> RandomNode {
        let weight = *self.random.pick(&[1.0, 1.0, 1.0, 0.5, 2.0, 7.277, 0.0, 14.552]);
        RandomNode { name: format!("osd.{n}"), weight }
    }

    fn bucket(&mut self, kind: &str, name: String, mut items: Vec<RandomNode>) -> RandomNode {
        let algorithm = *self.random.pick(self.algorithms);
        if algorithm == "uniform" {
            // All its items have the same non-zero weight.
            let weight = items[0].weight.max(1.0);
            items.iter_mut().for_each(|item| item.weight = weight);
        }
        let id = self.next_id;
        self.next_id -= 1;
        if algorithm == "straw2" {
            self.straw2.push((id, items.len()));
        }
        writeln!(self.text, "{kind} {name} {{\n  id {id}\n  alg {algorithm}\n  hash 0").unwrap();
        for item in &items {
            writeln!(self.text, "  item {} weight {:.3}", item.name, item.weight).unwrap();
        }
        self.text += "}\n";
        RandomNode { name, weight: items.iter().map(|item| item.weight).sum() }
    }

    fn rule(&mut self, number: i64, classes: bool) {
        let pool = *self.random.pick(&["replicated", "erasure"]);
        let min_max = "  min_size 1\n  max_size 10\n";
        writeln!(self.text, "rule rule{number} {{\n  id {number}\n  type {pool}\n{min_max}").unwrap();
        for (step, range) in [
            ("set_choose_tries", 1..=100),
            ("set_chooseleaf_tries", 1..=10),
            ("set_choose_local_tries", 0..=3),
            ("set_choose_local_fallback_tries", 0..=6),
            ("set_chooseleaf_vary_r", 0..=4),
            ("set_chooseleaf_stable", 0..=1),
        ] {
            if self.random.chance(25) {
                let value = self.random.in_range(range);
                writeln!(self.text, "  step {step} {value}").unwrap();
            }
        }
        for _ in 0..self.random.in_range(1..=2) {
            let class = if classes { *self.random.pick(&["", " class hdd", " class ssd"]) } else { "" };
            writeln!(self.text, "  step take default{class}").unwrap();
            self.choices();
            self.text += "  step emit\n";
        }
        self.text += "}\n";
    }

    fn choices(&mut self) {
        let mode = *self.random.pick(&["firstn", "indep"]);
        let count = self.random.in_range(-1..=4);
        let below = self.random.in_range(1..=3);
        let steps = match self.random.in_range(0..=6) {
            0 => format!("choose {mode} {count} type osd"),
            1 => format!("chooseleaf {mode} {count} type host"),
            2 => format!("chooseleaf {mode} {count} type rack"),
            3 => format!("choose {mode} {count} type rack\n  step chooseleaf {mode} {below} type host"),
            4 => format!("choose {mode} {count} type host\n  step choose {mode} {below} type osd"),
            5 => format!("chooseleaf {mode} {count} type osd"),
            _ => format!(
                "choose {mode} 2 type rack\n  step choose {mode} {below} type host\n  step choose {mode} 1 type osd"
            ),
        };
        writeln!(self.text, "  step {steps}").unwrap();
    }

    fn choose_args(&mut self) {
        if self.straw2.is_empty() || self.random.chance(40) {
            return;
        }
        self.text += "choose_args 0 {\n";
        let positions = self.random.in_range(1..=3);
        for (id, size) in std::mem::take(&mut self.straw2) {
            let (weights, ids) = (self.random.chance(60), self.random.chance(30));
            if !weights && !ids {
                continue;
            }
            writeln!(self.text, "  {{\n    bucket_id {id}").unwrap();
            if weights {
                self.text += "    weight_set [\n";
                for _ in 0..positions {
                    self.text += "      [";
                    for _ in 0..size {
                        let weight = self.random.in_range(0..=9000) as f64 / 1000.0;
                        write!(self.text, " {weight:.3}").unwrap();
                    }
                    self.text += " ]\n";
                }
                self.text += "    ]\n";
            }
            if ids {
                self.text += "    ids [";
                for _ in 0..size {
                    write!(self.text, " {}", self.random.in_range(-500..=500)).unwrap();
                }
                self.text += " ]\n";
            }
            self.text += "  }\n";
        }
        self.text += "}\n";
    }
}
