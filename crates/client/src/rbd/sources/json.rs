//! The members of the objects that a source-spec consists of.

use crate::ceph::error::{Errno, Error};
use serde_json::{Map, Value};
use std::fmt;
use std::str::FromStr;

/// An object of a source-spec.
pub(super) struct SpecMembers<'a>(pub(super) &'a Map<String, Value>);

impl<'a> SpecMembers<'a> {
    /// The members of an object.
    pub(super) fn of(value: &'a Value) -> Result<Self, Error> {
        value.as_object().map(Self).ok_or_else(|| invalid(format!("{value} is no object")))
    }

    /// A text, if it is there.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, Error> {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| invalid(format!("{key:?} is {value}, and must be a text")))
    }

    /// A text that must be there.
    pub(super) fn needed_text(&self, key: &str) -> Result<&'a str, Error> {
        self.text(key)?.ok_or_else(|| invalid(format!("{key:?} is missing")))
    }

    /// A number, also as a text, if it is there.
    pub(super) fn number<N: FromStr>(&self, key: &str) -> Result<Option<N>, Error> {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        let number = match value {
            Value::String(text) => text.parse().ok(),
            Value::Number(number) => number.to_string().parse().ok(),
            _ => None,
        };
        number.map(Some).ok_or_else(|| invalid(format!("{key:?} is {value}, and must be a number")))
    }
}

/// What is wrong with a source-spec.
pub(super) fn invalid(reason: impl Into<String>) -> Error {
    Error::Invalid(format!("source-spec: {}", reason.into()))
}

/// A type that Ceph's library may know, and this one does not. `there_is`: those that it knows. The error is that of Ceph's library
/// where it does not know a type.
pub(super) fn unsupported(there_is: &str, other: &str) -> Error {
    Error::Unmet { what: format!("source-spec: {there_is}, and not {other:?}"), errno: Errno::NOSYS }
}

/// A text that is no object in JSON.
pub(super) fn no_object(reason: impl fmt::Display) -> Error {
    Error::Unmet { what: format!("source-spec: it is no object in JSON: {reason}"), errno: Errno::BADMSG }
}
