use crate::messages::ObjectName;
use onego_wire::text;

/// The object that lists the pool's images (`RBD_DIRECTORY`).
pub const DIRECTORY: &str = "rbd_directory";

/// The object that tells the id of the image called `name`.
pub fn id_object(name: &str) -> ObjectName {
    ObjectName::from(format!("rbd_id.{name}").as_str())
}

/// The object that holds what is known of the image with `id`.
pub fn header_object(id: &str) -> ObjectName {
    ObjectName::from(format!("rbd_header.{id}").as_str())
}

/// May an image be called that? The `rbd` program divides names from pools and snapshots with `/` and `@`.
pub fn valid_image_name(name: &str) -> bool {
    !name.is_empty() && text::to_bytes(name).len() <= 96 && !name.contains(['/', '@'])
}

/// Hexadecimal digits of the largest number of an object.
const MAX_DIGITS: usize = 16;

/// Names of an image's data objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataNames {
    prefix: ObjectName,
    /// Leading zeros that are left out of a number of [`MAX_DIGITS`].
    omitted: usize,
}

impl DataNames {
    /// The names that start with the object prefix of an image of format 2: 16 hexadecimal digits follow.
    pub fn new(prefix: &str) -> Self {
        Self::with_digits(prefix, MAX_DIGITS)
    }

    /// The same with fewer digits, where the number needs no more.
    pub(super) fn with_digits(prefix: &str, digits: usize) -> Self {
        let mut name = ObjectName::from(prefix);
        name.extend_from_slice(b".");
        Self { prefix: name, omitted: MAX_DIGITS - digits }
    }

    /// The name of object number `object`: the prefix and the number.
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
    fn data_objects_are_called_as_ceph_calls_them() {
        let names = DataNames::new("rbd_data.10146b8b4567");
        assert_eq!(names.name(0x1f).to_string(), "rbd_data.10146b8b4567.000000000000001f");
    }
}
