//! One open image.
//!
//! [`machine`] has the state and the inputs. `reads`, `changes`, `ancestry` (a parent's bytes) and `copyup` process callers'
//! requests; `refresh`, `lock`, `notifications`, `map` and `resize` keep the header, the lock and the object map up to date;
//! `work` depends on the layer that drives the machine, and `sealed` handles encrypted data. `running`, `lock_state`,
//! `map_state`, `sealed_state` and `state` hold the state of these.

mod ancestry;
mod changes;
mod copyup;
mod end;
mod lock;
mod lock_state;
mod machine;
mod map;
mod map_state;
mod notifications;
mod reads;
mod refresh;
mod refresh_state;
mod resize;
mod running;
mod sealed;
mod sealed_state;
mod state;
#[cfg(test)]
mod tests;
mod work;

pub use lock::LockOwner;
pub use lock_state::LockWait;
pub use machine::OpenImage;
pub use map::LOCK_NAME;
pub use state::pauses::PauseKind;
