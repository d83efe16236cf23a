//! From the words of a command line to the command that a monitor gets.
//!
//! A command is found as Ceph's `ceph` finds it, so that the same words mean the same: the descriptions that fit most words
//! are tried, those with the fewest demands first.

use super::signature::{Argument, Signature, flag};
use super::value::{ArgumentKind, Unfit};
use serde_json::{Map, Value};
use std::collections::VecDeque;

/// Options that monitors once described as words, and still do.
const CONFIRMATIONS: [&str; 4] = [
    "--yes-i-really-mean-it",
    "--yes-i-really-really-mean-it",
    "--yes-i-really-really-mean-it-not-faking",
    "--force",
];

/// Commands shown where none fits.
const CLOSEST: usize = 10;

/// Why words are no command.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mismatch {
    /// A fixed word differs: this is another command.
    Prefix,
    /// A required word is not there.
    Missing(String),
    /// Fewer words than the command has.
    TooFew,
    /// Words are left, of which one was refused by an argument that need not be there.
    Unused { refused: Option<String>, unused: String },
    /// Any other, in words.
    Wrong(String),
}

/// Finds the command that the words give, or says in lines why there is none.
pub(super) fn command(signatures: &[Signature], words: &[String]) -> Result<Map<String, Value>, String> {
    let mut best = closest(signatures, words);
    let candidates: Vec<_> = best.clone();
    best.sort_by_key(|signature| signature.arguments.iter().filter(|argument| argument.required).count());
    let (mut before, mut said) = (String::new(), None);
    for signature in best {
        match fit(signature, words) {
            Ok(command) => return Ok(command),
            Err(Mismatch::Prefix | Mismatch::TooFew) => {}
            Err(Mismatch::Missing(reason)) => {
                if candidates.len() == 1 {
                    said = Some((signature, reason));
                }
                break;
            }
            Err(Mismatch::Unused { refused, unused }) => {
                before = refused.map(|refused| format!("{refused}\n")).unwrap_or_default();
                said = Some((signature, unused));
                break;
            }
            Err(Mismatch::Wrong(reason)) => {
                said = Some((signature, reason));
                break;
            }
        }
    }
    Err(match said {
        Some((signature, reason)) => {
            format!("{before}Invalid command: {reason}\n{} :  {}", signature.concise(), signature.help)
        }
        None => {
            let is_shown = |signature: &&&Signature| signature.flags & (flag::DEPRECATED | flag::HIDDEN) == 0;
            let shown: Vec<_> =
                candidates.iter().filter(is_shown).take(CLOSEST).map(|one| one.concise()).collect();
            let head = format!("no valid command found; {} closest matches:", shown.len());
            [vec![head], shown].concat().join("\n")
        }
    })
}

/// The commands that fit most words. A last word that is only the begin of one counts a little less.
fn closest<'a>(signatures: &'a [Signature], words: &[String]) -> Vec<&'a Signature> {
    let (mut most, mut best) = (0, Vec::new());
    for signature in signatures.iter().filter(|signature| signature.flags & flag::OBSOLETE == 0) {
        let matched = count(signature, words, true);
        let is_whole = matched >= most / 2 && matched == count(signature, words, false);
        let grade = 2 * matched + usize::from(is_whole);
        if grade > most {
            most = grade;
            best.clear();
        }
        if grade == most {
            best.push(signature);
        }
    }
    best
}

/// How many required arguments the words fit from the first on.
fn count(signature: &Signature, words: &[String], partial: bool) -> usize {
    let mut words: VecDeque<&String> = words.iter().collect();
    let mut matched = 0;
    for argument in &signature.arguments {
        let mut seen = 0;
        while argument.many || seen < argument.count {
            let Some(word) = words.pop_front() else { return matched };
            if values(argument, word, false, partial && words.is_empty()).is_ok() {
                seen += 1;
            } else if argument.required && !(argument.many && seen > 0) {
                return matched;
            } else {
                words.push_front(word);
                break;
            }
        }
        matched += usize::from(argument.required);
    }
    matched
}

/// The values of a word: several, behind commas, where there may be any number.
fn values(argument: &Argument, word: &str, is_named: bool, partial: bool) -> Result<Vec<Value>, Unfit> {
    // Text may have commas of its own.
    if argument.many && (is_named || !matches!(argument.kind, ArgumentKind::Text(_))) {
        return word.split(',').map(|part| argument.kind.value(part, partial)).collect();
    }
    Ok(vec![argument.kind.value(word, partial)?])
}

