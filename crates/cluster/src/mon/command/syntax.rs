//! How a command is written: its words, and the arguments behind them.

use super::call::{Asked, Audience, Call, CommandOutcome, Format};
use crate::mon::monitor::Mon;
use crate::mon::refusal::Refusal;
use onego_ceph::caps::MonAccess;
use serde_json::{Map, Value};

/// A command: its words, what comes behind them, and what it does.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) words: &'static str,
    pub(super) args: &'static [Arg],
    pub(super) help: &'static str,
    /// Does it change the cluster?
    pub(super) changes: bool,
    /// May what it is given be in no log?
    pub(super) is_secret: bool,
    pub(super) run: fn(&mut Mon, &Call<'_>) -> CommandOutcome,
}

impl Command {
    /// Does it concern the daemon that the audience is?
    pub(super) fn is_for(&self, audience: Audience) -> bool {
        audience != Audience::Manager || (!self.changes && matches!(self.service(), "pg" | "osd"))
    }

    /// What a user's right to the command is counted by: its first word, as far as there is such a service.
    pub(super) fn service(&self) -> &'static str {
        const SERVICES: [&str; 8] = ["osd", "pg", "mgr", "auth", "config", "config-key", "mds", "fs"];
        self.words.split(' ').next().filter(|word| SERVICES.contains(word)).unwrap_or("mon")
    }

    /// What somebody must be allowed towards that service. Keys are seen by those alone who may execute.
    pub(super) fn access(&self) -> MonAccess {
        let write = if self.changes { MonAccess::WRITE } else { MonAccess::READ };
        let execute = if self.service() == "auth" { MonAccess::EXECUTE } else { MonAccess::READ };
        MonAccess::READ.and(write).and(execute)
    }
}

/// An argument.
#[derive(Debug)]
pub(super) struct Arg {
    pub(super) name: &'static str,
    pub(super) kind: ArgKind,
    pub(super) required: bool,
    /// Takes all words that follow.
    pub(super) many: bool,
}

/// What an argument may be.
#[derive(Debug, Clone, Copy)]
pub(super) enum ArgKind {
    Text,
    Int {
        min: i64,
    },
    Float,
    /// A number from 0 to 1.
    Share,
    Bool,
    Choices(&'static str),
    Pool,
    Object,
    Address,
    Pg,
    /// A daemon or client.
    Entity,
}

pub(super) const fn arg(name: &'static str, kind: ArgKind) -> Arg {
    Arg { name, kind, required: true, many: false }
}

pub(super) const fn opt(name: &'static str, kind: ArgKind) -> Arg {
    Arg { name, kind, required: false, many: false }
}

pub(super) const fn many(name: &'static str, kind: ArgKind) -> Arg {
    Arg { name, kind, required: false, many: true }
}

pub(super) const fn show(
    words: &'static str,
    args: &'static [Arg],
    help: &'static str,
    run: fn(&mut Mon, &Call<'_>) -> CommandOutcome,
) -> Command {
    Command { words, args, help, changes: false, is_secret: false, run }
}

pub(super) const fn change(
    words: &'static str,
    args: &'static [Arg],
    help: &'static str,
    run: fn(&mut Mon, &Call<'_>) -> CommandOutcome,
) -> Command {
    Command { words, args, help, changes: true, is_secret: false, run }
}

/// A change whose arguments are in no log.
pub(super) const fn secret(
    words: &'static str,
    args: &'static [Arg],
    help: &'static str,
    run: fn(&mut Mon, &Call<'_>) -> CommandOutcome,
) -> Command {
    Command { is_secret: true, ..change(words, args, help, run) }
}

impl Command {
    /// The command with these arguments, all of the kind that its description says.
    pub(super) fn call<'a>(
        &self,
        mut fields: Map<String, Value>,
        format: Format,
        asked: &Asked<'a>,
    ) -> Result<Call<'a>, Refusal> {
        fields.retain(|_, value| !value.is_null());
        for arg in self.args {
            match fields.get_mut(arg.name) {
                Some(value) => check_value(arg, value)?,
                None if arg.required => {
                    return Err(Refusal::invalid(format!("'{}' needs '{}'", self.words, arg.name)));
                }
                None => {}
            }
        }
        let &Asked { now, usage, cap, caller, input, .. } = asked;
        Ok(Call { now, usage, format, cap, caller, input, fields })
    }
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
