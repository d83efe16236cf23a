//! Parser of `ceph.conf`: sections of settings, with variables.
//!
//! Source: ceph `doc/rados/configuration/ceph-conf.rst`; `src/common/ConfUtils.cc`, `src/common/config.cc` (expansion of
//! variables).

use std::collections::HashMap;

pub(crate) const MAX_LEN: u64 = 16 << 20;

/// Most nested levels of settings that refer to others.
const MAX_DEPTH: usize = 8;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ConfFile {
    sections: HashMap<String, HashMap<String, String>>,
}

impl ConfFile {
    /// Parses a file's text. Errors name the line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut file = Self::default();
        let mut section = None;
        for (number, line) in joined_lines(text) {
            let line = line.trim();
            let wrong = |what: &str| format!("line {number}: {what}");
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(rest) = line.strip_prefix('[') {
                let (name, rest) = rest.split_once(']').ok_or_else(|| wrong("a section's name has no ]"))?;
                if !uncommented(rest).is_empty() {
                    return Err(wrong("unexpected text after a section's name"));
                }
                let name = name.trim().to_owned();
                section = Some(file.sections.entry(name).or_default());
                continue;
            }
            let Some(section) = &mut section else {
                return Err(wrong("a setting must be in a section: begin with [global]"));
            };
            let (name, value) = line.split_once('=').ok_or_else(|| wrong("expected `NAME = VALUE`"))?;
            let value = read_value(value).ok_or_else(|| wrong("unclosed quotes"))?;
            // The last line of a name takes precedence.
            section.insert(normal(name), value);
        }
        Ok(file)
    }

    pub(crate) fn get(&self, section: &str, name: &str) -> Option<&str> {
        Some(self.sections.get(section)?.get(name)?.as_str())
    }

    /// Returns the names of the sections that begin with `prefix`, in order.
    pub(crate) fn sections_of(&self, prefix: &str) -> impl Iterator<Item = &str> {
        let names = self.sections.keys().map(String::as_str).filter(|name| name.starts_with(prefix));
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names.into_iter()
    }
}

/// Normalizes a setting's name, whose words may be separated by blanks, dashes or underscores.
pub(crate) fn normal(name: &str) -> String {
    let words = name.split(|c: char| c.is_whitespace() || matches!(c, '-' | '_'));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}

/// Joins lines that end in a backslash with the next; yields each with the number of its first line.
fn joined_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut lines = text.lines().enumerate();
    std::iter::from_fn(move || {
        let (at, first) = lines.next()?;
        let mut line = first.to_owned();
        while let Some(begun) = line.strip_suffix('\\') {
            line = begun.to_owned() + lines.next().map_or("", |(_, line)| line);
        }
        Some((at + 1, line))
    })
}

fn uncommented(text: &str) -> &str {
    text.split(['#', ';']).next().unwrap_or_default().trim()
}

/// Reads a value in quotes, or up to a comment; a backslash escapes the comment sign. Returns `None` if quotes are
/// unclosed.
fn read_value(text: &str) -> Option<String> {
    let text = text.trim();
    for quote in ['"', '\''] {
        if let Some(rest) = text.strip_prefix(quote) {
            let (value, rest) = rest.split_once(quote)?;
            return uncommented(rest).is_empty().then(|| value.to_owned());
        }
    }
    let mut value = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '#' | ';' => break,
            '\\' if matches!(chars.peek(), Some('#' | ';' | '\\' | '"' | '\'')) => value.extend(chars.next()),
            c => value.push(c),
        }
    }
    Some(value.trim_end().to_owned())
}

/// Expands variables, `$name` or `${name}`, with `lookup`; unknown ones stay unchanged.
pub(crate) fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> String {
    expand_to(text, lookup, MAX_DEPTH)
}

fn expand_to(text: &str, lookup: &dyn Fn(&str) -> Option<String>, depth: usize) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded += before;
        let name_end = |text: &str| text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, behind) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some(found) => found,
            None => after.split_at(name_end(after).unwrap_or(after.len())),
        };
        let named = &rest[before.len()..rest.len() - behind.len()];
        match lookup(name).filter(|_| depth > 0) {
            Some(value) => expanded += &expand_to(&value, lookup, depth - 1),
            None => expanded += named,
        }
        rest = behind;
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_ceph_reads_them() {
        let text = "\
# a comment
; another
[global]
\tfsid = 1
\tmon host = [v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0] ; behind a value
  log-file = /var/log/a\\#b.log # the rest
keyring = \"/etc/ceph/with ; sign\" # quoted
long = one \\
  two
empty =
twice = 1
twice = 2
[client.a] # who
auth_client required = none
[global]
later = yes
";
        let file = ConfFile::parse(text).unwrap();
        for (section, name, value) in [
            ("global", "fsid", "1"),
            ("global", "mon_host", "[v2:127.0.0.1:3300/0,v1:127.0.0.1:6789/0]"),
            ("global", "log_file", "/var/log/a#b.log"),
            ("global", "keyring", "/etc/ceph/with ; sign"),
            ("global", "long", "one   two"),
            ("global", "empty", ""),
            ("global", "twice", "2"),
            ("global", "later", "yes"),
            ("client.a", "auth_client_required", "none"),
        ] {
            assert_eq!(file.get(section, name), Some(value), "{section} {name}");
        }
        assert_eq!(file.get("client", "fsid"), None);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, said) in [
            ("a = 1\n", "line 1: a setting must be in a section"),
            ("[global]\n\nwhat\n", "line 3: expected `NAME = VALUE`"),
            ("[global\n", "line 1: a section's name has no ]"),
            ("[a] b\n", "line 1: unexpected text after"),
            ("[a]\nb = \"c\n", "line 2: unclosed quotes"),
        ] {
            let error = ConfFile::parse(text).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn variables_are_expanded_in_both_notations() {
        let lookup = |name: &str| match name {
            "cluster" => Some("ceph".to_owned()),
            "name" => Some("$type.$id".to_owned()),
            "type" => Some("client".to_owned()),
            "id" => Some("a".to_owned()),
            "loop" => Some("$loop".to_owned()),
            _ => None,
        };
        for (text, expanded) in [
            ("/etc/ceph/$cluster.$name.keyring", "/etc/ceph/ceph.client.a.keyring"),
            ("${cluster}_x", "ceph_x"),
            ("$unknown/$", "$unknown/$"),
            ("${cluster", "${cluster"),
            ("$loop", "$loop"),
        ] {
            assert_eq!(expand(text, &lookup), expanded);
        }
    }
}
