//! One open image.
//!
//! [`machine`] has the state and the inputs. What happens to a request of a caller is in `reads`, `changes`, `ancestry`
//! (bytes that a parent has) and `copyup`; what keeps the image's header, lock and object map true is in `refresh`,
//! `lock`, `notifications`, `map` and `resize`; `work` is what takes the help of the layer that drives the machine. `running`,
//! `lock_state`, `map_state` and `state` are the data of these.

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
mod state;
#[cfg(test)]
mod tests;
mod work;

pub use machine::OpenImage;
