//! Dependency direction between the crates, and protocol crates without I/O.

use crate::workspace::{Workspace, verdict};
use anyhow::Result;
use cargo_metadata::DependencyKind;

/// Crates and their allowed dependencies in the workspace, both without the prefix `onego-`.
const ALLOWED: &[(&str, &str)] = &[
    ("buf", ""),
    ("cipher", ""),
    ("guest-memory", ""),
    ("metrics", ""),
    ("wire", "buf"),
    ("block", "buf wire"),
    ("engine", "buf metrics wire"),
    ("luks", "cipher"),
    ("msgr", "buf cipher wire"),
    ("nbd", "block buf wire"),
    ("rdma", "buf wire"),
    ("service", "buf engine wire"),
    ("testkit", "buf engine wire"),
    ("ceph", "buf metrics msgr wire"),
    ("disk", "block buf engine service wire"),
    ("endpoint", "buf engine metrics service wire"),
    ("export", "block buf engine guest-memory metrics nbd service wire"),
    ("nfs", "buf metrics rdma wire"),
    ("verbs", "buf rdma"),
    ("cluster", "buf ceph engine metrics msgr service wire"),
    ("nfs-server", "buf engine metrics nfs rdma service wire"),
    ("rbd", "buf ceph luks msgr wire"),
    ("ublk", "buf export"),
    ("onego", "block buf ceph engine luks metrics msgr nbd nfs rbd rdma verbs wire"),
    ("bench", "buf ceph engine metrics msgr onego wire"),
    ("capi", "buf ceph msgr onego wire"),
    ("cli", "bench cluster disk endpoint export metrics nfs-server onego service ublk"),
    ("xtask", ""),
];

/// Additional dependencies of tests. Every crate may use the test kit.
const ALLOWED_IN_TESTS: &[(&str, &str)] = &[
    ("capi", "cluster nfs-server"),
    ("onego", "cluster nfs-server"),
    ("testkit", "ceph cluster msgr nfs nfs-server onego rbd rdma"),
];

/// Protocol crates: no sockets, clock, threads or files. Clippy rejects the types and functions listed in clippy.toml.
const PROTOCOLS: &[&str] = &["block", "ceph", "luks", "msgr", "nbd", "nfs", "rbd", "rdma", "wire"];
const NO_IO: &str = "#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]";

/// Crates that protocols must not link, directly or indirectly.
const IO_CRATES: &[&str] =
    &["async-std", "io-uring", "libc", "mio", "nix", "onego-engine", "rustix", "smol", "socket2", "tokio"];
/// Crates whose dependencies do not count: they use the system only for memory and randomness.
const OPAQUE: &[&str] = &["onego-buf", "rustls"];

pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let members = workspace.members();
    let tests = workspace.root.join("tests");
    let mut offences = Vec::new();
    for package in &members {
        let is_member = |name: &str| members.iter().any(|member| member.name == name);
        let dependencies = package.dependencies.iter().filter(|dependency| is_member(&dependency.name));
        if package.manifest_path.as_std_path().starts_with(&tests) {
            if package.publish.as_deref() != Some(&[]) {
                offences.push(format!("{}: packages below tests/ need `publish = false`", package.name));
            }
            continue;
        }
        if !ALLOWED.iter().any(|(name, _)| *name == short(&package.name)) {
            offences.push(format!("{}: missing from the table in xtask/src/layers.rs", package.name));
            continue;
        }
        for dependency in dependencies {
            if !is_allowed(&package.name, &dependency.name, dependency.kind == DependencyKind::Development) {
                offences.push(format!("{} must not depend on {}", package.name, dependency.name));
            }
        }
    }
    for name in PROTOCOLS {
        let package = workspace.member(&format!("onego-{name}"))?;
        for linked in workspace.linked(package, OPAQUE)? {
            if IO_CRATES.contains(&linked.name.as_str()) {
                let (package, linked) = (&package.name, &linked.name);
                offences.push(format!(
                    "{package} must not link {linked}: see `cargo tree -p {package} -i {linked}`"
                ));
            }
        }
        let root = package.manifest_path.with_file_name("src").join("lib.rs");
        if !std::fs::read_to_string(&root)?.lines().any(|line| line == NO_IO) {
            offences.push(format!("{root}: missing {NO_IO}"));
        }
    }
    verdict(&offences)
}

/// Returns the name of a crate without the prefix `onego-`.
pub(crate) fn short(name: &str) -> &str {
    name.strip_prefix("onego-").unwrap_or(name)
}

fn is_allowed(package: &str, dependency: &str, in_tests: bool) -> bool {
    let (package, dependency) = (short(package), short(dependency));
    let has = |table: &[(&str, &str)]| {
        let row = table.iter().find(|(name, _)| *name == package);
        row.is_some_and(|(_, allowed)| allowed.split(' ').any(|name| name == dependency))
    };
    has(ALLOWED) || (in_tests && (dependency == "testkit" || has(ALLOWED_IN_TESTS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_edges_are_allowed() {
        assert!(is_allowed("onego-rbd", "onego-ceph", false) && !is_allowed("onego-ceph", "onego-rbd", true));
        assert!(is_allowed("onego", "onego-cluster", true) && !is_allowed("onego", "onego-cluster", false));
        assert!(
            is_allowed("onego-nbd", "onego-testkit", true)
                && !is_allowed("onego-nbd", "onego-testkit", false)
        );
    }
}
