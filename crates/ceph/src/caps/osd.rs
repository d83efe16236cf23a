//! Capabilities for objects of OSDs.
//!
//! Source: ceph `src/osd/OSDCap.cc`; `doc/rados/operations/user-management.rst`, "OSD Caps".

use super::error::CapError;
use super::network::Network;
use super::scan::{Scanner, parse_grants};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Kinds of access, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OsdAccess(u8);

impl OsdAccess {
    /// Read access to an object.
    pub const READ: Self = Self(1);
    /// Write access to an object.
    pub const WRITE: Self = Self(2);
    /// Calls of class methods that read.
    pub const CLASS_READ: Self = Self(4);
    /// Calls of class methods that write.
    pub const CLASS_WRITE: Self = Self(8);
    /// All four kinds.
    pub const ALL: Self = Self(0xf);

    const SETS: u8 = 16;

    /// Returns the union.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// Returns the access without class methods.
    const fn direct(self) -> Self {
        Self(self.0 & (Self::READ.0 | Self::WRITE.0))
    }
}

/// Class method that a request calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// Class name.
    pub class: &'a str,
    /// Method name.
    pub method: &'a str,
    /// Access that the class declares for it: [`OsdAccess::CLASS_READ`], [`OsdAccess::CLASS_WRITE`] or both.
    pub access: OsdAccess,
}

