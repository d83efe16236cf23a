use crate::cls::rbd::feature;
use std::fmt;
use std::str::FromStr;

/// Set of image features (`RBD_FEATURE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features(pub u64);

const NAMES: [(Features, &str); 11] = [
    (Features::LAYERING, "layering"),
    (Features::STRIPING, "striping"),
    (Features::EXCLUSIVE_LOCK, "exclusive-lock"),
    (Features::OBJECT_MAP, "object-map"),
    (Features::FAST_DIFF, "fast-diff"),
    (Features::DEEP_FLATTEN, "deep-flatten"),
    (Features::JOURNALING, "journaling"),
    (Features::DATA_POOL, "data-pool"),
    (Features::OPERATIONS, "operations"),
    (Features::MIGRATING, "migrating"),
    (Features::NON_PRIMARY, "non-primary"),
];

#[allow(missing_docs)]
impl Features {
    pub const NONE: Self = Self(0);
    pub const LAYERING: Self = Self(feature::LAYERING);
    pub const STRIPING: Self = Self(feature::STRIPING_V2);
    pub const EXCLUSIVE_LOCK: Self = Self(feature::EXCLUSIVE_LOCK);
    pub const OBJECT_MAP: Self = Self(feature::OBJECT_MAP);
    pub const FAST_DIFF: Self = Self(feature::FAST_DIFF);
    pub const DEEP_FLATTEN: Self = Self(feature::DEEP_FLATTEN);
    pub const JOURNALING: Self = Self(feature::JOURNALING);
    pub const DATA_POOL: Self = Self(feature::DATA_POOL);
    pub const OPERATIONS: Self = Self(feature::OPERATIONS);
    pub const MIGRATING: Self = Self(feature::MIGRATING);
    pub const NON_PRIMARY: Self = Self(feature::NON_PRIMARY);
}

impl Features {
    /// Features that writers support. Deep-flatten and the operations (clones, groups, a trash of snapshots) need no support
    /// by them.
    pub const WRITABLE: Self = Self(
        Self::LAYERING.0
            | Self::STRIPING.0
            | Self::EXCLUSIVE_LOCK.0
            | Self::OBJECT_MAP.0
            | Self::FAST_DIFF.0
            | Self::DEEP_FLATTEN.0
            | Self::DATA_POOL.0
            | Self::OPERATIONS.0,
    );

    /// Features of a new image by default (`rbd_default_features`).
    pub const DEFAULT: Self = Self(
        Self::LAYERING.0
            | Self::EXCLUSIVE_LOCK.0
            | Self::OBJECT_MAP.0
            | Self::FAST_DIFF.0
            | Self::DEEP_FLATTEN.0,
    );

    /// Features that a copy or clone of an image does not inherit.
    pub const NOT_INHERITED: Self = Self(
        Self::STRIPING.0
            | Self::DATA_POOL.0
            | Self::JOURNALING.0
            | Self::OPERATIONS.0
            | Self::MIGRATING.0
            | Self::NON_PRIMARY.0,
    );

    /// Features that prevent even reads: the image's data is being moved elsewhere.
    pub const UNREADABLE: Self = Self(Self::MIGRATING.0);

    /// Returns the union.
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the features of this set that `other` lacks.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether the set contains all features of `other`.
    pub fn contains(self, other: Self) -> bool {
        other.without(self).is_empty()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the names of the features as used by `rbd`; unknown ones are shown as a number.
    pub fn names(self) -> Vec<String> {
        let known = NAMES.iter().filter(|(bit, _)| self.contains(*bit)).map(|(_, name)| (*name).to_owned());
        let unknown = NAMES.iter().fold(self, |left, (bit, _)| left.without(*bit));
        known.chain((!unknown.is_empty()).then(|| format!("{:#x}", unknown.0))).collect()
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(", "))
    }
}

impl FromStr for Features {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).try_fold(Self::NONE, |set, name| {
            match NAMES
                .iter()
                .find(|(_, known)| *known == name || (*known == "striping" && name == "stripingv2"))
            {
                Some((bit, _)) => Ok(set.with(*bit)),
                None => Err(format!(
                    "no image feature is called {name:?}; there are {}",
                    NAMES.map(|(_, known)| known).join(", ")
                )),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_a_round_trip() {
        let all = Features(0x7ff);
        assert_eq!(all.to_string().parse::<Features>(), Ok(all));
        assert_eq!(Features(61).to_string(), "layering, exclusive-lock, object-map, fast-diff, deep-flatten");
        assert_eq!(Features(1 << 40).to_string(), "0x10000000000");
        assert!("layering,flying".parse::<Features>().unwrap_err().contains("\"flying\""));
    }
}
