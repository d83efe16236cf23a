use onego_wire::{Machine, NoConnections};

/// A machine that serves devices to clients.
pub trait Export: Machine {
    /// Has a device completed requests that the export has not looked at? Whatever drives it then asks it for its next
    /// action before it sleeps.
    fn has_completions(&self) -> bool;
}

/// An export without clients, for a program that uses the devices of a host itself.
impl Export for NoConnections {
    fn has_completions(&self) -> bool {
        false
    }
}
