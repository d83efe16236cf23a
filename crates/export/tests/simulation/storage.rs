//! What the simulated exports store their bytes on.

use onego_block::{Completions, Device, Faults, Faulty, Op, Outcome, Request, Volatile};
use onego_wire::Time;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::rc::Rc;
use std::time::Duration;

/// A device that may fail, of that storage.
pub(crate) fn failing_device(random: &mut SmallRng, storage: &Rc<Volatile>) -> Rc<Faulty<Rc<Volatile>>> {
    let mut faults = SmallRng::seed_from_u64(random.random());
    let none = Faults { failing: 0.0, delay: Duration::ZERO };
    Rc::new(Faulty::new(Rc::clone(storage), move || faults.random(), none))
}

/// All bytes of a storage that answers at once.
pub(crate) fn contents(storage: &dyn Device) -> Vec<u8> {
    let completions = Completions::default();
    let geometry = storage.geometry();
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < geometry.size {
        let length = geometry.max_io.min(geometry.size - bytes.len() as u64);
        let read = Request::new(completions.caller(0), bytes.len() as u64, Op::Read { length });
        storage.submit(Time::default(), read);
        match completions.take().expect("it answers at once").result {
            Ok(Outcome::Data(data)) => bytes.extend(data.to_vec()),
            other => panic!("{other:?}"),
        }
    }
    bytes
}
