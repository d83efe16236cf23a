//! Lists that are given to a program in its own memory.

use crate::border::{Errno, Out};
use onego_wire::text::to_bytes;
use std::ffi::c_int;

/// How programs count: what a list has room for, and then how many there are.
pub(super) trait Count: Copy {
    fn of(count: usize) -> Self;
    fn count(self) -> Result<usize, Errno>;
}

impl Count for usize {
    fn of(count: usize) -> Self {
        count
    }

    fn count(self) -> Result<usize, Errno> {
        Ok(self)
    }
}

impl Count for c_int {
    fn of(count: usize) -> Self {
        Self::try_from(count).unwrap_or(Self::MAX)
    }

    fn count(self) -> Result<usize, Errno> {
        usize::try_from(self).map_err(|_| Errno::INVAL)
    }
}

/// Gives what `make` makes of each of `all` where there is room for `*most`, and says in `most` how many there are. Where there is
/// no room, nothing is made, and ERANGE says so.
pub(super) fn give<S, T: Copy>(
    out: Out<T>,
    most: Out<impl Count>,
    all: &[S],
    make: impl FnMut(&S) -> Result<T, Errno>,
) -> Result<(), Errno> {
    let room = most.read()?.count()?;
    most.set(Count::of(all.len()))?;
    if all.len() > room {
        return Err(Errno::RANGE);
    }
    out.copy(&all.iter().map(make).collect::<Result<Vec<_>, _>>()?, room)
}

/// Names one after another, each with a zero.
pub(super) fn joined(names: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<u8> {
    joined_values(names.into_iter().map(|name| to_bytes(name.as_ref()).into_owned()))
}

/// Values one after another, each with a zero.
pub(super) fn joined_values(values: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<u8> {
    let mut all = Vec::new();
    for value in values {
        all.extend_from_slice(value.as_ref());
        all.push(0);
    }
    all
}

/// ERANGE unless the program's structure has the size that ours has.
pub(super) fn check_size<T>(size: usize) -> Result<(), Errno> {
    if size == size_of::<T>() { Ok(()) } else { Err(Errno::RANGE) }
}
