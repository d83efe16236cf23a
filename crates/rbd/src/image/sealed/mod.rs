//! What is different where the data of an image is encrypted: it is read and written in whole sectors.
//!
//! A write of whole sectors is encrypted and goes the usual way. One that begins or ends within a sector reads the sector
//! first ([`changes`]); meanwhile no other change of this client touches it (`sealed_state`), and a version keeps those of others
//! from being lost. Reads are cut out of whole sectors ([`reads`]).
//!
//! Zeros are encrypted like other bytes: every other program that knows LUKS has to read them as zeros.
//!
//! Source: ceph `src/librbd/crypto/CryptoObjectDispatch.cc`.

mod changes;
mod reads;
