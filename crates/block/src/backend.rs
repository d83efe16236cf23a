use onego_wire::{Machine, Time};

/// A machine that executes the requests of devices: the client of a cluster or of a server, or threads that read and
/// write files. It is driven together with the export of the devices, on one thread.
pub trait Backend: Machine {
    /// Returns whether devices have passed on requests that the machine has not processed. If so, its driver asks for
    /// its next action before a sleep.
    fn has_work(&self) -> bool;

    /// Shuts the machine down: further requests fail, and it starts to release what its peer holds for it.
    fn leave(&mut self, _now: Time) {}

    /// Returns whether the peer still holds something.
    fn is_leaving(&self) -> bool {
        false
    }
}
