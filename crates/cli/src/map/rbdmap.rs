//! The list of images to be mapped when a machine starts, `/etc/ceph/rbdmap` (ceph `doc/man/8/rbdmap.rst`).
//!
//! A line is an image, and parameters by which it is mapped: `pool/image id=user,keyring=/etc/ceph/user.keyring,options='ro'`.

use std::fmt;

/// An image of the list, as options of this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// `[POOL/[NAMESPACE/]]IMAGE`.
    pub(super) image: String,
    /// What comes before `map`.
    pub(super) access: Vec<String>,
    /// What comes behind it.
    pub(super) options: Vec<String>,
}

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadLine {
    number: usize,
    why: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.number, self.why)
    }
}

/// Reads the list.
pub(super) fn parse(text: &str) -> Result<Vec<Entry>, BadLine> {
    let lines = text.lines().enumerate();
    let lines = lines.map(|(at, line)| (at + 1, line.trim()));
    let entries = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    entries.map(|(number, line)| entry(line).map_err(|why| BadLine { number, why })).collect()
}

fn entry(line: &str) -> Result<Entry, String> {
    let (image, parameters) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let mut entry = Entry { image: image.to_owned(), access: Vec::new(), options: Vec::new() };
    for parameter in split(parameters.trim())? {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = value.trim_matches('\'');
        match name {
            "id" | "user" | "name" | "keyring" | "keyfile" | "conf" => {
                entry.access.extend([format!("--{name}"), value.to_owned()]);
            }
            "cluster" => entry.access.extend(["--cluster-name".to_owned(), value.to_owned()]),
            "options" => value.split(',').for_each(|option| entry.option(option)),
            "read-only" | "ro" => entry.option("ro"),
            _ => return Err(format!("{name:?} is no parameter that is known here")),
        }
    }
    Ok(entry)
}

impl Entry {
    /// An option of the kernel's own client, as far as it says something here.
    fn option(&mut self, option: &str) {
        match option.split_once('=').unwrap_or((option, "")) {
            ("ro", _) => self.options.push("--read-only".to_owned()),
            ("queue_depth", depth) => self.options.extend(["--depth".to_owned(), depth.to_owned()]),
            _ => tracing::info!(image = self.image, option, "an option that says nothing here"),
        }
    }
}

/// The parts between commas that are in no quotes.
fn split(parameters: &str) -> Result<Vec<&str>, String> {
    let mut parts = Vec::new();
    let (mut from, mut quoted) = (0, false);
    for (at, c) in parameters.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            ',' if !quoted => {
                parts.push(&parameters[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if quoted {
        return Err("a quote has no end".to_owned());
    }
    parts.push(&parameters[from..]);
    parts.retain(|part| !part.is_empty());
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_images_with_parameters() {
        let text = "\
# RbdDevice             Parameters
#poolname/imagename     id=client,keyring=/etc/ceph/ceph.client.keyring

foo/bar1     id=admin,keyring=/etc/ceph/ceph.client.admin.keyring
foo/ns/bar2\tid=admin,options='ro,queue_depth=64,lock_on_read'
bar3
";
        let entries = parse(text).unwrap();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(entries[0].image, "foo/bar1");
        let keyring = ["--id", "admin", "--keyring", "/etc/ceph/ceph.client.admin.keyring"];
        assert_eq!(entries[0].access, words(&keyring));
        assert_eq!(entries[1].access, words(&["--id", "admin"]));
        assert_eq!(entries[1].options, words(&["--read-only", "--depth", "64"]));
        assert_eq!(entries[2], Entry { image: "bar3".into(), access: vec![], options: vec![] });
        assert_eq!(entries.len(), 3);
    }

    #[test]
    fn what_cannot_be_read_is_named_by_its_line() {
        let refused = parse("\nfoo/bar id=admin,colour=red").unwrap_err();
        assert_eq!(refused.to_string(), "line 2: \"colour\" is no parameter that is known here");
        assert!(parse("foo/bar options='ro").unwrap_err().to_string().contains("quote"));
    }
}
