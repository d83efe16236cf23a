//! Things of ours that a C program holds.

use super::errno::Errno;
use std::ffi::c_void;
use std::sync::Arc;

/// A pointer to a thing of ours, which a program holds by one reference.
#[repr(transparent)]
pub(crate) struct Handle<T>(*const T);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

// SAFETY: it is a reference to a thing that threads may share.
unsafe impl<T: Send + Sync> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Handle<T> {}

impl<T> Handle<T> {
    pub(crate) const NULL: Self = Self(std::ptr::null());

    /// Gives a reference to the program.
    pub(crate) fn give(thing: Arc<T>) -> Self {
        Self(Arc::into_raw(thing))
    }

    /// The handle of a thing that the program holds already.
    pub(crate) fn of(thing: &Arc<T>) -> Self {
        Self(Arc::as_ptr(thing))
    }

    /// Where it points to: a program may have handed over something else.
    pub(crate) fn address(&self) -> usize {
        self.0.addr()
    }

    /// The thing.
    pub(crate) fn get(&self) -> Result<&T, Errno> {
        // SAFETY: the program holds a reference to it for as long as its call lasts, and with it this value.
        unsafe { self.0.as_ref() }.ok_or(Errno::INVAL)
    }

    /// Another reference to the thing.
    pub(crate) fn share(&self) -> Result<Arc<T>, Errno> {
        self.get()?;
        // SAFETY: it is a pointer of `Arc::into_raw`, and the program's reference keeps it alive.
        unsafe { Arc::increment_strong_count(self.0) };
        // SAFETY: the reference that was added is the new value's.
        Ok(unsafe { Arc::from_raw(self.0) })
    }

    /// Takes the program's reference back.
    pub(crate) fn take(self) -> Result<Arc<T>, Errno> {
        self.get()?;
        // SAFETY: it is a pointer of `give`, whose reference the program gives up by its call.
        Ok(unsafe { Arc::from_raw(self.0) })
    }
}

/// A pointer of the program's that we hand back as it is.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opaque(pub(crate) *mut c_void);

// SAFETY: it is never followed here. The program says by handing it over that its callbacks may have it on any thread.
unsafe impl Send for Opaque {}
// SAFETY: as above.
unsafe impl Sync for Opaque {}
