use crate::geometry::Geometry;
use crate::request::Request;
use onego_wire::Time;
use std::rc::Rc;

/// A block device.
///
/// Every request that is submitted completes exactly once, by its [`Caller`](crate::Caller), whenever the device is done with
/// it: at once, or later when the machine below has an answer. Two requests that overlap and are in flight together may be
/// carried out in any order. A device refuses what its geometry does not allow; its callers need not look first.
pub trait Device {
    /// What a caller has to know of it, now.
    fn geometry(&self) -> Geometry;

    /// Starts a request.
    fn submit(&self, now: Time, request: Request);

    /// May it ever wait for the time? Only such a device is asked when it is [due](Self::due_at), so that thousands of
    /// others cost nothing while they are idle.
    fn keeps_time(&self) -> bool {
        false
    }

    /// When [`due`](Self::due) wants to be called, at the latest. A device that waits for nothing now has none.
    fn due_at(&self) -> Option<Time> {
        None
    }

    /// Time has passed, maybe up to that.
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
