//! Capabilities for monitors.
//!
//! Source: ceph `src/mon/MonCap.cc`; `doc/rados/operations/user-management.rst`, "Monitor Caps".

use super::error::CapError;
use super::network::Network;
use super::scan::{Scanner, parse_grants};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// Kinds of access, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MonAccess(u8);

impl MonAccess {
    /// Read access.
    pub const READ: Self = Self(1);
    /// Write access.
    pub const WRITE: Self = Self(2);
    /// Access to keys.
    pub const EXECUTE: Self = Self(4);
    /// Access of any kind, present or future: `*`.
    const ANY: Self = Self(u8::MAX);
    const ALL: Self = Self(1 | 2 | 4);

    /// Returns the union.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

impl fmt::Display for MonAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [(Self::READ, "r"), (Self::WRITE, "w"), (Self::EXECUTE, "x")];
        letters
            .into_iter()
            .filter(|(access, _)| self.has(*access))
            .try_for_each(|(_, letter)| f.write_str(letter))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Constraint {
    Equal(String),
    Prefix(String),
    /// An address with a nonce: it identifies one client, rather than all clients of an address
    /// (`^[^/]+/[0-9]+$` in Ceph's profiles).
    OneClient,
}

impl Constraint {
    fn holds(&self, value: &str) -> bool {
        match self {
            Self::Equal(expected) => value == expected,
            Self::Prefix(prefix) => value.starts_with(prefix),
            Self::OneClient => value.split_once('/').is_some_and(|(addr, nonce)| {
                !addr.is_empty() && !nonce.is_empty() && nonce.bytes().all(|c| c.is_ascii_digit())
            }),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    Everything,
    /// Commands and maps of a service: "osd", "mon", "auth", ...
    Service(String),
    Command {
        words: String,
        args: BTreeMap<String, Constraint>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Grant {
    scope: Scope,
    access: MonAccess,
    network: Option<Network>,
}

impl Grant {
    fn new(scope: Scope, access: MonAccess) -> Self {
        Self { scope, access, network: None }
    }

    fn service(name: &str, access: MonAccess) -> Self {
        Self::new(Scope::Service(name.to_owned()), access)
    }

    fn command(words: &str, args: impl IntoIterator<Item = (&'static str, Constraint)>) -> Self {
        let args = args.into_iter().map(|(name, constraint)| (name.to_owned(), constraint)).collect();
        Self::new(Scope::Command { words: words.to_owned(), args }, MonAccess::ALL)
    }

    fn is_everything(&self) -> bool {
        self.scope == Scope::Everything && self.access == MonAccess::ANY
    }

    /// Returns the access that the grant allows to a command of a service.
    fn allowed(&self, service: &str, command: &str, args: &BTreeMap<String, String>) -> MonAccess {
        let holds = match &self.scope {
            // Only `*` reveals stored secrets (MonCapGrant::get_allowed).
            Scope::Everything => service != "config-key",
            Scope::Service(name) => name == service,
            Scope::Command { words, args: constraints } => {
                let fits = |(name, constraint): (&String, &Constraint)| {
                    args.get(name).is_some_and(|value| constraint.holds(value))
                };
                words == command && constraints.iter().all(fits)
            }
        };
        if holds { self.access } else { MonAccess::default() }
    }
}

/// Capabilities of a user for monitors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MonCap {
    grants: Vec<Grant>,
}

impl MonCap {
    /// Returns capabilities for everything.
    pub fn everything() -> Self {
        Self { grants: vec![Grant::new(Scope::Everything, MonAccess::ANY)] }
    }

    /// Parses the argument of `ceph auth caps NAME mon`.
    pub fn parse(text: &str) -> Result<Self, CapError> {
        let grants = parse_grants("mon", text, read_grants)?;
        Ok(Self { grants: grants.into_iter().flatten().collect() })
    }

    /// Keeps the grants that apply to clients of this address.
    pub fn seen_from(mut self, who: IpAddr) -> Self {
        self.grants.retain(|grant| grant.network.is_none_or(|network| network.contains(who)));
        self
    }

    /// Returns whether everything is allowed.
    pub fn allows_everything(&self) -> bool {
        self.grants.iter().any(Grant::is_everything)
    }

    /// Returns whether `wanted` is allowed for all of a service.
    pub fn allows(&self, service: &str, wanted: MonAccess) -> bool {
        self.allows_command(service, "", &BTreeMap::new(), wanted)
    }

    /// Returns whether a service's command that needs `wanted` is allowed. The access of several grants adds up.
    pub fn allows_command(
        &self,
        service: &str,
        command: &str,
        args: &BTreeMap<String, String>,
        wanted: MonAccess,
    ) -> bool {
        let mut allowed = MonAccess::default();
        self.grants.iter().any(|grant| {
            allowed = allowed.and(grant.allowed(service, command, args));
            grant.is_everything() || allowed.has(wanted)
        })
    }
}

/// Reads one grant; a profile expands to several.
fn read_grants(scanner: &mut Scanner<'_>) -> Option<Vec<Grant>> {
    let one = |scanner: &mut Scanner<'_>, read: fn(&mut Scanner<'_>) -> Option<Grant>| {
        scanner.attempt(|scanner| {
            scanner.expect("allow")?;
            scanner.spaces()?;
            Some(vec![read(scanner)?])
        })
    };
    let mut grants = one(scanner, |scanner| Some(Grant::new(Scope::Everything, read_access(scanner)?)))
        .or_else(|| scanner.attempt(read_profile))
        .or_else(|| one(scanner, read_service))
        .or_else(|| one(scanner, read_command))?;
    let network = Network::read(scanner);
    grants.iter_mut().for_each(|grant| grant.network = network);
    Some(grants)
}

/// `* | all | [r][w][x]`
fn read_access(scanner: &mut Scanner<'_>) -> Option<MonAccess> {
    if scanner.literal("*") || scanner.literal("all") {
        return Some(MonAccess::ANY);
    }
    let letters = [("r", MonAccess::READ.0), ("w", MonAccess::WRITE.0), ("x", MonAccess::EXECUTE.0)];
    scanner.letters(letters).map(MonAccess)
}

fn value_of(scanner: &mut Scanner<'_>, word: &str) -> Option<String> {
    scanner.expect(word)?;
    if !scanner.literal("=") {
        scanner.spaces()?;
    }
    scanner.text().map(str::to_owned)
}

/// `service NAME rwx`
fn read_service(scanner: &mut Scanner<'_>) -> Option<Grant> {
    let name = value_of(scanner, "service")?;
    scanner.spaces()?;
    Some(Grant::new(Scope::Service(name), read_access(scanner)?))
}

/// `command WORDS [with KEY=VALUE | KEY prefix VALUE ...]`
fn read_command(scanner: &mut Scanner<'_>) -> Option<Grant> {
    let words = value_of(scanner, "command")?;
    let mut args = BTreeMap::new();
    if scanner.keyword("with").is_some() {
        while let Some((name, constraint)) = scanner.attempt(read_constraint) {
            args.insert(name, constraint);
        }
        if args.is_empty() {
            return None;
        }
    }
    Some(Grant::new(Scope::Command { words, args }, MonAccess::ALL))
}

fn read_constraint(scanner: &mut Scanner<'_>) -> Option<(String, Constraint)> {
    scanner.spaces()?;
    let name = scanner.text()?.to_owned();
    if scanner.literal("=") {
        return Some((name, Constraint::Equal(scanner.text()?.to_owned())));
    }
    // Ceph also accepts `regex`, which is rejected here: a pattern with slightly different semantics would grant too much.
    scanner.keyword("prefix")?;
    scanner.spaces()?;
    Some((name, Constraint::Prefix(scanner.text()?.to_owned())))
}

/// `[allow] profile NAME`
fn read_profile(scanner: &mut Scanner<'_>) -> Option<Vec<Grant>> {
    if scanner.literal("allow") {
        scanner.spaces()?;
    }
    Some(profile(&value_of(scanner, "profile")?))
}

/// Returns the grants of a profile (`MonCapGrant::expand_profile`). Profiles of daemons grant nothing here: no daemon
/// from outside joins this cluster. Unknown profiles never grant anything.
fn profile(name: &str) -> Vec<Grant> {
    let read = |services: &[&str]| -> Vec<Grant> {
        services.iter().map(|service| Grant::service(service, MonAccess::READ)).collect()
    };
    let maps = || read(&["mon", "osd", "pg"]);
    match name {
        "read-only" => vec![Grant::new(Scope::Everything, MonAccess::READ)],
        "read-write" => vec![Grant::new(Scope::Everything, MonAccess::READ.and(MonAccess::WRITE))],
        "simple-rados-client" => maps(),
        // A client that breaks a lock first blocklists the former owner.
        "rbd" | "simple-rados-client-with-blocklist" => maps().into_iter().chain(shut_out()).collect(),
        "rbd-mirror" => {
            let secrets = [("key", Constraint::Prefix("rbd/mirror/".into()))];
            let more = shut_out().into_iter().chain([Grant::command("config-key get", secrets)]);
            maps().into_iter().chain(more).collect()
        }
        "fs-client" => read(&["mon", "mds", "osd", "pg"]),
        "crash" => read(&["mon"]),
        "role-definer" => {
            let mut grants = read(&["mon"]);
            grants.push(Grant::service("auth", MonAccess::ALL));
            grants
        }
        _ => Vec::new(),
    }
}

/// Grants the command that blocklists one client, in its new and its old form.
fn shut_out() -> [Grant; 2] {
    [("osd blocklist", "blocklistop"), ("osd blacklist", "blacklistop")].map(|(words, op)| {
        Grant::command(words, [(op, Constraint::Equal("add".into())), ("addr", Constraint::OneClient)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const R: MonAccess = MonAccess::READ;
    const W: MonAccess = MonAccess::WRITE;
    const X: MonAccess = MonAccess::EXECUTE;

    #[test]
    fn texts_are_parsed_as_by_ceph() {
        for good in [
            "allow *",
            "allow all",
            "allow r",
            " allow   rwx ",
            "allow service=foo x",
            "allow service=\"froo\" x",
            "allow service \" foo \" w, allow service bar r",
            "allow service foo w ;allow service bar x",
            "allow service foo_foo r, allow service foo-bar r",
            "allow command abc",
            "allow command=\"a b c\" with arg=foo arg2=bar",
            "allow command \"config-key get\" with key prefix dm-crypt/osd/",
            "allow command abc with arg=foo, allow service foo r",
            "allow profile osd",
            "profile rbd",
            "profile=rbd network 10.0.0.0/8",
            "allow r network [ff::1]/128",
        ] {
            assert!(MonCap::parse(good).is_ok(), "{good}: {:?}", MonCap::parse(good));
        }
        for bad in [
            "",
            "allow",
            "allow r poolfoo",
            "allow r w",
            "ALLOW r",
            "allow rwx,",
            "allow rwx x",
            "allow wwx",
            "allow xr",
            "allow r pool foo r",
            ";allow rwx",
            "allow r,, allow w",
            "allow service foo",
            "allow command",
            "allow command abc with",
            "allow command abc with a",
            "allow command abc with a regex \"^x$\"",
            "allow command \"abc",
            "profile",
            "r",
        ] {
            assert!(MonCap::parse(bad).is_err(), "{bad}");
        }
        let error = MonCap::parse("allow r, allow bogus").unwrap_err().to_string();
        assert_eq!(error, "mon capability parse failed, stopped at 'allow bogus' of 'allow r, allow bogus'");
        assert!(matches!(
            MonCap::parse(&"a".repeat(super::super::MAX_LEN + 1)),
            Err(CapError::TooLong { .. })
        ));
    }

    #[test]
    fn the_same_is_allowed_as_by_ceph() {
        for (text, service, wanted, allowed) in [
            ("allow *", "config-key", R.and(W).and(X), true),
            ("allow rwx", "config-key", R, false),
            ("allow rwx", "auth", R.and(X), true),
            ("allow r", "osd", R, true),
            ("allow r", "osd", R.and(W), false),
            ("allow rw", "auth", R.and(X), false),
            ("allow r, allow w", "osd", R.and(W), true),
            ("allow service osd rw", "osd", R.and(W), true),
            ("allow service osd rw", "mon", R, false),
            ("allow service osd r, allow service osd w", "osd", R.and(W), true),
            ("profile read-only", "mon", R, true),
            ("profile read-only", "mon", W, false),
            ("profile read-write", "osd", R.and(W), true),
            ("profile rbd", "osd", R, true),
            ("profile rbd", "pg", R, true),
            ("profile rbd", "osd", W, false),
            ("profile rbd", "auth", R.and(X), false),
            ("profile simple-rados-client", "osd", R, true),
            ("profile simple-rados-client", "config", R, false),
            ("profile role-definer", "auth", R.and(W).and(X), true),
            ("profile role-definer", "osd", R, false),
            ("profile nonsense", "mon", R, false),
        ] {
            let cap = MonCap::parse(text).unwrap();
            assert_eq!(cap.allows(service, wanted), allowed, "{text}: {service} {wanted:?}");
        }
        assert!(!MonCap::default().allows("mon", R));
    }

    #[test]
    fn commands_are_allowed_with_their_arguments() {
        let pools = "allow command \"osd pool create\" with pool prefix test- size=3";
        for (text, command, args, allowed) in [
            ("allow command \"osd pool ls\"", "osd pool ls", "", true),
            ("allow command \"osd pool ls\"", "osd pool rm", "", false),
            (pools, "osd pool create", "pool=test-1 size=3", true),
            (pools, "osd pool create", "pool=test-1 size=2", false),
            (pools, "osd pool create", "pool=other size=3", false),
            (pools, "osd pool create", "pool=test-1", false),
            ("profile rbd", "osd blocklist", "blocklistop=add addr=10.0.0.1:0/123", true),
            ("profile rbd", "osd blacklist", "blacklistop=add addr=10.0.0.1:0/123", true),
            ("profile rbd", "osd blocklist", "blocklistop=rm addr=10.0.0.1:0/123", false),
            ("profile rbd", "osd blocklist", "blocklistop=add addr=10.0.0.1", false),
            ("profile rbd", "osd blocklist", "blocklistop=add addr=10.0.0.1:0/x", false),
            ("profile simple-rados-client", "osd blocklist", "blocklistop=add addr=10.0.0.1:0/1", false),
        ] {
            let pairs = args.split_whitespace().filter_map(|pair| pair.split_once('='));
            let args: BTreeMap<_, _> = pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
            let cap = MonCap::parse(text).unwrap();
            assert_eq!(
                cap.allows_command("osd", command, &args, R.and(W)),
                allowed,
                "{text}: {command} {args:?}"
            );
        }
    }

    #[test]
    fn a_network_excludes_other_addresses() {
        let cap = MonCap::parse("allow rw network 10.0.0.0/8, allow r").unwrap();
        assert!(cap.clone().seen_from("10.1.1.1".parse().unwrap()).allows("osd", W));
        let outside = cap.seen_from("11.1.1.1".parse().unwrap());
        assert!(outside.allows("osd", R) && !outside.allows("osd", W));
        let nowhere = MonCap::parse("allow * network 10.0.0.0").unwrap();
        assert!(!nowhere.seen_from("10.0.0.0".parse().unwrap()).allows_everything());
    }
}
