use crate::geometry::Geometry;
use crate::request::Request;
use onego_wire::Time;
use std::rc::Rc;

/// A block device.
///
/// Every submitted request completes exactly once, by its [`Caller`](crate::Caller), whenever the device is done with
/// it: immediately, or later when the machine below has a result. Overlapping requests in flight may be executed in any
/// order. A device refuses requests that its geometry does not allow; callers need not check first.
pub trait Device {
    /// Returns the current geometry.
    fn geometry(&self) -> Geometry;

    /// Starts a request.
    fn submit(&self, now: Time, request: Request);

    /// Returns whether the device ever waits for a time. Only such devices are asked when they are [due](Self::due_at),
    /// so that thousands of others cost nothing while they are idle.
    fn keeps_time(&self) -> bool {
        false
    }

    /// Returns the latest time for the next call of [`due`](Self::due); `None` if the device waits for no time.
    fn due_at(&self) -> Option<Time> {
        None
    }

    /// Handles the passing of time.
    fn due(&self, _now: Time) {}
}

impl<D: Device + ?Sized> Device for Rc<D> {
    fn geometry(&self) -> Geometry {
        (**self).geometry()
    }

    fn submit(&self, now: Time, request: Request) {
        (**self).submit(now, request);
    }

    fn keeps_time(&self) -> bool {
        (**self).keeps_time()
    }

    fn due_at(&self) -> Option<Time> {
        (**self).due_at()
    }

    fn due(&self, now: Time) {
        (**self).due(now);
    }
}
