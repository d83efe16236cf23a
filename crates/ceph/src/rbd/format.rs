//! The two formats of images.

use super::names::{DataNames, header_object, id_object};
use crate::messages::ObjectName;
use std::str::FromStr;

/// Format of an image's header (`rbd_default_format`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ImageFormat {
    /// Format 1: bytes in an object with the image's name ([`Format1Header`](crate::cls::rbd::Format1Header)). Such an image
    /// has no id and no features.
    V1,
    /// Format 2: keys and values of an object with the image's id.
    #[default]
    V2,
}

impl ImageFormat {
    /// Returns the number of the format.
    pub fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// Returns the header object of the image with this name and id.
    pub fn header_object(self, name: &str, id: &str) -> ObjectName {
        match self {
            Self::V1 => ObjectName::from(format!("{name}.rbd").as_str()),
            Self::V2 => header_object(id),
        }
    }

    /// Returns the object that exists if an image of this format has this name.
    pub fn name_object(self, name: &str) -> ObjectName {
        match self {
            Self::V1 => self.header_object(name, ""),
            Self::V2 => id_object(name),
        }
    }

    /// Returns the names of the data objects with an image's object prefix.
    pub fn data_names(self, prefix: &str) -> DataNames {
        match self {
            Self::V1 => DataNames::with_digits(prefix, 12),
            Self::V2 => DataNames::new(prefix),
        }
    }
}

impl FromStr for ImageFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "1" => Ok(Self::V1),
            "2" => Ok(Self::V2),
            _ => Err(format!("invalid image format {text}: it must be 1 or 2")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_both_formats_are_named_as_by_ceph() {
        let [old, new]: [ImageFormat; 2] = ["1", "2"].map(|text| text.parse().unwrap());
        assert_eq!((old.number(), new.number(), "3".parse::<ImageFormat>().is_err()), (1, 2, true));
        assert_eq!(old.header_object("disk", "").to_string(), "disk.rbd");
        assert_eq!(new.header_object("disk", "abc").to_string(), "rbd_header.abc");
        let names = [old.data_names("rb.0.1.2"), new.data_names("rbd_data.abc")];
        assert_eq!(names[0].name(0x1f).to_string(), "rb.0.1.2.00000000001f");
        assert_eq!(names[1].name(0x1f).to_string(), "rbd_data.abc.000000000000001f");
        // Larger numbers get more digits.
        assert_eq!(names[0].name(0xf << 44).to_string(), "rb.0.1.2.f00000000000");
        assert_eq!(names[0].name(0x12 << 44).to_string(), "rb.0.1.2.1200000000000");
        assert_eq!(names[0].name(u64::MAX).to_string(), "rb.0.1.2.ffffffffffffffff");
    }
}
