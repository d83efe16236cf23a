//! Changes of maps: items are added, removed, moved and reweighted.
//!
//! Only straw2 buckets can be changed; new maps consist of them. Every change keeps the weight of each bucket equal to the
//! sum of its items' weights, up to the roots.
//!
//! Source: ceph `src/crush/CrushWrapper.cc` (`insert_item`, `remove_item`, `adjust_item_weight`, `add_simple_rule`).

use super::bucket::{Bucket, Weights};
use super::map::CrushMap;
use super::rule::{Rule, StepOp};
use std::collections::BTreeMap;
use thiserror::Error;

/// Maximum number of buckets and of rules (`CRUSH_MAX_RULES` is 256): manual maps stay far below.
const MAX_BUCKETS: usize = 1024;
const MAX_RULES: usize = 256;

/// Location of an item: the names of the buckets above it, by type name.
pub type Location = BTreeMap<String, String>;

/// Error of a change of a map.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages document them")]
pub enum EditError {
    #[error("there is no item '{0}' in the CRUSH map")]
    NoItem(String),
    #[error("there is no rule '{0}'")]
    NoRule(String),
    #[error("there is no item type '{0}'")]
    NoType(String),
    #[error("'{0}' already exists")]
    Exists(String),
    #[error("invalid name '{0}': only letters, digits, '-', '_' and '.' are allowed")]
    BadName(String),
    #[error("'{0}' is a device, not a bucket")]
    NotBucket(String),
    #[error("'{0}' is a bucket, not a device")]
    NotDevice(String),
    #[error("'{name}' is a {is}, not a {wanted}")]
    OtherType { name: String, is: String, wanted: String },
    #[error("'{0}' is not empty")]
    NotEmpty(String),
    #[error("'{0}' is used by a rule")]
    InUse(String),
    #[error("'{item}' would be below itself")]
    Loop { item: String },
    #[error("the location contains no bucket above the item")]
    Nowhere,
    #[error("the sum of the weights exceeds the limit of a map")]
    TooHeavy,
    #[error("bucket '{0}' cannot be changed: its algorithm is not straw2")]
    OtherAlgorithm(String),
    #[error("a map can have at most {0} of these")]
    TooMany(usize),
}

type Edit<T = ()> = Result<T, EditError>;

impl CrushMap {
    fn name_of(&self, item: i32) -> String {
        self.item_names.get(&item).cloned().unwrap_or_else(|| item.to_string())
    }

    fn named(&self, name: &str) -> Edit<i32> {
        self.item_id(name).ok_or_else(|| EditError::NoItem(name.into()))
    }

    fn kind_named(&self, name: &str) -> Edit<u16> {
        let kind = self.type_id(name).and_then(|kind| u16::try_from(kind).ok());
        kind.ok_or_else(|| EditError::NoType(name.into()))
    }

    fn parents(&self, item: i32) -> Vec<i32> {
        let holders = self.buckets.iter().flatten().filter(|bucket| bucket.items.contains(&item));
        holders.map(|bucket| bucket.id).collect()
    }

    /// Returns the names of the buckets above an item, by type name.
    pub fn location(&self, item: i32) -> Location {
        let mut location = Location::new();
        let mut at = item;
        // Each step goes up; the bound ends the loop in a cyclic map.
        for _ in 0..self.buckets.len() {
            let Some(&above) = self.parents(at).first() else { break };
            let kind = self.bucket(above).map_or(0, |bucket| i32::from(bucket.kind));
            let kind = self.type_names.get(&kind).cloned().unwrap_or_default();
            location.insert(kind, self.name_of(above));
            at = above;
        }
        location
    }

    fn is_below(&self, top: i32, item: i32, depth: usize) -> bool {
        if top == item {
            return true;
        }
        let children = self.bucket(top).map(|bucket| bucket.items.as_slice()).unwrap_or_default();
        depth > 0 && children.iter().any(|child| self.is_below(*child, item, depth - 1))
    }

