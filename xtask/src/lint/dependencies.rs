//! The one direction of dependency, and protocols without I/O.

use super::verdict::verdict;
use crate::workspace::{Package, Workspace};
use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// Which of our crates a crate may use. Tests of any crate may also use the test kit, the test kit's own tests drive whole
/// clients and clusters, and the client's tests and examples have servers to talk to.
const ALLOWED: &[(&str, &[&str])] = &[
    ("onego-buf", &[]),
    ("onego-wire", &["onego-buf"]),
    ("onego-block", &["onego-wire", "onego-buf"]),
    ("onego-engine", &["onego-metrics", "onego-wire", "onego-buf"]),
    ("onego-endpoint", &["onego-service", "onego-metrics", "onego-engine", "onego-wire", "onego-buf"]),
    ("onego-metrics", &[]),
    ("onego-cipher", &[]),
    ("onego-guest-memory", &[]),
    ("onego-nbd", &["onego-block", "onego-wire", "onego-buf"]),
    ("onego-nfs", &["onego-rdma", "onego-metrics", "onego-wire", "onego-buf"]),
    ("onego-rdma", &["onego-wire", "onego-buf"]),
    ("onego-verbs", &["onego-rdma", "onego-buf"]),
    ("onego-luks", &["onego-cipher"]),
    ("onego-msgr", &["onego-wire", "onego-buf", "onego-cipher"]),
    ("onego-ceph", &["onego-msgr", "onego-metrics", "onego-wire", "onego-buf"]),
    ("onego-rbd", &["onego-ceph", "onego-luks", "onego-msgr", "onego-wire", "onego-buf"]),
    (
        "onego",
        &[
            "onego-rbd",
            "onego-ceph",
            "onego-luks",
            "onego-msgr",
            "onego-nfs",
            "onego-rdma",
            "onego-verbs",
            "onego-nbd",
            "onego-block",
            "onego-metrics",
            "onego-engine",
            "onego-wire",
            "onego-buf",
        ],
    ),
    ("onego-service", &["onego-engine", "onego-wire", "onego-buf"]),
    (
        "onego-cluster",
        &[
            "onego-service",
            "onego-ceph",
            "onego-msgr",
            "onego-metrics",
            "onego-engine",
            "onego-wire",
            "onego-buf",
        ],
    ),
    (
        "onego-nfs-server",
        &[
            "onego-service",
            "onego-nfs",
            "onego-rdma",
            "onego-metrics",
            "onego-engine",
            "onego-wire",
            "onego-buf",
        ],
    ),
    ("onego-disk", &["onego-service", "onego-block", "onego-engine", "onego-wire", "onego-buf"]),
    (
        "onego-export",
        &[
            "onego-service",
            "onego-nbd",
            "onego-block",
            "onego-guest-memory",
            "onego-metrics",
            "onego-engine",
            "onego-wire",
            "onego-buf",
        ],
    ),
    ("onego-capi", &["onego", "onego-ceph", "onego-msgr", "onego-wire", "onego-buf"]),
    ("onego-ublk", &["onego-export", "onego-buf"]),
    (
        "onego-bench",
        &["onego", "onego-ceph", "onego-msgr", "onego-metrics", "onego-engine", "onego-wire", "onego-buf"],
    ),
    (
        "onego-cli",
        &[
            "onego-bench",
            "onego",
            "onego-cluster",
            "onego-disk",
            "onego-endpoint",
            "onego-export",
            "onego-metrics",
            "onego-nfs-server",
            "onego-service",
            "onego-ublk",
        ],
    ),
    ("onego-testkit", &["onego-engine", "onego-wire", "onego-buf"]),
    (
        "onego-counts",
        &[
            "onego",
            "onego-block",
            "onego-buf",
            "onego-ceph",
            "onego-cluster",
            "onego-engine",
            "onego-export",
            "onego-msgr",
            "onego-nbd",
            "onego-nfs",
            "onego-nfs-server",
            "onego-wire",
        ],
    ),
    ("xtask", &[]),
];
/// The servers that the tests and examples of the client, and of what stands on it, talk to.
const SERVERS: &[&str] = &["onego-cluster", "onego-nfs-server"];
const TESTKIT: &str = "onego-testkit";
const TESTKIT_TESTS: &[&str] = &[
    "onego-ceph",
    "onego-msgr",
    "onego-rbd",
    "onego-nfs",
    "onego-rdma",
    "onego",
    "onego-cluster",
    "onego-nfs-server",
];

