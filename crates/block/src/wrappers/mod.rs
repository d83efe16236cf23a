//! Devices that wrap a device.

mod counted;
mod faulty;
mod limited;
mod volatile;

pub use counted::{Counted, Counters};
pub use faulty::{Faults, Faulty};
pub use limited::{Limit, Limited, Rate};
pub use volatile::Volatile;
