//! Devices that wrap another device.

mod counted;
mod faulty;
mod limited;
mod split;
mod volatile;

pub use counted::{Counted, Counters};
pub use faulty::{Faults, Faulty};
pub use limited::{Limit, Limited, Rate};
pub use split::Split;
pub use volatile::Volatile;