    fn bucket_mut(&mut self, bucket: i32) -> Edit<&mut Bucket> {
        let name = self.name_of(bucket);
        let bucket = self.buckets.get_mut(!bucket as u32 as usize).and_then(Option::as_mut);
        let bucket = bucket.ok_or_else(|| EditError::NotBucket(name.clone()))?;
        match &bucket.weights {
            Weights::Straw2 { .. } => Ok(bucket),
            _ => Err(EditError::OtherAlgorithm(name)),
        }
    }

    /// Replaces a bucket's items, and updates its weight in the buckets above.
    fn refill(&mut self, id: i32, items: Vec<(i32, u32)>, depth: usize) -> Edit {
        let sum: u64 = items.iter().map(|(_, weight)| u64::from(*weight)).sum();
        // Peers treat weights as signed numbers.
        if sum > i32::MAX as u64 {
            return Err(EditError::TooHeavy);
        }
        let bucket = self.bucket_mut(id)?;
        let (id, kind) = (bucket.id, bucket.kind);
        *bucket = Bucket::straw2(id, kind, items);
        let weight = bucket.weight;
        for above in self.parents(id) {
            if depth > 0 {
                self.weigh_in(above, id, weight, depth - 1)?;
            }
        }
        Ok(())
    }

    fn contents(&mut self, bucket: i32) -> Edit<Vec<(i32, u32)>> {
        let bucket = self.bucket_mut(bucket)?;
        let Weights::Straw2 { items: weights } = &bucket.weights else { return Ok(Vec::new()) };
        Ok(bucket.items.iter().copied().zip(weights.iter().copied()).collect())
    }

    fn weigh_in(&mut self, bucket: i32, item: i32, weight: u32, depth: usize) -> Edit {
        let mut contents = self.contents(bucket)?;
        contents.iter_mut().filter(|(id, _)| *id == item).for_each(|(_, old)| *old = weight);
        self.refill(bucket, contents, depth)
    }

    /// Changes the weight of a device in all buckets.
    pub fn reweight(&mut self, name: &str, weight: u32) -> Edit {
        let item = self.named(name)?;
        if item < 0 {
            return Err(EditError::NotDevice(name.into()));
        }
        self.parents(item).into_iter().try_for_each(|bucket| self.weigh_in(bucket, item, weight, MAX_BUCKETS))
    }

    /// Changes the weight of all devices below a bucket.
    pub fn reweight_subtree(&mut self, name: &str, weight: u32) -> Edit {
        let top = self.named(name)?;
        if top >= 0 {
            return Err(EditError::NotBucket(name.into()));
        }
        let devices = self.item_names.range(0..).map(|(id, name)| (*id, name.clone()));
        let devices: Vec<(i32, String)> =
            devices.filter(|(id, _)| self.is_below(top, *id, self.buckets.len())).collect();
        devices.iter().try_for_each(|(_, device)| self.reweight(device, weight))
    }

    /// Adds an empty bucket, which is a root until it is moved. Returns its id.
    pub fn add_bucket(&mut self, name: &str, kind: &str) -> Edit<i32> {
        let kind = match self.kind_named(kind)? {
            0 => return Err(EditError::NotBucket(name.into())),
            kind => kind,
        };
        check_name(name)?;
        if self.item_id(name).is_some() {
            return Err(EditError::Exists(name.into()));
        }
        let free = self.buckets.iter().position(Option::is_none).unwrap_or(self.buckets.len());
        if free >= MAX_BUCKETS {
            return Err(EditError::TooMany(MAX_BUCKETS));
        }
        if free == self.buckets.len() {
            self.buckets.push(None);
        }
        let id = -1 - free as i32;
        self.buckets[free] = Some(Bucket::straw2(id, kind, []));
        self.item_names.insert(id, name.into());
        Ok(id)
    }

    fn unlink(&mut self, item: i32) -> Edit {
        for bucket in self.parents(item) {
            let mut contents = self.contents(bucket)?;
            contents.retain(|(id, _)| *id != item);
            self.refill(bucket, contents, MAX_BUCKETS)?;
        }
        Ok(())
    }

