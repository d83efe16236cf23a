//! What the simulated exports store their bytes on.

use onego_block::{Completions, Device, Faults, Faulty, Geometry, Op, Outcome, Request, Volatile};
use onego_wire::Time;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::rc::Rc;
use std::time::Duration;

/// A storage of that many bytes. Each other one takes small requests alone, so that larger ones become several.
pub(crate) fn storage(random: &mut SmallRng, size: u64) -> Rc<Volatile> {
    let mut geometry = Geometry::new(size);
    if random.random_bool(0.5) {
        geometry.max_io = random.random_range(1..8) * 1024;
    }
    Rc::new(Volatile::new(geometry))
}

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
