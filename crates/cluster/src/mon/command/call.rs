//! A command as it is called, and its reply.

use crate::mon::refusal::Refusal;
use crate::mon::usage::Usage;
use onego_buf::List;
use onego_ceph::caps::MonCap;
use onego_ceph::types::EntityName;
use onego_msgr::Peer;
use onego_msgr::addr::AddrVec;
use onego_msgr::auth::AuthName;
use onego_wire::Time;
use serde::Serialize as _;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

/// What a command gave.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// What to tell the user beside the output.
    pub(crate) status: String,
    pub(crate) output: Vec<u8>,
}

impl Reply {
    /// A change was made, or there was none to make.
    pub(crate) fn done(status: impl Into<String>) -> Self {
        Self { status: status.into(), output: Vec::new() }
    }

    pub(crate) fn with_status(mut self, status: impl Into<String>) -> Self {
        self.status = status.into();
        self
    }
}

pub(crate) type CommandOutcome = Result<Reply, Refusal>;

/// What comes with a command.
pub(crate) struct Asked<'a> {
    pub(crate) now: Time,
    pub(crate) usage: &'a Usage,
    /// The capabilities of the client that gives it.
    pub(crate) cap: &'a MonCap,
    pub(crate) caller: &'a Caller,
    pub(crate) audience: Audience,
    /// What `ceph -i FILE` sends along.
    pub(crate) input: &'a List,
}

/// Whom a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// The cluster, as its monitors speak for it.
    Cluster,
    /// The monitor as a daemon (`ceph tell mon.a`).
    Monitor,
    /// The manager: it shows placement groups and OSDs, and changes nothing.
    Manager,
}

/// The client that gives a command.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    pub(crate) name: AuthName,
    pub(crate) rank: EntityName,
    pub(crate) addrs: AddrVec,
}

impl Caller {
    /// The client of a session. The default if the session is gone.
    pub(crate) fn of(peer: Option<&Peer>) -> Self {
        let Some(peer) = peer else { return Self::default() };
        Self { name: peer.auth_name.clone().unwrap_or_default(), rank: peer.name, addrs: peer.addrs.clone() }
    }
}

/// How the output is to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Plain,
    Json,
    JsonPretty,
}

impl Format {
    pub(crate) fn of(field: Option<Value>) -> Result<Self, Refusal> {
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
    /// The capabilities of the caller.
    pub(crate) cap: &'a MonCap,
    pub(crate) caller: &'a Caller,
    /// What `ceph -i FILE` sent along.
    pub(crate) input: &'a List,
    pub(super) fields: Map<String, Value>,
}

impl Call<'_> {
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
pub(crate) fn joined(parts: impl IntoIterator<Item = Value>) -> Value {
    let fields = parts.into_iter().flat_map(|part| match part {
        Value::Object(fields) => fields,
        _ => Map::new(),
    });
    Value::Object(fields.collect())
}

/// JSON as Ceph indents it.
pub(crate) fn pretty(json: &Value) -> String {
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"    "));
    json.serialize(&mut serializer).expect("a JSON value is written to memory");
    text.push(b'\n');
    String::from_utf8(text).expect("JSON is UTF-8")
}