    fn weight_of(&self, item: i32) -> u32 {
        if let Some(bucket) = self.bucket(item) {
            return bucket.weight;
        }
        let holder = self.buckets.iter().flatten().find(|bucket| bucket.items.contains(&item));
        let found = holder.and_then(|bucket| {
            let at = bucket.items.iter().position(|other| *other == item)?;
            bucket.weights.item(at)
        });
        found.unwrap_or(0)
    }

    /// Inserts an item without a parent below the lowest bucket of the location. Missing buckets are added, each below the
    /// next.
    fn insert(&mut self, item: i32, weight: u32, location: &Location) -> Edit {
        let own = self.bucket(item).map_or(0, |bucket| bucket.kind);
        let mut above: Vec<(u16, &str)> = Vec::new();
        for (kind, name) in location {
            above.push((self.kind_named(kind)?, name));
        }
        above.sort_unstable();
        let mut item = item;
        let mut was_put = false;
        for (kind, name) in above.into_iter().filter(|(kind, _)| *kind > own) {
            let exists = self.item_id(name);
            let bucket = match exists {
                Some(bucket) => bucket,
                None => self.add_bucket(name, &self.type_names[&i32::from(kind)].clone())?,
            };
            let is = self.bucket(bucket).ok_or_else(|| EditError::NotBucket(name.into()))?.kind;
            if is != kind {
                let type_name = |kind: u16| self.type_names.get(&kind.into()).cloned().unwrap_or_default();
                let (is, wanted) = (type_name(is), type_name(kind));
                return Err(EditError::OtherType { name: name.into(), is, wanted });
            }
            if self.is_below(item, bucket, self.buckets.len()) {
                return Err(EditError::Loop { item: self.name_of(item) });
            }
            let mut contents = self.contents(bucket)?;
            contents.push((item, if was_put { self.weight_of(item) } else { weight }));
            self.refill(bucket, contents, MAX_BUCKETS)?;
            was_put = true;
            if exists.is_some() {
                return Ok(());
            }
            item = bucket;
        }
        if was_put { Ok(()) } else { Err(EditError::Nowhere) }
    }

    /// Places a device with that weight at a location, regardless of its previous one.
    pub fn set(&mut self, device: i32, weight: u32, location: &Location) -> Edit {
        self.unlink(device)?;
        self.item_names.entry(device).or_insert_with(|| format!("osd.{device}"));
        self.insert(device, weight, location)
    }

    /// Moves an item with everything below it.
    pub fn move_item(&mut self, name: &str, location: &Location) -> Edit {
        let item = self.named(name)?;
        let weight = self.weight_of(item);
        self.unlink(item)?;
        self.insert(item, weight, location)
    }

    /// Removes an item: a device, or an empty bucket that no rule takes.
    pub fn remove_item(&mut self, name: &str) -> Edit {
        let item = self.named(name)?;
        if self.bucket(item).is_some_and(|bucket| !bucket.items.is_empty()) {
            return Err(EditError::NotEmpty(name.into()));
        }
        let steps = self.rules.iter().flatten().flat_map(|rule| &rule.steps);
        if steps.into_iter().any(|step| step.op == StepOp::TAKE && step.arg1 == item) {
            return Err(EditError::InUse(name.into()));
        }
        self.unlink(item)?;
        self.item_names.remove(&item);
        if item < 0 {
            self.buckets[!item as u32 as usize] = None;
        }
        Ok(())
    }

    /// Renames a bucket.
    pub fn rename_bucket(&mut self, from: &str, to: &str) -> Edit {
        let item = self.named(from)?;
        if item >= 0 {
            return Err(EditError::NotBucket(from.into()));
        }
        check_name(to)?;
        if self.item_id(to).is_some() {
            return Err(EditError::Exists(to.into()));
        }
        self.item_names.insert(item, to.into());
        Ok(())
    }

