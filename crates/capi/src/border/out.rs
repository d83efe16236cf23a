//! Memory of the program's that is read or written during its call, or until what it began has completed.

use super::errno::Errno;
use super::handle::Handle;
use onego_buf::{Segment, SegmentMut};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory with values that are read.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> In<T> {
    pub(crate) fn at(ptr: *const T) -> Self {
        Self(ptr)
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The value, if it is not null.
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: the program gives a pointer to such a value, or null.
        unsafe { self.0.as_ref() }
    }

    /// Those before the first that is the end.
    pub(crate) fn until(&self, is_end: impl Fn(&T) -> bool) -> &[T] {
        if self.0.is_null() {
            return &[];
        }
        let mut len = 0;
        // SAFETY: the program gives values up to one that is the end, and there was none before this one.
        while !is_end(unsafe { &*self.0.wrapping_add(len) }) {
            len += 1;
        }
        // SAFETY: they were looked at one by one.
        unsafe { std::slice::from_raw_parts(self.0, len) }
    }

    /// The memory, to be freed.
    pub(crate) fn ptr(&self) -> *mut c_void {
        self.0.cast_mut().cast()
    }

    /// `len` of them; none may be null.
    pub(crate) fn slice(&self, len: usize) -> Result<&[T], Errno> {
        if len == 0 {
            return Ok(&[]);
        }
        if self.0.is_null() || len.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize)
        {
            return Err(Errno::INVAL);
        }
        // SAFETY: the program gives `len` values, and leaves them alone while its call lasts.
        Ok(unsafe { std::slice::from_raw_parts(self.0, len) })
    }
}

impl In<u8> {
    /// The same memory, where its size says what lies there.
    pub(crate) fn cast<T>(&self) -> In<T> {
        In(self.0.cast())
    }

    /// Bytes of ours that a program reads during its call.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(bytes.as_ptr())
    }

    /// `len` bytes, which stay the library's until `lender` is dropped.
    pub(crate) fn lend(&self, len: usize, lender: impl Send + Sync + 'static) -> Result<Segment, Errno> {
        self.slice(len)?;
        let ptr = NonNull::new(self.0.cast_mut()).unwrap_or(NonNull::dangling());
        // SAFETY: the program leaves what it wants written alone until the request has completed; `lender` is what
        // completes it.
        Ok(unsafe { Segment::lent(ptr, len, lender) })
    }
}

impl<T> Out<Handle<T>> {
    /// Gives the program a reference to a thing. Null is an error, and the thing is gone.
    pub(crate) fn give(&self, thing: Arc<T>) -> Result<(), Errno> {
        if self.is_null() {
            return Err(Errno::INVAL);
        }
        self.set(Handle::give(thing))
    }
}

/// Memory that is written to.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

// SAFETY: the program leaves the memory to the library until what it began has completed, on whatever thread.
unsafe impl<T> Send for Out<T> {}
// SAFETY: as above; nothing is read through it.
unsafe impl<T> Sync for Out<T> {}

impl<T> Out<T> {
    pub(crate) const NULL: Self = Self(std::ptr::null_mut());

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Sets it; null is an error.
    pub(crate) fn set(&self, value: T) -> Result<(), Errno> {
        if self.0.is_null() {
            return Err(Errno::INVAL);
        }
        self.set_if_wanted(value);
        Ok(())
    }

    /// Sets it, if it is not null.
    pub(crate) fn set_if_wanted(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: the program gives room for such a value. What was there is not looked at.
            unsafe { self.0.write(value) };
        }
    }

    /// What is there.
    pub(crate) fn read(&self) -> Result<T, Errno>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the program gives a value that is read and written.
        Ok(unsafe { self.0.read() })
    }

    /// Copies the values to the memory, which has room for `room` of them.
    pub(crate) fn copy(&self, values: &[T], room: usize) -> Result<(), Errno>
    where
        T: Copy,
    {
        if values.len() > room {
            return Err(Errno::RANGE);
        }
        if values.is_empty() {
            return Ok(());
        }
        if self.0.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the program gives room for `room` values, and there are no more.
        unsafe { self.0.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        Ok(())
    }
}

impl Out<u8> {
    /// `len` bytes to be filled, which stay the library's until `lender` is dropped.
    pub(crate) fn lend(&self, len: usize, lender: impl Send + Sync + 'static) -> Result<SegmentMut, Errno> {
        if (self.0.is_null() && len > 0) || len > isize::MAX as usize {
            return Err(Errno::INVAL);
        }
        let ptr = NonNull::new(self.0).unwrap_or(NonNull::dangling());
        // SAFETY: the program leaves what it wants filled alone until the request has completed; `lender` is what
        // completes it.
        Ok(unsafe { SegmentMut::lent(ptr, len, lender) })
    }

    /// Copies bytes, with a zero behind them.
    pub(crate) fn copy_text(&self, text: &[u8], room: usize) -> Result<(), Errno> {
        self.copy(&[text, b"\0"].concat(), room)
    }
}

/// Copies `values` where there is room for `*room`, and says in `room` how many there are.
pub(crate) fn fill<T: Copy>(out: Out<T>, room: Out<usize>, values: &[T]) -> Result<(), Errno> {
    let there_is = room.read()?;
    room.set(values.len())?;
    out.copy(values, there_is)
}
