//! What a word of a command may be, as the monitor describes it.
//!
//! Sources: the descriptions that monitors of Ceph 16.2 to 20.2 give (`get_command_descriptions`), and
//! ceph `doc/dev/ceph_command_api.rst`, 'Types'.

use serde_json::{Map, Value};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The type of an argument, with its bounds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ArgumentKind {
    /// A fixed word of the command's name.
    Prefix(String),
    Int(Vec<i64>),
    Float(Vec<f64>),
    /// Text; empty: of any characters.
    Text(Vec<char>),
    Choices(Vec<String>),
    Bool,
    /// Like `osd.3`, or `*`.
    Name,
    /// Like `3` or `osd.3`, or `*`.
    OsdName,
    Pgid,
    Address,
    /// An address, and the number of a process behind it.
    EntityAddress,
    Uuid,
    /// Text of which nothing is known here; how it is called in sentences.
    Other(&'static str),
}

/// Why a word does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unfit(pub(super) String);

fn unfit<T>(said: impl Into<String>) -> Result<T, Unfit> {
    Err(Unfit(said.into()))
}

impl ArgumentKind {
    /// Reads a type from its description; `None`: there is no such type.
    pub(super) fn parse(description: &Map<String, Value>) -> Option<Self> {
        let text = |name: &str| description.get(name).and_then(Value::as_str).unwrap_or_default();
        let parts = |name: &str| text(name).split('|').filter(|part| !part.is_empty()).map(str::to_owned);
        Some(match text("type") {
            "CephInt" => Self::Int(parts("range").filter_map(|part| part.parse().ok()).collect()),
            "CephFloat" => Self::Float(parts("range").filter_map(|part| part.parse().ok()).collect()),
            "CephString" => Self::Text(characters(text("goodchars"))),
            "CephChoices" => Self::Choices(parts("strings").collect()),
            "CephBool" => Self::Bool,
            "CephName" => Self::Name,
            "CephOsdName" => Self::OsdName,
            "CephPgid" => Self::Pgid,
            "CephIPAddr" => Self::Address,
            "CephEntityAddr" => Self::EntityAddress,
            "CephUUID" => Self::Uuid,
            "CephPoolname" => Self::Other("<poolname>"),
            "CephObjectname" => Self::Other("<objectname>"),
            "CephFilepath" => Self::Other("<outfilename>"),
            "CephFragment" => Self::Other("<CephFS fragment ID (0xvvv/bbb)>"),
            "CephSocketpath" => Self::Other("<admin-socket-path>"),
            _ => return None,
        })
    }

    /// The word as a value of the command. A word may be the begin of what it stands for if `partial` is set.
    pub(super) fn value(&self, word: &str, partial: bool) -> Result<Value, Unfit> {
        match self {
            Self::Prefix(prefix) if word == prefix || (partial && prefix.starts_with(word)) => {
                Ok(word.into())
            }
            Self::Prefix(_) => unfit(format!("no match for {word}")),
            Self::Int(range) => within(int(word)?, range).map(Value::from),
            Self::Float(range) => {
                let value = word.parse::<f64>();
                let value = value.or_else(|_| unfit(format!("{word} doesn't represent a float")))?;
                within(value, range).map(Value::from)
            }
            Self::Text(allowed) => match word.chars().find(|c| !allowed.is_empty() && !allowed.contains(c)) {
                Some(_) => {
                    let others: String = word.chars().filter(|c| !allowed.contains(c)).collect();
                    unfit(format!("invalid chars {others} in {word}"))
                }
                None => Ok(word.into()),
            },
            Self::Choices(choices) => {
                let fits = |choice: &String| choice == word || (partial && choice.starts_with(word));
                match choices.iter().any(fits) {
                    true => Ok(word.into()),
                    false => unfit(format!("{word} not in {self}")),
                }
            }
            Self::Bool => match word.to_lowercase().as_str() {
                "true" | "1" => Ok(true.into()),
                "false" | "0" => Ok(false.into()),
                _ => unfit(format!("{word} not one of 'true', 'false'")),
            },
            Self::Name => name(word),
            Self::OsdName => osd_name(word),
            Self::Pgid => pgid(word),
            Self::Address => address(word).map(|()| word.into()),
            Self::EntityAddress => entity_address(word),
            Self::Uuid => match is_uuid(word) {
                true => Ok(word.into()),
                false => unfit(format!("invalid UUID {word}: badly formed hexadecimal UUID string")),
            },
            Self::Other(_) => Ok(word.into()),
        }
    }
}

/// The characters of a class like `[A-Za-z0-9-_.]`.
fn characters(class: &str) -> Vec<char> {
    let class: Vec<char> = class.trim_start_matches('[').trim_end_matches(']').chars().collect();
    let (mut all, mut at) = (Vec::new(), 0);
    while at < class.len() {
        match class[at..] {
            [first, '-', last, ..] => {
                all.extend(first..=last);
                at += 3;
            }
            [one, ..] => {
                all.push(one);
                at += 1;
            }
            [] => {}
        }
    }
    all
}

fn within<T: PartialOrd + fmt::Debug>(value: T, range: &[T]) -> Result<T, Unfit> {
    let fits =
        range.first().is_none_or(|least| value >= *least) && range.get(1).is_none_or(|most| value <= *most);
    if fits { Ok(value) } else { unfit(format!("{value:?} not in range {range:?}")) }
}

/// A number with or without a sign, decimal, or with 0x, 0o or 0b before it.
fn int(word: &str) -> Result<i64, Unfit> {
    let trimmed = word.trim();
    let (negative, digits) = match trimmed.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let lower = digits.to_lowercase();
    let parsed = match lower.get(..2) {
        Some("0x") => i64::from_str_radix(&lower[2..], 16),
        Some("0o") => i64::from_str_radix(&lower[2..], 8),
        Some("0b") => i64::from_str_radix(&lower[2..], 2),
        _ if digits.starts_with(['+', '-']) => "".parse(),
        // Leading zeros would be octal elsewhere, so they are refused.
        _ if digits.len() > 1 && digits.starts_with('0') && !digits.trim_matches('0').is_empty() => {
            "".parse()
        }
        _ => digits.parse(),
    };
    match parsed {
        Ok(value) => Ok(if negative { -value } else { value }),
        Err(_) => unfit(format!("{word} doesn't represent an int")),
    }
}

fn name(word: &str) -> Result<Value, Unfit> {
    if matches!(word, "*" | "mgr" | "mon") {
        return Ok(word.into());
    }
    let Some((kind, id)) = word.split_once('.') else {
        return unfit(format!("CephName: no . in {word}"));
    };
    match kind {
        "osd" if id != "*" && id.parse::<u32>().is_err() => unfit(format!("osd id {id} not integer")),
        "osd" | "mon" | "client" | "mds" | "mgr" => Ok(word.into()),
        _ => unfit(format!("unknown type {kind}")),
    }
}

fn osd_name(word: &str) -> Result<Value, Unfit> {
    if word == "*" {
        return Ok(word.into());
    }
    let (kind, id) = word.split_once('.').unwrap_or(("osd", word));
    if kind != "osd" {
        return unfit(format!("unknown type {kind}"));
    }
    match id.parse::<i64>() {
        Err(_) => unfit(format!("osd id {id} not integer")),
        Ok(id @ ..0) => unfit(format!("osd id {id} is less than 0")),
        Ok(id) => Ok(id.into()),
    }
}

fn pgid(word: &str) -> Result<Value, Unfit> {
    let Some((pool, group)) = word.split_once('.') else { return unfit("pgid has no .") };
    match pool.parse::<i64>() {
        Err(_) => unfit(format!("pool {pool} not integer")),
        Ok(pool @ ..0) => unfit(format!("pool {pool} < 0")),
        Ok(_) if u64::from_str_radix(group, 16).is_err() => unfit(format!("pgnum {group} not hex integer")),
        Ok(_) => Ok(word.into()),
    }
}

/// An address with or without a port.
fn address(word: &str) -> Result<(), Unfit> {
    let word = ["v1:", "v2:", "any:"].iter().find_map(|kind| word.strip_prefix(kind)).unwrap_or(word);
    let port = |port: &str| match port.parse::<u16>() {
        Ok(_) => Ok(()),
        Err(_) => unfit(format!("{port} not a valid port number")),
    };
    if let Some(rest) = word.strip_prefix('[') {
        let Some((inside, rest)) = rest.split_once(']') else {
            return unfit(format!("{word} missing terminating ]"));
        };
        if inside.parse::<Ipv6Addr>().is_err() {
            return unfit(format!("{word} not valid IPv6 address"));
        }
        return rest.strip_prefix(':').map_or(Ok(()), port);
    }
    if word.contains('.') {
        let (host, behind) = word.split_once(':').map_or((word, None), |(host, port)| (host, Some(port)));
        if host.parse::<Ipv4Addr>().is_err() {
            return unfit(format!("{host}: invalid IPv4 address"));
        }
        return behind.map_or(Ok(()), port);
    }
    if word.parse::<Ipv6Addr>().is_ok() { Ok(()) } else { unfit(format!("{word} not valid IPv6 address")) }
}

fn entity_address(word: &str) -> Result<Value, Unfit> {
    let (host, nonce) = word.split_once('/').map_or((word, None), |(host, nonce)| (host, Some(nonce)));
    address(host)?;
    match nonce.filter(|nonce| nonce.parse::<u64>().is_err()) {
        Some(nonce) => unfit(format!("{word}: invalid entity, nonce {nonce} not integer > 0")),
        None => Ok(word.into()),
    }
}

fn is_uuid(word: &str) -> bool {
    let digits: Vec<char> = word.chars().filter(|c| !matches!(c, '-' | '{' | '}')).collect();
    digits.len() == 32 && digits.iter().all(char::is_ascii_hexdigit)
}

impl fmt::Display for ArgumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn range<T: fmt::Debug>(bounds: &[T]) -> String {
            match bounds {
                [] => String::new(),
                [least] => format!("[{least:?}-]"),
                [least, most, ..] => format!("[{least:?}-{most:?}]"),
            }
        }
        match self {
            Self::Prefix(prefix) => f.write_str(prefix),
            Self::Int(bounds) => write!(f, "<int{}>", range(bounds)),
            Self::Float(bounds) => write!(f, "<float{}>", range(bounds)),
            Self::Text(_) => f.write_str("<string>"),
            Self::Choices(choices) => f.write_str(&choices.join("|")),
            Self::Bool => f.write_str("<bool>"),
            Self::Name => f.write_str("<name (type.id)>"),
            Self::OsdName => f.write_str("<osdname (id|osd.id)>"),
            Self::Pgid => f.write_str("<pgid>"),
            Self::Address => f.write_str("<IPaddr[:port]>"),
            Self::EntityAddress => f.write_str("<EntityAddr>"),
            Self::Uuid => f.write_str("<uuid>"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kind(description: Value) -> ArgumentKind {
        ArgumentKind::parse(description.as_object().unwrap()).unwrap()
    }

    #[test]
    fn numbers_are_read_and_held_to_their_range() {
        let kind = kind(json!({"type": "CephInt", "range": "1|100"}));
        assert_eq!(kind.value("0x10", false), Ok(json!(16)));
        assert_eq!(kind.value("101", false), unfit("101 not in range [1, 100]"));
        for text in ["", "x", "010", "--1", "1.5", "-"] {
            assert_eq!(kind.value(text, false), unfit(format!("{text} doesn't represent an int")));
        }
    }

    #[test]
    fn characters_outside_of_a_class_are_named() {
        let kind = kind(json!({"type": "CephString", "goodchars": "[A-Za-z0-9-_.]"}));
        assert_eq!(kind.value("a-Z_9.", false), Ok(json!("a-Z_9.")));
        assert_eq!(kind.value("a b", false), unfit("invalid chars   in a b"));
    }

    #[test]
    fn names_of_daemons_groups_and_addresses_are_held_to_their_form() {
        for (kind, good, bad) in [
            (
                ArgumentKind::Name,
                &["*", "mgr", "osd.3", "mon.a", "osd.*"][..],
                &["osd", "osd.x", "cat.1"][..],
            ),
            (ArgumentKind::OsdName, &["3", "osd.3", "*"], &["-1", "mon.1", "x"]),
            (ArgumentKind::Pgid, &["1.a", "10.1f"], &["1", "x.1", "-1.0", "1.x"]),
            (
                ArgumentKind::Address,
                &["1.2.3.4", "1.2.3.4:6789", "[::1]:3", "v2:1.2.3.4", "::1"],
                &["1.2.3", "[::1", "x"],
            ),
            (ArgumentKind::EntityAddress, &["1.2.3.4:0/17", "1.2.3.4"], &["1.2.3.4:0/x", "1.2.3.4:99999/1"]),
            (ArgumentKind::Uuid, &["c1b41468-6376-41f8-b434-bd2a04d89900"], &["c1b41468", ""]),
        ] {
            good.iter().for_each(|word| assert!(kind.value(word, false).is_ok(), "{kind}: {word}"));
            bad.iter().for_each(|word| assert!(kind.value(word, false).is_err(), "{kind}: {word}"));
        }
    }
}