    /// Adds a rule for replicated pools: copies below `root` in different items of the type `failure_domain`. Returns its
    /// number.
    pub fn add_replicated_rule(&mut self, name: &str, root: &str, failure_domain: &str) -> Edit<u8> {
        check_name(name)?;
        if self.rule_id(name).is_some() {
            return Err(EditError::Exists(name.into()));
        }
        let (root, domain) = (self.named(root)?, self.kind_named(failure_domain)?);
        let number = self.rules.iter().position(Option::is_none).unwrap_or(self.rules.len());
        let id = u8::try_from(number).map_err(|_| EditError::TooMany(MAX_RULES))?;
        if number == self.rules.len() {
            self.rules.push(None);
        }
        self.rules[number] = Some(Rule::replicated(id, root, domain));
        self.rule_names.insert(id.into(), name.into());
        Ok(id)
    }

    /// Removes a rule. The caller has checked that no pool uses it.
    pub fn remove_rule(&mut self, name: &str) -> Edit {
        let number = self.rule_id(name).ok_or_else(|| EditError::NoRule(name.into()))?;
        self.rules[number as usize] = None;
        self.rule_names.remove(&(number as i32));
        Ok(())
    }

    /// Renames a rule.
    pub fn rename_rule(&mut self, from: &str, to: &str) -> Edit {
        let number = self.rule_id(from).ok_or_else(|| EditError::NoRule(from.into()))?;
        check_name(to)?;
        if self.rule_id(to).is_some() {
            return Err(EditError::Exists(to.into()));
        }
        self.rule_names.insert(number as i32, to.into());
        Ok(())
    }
}

