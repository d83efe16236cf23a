//! What an image does with the help of the layer that drives it: operations that others ask for, pauses for them, and copies of
//! objects of an image that is being moved here.

mod migration;
mod operations;
mod pause;