/// Object of a request, within a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// Namespace.
    pub namespace: &'a [u8],
    /// Placement key: the locator's key if it has one, or the object's name.
    pub object: &'a [u8],
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Spec {
    /// Everything, including commands: `*` or `all`, which is more than all letters.
    Everything,
    Access(OsdAccess),
    /// Calls of a class's methods, or of one of them, whatever their access.
    Class {
        class: String,
        method: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Namespace {
    Equal(String),
    Prefix(String),
}

/// Constraint on a pool's application metadata. `None` matches anything.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tag {
    application: String,
    key: Option<String>,
    value: Option<String>,
}

/// Application metadata of a pool (see [`crate::osdmap::Pool`]).
type Notes = BTreeMap<String, BTreeMap<String, String>>;

impl Tag {
    fn fits(&self, notes: &Notes) -> bool {
        let Some(notes) = notes.get(&self.application) else { return false };
        let value_fits = |value: &String| self.value.as_ref().is_none_or(|expected| expected == value);
        match &self.key {
            Some(key) => notes.get(key).is_some_and(value_fits),
            None => self.value.is_none() || notes.values().any(value_fits),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Scope {
    pool: Option<String>,
    namespace: Option<Namespace>,
    tag: Option<Tag>,
    object_prefix: String,
}

impl Scope {
    fn has_pool(&self, name: &str, notes: &Notes) -> bool {
        self.pool.as_ref().is_none_or(|pool| pool == name)
            && self.tag.as_ref().is_none_or(|tag| tag.fits(notes))
    }

    fn is_whole_pools(&self) -> bool {
        self.namespace.is_none() && self.object_prefix.is_empty()
    }

    fn has(&self, place: Place<'_>) -> bool {
        let namespace = match &self.namespace {
            None => true,
            Some(Namespace::Equal(name)) => place.namespace == name.as_bytes(),
            Some(Namespace::Prefix(prefix)) => place.namespace.starts_with(prefix.as_bytes()),
        };
        namespace && place.object.starts_with(self.object_prefix.as_bytes())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Grant {
    scope: Scope,
    spec: Spec,
    network: Option<Network>,
}

impl Grant {
    fn new(scope: Scope, spec: Spec) -> Self {
        Self { scope, spec, network: None }
    }

    fn access(&self) -> OsdAccess {
        match self.spec {
            Spec::Everything => OsdAccess::ALL,
            Spec::Access(access) => access,
            Spec::Class { .. } => OsdAccess::default(),
        }
    }

    fn allows_call(&self, call: &Call<'_>) -> bool {
        match &self.spec {
            Spec::Everything => true,
            Spec::Access(access) => access.has(call.access),
            Spec::Class { class, method } => {
                class == call.class && method.as_ref().is_none_or(|method| method == call.method)
            }
        }
    }
}

/// Capabilities of a user for objects.
///
/// Ceph allows methods by `x`, `class-read` and `class-write` only for the classes that its OSDs list
/// (`osd_class_default_list`), which include all classes of Onego.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OsdCap {
    grants: Vec<Grant>,
}

impl OsdCap {
    /// Returns capabilities for everything.
    pub fn everything() -> Self {
        Self { grants: vec![Grant::new(Scope::default(), Spec::Everything)] }
    }

    /// Parses the argument of `ceph auth caps NAME osd`.
    pub fn parse(text: &str) -> Result<Self, CapError> {
        let grants = parse_grants("osd", text, read_grants)?;
        Ok(Self { grants: grants.into_iter().flatten().collect() })
    }

    /// Keeps the grants that apply to clients of this address.
    #[must_use]
    pub fn seen_from(mut self, who: IpAddr) -> Self {
        self.grants.retain(|grant| grant.network.is_none_or(|network| network.contains(who)));
        self
    }

    /// Returns whether everything is allowed in all pools.
    pub fn allows_everything(&self) -> bool {
        let all = |grant: &Grant| grant.scope == Scope::default() && grant.spec == Spec::Everything;
        self.grants.iter().any(all)
    }

    /// Returns the grants that apply to a pool, given its name and its application metadata.
    pub fn in_pool(&self, name: &str, notes: &Notes) -> PoolGrants {
        let grants = self.grants.iter().filter(|grant| grant.scope.has_pool(name, notes)).cloned();
        let grants: Vec<Grant> = grants.collect();
        let whole = || grants.iter().filter(|grant| grant.scope.is_whole_pools());
        let anywhere = (0..OsdAccess::SETS)
            .filter(|&set| whole().any(|grant| grant.access().has(OsdAccess(set))))
            .fold(0, |sets, set| sets | 1 << set);
        PoolGrants { anywhere, grants }
    }
}

/// Grants of a user for the objects of one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolGrants {
    /// Sets of accesses that are allowed for every object, as bits.
    anywhere: u16,
    grants: Vec<Grant>,
}

impl PoolGrants {
    /// Returns whether all of a request's access is allowed for any object. If not, it may still be
    /// [allowed for its object](Self::allows). This is on the path of every I/O.
    pub const fn allows_anywhere(&self, wanted: OsdAccess) -> bool {
        self.anywhere >> wanted.0 & 1 != 0
    }

    /// Returns whether all of a request's access is allowed. One grant must allow the access without class methods; several
    /// such grants together may allow the methods (`OSDCapGrant::is_capable`).
    pub fn allows(&self, place: Place<'_>, wanted: OsdAccess, calls: &[Call<'_>]) -> bool {
        let mut called = vec![false; calls.len()];
        self.grants.iter().any(|grant| {
            if !grant.scope.has(place) || !grant.access().has(wanted.direct()) {
                return false;
            }
            for (allowed, call) in called.iter_mut().zip(calls) {
                *allowed |= grant.allows_call(call);
            }
            called.iter().all(|allowed| *allowed)
        })
    }
}

/// Reads one grant; a profile expands to several.
fn read_grants(scanner: &mut Scanner<'_>) -> Option<Vec<Grant>> {
    let mut grants = scanner
        .attempt(|scanner| {
            scanner.expect("allow")?;
            let spec = read_spec(scanner)?;
            Some(vec![Grant::new(read_scope(scanner), spec)])
        })
        .or_else(|| {
            scanner.attempt(|scanner| {
                scanner.expect("allow")?;
                let scope = read_scope(scanner);
                Some(vec![Grant::new(scope, read_spec(scanner)?)])
            })
        })
        .or_else(|| scanner.attempt(read_profile))?;
    let network = Network::read(scanner);
    grants.iter_mut().for_each(|grant| grant.network = network);
    Some(grants)
}

/// `* | all | [r][w][x] [class-read] [class-write] | class NAME [METHOD]`
fn read_spec(scanner: &mut Scanner<'_>) -> Option<Spec> {
    if scanner.keyword("*").or_else(|| scanner.keyword("all")).is_some() {
        return Some(Spec::Everything);
    }
    if let Some(access) = read_access(scanner) {
        return Some(Spec::Access(access));
    }
    scanner.keyword("class")?;
    scanner.spaces()?;
    let class = scanner.text()?.to_owned();
    let method = scanner.attempt(|scanner| {
        scanner.spaces()?;
        scanner.text().map(str::to_owned)
    });
    Some(Spec::Class { class, method })
}

fn read_access(scanner: &mut Scanner<'_>) -> Option<OsdAccess> {
    let execute = OsdAccess::CLASS_READ.and(OsdAccess::CLASS_WRITE);
    let letters = [("r", OsdAccess::READ.0), ("w", OsdAccess::WRITE.0), ("x", execute.0)];
    let letters = scanner.attempt(|scanner| {
        scanner.spaces()?;
        scanner.letters(letters)
    });
    let mut access = letters.map(OsdAccess);
    for (word, bit) in [("class-read", OsdAccess::CLASS_READ), ("class-write", OsdAccess::CLASS_WRITE)] {
        if scanner.keyword(word).is_some() {
            access = Some(access.unwrap_or_default().and(bit));
        }
    }
    access
}

/// `[namespace NAME] tag APPLICATION KEY=VALUE | [pool NAME] [namespace NAME] [object_prefix PREFIX]`
fn read_scope(scanner: &mut Scanner<'_>) -> Scope {
    let tagged = scanner.attempt(|scanner| {
        let namespace = read_namespace(scanner);
        Some(Scope { namespace, tag: Some(read_tag(scanner)?), ..Scope::default() })
    });
    tagged.unwrap_or_else(|| Scope {
        pool: read_pool(scanner),
        namespace: read_namespace(scanner),
        tag: None,
        object_prefix: read_object_prefix(scanner).unwrap_or_default(),
    })
}

fn read_pool(scanner: &mut Scanner<'_>) -> Option<String> {
    scanner.attempt(|scanner| {
        scanner.keyword_of_value("pool")?;
        scanner.text().map(str::to_owned)
    })
}

/// Reads a name, which may be empty if quoted, and may end in `*` as a wildcard.
fn read_namespace(scanner: &mut Scanner<'_>) -> Option<Namespace> {
    scanner.attempt(|scanner| {
        scanner.keyword_of_value("namespace")?;
        let name = scanner.text_or_nothing()?;
        let open = scanner.literal("*");
        Some(match name.strip_suffix('*') {
            Some(prefix) if !open => Namespace::Prefix(prefix.to_owned()),
            _ if open => Namespace::Prefix(name.to_owned()),
            _ => Namespace::Equal(name.to_owned()),
        })
    })
}

fn read_object_prefix(scanner: &mut Scanner<'_>) -> Option<String> {
    scanner.attempt(|scanner| {
        scanner.keyword("object_prefix")?;
        scanner.spaces()?;
        scanner.text().map(str::to_owned)
    })
}

/// `tag APPLICATION KEY=VALUE`, where both key and value may be `*` or `all`.
fn read_tag(scanner: &mut Scanner<'_>) -> Option<Tag> {
    let any_or_text = |scanner: &mut Scanner<'_>| match scanner.literal("*") {
        true => Some(None),
        false => scanner.text().map(|text| (text != "all").then(|| text.to_owned())),
    };
    scanner.keyword("tag")?;
    scanner.spaces()?;
    let application = scanner.text()?.to_owned();
    scanner.spaces()?;
    let key = any_or_text(scanner)?;
    scanner.skip_spaces();
    scanner.expect("=")?;
    scanner.skip_spaces();
    Some(Tag { application, key, value: any_or_text(scanner)? })
}

/// `profile NAME [pool NAME] [namespace NAME]`
fn read_profile(scanner: &mut Scanner<'_>) -> Option<Vec<Grant>> {
    scanner.expect("profile")?;
    if !scanner.literal("=") {
        scanner.spaces()?;
    }
    let name = scanner.text()?;
    let scope = Scope { pool: read_pool(scanner), namespace: read_namespace(scanner), ..Scope::default() };
    Some(profile(name, &scope))
}

/// Returns the grants of a profile (`OSDCapGrant::expand_profile`). Unknown profiles grant nothing.
fn profile(name: &str, scope: &Scope) -> Vec<Grant> {
    let grant = |access: OsdAccess| Grant::new(scope.clone(), Spec::Access(access));
    // Metadata about all images of all pools, in any namespace.
    let notes = |object: &str, access| {
        let scope = Scope { object_prefix: object.to_owned(), ..Scope::default() };
        Grant::new(scope, Spec::Access(access))
    };
    let method = |scope: Scope, method: &str| {
        Grant::new(scope, Spec::Class { class: "rbd".into(), method: Some(method.into()) })
    };
    let in_default_namespace = Scope {
        pool: scope.pool.clone(),
        namespace: Some(Namespace::Equal(String::new())),
        object_prefix: "rbd_info".into(),
        tag: None,
    };
    let of_headers = Scope { object_prefix: "rbd_header.".into(), ..scope.clone() };
    match name {
        "read-only" => vec![grant(OsdAccess::READ)],
        "read-write" => vec![grant(OsdAccess::READ.and(OsdAccess::WRITE))],
        "rbd" => vec![
            notes("rbd_info", OsdAccess::READ),
            notes("rbd_children", OsdAccess::CLASS_READ),
            notes("rbd_mirroring", OsdAccess::CLASS_READ),
            method(in_default_namespace, "metadata_list"),
            grant(OsdAccess::ALL),
        ],
        "rbd-read-only" => vec![
            method(in_default_namespace, "metadata_list"),
            grant(OsdAccess::READ.and(OsdAccess::CLASS_READ)),
            method(of_headers.clone(), "child_attach"),
            method(of_headers, "child_detach"),
        ],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