/// Checks that a name is valid (`CrushWrapper::is_valid_crush_name`).
fn check_name(name: &str) -> Edit {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 256 || !name.chars().all(is_fine) {
        return Err(EditError::BadName(name.into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Layout, WEIGHT_ONE};
    use super::*;
    use onego_msgr::encoding::{Decode as _, Encode as _};

    fn at(places: &[(&str, &str)]) -> Location {
        places.iter().map(|(kind, name)| ((*kind).to_owned(), (*name).to_owned())).collect()
    }

    fn map() -> CrushMap {
        CrushMap::flat(&[0, 1, 2, 3], Layout::HostPerDevice)
    }

    fn weight(map: &CrushMap, name: &str) -> u32 {
        map.weight_of(map.item_id(name).unwrap())
    }

    /// Checks that each bucket's weight is the sum of its items' weights, which equal their own.
    fn check(map: &CrushMap) {
        for bucket in map.buckets.iter().flatten() {
            let weights = (0..bucket.items.len()).map(|n| bucket.weights.item(n).unwrap());
            assert_eq!(bucket.weight, weights.sum::<u32>(), "bucket {}", bucket.id);
            for (n, child) in bucket.items.iter().enumerate().filter(|(_, child)| **child < 0) {
                assert_eq!(bucket.weights.item(n), map.bucket(*child).map(|child| child.weight));
            }
        }
        assert_eq!(CrushMap::from_bytes(&map.to_bytes()).unwrap().buckets, map.buckets);
    }

    #[test]
    fn weights_add_up_to_the_root() {
        let mut map = map();
        map.reweight("osd.1", 3 * WEIGHT_ONE).unwrap();
        check(&map);
        assert_eq!((weight(&map, "host1"), weight(&map, "default")), (3 * WEIGHT_ONE, 6 * WEIGHT_ONE));
        map.reweight_subtree("default", WEIGHT_ONE / 2).unwrap();
        check(&map);
        assert_eq!(weight(&map, "default"), 2 * WEIGHT_ONE);
        assert_eq!(map.reweight("host1", 1), Err(EditError::NotDevice("host1".into())));
        assert_eq!(map.reweight("osd.9", 1), Err(EditError::NoItem("osd.9".into())));
        assert_eq!(map.reweight_subtree("default", i32::MAX as u32), Err(EditError::TooHeavy));
    }

    #[test]
    fn buckets_are_added_filled_moved_and_removed() {
        let mut map = map();
        map.add_bucket("rack1", "rack").unwrap();
        map.move_item("rack1", &at(&[("root", "default")])).unwrap();
        map.move_item("host1", &at(&[("rack", "rack1")])).unwrap();
        check(&map);
        assert_eq!((weight(&map, "rack1"), weight(&map, "default")), (WEIGHT_ONE, 4 * WEIGHT_ONE));
        assert_eq!(map.location(1), at(&[("host", "host1"), ("rack", "rack1"), ("root", "default")]));

        // Missing buckets of the location are added.
        let there = at(&[("root", "default"), ("rack", "rack2"), ("host", "far")]);
        map.set(2, 2 * WEIGHT_ONE, &there).unwrap();
        check(&map);
        assert_eq!((map.location(2), weight(&map, "default")), (there, 5 * WEIGHT_ONE));
        assert_eq!(weight(&map, "host2"), 0);

        let circle = map.move_item("default", &at(&[("root", "default")]));
        assert!(circle.is_err(), "{circle:?}");
        assert_eq!(map.clone().remove_item("rack2"), Err(EditError::NotEmpty("rack2".into())));
        map.remove_item("host2").unwrap();
        map.remove_item("osd.3").unwrap();
        map.remove_item("host3").unwrap();
        check(&map);
        assert_eq!(weight(&map, "default"), 4 * WEIGHT_ONE);
        map.remove_item("osd.0").unwrap();
        // The next bucket takes its place.
        let id = map.item_id("host0").unwrap();
        map.remove_item("host0").unwrap();
        assert!(map.add_bucket("new", "host").unwrap() <= id);
        assert_eq!(map.add_bucket("new", "host"), Err(EditError::Exists("new".into())));
        assert_eq!(map.add_bucket("a b", "host"), Err(EditError::BadName("a b".into())));
        map.rename_bucket("new", "newer").unwrap();
        assert!(map.item_id("newer").is_some() && map.item_id("new").is_none());
    }

    #[test]
    fn a_bucket_is_not_put_below_itself() {
        let mut map = map();
        map.add_bucket("rack1", "rack").unwrap();
        map.add_bucket("room1", "room").unwrap();
        map.move_item("rack1", &at(&[("room", "room1")])).unwrap();
        // The types alone forbid a room below a rack.
        assert_eq!(map.clone().move_item("room1", &at(&[("rack", "rack1")])), Err(EditError::Nowhere));
        let wrong = map.move_item("host1", &at(&[("rack", "room1")]));
        assert!(matches!(wrong, Err(EditError::OtherType { .. })), "{wrong:?}");
    }

    #[test]
    fn rules_are_added_and_removed() {
        let mut map = map();
        assert_eq!(map.add_replicated_rule("by-osd", "default", "osd"), Ok(1));
        assert_eq!(map.rule(1).unwrap().steps[1].op, StepOp::CHOOSE_FIRSTN);
        assert_eq!(
            map.add_replicated_rule("by-osd", "default", "osd"),
            Err(EditError::Exists("by-osd".into()))
        );
        assert_eq!(map.add_replicated_rule("x", "nowhere", "osd"), Err(EditError::NoItem("nowhere".into())));
        assert_eq!(map.remove_item("default"), Err(EditError::NotEmpty("default".into())));
        map.add_bucket("spare", "root").unwrap();
        map.add_replicated_rule("spare", "spare", "host").unwrap();
        assert_eq!(map.remove_item("spare"), Err(EditError::InUse("spare".into())));
        map.rename_rule("spare", "other").unwrap();
        map.remove_rule("other").unwrap();
        map.remove_item("spare").unwrap();
        assert_eq!(map.remove_rule("other"), Err(EditError::NoRule("other".into())));
        assert_eq!(map.add_replicated_rule("again", "default", "host"), Ok(2));
    }
}
