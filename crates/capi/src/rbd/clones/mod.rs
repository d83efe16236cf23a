//! Clones, their parents, and their end.

mod children;
mod clone;
mod flatten;
mod linked;
mod parent;
