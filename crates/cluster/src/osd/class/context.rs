//! What methods see of their object and their caller.

use crate::osd::errno::{Errno, Outcome};
use crate::osd::session::Origin;
use crate::osd::transaction::Editor;
use onego_buf::{List, Segment};
use onego_ceph::types::Utime;
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::{Reader, text};
use std::ops::Bound::{Excluded, Unbounded};

/// What a method sees: its object and its caller.
pub(crate) struct Context<'a> {
    pub(crate) state: Editor<'a>,
    pub(crate) now: Utime,
    pub(crate) origin: &'a Origin,
    pub(crate) zeros: &'a Segment,
    pub(crate) changed: bool,
    pub(crate) removed: bool,
    /// What the method returns beside its reply, as a number that is not negative.
    pub(crate) number: i32,
    /// Returned although the method fails.
    pub(crate) error_output: Vec<u8>,
    /// Number of the operation within its request.
    pub(crate) index: usize,
}

/// How many entries a caller wants that asks for `max`.
pub(super) fn at_most(max: u64) -> usize {
    usize::try_from(max).unwrap_or(usize::MAX)
}

impl Context<'_> {
    pub(super) fn changes(&mut self) {
        self.state.create();
        self.changed = true;
    }

    pub(super) fn must_exist(&self) -> Outcome<()> {
        if self.state.exists { Ok(()) } else { Err(Errno::NOENT) }
    }

    /// The value of a key of the object's map.
    pub(super) fn raw(&self, key: &str) -> Outcome<&[u8]> {
        self.state.meta().omap().get(&*text::to_bytes(key)).map(Vec::as_slice).ok_or(Errno::NOENT)
    }

    /// The value of a key, decoded. EIO: it is something else.
    pub(super) fn get<T: Decode>(&self, key: &str) -> Outcome<T> {
        T::decode(&mut Reader::new(self.raw(key)?)).map_err(|_| Errno::IO)
    }

    /// The value of a key, if it is there.
    pub(super) fn get_opt<T: Decode>(&self, key: &str) -> Outcome<Option<T>> {
        match self.get(key) {
            Ok(value) => Ok(Some(value)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn set<T: Encode>(&mut self, key: &str, value: &T) {
        self.set_raw(key, value.to_bytes());
    }

    pub(super) fn set_raw(&mut self, key: &str, value: Vec<u8>) {
        self.changes();
        self.state.omap_set(text::to_bytes(key).into_owned(), value);
    }

    /// Removes a key. ENOENT: the object does not exist; a key that does not is no error.
    pub(super) fn unset(&mut self, key: &str) -> Outcome<()> {
        self.must_exist()?;
        self.changes();
        self.state.omap_remove(&text::to_bytes(key));
        Ok(())
    }

    /// Removes a key that may not be there, and neither may the object.
    pub(super) fn unset_if_there(&mut self, key: &str) {
        if self.raw(key).is_ok() {
            self.changes();
            self.state.omap_remove(&text::to_bytes(key));
        }
    }

    /// Keys that start with `prefix` behind `prefix` + `after`, without the prefix, and their values.
    pub(super) fn entries<'a>(
        &'a self,
        prefix: &'static str,
        after: &str,
    ) -> impl Iterator<Item = (String, &'a [u8])> + use<'a> {
        let start = [prefix.as_bytes(), &text::to_bytes(after)].concat();
        let range = self.state.meta().omap().range::<[u8], _>((Excluded(&start[..]), Unbounded));
        range.map_while(move |(key, value)| {
            let name = key.strip_prefix(prefix.as_bytes())?;
            Some((text::from_bytes(name).into_owned(), value.as_slice()))
        })
    }

    /// The object is gone.
    pub(super) fn remove(&mut self) {
        self.state.delete();
        self.changed = true;
        self.removed = true;
    }

    /// The object's data.
    pub(super) fn read_all(&self) -> Vec<u8> {
        self.state.read(0, self.state.size, self.zeros).to_vec()
    }

    /// Makes `data` the object's data.
    pub(super) fn write_all(&mut self, data: Vec<u8>) {
        self.changes();
        self.state.truncate(0);
        self.state.write(0, List::from(data));
    }
}
