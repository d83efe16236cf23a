use onego_wire::{Machine, Time};

/// A machine that carries out the requests of devices: the client of a cluster or of a server, or threads that read and
/// write files. It is driven together with the export of the devices, on one thread.
pub trait Backend: Machine {
    /// Have devices passed on requests that the machine has not looked at? Whatever drives it then asks it for its next
    /// action before it sleeps.
    fn has_work(&self) -> bool;

    /// Ends it: further requests fail, and it begins to give up what its peer would otherwise keep.
    fn leave(&mut self, _now: Time) {}

    /// Is there still something that the peer keeps?
    fn is_leaving(&self) -> bool {
        false
    }
}
