//! One open image.
//!
//! [`machine`] has the state and the inputs. What happens to a request of a caller is in `reads`, `changes`, `ancestry`
//! (bytes that a parent has) and `copyup`; what keeps the image's header, lock and object map true is in `refresh`,
//! `lock`, `notifications`, `map` and `resize`; `work` is what takes the help of the layer that drives the machine, and `sealed`
//! is what is different for encrypted data. `running`, `lock_state`, `map_state`, `sealed_state` and `state` are the data of
//! these.

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