/// The command as the monitor gets it, if the words are this one.
fn fit(signature: &Signature, words: &[String]) -> Result<Map<String, Value>, Mismatch> {
    let mut fitting = Fitting {
        signature,
        words: words.iter().map(String::as_str).collect(),
        command: Map::new(),
        matched: 0,
        refused: None,
    };
    for argument in &signature.arguments {
        fitting.take(argument)?;
    }
    fitting.finish()
}

/// Words that are being fitted to a command.
struct Fitting<'a> {
    signature: &'a Signature,
    words: VecDeque<&'a str>,
    command: Map<String, Value>,
    /// Words that fitted.
    matched: usize,
    /// What an argument that need not be there did not take.
    refused: Option<String>,
}

impl<'a> Fitting<'a> {
    /// Takes the words of one argument, and named ones of others that stand before them.
    fn take(&mut self, argument: &Argument) -> Result<(), Mismatch> {
        let mut seen = 0;
        while argument.many || seen < argument.count {
            let Some(word) = self.words.pop_front() else { return self.end(argument, seen) };
            if self.take_named(word)? {
                // It stood before this argument, whose turn it still is, or was this one.
                if self.words.is_empty() && self.command.contains_key(&argument.name) {
                    return Ok(());
                }
                continue;
            }
            let may_begin_so =
                matches!(argument.kind, ArgumentKind::Choices(_)) || CONFIRMATIONS.contains(&word);
            if (word.starts_with("--") && !may_begin_so) || !argument.positional {
                return Err(Mismatch::Wrong(format!("Unexpected argument '{word}'")));
            }
            match values(argument, word, false, false) {
                Ok(values) => {
                    seen += 1;
                    self.matched += 1;
                    self.refused = None;
                    self.store(argument, values);
                }
                Err(Unfit(reason)) if !argument.required || (argument.many && seen > 0) => {
                    self.refused = Some(format!("{word} not valid:  {reason}"));
                    self.words.push_front(word);
                    return Ok(());
                }
                Err(_) if matches!(argument.kind, ArgumentKind::Prefix(_)) => return Err(Mismatch::Prefix),
                Err(Unfit(reason)) => return Err(Mismatch::Wrong(reason)),
            }
        }
        Ok(())
    }

    /// There are no more words for an argument.
    fn end(&self, argument: &Argument, seen: usize) -> Result<(), Mismatch> {
        if !argument.required
            || self.command.contains_key(&argument.name) && (seen > 0 || self.is_named(argument))
        {
            return Ok(());
        }
        let shown = argument.described();
        if argument.many {
            return Err(Mismatch::Wrong(format!("saw {seen} of {shown}, expected at least 1")));
        }
        if seen == 0 && argument.count == 1 {
            return Err(Mismatch::Missing(format!("missing required parameter {shown}")));
        }
        Err(Mismatch::Wrong(format!("saw {seen} of {shown}, expected {}", argument.count)))
    }

    fn is_named(&self, argument: &Argument) -> bool {
        !matches!(argument.kind, ArgumentKind::Prefix(_))
    }

    /// Takes a word like `--size=3`, `--size` with the next one, or `--force`. False: it is none of these.
    fn take_named(&mut self, word: &str) -> Result<bool, Mismatch> {
        let Some(named) = word.strip_prefix("--") else { return Ok(false) };
        let (name, value) = match named.split_once('=') {
            Some((name, value)) if !value.is_empty() => (name, Some(value)),
            Some(_) => return Ok(false),
            None => (named, None),
        };
        let name = name.replace('-', "_");
        let is_it =
            |argument: &&Argument| argument.name == name && !matches!(argument.kind, ArgumentKind::Prefix(_));
        let Some(argument) = self.signature.arguments.iter().find(is_it) else { return Ok(false) };
        let value = match value {
            Some(value) => value.to_owned(),
            None if argument.kind == ArgumentKind::Bool => "true".to_owned(),
            None => match self.words.pop_front() {
                Some(next) => next.to_owned(),
                None => return Ok(false),
            },
        };
        let values =
            values(argument, &value, true, false).map_err(|Unfit(reason)| Mismatch::Wrong(reason))?;
        self.matched += 1;
        self.store(argument, values);
        Ok(true)
    }

    fn store(&mut self, argument: &Argument, mut values: Vec<Value>) {
        let earlier = self.command.get_mut(&argument.name);
        match (earlier, &argument.kind) {
            (Some(Value::Array(all)), _) if argument.many => all.append(&mut values),
            (Some(Value::String(prefix)), ArgumentKind::Prefix(word)) => {
                prefix.push(' ');
                prefix.push_str(word);
            }
            _ => {
                let value = if argument.many { Some(Value::Array(values)) } else { values.pop() };
                self.command.insert(argument.name.clone(), value.unwrap_or_default());
            }
        }
    }

