//! Encrypted images: data is read and written in whole sectors.
//!
//! A write of whole sectors is encrypted and sent as usual. One that starts or ends within a sector reads the sector
//! first ([`changes`]); meanwhile no other change of this client touches it (`sealed_state`), and an object version guards
//! against changes of other clients. Reads are cut out of whole sectors ([`reads`]).
//!
//! Zeros are encrypted like other bytes: every other LUKS implementation must read them as zeros.
//!
//! Source: ceph `src/librbd/crypto/CryptoObjectDispatch.cc`.

mod changes;
mod reads;
