//! What of a pool's handle is in flight: for calls that wait until what was begun before them is done.

use super::lock::lock;
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The requests of a handle that are in flight, by number.
#[derive(Default)]
pub(crate) struct Flights {
    state: Mutex<FlightsState>,
    changed: Condvar,
}

#[derive(Default)]
struct FlightsState {
    last: u64,
    active: BTreeSet<u64>,
    /// What is dropped when all up to a number have landed.
    awaited: Vec<(u64, Box<dyn Send>)>,
}

impl FlightsState {
    fn has_landed(&self, number: u64) -> bool {
        self.active.first().is_none_or(|first| *first > number)
    }
}

/// A request in flight. It lands when this is dropped.
pub(crate) struct Flight {
    flights: Arc<Flights>,
    number: u64,
}

impl Flights {
    pub(crate) fn begin(self: &Arc<Self>) -> Flight {
        let mut state = lock(&self.state);
        state.last += 1;
        let number = state.last;
        state.active.insert(number);
        Flight { flights: Arc::clone(self), number }
    }

    /// Waits until all that have begun have landed.
    pub(crate) fn wait(&self) {
        let mut state = lock(&self.state);
        let number = state.last;
        while !state.has_landed(number) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Drops something then: an operation, which completes by that.
    pub(crate) fn drop_then(&self, something: impl Send + 'static) {
        let mut state = lock(&self.state);
        let number = state.last;
        if !state.has_landed(number) {
            state.awaited.push((number, Box::new(something)));
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut state = lock(&self.flights.state);
        state.active.remove(&self.number);
        let awaited = std::mem::take(&mut state.awaited);
        let (landed, awaited): (Vec<_>, Vec<_>) =
            awaited.into_iter().partition(|(number, _)| state.has_landed(*number));
        state.awaited = awaited;
        drop(state);
        self.flights.changed.notify_all();
        drop(landed);
    }
}