/// Crates that hold a protocol and therefore neither do I/O nor know the time.
const PROTOCOLS: &[&str] = &[
    "onego-wire",
    "onego-block",
    "onego-nbd",
    "onego-rdma",
    "onego-nfs",
    "onego-msgr",
    "onego-ceph",
    "onego-luks",
    "onego-rbd",
];
/// What they may not be built on, at any depth.
const IO_CRATES: &[&str] =
    &["async-std", "io-uring", "libc", "mio", "nix", "onego-engine", "rustix", "smol", "socket2", "tokio"];
/// What they stand on that asks the system for memory (our buffers) or for randomness (TLS without I/O), and for nothing else: it
/// is not looked into.
const WITHOUT_IO: &[&str] = &["onego-buf", "rustls"];
/// What their sources may not name.
const IO_NAMES: &[&str] = &[
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "Instant",
    "SystemTime",
    "std::thread",
    "thread::spawn",
    "thread::sleep",
    "std::fs",
    "std::process",
];

/// Checks the edges between our crates, what the protocols are built on, and what their sources name.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let mut offences = Vec::new();
    for package in workspace.members() {
        edges(package, workspace, &mut offences);
    }
    for name in PROTOCOLS {
        let package = workspace.members().find(|package| package.name == *name);
        let package = package.with_context(|| format!("there is no crate {name}"))?;
        reach(package, workspace, &mut offences);
        sources(&package.folder().join("src"), workspace, &mut offences)?;
    }
    verdict(&offences)
}

fn edges(package: &Package, workspace: &Workspace, offences: &mut Vec<String>) {
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package.name) else {
        offences.push(format!("{} has no row in the table of allowed dependencies", package.name));
        return;
    };
    for dependency in &package.dependencies {
        let name = dependency.name.as_str();
        let for_tests = dependency.kind.as_deref() == Some("dev")
            && (name == TESTKIT
                || (package.name == TESTKIT && TESTKIT_TESTS.contains(&name))
                || (["onego", "onego-capi"].contains(&package.name.as_str()) && SERVERS.contains(&name)));
        let ours = workspace.members().any(|member| member.name == name);
        if ours && !allowed.contains(&name) && !for_tests {
            offences.push(format!("{} may not depend on {name}", package.name));
        }
    }
}

/// Follows the normal dependencies of a protocol crate all the way down.
fn reach(package: &Package, workspace: &Workspace, offences: &mut Vec<String>) {
    let mut seen = BTreeSet::from([package.id.as_str()]);
    let mut left = vec![package.id.as_str()];
    while let Some(id) = left.pop() {
        let Some(node) = workspace.resolve.nodes.iter().find(|node| node.id == id) else { continue };
        for edge in &node.deps {
            let in_release = edge.dep_kinds.iter().any(|kind| kind.kind.is_none());
            if !in_release || !seen.insert(&edge.pkg) {
                continue;
            }
            let name = workspace.package(&edge.pkg).map_or("", |package| package.name.as_str());
            if !WITHOUT_IO.contains(&name) {
                left.push(&edge.pkg);
            }
            if IO_CRATES.contains(&name) {
                let user = workspace.package(id).map_or(id, |package| package.name.as_str());
                offences.push(format!("{} is a protocol without I/O, but {user} uses {name}", package.name));
            }
        }
    }
}

/// Looks for names of I/O in the sources of a protocol crate; its tests may use what they like.
fn sources(folder: &Path, workspace: &Workspace, offences: &mut Vec<String>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, workspace, offences)?;
        } else if path.extension().is_some_and(|end| end == "rs")
            && path.file_stem() != Some("tests".as_ref())
        {
            let text = std::fs::read_to_string(&path)?;
            let shown = path.strip_prefix(&workspace.workspace_root).unwrap_or(&path);
            for (number, name) in io_names(&text) {
                offences.push(format!("{}:{number}: a protocol may not name {name}", shown.display()));
            }
        }
    }
    Ok(())
}

/// The lines of released code (not comments, not the test module at the end) that name I/O.
fn io_names(text: &str) -> Vec<(usize, &'static str)> {
    let released = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    for (at, line) in released.lines().enumerate() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        found.extend(IO_NAMES.iter().filter(|name| has_word(line, name)).map(|name| (at + 1, *name)));
    }
    found
}

/// Does `line` have `word` as a whole word?
fn has_word(line: &str, word: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(in_word) && !line[at + word.len()..].starts_with(in_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_is_found_in_code_and_not_in_comments_or_tests() {
        let text =
            "// an Instant\nuse std::time::Instant;\nlet Instantly = 1;\n#[cfg(test)]\nmod tests {\nstd::fs";
        assert_eq!(io_names(text), [(2, "Instant")]);
    }
}
