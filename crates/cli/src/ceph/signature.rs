//! The commands that a monitor has, as it describes them.
//!
//! Source: ceph `doc/dev/ceph_command_api.rst`.

use super::value::ArgumentKind;
use serde_json::{Map, Value};

/// Bits of a command's flags that matter here (`MonCommand::FLAG_*`).
pub(super) mod flag {
    pub(crate) const OBSOLETE: u64 = 1 << 1;
    pub(crate) const DEPRECATED: u64 = 1 << 2;
    pub(crate) const HIDDEN: u64 = 1 << 5;
}

/// A command.
#[derive(Debug, Clone)]
pub(super) struct Signature {
    pub(super) arguments: Vec<Argument>,
    pub(super) help: String,
    pub(super) flags: u64,
}

/// A word of a command, or several.
#[derive(Debug, Clone)]
pub(super) struct Argument {
    pub(super) kind: ArgumentKind,
    pub(super) name: String,
    /// There may be any number of them.
    pub(super) many: bool,
    /// As many there are, where that is said.
    pub(super) count: usize,
    pub(super) required: bool,
    /// It may be a word without its name.
    pub(super) positional: bool,
}

/// Reads the commands that a monitor describes, in its order. Commands with types that are not known are left out: newer
/// monitors may have them.
pub(super) fn parse(described: &[u8]) -> Result<Vec<Signature>, serde_json::Error> {
    let described: Map<String, Value> = serde_json::from_slice(described)?;
    // They are numbered with zeros before, and the numbers say their order.
    Ok(described.values().filter_map(signature).collect())
}

fn signature(described: &Value) -> Option<Signature> {
    let is_for_people = described["avail"].as_str().is_none_or(|avail| avail.contains("cli"));
    let arguments = described["sig"].as_array()?.iter().map(argument).collect::<Option<Vec<_>>>()?;
    is_for_people.then(|| Signature {
        arguments,
        help: described["help"].as_str().unwrap_or_default().to_owned(),
        flags: described["flags"].as_u64().unwrap_or_default(),
    })
}

fn argument(described: &Value) -> Option<Argument> {
    if let Some(prefix) = described.as_str() {
        let (kind, name) = (ArgumentKind::Prefix(prefix.to_owned()), "prefix".to_owned());
        return Some(Argument { kind, name, many: false, count: 1, required: true, positional: true });
    }
    let fields = described.as_object()?;
    // Truth is said in several ways.
    let is_true = |name: &str| match fields.get(name) {
        None => true,
        Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
        Some(value) => value.as_bool().unwrap_or(true),
    };
    let n = fields.get("n");
    let many = n.and_then(Value::as_str).is_some_and(|n| n.eq_ignore_ascii_case("n"));
    let count = n.and_then(|n| n.as_u64().or_else(|| n.as_str()?.parse().ok())).unwrap_or(1);
    Some(Argument {
        kind: ArgumentKind::parse(fields)?,
        name: fields.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        many,
        count: usize::try_from(count).unwrap_or(1),
        required: is_true("req"),
        positional: is_true("positional"),
    })
}

impl Signature {
    /// The command as people type it.
    pub(super) fn concise(&self) -> String {
        self.arguments.iter().map(Argument::usage).collect::<Vec<_>>().join(" ")
    }
}

impl Argument {
    /// The argument as it stands in a command's usage.
    fn usage(&self) -> String {
        let (name, kind) = (&self.name, &self.kind);
        let chunk = match kind {
            ArgumentKind::Bool => format!("--{}", name.replace('_', "-")),
            ArgumentKind::Prefix(prefix) => prefix.clone(),
            ArgumentKind::Choices(_) if !self.positional => format!("--{name} {{{kind}}}"),
            ArgumentKind::Choices(choices) if choices.len() == 1 => kind.to_string(),
            ArgumentKind::Choices(_) if name == "format" => format!("--{name} {{{kind}}}"),
            ArgumentKind::Choices(_) => format!("<{name}:{kind}>"),
            ArgumentKind::OsdName if self.positional => "<id|osd.id>".to_owned(),
            ArgumentKind::Name if self.positional => "<type.id>".to_owned(),
            ArgumentKind::Int(_) if self.positional => format!("<{name}:int>"),
            ArgumentKind::Float(_) if self.positional => format!("<{name}:float>"),
            _ if self.positional => format!("<{name}>"),
            ArgumentKind::OsdName => format!("--{name} <id|osd.id>"),
            ArgumentKind::Name => format!("--{name} <type.id>"),
            ArgumentKind::Int(_) => format!("--{name} <int>"),
            ArgumentKind::Float(_) => format!("--{name} <float>"),
            _ => format!("--{name} <value>"),
        };
        let dots = if self.many { "..." } else { "" };
        if self.required { format!("{chunk}{dots}") } else { format!("[{chunk}{dots}]") }
    }

    /// The argument as it stands in a sentence about it.
    pub(super) fn described(&self) -> String {
        let is_word = match &self.kind {
            ArgumentKind::Prefix(_) => true,
            ArgumentKind::Choices(choices) => choices.len() == 1,
            _ => false,
        };
        let dots = if self.many && !is_word { "..." } else { "" };
        let text =
            if is_word { self.kind.to_string() } else { format!("{}({}){dots}", self.name, self.kind) };
        if self.required { text } else { format!("[{text}]") }
    }
}
