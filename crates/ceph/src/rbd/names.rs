use crate::messages::ObjectName;
use onego_wire::text;

/// Object that lists the pool's images (`RBD_DIRECTORY`).
pub const DIRECTORY: &str = "rbd_directory";

/// Returns the object that stores the id of the image `name`.
pub fn id_object(name: &str) -> ObjectName {
    ObjectName::from(format!("rbd_id.{name}").as_str())
}

/// Returns the header object of the image with `id`.
pub fn header_object(id: &str) -> ObjectName {
    ObjectName::from(format!("rbd_header.{id}").as_str())
}

/// Returns whether this is a valid image name. `rbd` separates names from pools and snapshots with `/` and `@`.
pub fn valid_image_name(name: &str) -> bool {
    !name.is_empty() && text::to_bytes(name).len() <= 96 && !name.contains(['/', '@'])
}

const MAX_DIGITS: usize = 16;

/// Names of an image's data objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataNames {
    prefix: ObjectName,
    /// Number of leading zeros that are omitted from [`MAX_DIGITS`].
    omitted: usize,
}

impl DataNames {
    /// Returns the names for an object prefix of format 2: 16 hexadecimal digits follow it.
    pub fn new(prefix: &str) -> Self {
        Self::with_digits(prefix, MAX_DIGITS)
    }

    /// Returns names with fewer digits where the number does not need more.
    pub(super) fn with_digits(prefix: &str, digits: usize) -> Self {
        let mut name = ObjectName::from(prefix);
        name.extend_from_slice(b".");
        Self { prefix: name, omitted: MAX_DIGITS - digits }
    }

    /// Returns the name of an object: the prefix and its number.
    pub fn name(&self, object: u64) -> ObjectName {
        let mut digits = [0; MAX_DIGITS];
        for (i, digit) in digits.iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(object >> (60 - 4 * i) & 15) as usize];
        }
        let mut name = self.prefix.clone();
        let zeros = object.leading_zeros() as usize / 4;
        name.extend_from_slice(&digits[self.omitted.min(zeros)..]);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_objects_are_named_as_by_ceph() {
        let names = DataNames::new("rbd_data.10146b8b4567");
        assert_eq!(names.name(0x1f).to_string(), "rbd_data.10146b8b4567.000000000000001f");
    }
}
