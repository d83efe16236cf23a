use crate::ceph::error::{Errno, Error};
use serde_json::{Map, Value};
use std::fmt;
use std::str::FromStr;

pub(super) struct SpecMembers<'a>(pub(super) &'a Map<String, Value>);

impl<'a> SpecMembers<'a> {
    pub(super) fn of(value: &'a Value) -> Result<Self, Error> {
        value.as_object().map(Self).ok_or_else(|| invalid(format!("{value} is not an object")))
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, Error> {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| invalid(format!("{key:?} is {value}, but must be a string")))
    }

    pub(super) fn needed_text(&self, key: &str) -> Result<&'a str, Error> {
        self.text(key)?.ok_or_else(|| invalid(format!("{key:?} is missing")))
    }

    /// Returns an optional number, which may be written as a string.
    pub(super) fn number<N: FromStr>(&self, key: &str) -> Result<Option<N>, Error> {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        let number = match value {
            Value::String(text) => text.parse().ok(),
            Value::Number(number) => number.to_string().parse().ok(),
            _ => None,
        };
        number.map(Some).ok_or_else(|| invalid(format!("{key:?} is {value}, but must be a number")))
    }
}

pub(super) fn invalid(reason: impl Into<String>) -> Error {
    Error::Invalid(format!("source-spec: {}", reason.into()))
}

/// Creates the error of an unsupported type, with librbd's error number; `there_is` lists the supported ones.
pub(super) fn unsupported(there_is: &str, other: &str) -> Error {
    Error::Unmet { what: format!("source-spec: {there_is}, and not {other:?}"), errno: Errno::NOSYS }
}

pub(super) fn no_object(reason: impl fmt::Display) -> Error {
    Error::Unmet { what: format!("source-spec: not a JSON object: {reason}"), errno: Errno::BADMSG }
}
