//! Messages of generic netlink (linux `include/uapi/linux/{netlink,genetlink}.h`): numbers are in the machine's order, and
//! attributes begin at multiples of four bytes.

/// Bytes of the header of a message, and of the one behind it.
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;

/// Bytes of the header of an attribute.
const ATTRIBUTE_HEADER: usize = 4;

/// Types of messages that no family has.
const ERROR: u16 = 2;

/// A request, and its outcome is to be told.
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;

/// An attribute that consists of attributes.
const NESTED: u16 = 1 << 15;

/// The bits of an attribute's type that are no flags.
const TYPE: u16 = (1 << 14) - 1;

/// Attributes, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    /// Adds one of 32 bits.
    pub(super) fn u32(mut self, kind: u16, value: u32) -> Self {
        self.put(kind, &value.to_ne_bytes());
        self
    }

    /// Adds one of 64 bits.
    pub(super) fn u64(mut self, kind: u16, value: u64) -> Self {
        self.put(kind, &value.to_ne_bytes());
        self
    }

    /// Adds a text, which ends with a zero.
    pub(super) fn text(mut self, kind: u16, text: &str) -> Self {
        self.put(kind, &[text.as_bytes(), &[0]].concat());
        self
    }

    /// Adds one that consists of others.
    pub(super) fn nested(mut self, kind: u16, attributes: &Self) -> Self {
        self.put(kind | NESTED, &attributes.0);
        self
    }

    fn put(&mut self, kind: u16, data: &[u8]) {
        // What is sent is a few numbers and a name.
        let length = (ATTRIBUTE_HEADER + data.len()) as u16;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(data);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}

/// A request to a family.
pub(super) fn request(
    family: u16,
    command: u8,
    version: u8,
    number: u32,
    attributes: &Attributes,
) -> Vec<u8> {
    let length = HEADER + GENERIC_HEADER + attributes.0.len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(family.to_ne_bytes());
    bytes.extend((REQUEST | ACKNOWLEDGE).to_ne_bytes());
    bytes.extend(number.to_ne_bytes());
    // The kernel fills in the sender.
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend([command, version, 0, 0]);
    bytes.extend(&attributes.0);
    bytes
}

/// What the kernel says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// Attributes, in answer to the request of that number.
    Data { number: u32, attributes: &'a [u8] },
    /// The request of that number is carried out, or has failed with that error of the system.
    Outcome { number: u32, error: Option<i32> },
}

/// The first message, and what is behind it. `None`: there is none, or not all of it.
pub(super) fn next(bytes: &[u8]) -> Option<(Said<'_>, &[u8])> {
    let length = u32_at(bytes, 0)? as usize;
    let message = bytes.get(..length).filter(|message| message.len() >= HEADER)?;
    let (kind, number) = (u16_at(message, 4)?, u32_at(message, 8)?);
    let said = if kind == ERROR {
        let code = u32_at(message, HEADER)?.cast_signed();
        Said::Outcome { number, error: (code != 0).then(|| code.saturating_neg()) }
    } else {
        Said::Data { number, attributes: message.get(HEADER + GENERIC_HEADER..)? }
    };
    Some((said, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// The data of the attribute of that type.
pub(super) fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        let data = attributes.get(ATTRIBUTE_HEADER..length)?;
        if u16_at(attributes, 2)? & TYPE == wanted {
            return Some(data);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// The number at an offset.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// The number at an offset.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_behind_others_of_odd_lengths() {
        let inner = Attributes::default().u32(1, 7);
        let all = Attributes::default().text(3, "ab").nested(5, &inner).u64(6, 1 << 40);
        assert!(all.0.len().is_multiple_of(4));
        assert_eq!(attribute(&all.0, 3), Some(&b"ab\0"[..]));
        assert_eq!(attribute(attribute(&all.0, 5).unwrap(), 1), Some(&7u32.to_ne_bytes()[..]));
        assert_eq!(attribute(&all.0, 6), Some(&(1u64 << 40).to_ne_bytes()[..]));
        assert_eq!(attribute(&all.0, 4), None);
    }

    #[test]
    fn what_is_cut_or_lies_about_its_length_is_nothing() {
        let sent = request(0x1c, 1, 1, 9, &Attributes::default().u32(1, 2));
        assert!(matches!(next(&sent), Some((Said::Data { number: 9, .. }, []))));
        for length in 0..sent.len() {
            assert_eq!(next(&sent[..length]), None, "{length} bytes");
        }
        for length in 0..ATTRIBUTE_HEADER as u16 {
            let lie = [length.to_ne_bytes(), 1u16.to_ne_bytes()].concat();
            assert_eq!(attribute(&lie, 1), None, "an attribute of {length} bytes");
        }
    }

    #[test]
    fn outcomes_are_errors_of_the_system() {
        let outcome = |code: i32| {
            let mut bytes = request(ERROR, 0, 0, 3, &Attributes::default());
            bytes[HEADER..].copy_from_slice(&code.to_ne_bytes());
            next(&bytes)
                .map(|(said, _)| said == Said::Outcome { number: 3, error: (code < 0).then_some(-code) })
        };
        assert_eq!([0, -16, -1].map(outcome), [Some(true); 3]);
    }
}
