//! What is known of a method, and how it is called.

use super::context::Context;
use crate::osd::errno::{Errno, Outcome};
use onego_ceph::cls::Method;
use onego_msgr::encoding::Encode as _;
use onego_wire::{Decoded, Reader};

/// A method that can be called.
pub(crate) struct Entry {
    pub(crate) class: &'static str,
    pub(crate) name: &'static str,
    /// May it change the object? Then it may be called on one that does not exist.
    pub(crate) writes: bool,
    pub(crate) run: fn(&mut Context<'_>, &[u8]) -> Outcome<Vec<u8>>,
}

/// Decodes the arguments, calls the method and encodes the reply.
pub(super) fn run<M: Method>(
    context: &mut Context<'_>,
    input: &[u8],
    method: fn(&mut Context<'_>, M) -> Outcome<M::Reply>,
) -> Outcome<Vec<u8>> {
    let arguments = M::decode(&mut Reader::new(input)).map_err(|_| Errno::INVAL)?;
    method(context, arguments).map(|reply| reply.to_bytes())
}

/// The row of a method whose arguments and reply it decodes and encodes itself.
pub(super) const fn entry(
    class: &'static str,
    name: &'static str,
    writes: bool,
    run: fn(&mut Context<'_>, &[u8]) -> Outcome<Vec<u8>>,
) -> Entry {
    Entry { class, name, writes, run }
}

/// Reads a method's input.
pub(super) fn decode<T>(input: &[u8], read: impl FnOnce(&mut Reader<'_>) -> Decoded<T>) -> Outcome<T> {
    read(&mut Reader::new(input)).map_err(|_| Errno::INVAL)
}

/// The table's row of a method.
macro_rules! method {
    (read $arguments:ty => $function:path) => {
        $crate::osd::class::method::method!(false, $arguments, $function)
    };
    (write $arguments:ty => $function:path) => {
        $crate::osd::class::method::method!(true, $arguments, $function)
    };
    ($writes:literal, $arguments:ty, $function:path) => {
        $crate::osd::class::method::Entry {
            class: <$arguments as onego_ceph::cls::Method>::CLASS,
            name: <$arguments as onego_ceph::cls::Method>::NAME,
            writes: $writes,
            run: |context, input| $crate::osd::class::method::run::<$arguments>(context, input, $function),
        }
    };
}

pub(super) use method;