    fn finish(self) -> Result<Map<String, Value>, Mismatch> {
        let required = self.signature.arguments.iter().filter(|argument| argument.required).count();
        if self.matched < required {
            return Err(Mismatch::TooFew);
        }
        if self.words.is_empty() {
            return Ok(self.command);
        }
        let left: Vec<String> = self.words.iter().map(|word| format!("'{word}'")).collect();
        let unused = format!("unused arguments: [{}]", left.join(", "));
        Err(Mismatch::Unused { refused: self.refused, unused })
    }
}

#[cfg(test)]
mod tests {
    use super::super::signature;
    use super::*;

    const DESCRIBED: &str = r#"{
        "cmd000": {"sig": ["status"], "help": "show it", "flags": 0},
        "cmd001": {"sig": ["osd", "tree", {"name": "epoch", "type": "CephInt", "range": "0", "req": false}], "help": "the tree"},
        "cmd002": {"sig": ["osd", "pool", "create", {"name": "pool", "type": "CephPoolname"},
            {"name": "pg_num", "type": "CephInt", "range": "0", "req": false},
            {"name": "kind", "type": "CephChoices", "strings": "replicated|erasure", "req": false},
            {"name": "bulk", "type": "CephBool", "req": false}], "help": "make a pool"},
        "cmd003": {"sig": ["osd", "in", {"name": "ids", "type": "CephString", "n": "N"}], "help": "mark in"},
        "cmd004": {"sig": ["osd", "pool", "rm", {"name": "pool", "type": "CephPoolname"},
            {"name": "pool2", "type": "CephPoolname", "req": false},
            {"name": "yes_i_really_really_mean_it", "type": "CephBool", "req": false}], "help": "remove a pool"},
        "cmd005": {"sig": ["osd", "old"], "help": "gone", "flags": 2},
        "cmd006": {"sig": ["pg", "ls", {"name": "states", "type": "CephChoices", "strings": "active|clean", "n": "N", "req": false}],
            "help": "groups"}
    }"#;

    fn found(line: &str) -> Result<String, String> {
        let signatures = signature::parse(DESCRIBED.as_bytes()).unwrap();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        command(&signatures, &words).map(|command| Value::from(command).to_string())
    }

    #[test]
    fn words_become_the_command_that_they_fit() {
        for (line, json) in [
            ("status", r#"{"prefix":"status"}"#),
            ("osd tree", r#"{"prefix":"osd tree"}"#),
            ("osd tree 7", r#"{"epoch":7,"prefix":"osd tree"}"#),
            (
                "osd pool create a 8 erasure",
                r#"{"kind":"erasure","pg_num":8,"pool":"a","prefix":"osd pool create"}"#,
            ),
            ("osd pool create a erasure", r#"{"kind":"erasure","pool":"a","prefix":"osd pool create"}"#),
            (
                "osd pool create a --pg-num 8 --bulk",
                r#"{"bulk":true,"pg_num":8,"pool":"a","prefix":"osd pool create"}"#,
            ),
            ("osd pool create --pg_num=8 a", r#"{"pg_num":8,"pool":"a","prefix":"osd pool create"}"#),
            ("osd in 1 2", r#"{"ids":["1","2"],"prefix":"osd in"}"#),
            ("pg ls active,clean", r#"{"prefix":"pg ls","states":["active","clean"]}"#),
            (
                "osd pool rm a a --yes-i-really-really-mean-it",
                r#"{"pool":"a","pool2":"a","prefix":"osd pool rm","yes_i_really_really_mean_it":true}"#,
            ),
        ] {
            let command = found(line).map(|json| serde_json::from_str::<Value>(&json).unwrap());
            assert_eq!(command, Ok(serde_json::from_str(json).unwrap()), "{line}");
        }
    }

    #[test]
    fn words_that_are_no_command_are_told_why() {
        for (line, said) in [
            (
                "osd tree x",
                "x not valid:  x doesn't represent an int\nInvalid command: unused arguments: ['x']\nosd tree [<epoch:int>] :  the tree",
            ),
            ("osd tree -1", "-1 not valid:  -1 not in range [0]"),
            ("osd pool create", "Invalid command: missing required parameter pool(<poolname>)\n"),
            ("osd pool create a --size 3", "Invalid command: Unexpected argument '--size'\n"),
            ("osd in", "Invalid command: saw 0 of ids(<string>)..., expected at least 1\n"),
            ("bogus", "no valid command found; 6 closest matches:\nstatus\nosd tree [<epoch:int>]\n"),
            ("osd old", "no valid command found; 4 closest matches:\nosd tree"),
        ] {
            let refused = found(line).unwrap_err();
            assert!(refused.starts_with(said), "{line}: {refused}");
        }
    }
}
