//! What somebody may do with the objects of OSDs.
//!
//! Source: ceph `src/osd/OSDCap.cc`; `doc/rados/operations/user-management.rst`, "OSD Caps".

use super::error::CapError;
use super::network::Network;
use super::scan::{Scanner, parse_grants};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What is done, or allowed, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OsdAccess(u8);

impl OsdAccess {
    /// To read an object.
    pub const READ: Self = Self(1);
    /// To change an object.
    pub const WRITE: Self = Self(2);
    /// To call methods that read.
    pub const CLASS_READ: Self = Self(4);
    /// To call methods that write.
    pub const CLASS_WRITE: Self = Self(8);
    /// All four.
    pub const ALL: Self = Self(0xf);

    /// How many sets of accesses there are.
    const SETS: u8 = 16;

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// What is not done by methods.
    const fn direct(self) -> Self {
        Self(self.0 & (Self::READ.0 | Self::WRITE.0))
    }
}

/// A method that a request calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// Its class.
    pub class: &'a str,
    /// Its name.
    pub method: &'a str,
    /// What the class says that it does: [`OsdAccess::CLASS_READ`], [`OsdAccess::CLASS_WRITE`] or both.
    pub access: OsdAccess,
}

/// What a request is about, within a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The namespace.
    pub namespace: &'a [u8],
    /// What places the object: its locator's key if it has one, or its name.
    pub object: &'a [u8],
}

/// What a grant allows.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Spec {
    /// All that there is, also commands: `*` or `all`, which is more than all letters.
    Everything,
    Access(OsdAccess),
    /// To call a class's methods, or one of them, whatever it does.
    Class {
        class: String,
        method: Option<String>,
    },
}

/// A namespace, or all whose names begin with something.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Namespace {
    Equal(String),
    Prefix(String),
}

/// A pool that an application has noted something about. `None` is anything.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tag {
    application: String,
    key: Option<String>,
    value: Option<String>,
}

/// What applications say about a pool (see [`crate::osdmap::Pool`]).
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

/// Which objects a grant is for.
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

    /// Is every object in its pools in it?
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

/// What somebody may do with objects.
///
/// Ceph allows methods by `x`, `class-read` and `class-write` only of those classes that its OSDs list
/// (`osd_class_default_list`). All classes that Onego has are among them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OsdCap {
    grants: Vec<Grant>,
}

impl OsdCap {
    /// Everything.
    pub fn everything() -> Self {
        Self { grants: vec![Grant::new(Scope::default(), Spec::Everything)] }
    }

    /// Reads what `ceph auth caps NAME osd` takes.
    pub fn parse(text: &str) -> Result<Self, CapError> {
        let grants = parse_grants("osd", text, read_grants)?;
        Ok(Self { grants: grants.into_iter().flatten().collect() })
    }

    /// What of it holds for somebody at this address.
    #[must_use]
    pub fn seen_from(mut self, who: IpAddr) -> Self {
        self.grants.retain(|grant| grant.network.is_none_or(|network| network.contains(who)));
        self
    }

    /// Is everything allowed, in all pools?
    pub fn allows_everything(&self) -> bool {
        let all = |grant: &Grant| grant.scope == Scope::default() && grant.spec == Spec::Everything;
        self.grants.iter().any(all)
    }

    /// What of it holds in a pool: its name, and what applications say about it.
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

/// What somebody may do with the objects of one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolGrants {
    /// The sets of accesses that are allowed to every object, as bits.
    anywhere: u16,
    grants: Vec<Grant>,
}

impl PoolGrants {
    /// Is all that a request does allowed, whatever it is about? If not, it may still be
    /// [allowed where it is](Self::allows). This is on the path of every I/O.
    pub const fn allows_anywhere(&self, wanted: OsdAccess) -> bool {
        self.anywhere >> wanted.0 & 1 != 0
    }

    /// Is all that a request does allowed? One grant must allow what is not done by methods; methods may be allowed by
    /// several such grants together (`OSDCapGrant::is_capable`).
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

/// Reads one grant; a profile is several.
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

/// A name, which may be empty in quotes, and may end in a `*` that stands for anything.
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

/// `tag APPLICATION KEY=VALUE`, of which both key and value may be `*` or `all`.
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

/// What a profile allows (`OSDCapGrant::expand_profile`). What has another name allows nothing.
fn profile(name: &str, scope: &Scope) -> Vec<Grant> {
    let grant = |access: OsdAccess| Grant::new(scope.clone(), Spec::Access(access));
    // Notes about all images of all pools, in whatever namespace.
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
