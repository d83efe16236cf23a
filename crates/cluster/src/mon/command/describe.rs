//! What commands there are, as the `ceph` program wants to know it before it sends one.
//!
//! Source: ceph `src/pybind/ceph_argparse.py`, `parse_json_funcsigs`; `src/common/cmdparse.cc`,
//! `dump_cmddesc_to_json`.

use super::call::Audience;
use super::syntax::{Arg, ArgKind, Command};
use super::table::COMMANDS;
use serde_json::{Map, Value, json};

/// All commands that the audience knows. None has the flag that sends it to a manager: here the monitor knows it all.
pub(super) fn descriptions(audience: Audience) -> String {
    let known = COMMANDS.iter().filter(|command| command.is_for(audience));
    let all: Map<String, Value> =
        known.enumerate().map(|(n, command)| (format!("cmd{n:03}"), describe(command))).collect();
    Value::Object(all).to_string()
}

fn describe(command: &Command) -> Value {
    let words = command.words.split(' ').map(Value::from);
    let signature: Vec<Value> = words.chain(command.args.iter().map(describe_arg)).collect();
    json!({
        "sig": signature,
        "help": command.help,
        "module": command.service(),
        "perm": command.access().to_string(),
        "flags": 0,
    })
}

fn describe_arg(arg: &Arg) -> Value {
    let mut fields = Map::new();
    fields.insert("name".into(), arg.name.into());
    let kind = match arg.kind {
        ArgKind::Text => "CephString",
        ArgKind::Int { .. } => "CephInt",
        ArgKind::Float | ArgKind::Share => "CephFloat",
        ArgKind::Bool => "CephBool",
        ArgKind::Choices(_) => "CephChoices",
        ArgKind::Pool => "CephPoolname",
        ArgKind::Object => "CephObjectname",
        ArgKind::Address => "CephEntityAddr",
        ArgKind::Pg => "CephPgid",
        ArgKind::Entity => "CephString",
    };
    fields.insert("type".into(), kind.into());
    match arg.kind {
        ArgKind::Choices(choices) => drop(fields.insert("strings".into(), choices.into())),
        ArgKind::Share => drop(fields.insert("range".into(), "0.0|1.0".into())),
        ArgKind::Int { min } => drop(fields.insert("range".into(), min.to_string().into())),
        _ => {}
    }
    if arg.many {
        fields.insert("n".into(), "N".into());
    }
    if !arg.required {
        // The program compares with this text.
        fields.insert("req".into(), "false".into());
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_described_with_its_words_and_arguments() {
        let all: Value = serde_json::from_str(&descriptions(Audience::Cluster)).unwrap();
        assert_eq!(all.as_object().unwrap().len(), COMMANDS.len());
        let create = all.as_object().unwrap().values().find(|one| one["sig"][2] == "create").unwrap();
        assert_eq!(create["sig"][3], json!({"name": "pool", "type": "CephPoolname"}));
        assert_eq!(
            create["sig"][4],
            json!({"name": "pg_num", "type": "CephInt", "range": "0", "req": "false"})
        );
        assert_eq!((&create["module"], &create["perm"]), (&json!("osd"), &json!("rw")));
    }
}
