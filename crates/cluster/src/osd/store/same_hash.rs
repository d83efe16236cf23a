//! Objects whose names have the same hash. Names that a client chooses, or a locator key, can give any number of objects one
//! hash: from two on they are a map in the order of listings, so that each is found in logarithmic time.

use super::{Identity, Name, ObjectId};
use onego_ceph::types::HObject;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Memory of an entry of [`Named`]: half of a tree's places may be empty.
pub(super) const ENTRY: u64 = 224;

/// The objects of one hash and pool.
pub(super) enum SameHash {
    /// Nearly always.
    One(ObjectId),
    Many(Box<Named>),
}

/// Objects by their names.
#[derive(Default)]
pub(super) struct Named(BTreeMap<Name, ObjectId>);

impl SameHash {
    /// Adds an object with this name; `name_of` returns the names of others.
    pub(super) fn add<'a>(&mut self, id: ObjectId, name: &Name, name_of: impl FnOnce(ObjectId) -> &'a Name) {
        if let Self::One(first) = *self {
            let named = Named(BTreeMap::from([(name_of(first).clone(), first)]));
            *self = Self::Many(Box::new(named));
        }
        if let Self::Many(named) = self {
            named.0.insert(name.clone(), id);
        }
    }

    /// Removes an object. Returns whether none is left.
    pub(super) fn remove(&mut self, id: ObjectId, name: &Name) -> bool {
        match self {
            Self::One(one) => *one == id,
            Self::Many(named) => {
                named.0.remove(name);
                named.0.is_empty()
            }
        }
    }

    /// Returns the objects in order, those of `Many` from `start` on.
    pub(super) fn iter_from(&self, start: Option<&HObject>) -> impl Iterator<Item = ObjectId> {
        let (one, many) = match self {
            Self::One(id) => (Some(*id), None),
            Self::Many(named) => (None, Some(named.range(start))),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = ObjectId> {
        self.iter_from(None)
    }
}

impl Named {
    #[inline(never)]
    pub(super) fn find(&self, identity: &Identity<'_>) -> Option<ObjectId> {
        self.0.get(identity as &dyn Parts).copied()
    }

    fn range(&self, start: Option<&HObject>) -> impl Iterator<Item = ObjectId> {
        let start = start.map_or(Bound::Unbounded, |start| Bound::Included(start as &dyn Parts));
        self.0.range::<dyn Parts + '_, _>((start, Bound::Unbounded)).map(|(_, id)| *id)
    }
}

/// The parts of a name by which objects of one hash and pool are listed (hobject.cc, cmp): namespace, key or else name, and
/// name. The key itself comes last.
trait Parts {
    fn parts(&self) -> [&[u8]; 4];
}

fn in_order<'a>(namespace: &'a [u8], key: &'a [u8], name: &'a [u8]) -> [&'a [u8]; 4] {
    [namespace, if key.is_empty() { name } else { key }, name, key]
}

impl Parts for Name {
    fn parts(&self) -> [&[u8]; 4] {
        in_order(&self.namespace, &self.key, &self.name)
    }
}

impl Parts for Identity<'_> {
    fn parts(&self) -> [&[u8]; 4] {
        in_order(self.namespace, self.key, self.name)
    }
}

impl Parts for HObject {
    fn parts(&self) -> [&[u8]; 4] {
        in_order(&self.namespace, &self.key, &self.name)
    }
}

impl PartialEq for dyn Parts + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn Parts + '_ {}

impl PartialOrd for dyn Parts + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Parts + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The order of names of one hash.
impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl<'a> Borrow<dyn Parts + 'a> for Name {
    fn borrow(&self) -> &(dyn Parts + 'a) {
        self
    }
}
