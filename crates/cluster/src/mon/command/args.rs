//! A command's arguments, checked.

use super::table::{Arg, ArgKind, Command};
use super::{Asked, Caller, Refusal, Reply};
use crate::mon::usage::Usage;
use onego_buf::List;
use onego_wire::Time;
use serde::Serialize as _;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

/// How the output is to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Plain,
    Json,
    JsonPretty,
}

impl Format {
    pub(super) fn of(field: Option<Value>) -> Result<Self, Refusal> {
        match field.as_ref().map(|value| value.as_str().unwrap_or_default()) {
            None | Some("plain" | "") => Ok(Self::Plain),
            Some("json") => Ok(Self::Json),
            Some("json-pretty") => Ok(Self::JsonPretty),
            Some(other) => Err(Refusal::invalid(format!(
                "format '{other}' is not known here; the formats are plain, json and json-pretty"
            ))),
        }
    }
}

/// A command with its arguments, all of the kind that its description says.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) now: Time,
    pub(crate) usage: &'a Usage,
    pub(crate) format: Format,
    pub(crate) caller: &'a Caller,
    /// What `ceph -i FILE` sent along.
    pub(crate) input: &'a List,
    fields: Map<String, Value>,
}

impl<'a> Call<'a> {
    pub(super) fn check(
        command: &Command,
        mut fields: Map<String, Value>,
        format: Format,
        asked: &Asked<'a>,
    ) -> Result<Self, Refusal> {
        fields.retain(|_, value| !value.is_null());
        for arg in command.args {
            match fields.get_mut(arg.name) {
                Some(value) => check_value(arg, value)?,
                None if arg.required => {
                    return Err(Refusal::invalid(format!("'{}' needs '{}'", command.words, arg.name)));
                }
                None => {}
            }
        }
        let &Asked { now, usage, caller, input, .. } = asked;
        Ok(Self { now, usage, format, caller, input, fields })
    }

    /// A text that may be left out.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.as_str()
    }

    /// A text that was required.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// A whole number that may be left out.
    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        self.fields.get(name)?.as_i64()
    }

    /// A number that may be left out.
    pub(crate) fn float(&self, name: &str) -> Option<f64> {
        self.fields.get(name)?.as_f64()
    }

    /// Texts, as many as were given.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let texts = self.fields.get(name).and_then(Value::as_array).into_iter().flatten();
        texts.filter_map(|text| Some(text.as_str()?.to_owned())).collect()
    }

    /// A switch.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.fields.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The reply in the form that was asked for.
    pub(crate) fn show(&self, json: &Value, plain: impl Into<String>) -> Reply {
        let output = match self.format {
            Format::Plain => plain.into().into_bytes(),
            Format::Json => json.to_string().into_bytes(),
            Format::JsonPretty => pretty(json).into_bytes(),
        };
        Reply { status: String::new(), output }
    }

    /// A reply that is JSON for people too.
    pub(crate) fn show_json(&self, json: &Value) -> Reply {
        match self.format {
            Format::Plain => self.show(json, pretty(json)),
            _ => self.show(json, ""),
        }
    }
}

/// One object with the fields of all parts, in their order.
pub(super) fn joined(parts: impl IntoIterator<Item = Value>) -> Value {
    let fields = parts.into_iter().flat_map(|part| match part {
        Value::Object(fields) => fields,
        _ => Map::new(),
    });
    Value::Object(fields.collect())
}

/// JSON as Ceph indents it.
pub(super) fn pretty(json: &Value) -> String {
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"    "));
    json.serialize(&mut serializer).expect("a JSON value is written to memory");
    text.push(b'\n');
    String::from_utf8(text).expect("JSON is UTF-8")
}

/// Checks one argument, and puts what programs write in several ways in one.
fn check_value(arg: &Arg, value: &mut Value) -> Result<(), Refusal> {
    let wrong = |expected: &str, value: &Value| {
        Refusal::invalid(format!("'{}' must be {expected}, not {value}", arg.name))
    };
    if arg.many && !value.is_array() {
        *value = Value::Array(vec![value.take()]);
    }
    match arg.kind {
        _ if arg.many => {
            for item in value.as_array_mut().into_iter().flatten() {
                if let Some(number) = item.as_i64() {
                    *item = number.to_string().into();
                }
            }
            let texts = value.as_array().into_iter().flatten().all(Value::is_string);
            if texts { Ok(()) } else { Err(wrong("a list of texts", value)) }
        }
        ArgKind::Int { min } => {
            if let Some(number) = value.as_str().and_then(|text| text.parse::<i64>().ok()) {
                *value = number.into();
            }
            match value.as_i64() {
                Some(number) if number >= min => Ok(()),
                _ => Err(wrong(&format!("a whole number from {min} on"), value)),
            }
        }
        ArgKind::Float => {
            if let Some(number) = value.as_str().and_then(|text| text.parse::<f64>().ok()) {
                *value = number.into();
            }
            if value.is_number() { Ok(()) } else { Err(wrong("a number", value)) }
        }
        ArgKind::Share => match value.as_f64().or_else(|| value.as_str()?.parse().ok()) {
            Some(number) if (0.0..=1.0).contains(&number) => {
                *value = number.into();
                Ok(())
            }
            _ => Err(wrong("a number from 0 to 1", value)),
        },
        ArgKind::Bool => {
            // Old programs give the option itself as a text.
            let text = value.as_str().map(|text| text == "true" || text.starts_with("--"));
            match text.or(value.as_bool()) {
                Some(set) => *value = set.into(),
                None => return Err(wrong("true or false", value)),
            }
            Ok(())
        }
        ArgKind::Choices(choices) => match value.as_str() {
            Some(text) if choices.split('|').any(|choice| choice == text) => Ok(()),
            _ => Err(wrong(&format!("one of {choices}"), value)),
        },
        ArgKind::Text
        | ArgKind::Pool
        | ArgKind::Object
        | ArgKind::Address
        | ArgKind::Pg
        | ArgKind::Entity => {
            // The program gives some of these as numbers if they look like one.
            if let Some(number) = value.as_i64() {
                *value = number.to_string().into();
            }
            if value.is_string() { Ok(()) } else { Err(wrong("a text", value)) }
        }
    }
}
