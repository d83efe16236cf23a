use onego_wire::{Machine, NoConnections};

/// A machine that serves devices to clients.
pub trait Export: Machine {
    /// Returns whether devices have completed requests that the export has not processed. If so, its driver asks for
    /// its next action before a sleep.
    fn has_completions(&self) -> bool;
}

/// An export without clients, for a program that uses the devices of a host itself.
impl Export for NoConnections {
    fn has_completions(&self) -> bool {
        false
    }
}
