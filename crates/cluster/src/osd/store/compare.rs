//! Comparisons that a request may depend on.

use crate::osd::errno::{Errno, Outcome};
use onego_buf::List;
use onego_ceph::ops::{Compare, CompareWith};
use std::cmp::Ordering;

fn holds(order: Ordering, how: Compare) -> bool {
    match how {
        Compare::Equal => order.is_eq(),
        Compare::NotEqual => order.is_ne(),
        Compare::Greater => order.is_gt(),
        Compare::GreaterOrEqual => order.is_ge(),
        Compare::Less => order.is_lt(),
        Compare::LessOrEqual => order.is_le(),
    }
}

fn demand(holds: bool) -> Outcome<()> {
    if holds { Ok(()) } else { Err(Errno::CANCELED) }
}

/// Compares what was given with an attribute's value, in this order (PrimaryLogPG.cc, do_xattr_cmp_str and
/// do_xattr_cmp_u64).
pub(crate) fn xattr(given: &CompareWith, how: Compare, value: &[u8]) -> Outcome<()> {
    let order = match given {
        CompareWith::Bytes(given) => given.as_slice().cmp(value),
        CompareWith::Number(given) => given.cmp(&leading_number(value)),
    };
    demand(holds(order, how))
}

/// The number that a text starts with, as C's atoll reads it: 0 if there is none.
fn leading_number(text: &[u8]) -> u64 {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let number = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0u64, |number, digit| number.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
    if negative { number.wrapping_neg() } else { number }
}

/// Compares an entry of a map with what was given, in this order. Other comparisons than these three are refused.
pub(crate) fn omap(value: &[u8], how: Compare, given: &[u8]) -> Outcome<()> {
    match how {
        Compare::Equal | Compare::Less | Compare::Greater => demand(holds(value.cmp(given), how)),
        _ => Err(Errno::INVAL),
    }
}

/// Compares bytes of an object with those that were given; what is behind the object's end counts as zeros.
pub(crate) fn extents(there: &List, given: &List) -> Outcome<()> {
    let there = there.segments().flat_map(|segment| segment.iter().copied()).chain(std::iter::repeat(0));
    let given = given.segments().flat_map(|segment| segment.iter().copied());
    match given.zip(there).position(|(given, there)| given != there) {
        Some(offset) => Err(Errno::differs_at(offset)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_compared_as_text_or_as_numbers() {
        let text = |given: &str, how, value: &str| {
            xattr(&CompareWith::Bytes(given.into()), how, value.as_bytes()).is_ok()
        };
        assert!(text("abc", Compare::Equal, "abc") && !text("abc", Compare::Equal, "abcd"));
        assert!(text("b", Compare::Greater, "abc") && text("", Compare::LessOrEqual, ""));
        let number =
            |given, how, value: &str| xattr(&CompareWith::Number(given), how, value.as_bytes()).is_ok();
        assert!(number(12, Compare::Equal, " 12 apples") && number(1, Compare::Greater, "none"));
        assert!(number(u64::MAX, Compare::Equal, "-1") && !number(5, Compare::NotEqual, "5"));
    }

    #[test]
    fn extents_differ_at_an_offset() {
        let (there, given) = (List::from(vec![1, 2]), List::from(vec![1, 2, 0, 7]));
        assert_eq!(extents(&there, &given), Err(Errno::differs_at(3)));
        assert_eq!(Errno::differs_at(3).result(), -4098);
        assert_eq!(extents(&there, &given.slice(0, 3)), Ok(()));
    }
}
