//! Object classes: code that an OSD runs next to an object, called by [`Op::Call`].
//!
//! Each method is a structure of its arguments that names its reply. A client builds the operation with
//! [`Method::call`] and decodes its output with [`Method::reply`]; an OSD decodes the same structure.
//!
//! Sources: ceph `src/cls/lock`, `src/cls/rbd`, `src/objclass`.

pub mod lock;
pub mod rbd;

use crate::ops::Op;
use onego_buf::List;
use onego_msgr::encoding::{Decode, Encode};
use onego_wire::{Decoded, Reader};

/// Method of an object class, with its arguments.
///
/// Arguments and replies have no envelope of their own: later releases append to them, so bytes after the last known
/// field are ignored.
pub trait Method: Encode + Decode {
    /// Name of the class.
    const CLASS: &'static str;
    /// Name of the method within the class.
    const NAME: &'static str;
    /// Output of the method.
    type Reply: Encode + Decode;

    /// Returns the operation that calls the method.
    fn call(&self) -> Op {
        Op::Call {
            class: Self::CLASS.to_owned(),
            method: Self::NAME.to_owned(),
            input: self.to_bytes().into(),
        }
    }

    /// Decodes the output of the operation.
    fn reply(output: &List) -> Decoded<Self::Reply> {
        Self::Reply::decode(&mut Reader::new(&output.to_segment()))
    }
}

/// Decodes a field, or uses its default if the writer did not know it.
macro_rules! read_field {
    ($r:ident, $type:ty) => {
        <$type as onego_msgr::encoding::Decode>::decode($r)?
    };
    ($r:ident, $type:ty, $default:expr) => {
        if $r.is_empty() { $default } else { <$type as onego_msgr::encoding::Decode>::decode($r)? }
    };
}

/// Defines a structure whose fields follow each other on the wire, within an envelope if a version is given. A field
/// with a default may be missing at the end.
macro_rules! structure {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty $(= $default:expr)?),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $($(#[$doc])* pub $field: $type),* }

        impl onego_msgr::encoding::Encode for $name {
            fn encode(&self, _w: &mut onego_wire::Writer) {
                $(onego_msgr::encoding::Encode::encode(&self.$field, _w);)*
            }
        }

        impl onego_msgr::encoding::Decode for $name {
            fn decode(_r: &mut onego_wire::Reader<'_>) -> onego_wire::Decoded<Self> {
                Ok(Self { $($field: $crate::cls::read_field!(_r, $type $(, $default)?)),* })
            }
        }
    };
    ($(#[$meta:meta])* $name:ident v $version:literal { $($(#[$doc:meta])* $field:ident: $type:ty $(= $default:expr)?),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $($(#[$doc])* pub $field: $type),* }

        impl onego_msgr::encoding::Encode for $name {
            fn encode(&self, w: &mut onego_wire::Writer) {
                onego_msgr::encoding::write_envelope(w, $version, 1, |_w| {
                    $(onego_msgr::encoding::Encode::encode(&self.$field, _w);)*
                });
            }
        }

        impl onego_msgr::encoding::Decode for $name {
            fn decode(r: &mut onego_wire::Reader<'_>) -> onego_wire::Decoded<Self> {
                onego_msgr::encoding::envelope(r, $version, stringify!($name), |_, _r| {
                    Ok(Self { $($field: $crate::cls::read_field!(_r, $type $(, $default)?)),* })
                })
            }
        }
    };
}

/// Defines methods of a class: name on the wire, arguments, reply.
macro_rules! methods {
    ($class:literal: $($(#[$meta:meta])* $method:literal $name:ident $(v $version:literal)? { $($fields:tt)* } -> $reply:ty;)*) => {$(
        $crate::cls::structure! { $(#[$meta])* $name $(v $version)? { $($fields)* } }

        impl $crate::cls::Method for $name {
            const CLASS: &'static str = $class;
            const NAME: &'static str = $method;
            type Reply = $reply;
        }
    )*};
}

pub(crate) use {methods, read_field, structure};
