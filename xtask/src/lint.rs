//! Static checks.

use crate::workspace::{Step, Workspace, verdict};
use crate::{cycles, documents, layers};
use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;
use xshell::cmd;

const CHECKS: &[Step] = &[
    ("format", format),
    ("leftovers", leftovers),
    ("links", links),
    ("examples", examples),
    ("layers", layers::check),
    ("cycles", cycles::check),
    ("unsafe", unsafe_code),
    ("clippy", clippy),
    ("fuzz-targets", fuzz_targets),
    ("rustdoc", rustdoc),
    ("deny", deny),
    ("semver", semver),
];

#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Run only checks with one of these words in their names: format, leftovers, links, examples, layers, cycles, unsafe,
    /// clippy, fuzz-targets, rustdoc, deny, semver
    names: Vec<String>,
}

/// Runs all selected checks, also after one has failed.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let is_selected = |step: &&Step| {
        options.names.is_empty() || options.names.iter().any(|name| step.0.contains(name.as_str()))
    };
    let names = CHECKS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    ensure!(CHECKS.iter().any(|step| is_selected(&step)), "no such check; there are {names}");
    let failed = workspace.run_steps(CHECKS.iter().filter(is_selected));
    ensure!(failed.is_empty(), "lint failed: {}", failed.join(", "));
    Ok(())
}

fn format(Workspace { sh, .. }: &Workspace) -> Result<()> {
    cmd!(sh, "cargo fmt --all --check").run()?;
    Ok(cmd!(sh, "cargo fmt --check --manifest-path fuzz/Cargo.toml").run()?)
}

/// Finds unfinished code, disabled tests, conflict markers and paths of one machine.
fn leftovers(Workspace { sh, .. }: &Workspace) -> Result<()> {
    let pattern = r"FIX[M]E|XX[X]:|#\[ig[n]ore|^<<<<<<[<] |(/ho[m]e|/wo[r]k|/ro[o]t)/";
    let grep = cmd!(sh, "git grep --untracked -nIE {pattern} -- *.rs *.toml *.md *.sh *.yml");
    let found = grep.quiet().ignore_status().read()?;
    verdict(&found.lines().map(str::to_owned).collect::<Vec<_>>())
}

/// Checks relative links in Markdown files, including their anchors.
fn links(Workspace { sh, root, .. }: &Workspace) -> Result<()> {
    let mut offences = Vec::new();
    for name in cmd!(sh, "git ls-files --cached --others --exclude-standard *.md").quiet().read()?.lines() {
        // Deleted files stay listed until they are committed.
        let Ok(text) = fs::read_to_string(root.join(name)) else { continue };
        let links = documents::prose(&text).flat_map(|line| line.split("](").skip(1));
        for link in links.filter_map(|rest| rest.split([')', ' ']).next()) {
            if !link.contains("://") && !resolves(&root.join(name), link) {
                offences.push(format!("{name}: dead link `{link}`"));
            }
        }
    }
    verdict(&offences)
}

/// Returns whether the file of a relative link exists and has the linked heading.
fn resolves(document: &Path, link: &str) -> bool {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = if file.is_empty() { document.to_owned() } else { document.with_file_name(file) };
    let Some(anchor) = anchor else { return target.exists() };
    // GitHub's rule: lower case, hyphens for spaces, no punctuation.
    let slug = |heading: &str| -> String {
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.flat_map(|c| if c == ' ' { '-' } else { c }.to_lowercase()).collect()
    };
    let text = fs::read_to_string(target).unwrap_or_default();
    documents::prose(&text).any(|line| line.starts_with('#') && slug(line.trim_start_matches('#')) == anchor)
}

/// Checks that the Rust code of README and the guides is part of an example that the tests run.
fn examples(Workspace { root, .. }: &Workspace) -> Result<()> {
    const EXAMPLE: &str = "crates/client/examples/guides.rs";
    let without_spaces = |text: &str| text.split_whitespace().collect::<String>();
    let example = without_spaces(&fs::read_to_string(root.join(EXAMPLE))?);
    let mut offences = Vec::new();
    for (path, text) in documents::for_users(root)? {
        for block in documents::blocks(&text, "rust") {
            if !example.contains(&without_spaces(&block)) {
                let first = block.lines().next().unwrap_or_default();
                offences.push(format!("{}: `{first}`... is missing from {EXAMPLE}", path.display()));
            }
        }
    }
    verdict(&offences)
}

/// Crates that access raw memory, the kernel or C libraries, without the prefix `onego-`.
const UNSAFE: &[&str] = &["buf", "capi", "cipher", "engine", "guest-memory", "ublk", "verbs"];

/// Checks that every crate inherits the workspace lints, and that crates outside of [`UNSAFE`] forbid unsafe code.
fn unsafe_code(workspace: &Workspace) -> Result<()> {
    let mut offences = Vec::new();
    for package in workspace.members() {
        let manifest = &package.manifest_path;
        if !fs::read_to_string(manifest)?.contains("[lints]\nworkspace = true\n") {
            offences.push(format!("{manifest}: does not inherit the workspace lints"));
        }
        let is_safe = !UNSAFE.contains(&layers::short(&package.name));
        let targets = package.targets.iter().filter(|target| is_safe && (target.is_lib() || target.is_bin()));
        for root in targets.map(|target| &target.src_path) {
            if !fs::read_to_string(root)?.lines().any(|line| line == "#![forbid(unsafe_code)]") {
                offences.push(format!("{root}: missing #![forbid(unsafe_code)]"));
            }
        }
    }
    verdict(&offences)
}

fn clippy(Workspace { sh, .. }: &Workspace) -> Result<()> {
    Ok(cmd!(sh, "cargo clippy --quiet --workspace --all-targets -- -D warnings").run()?)
}

/// Checks the fuzz targets, a workspace of their own.
fn fuzz_targets(Workspace { sh, target, .. }: &Workspace) -> Result<()> {
    Ok(cmd!(sh, "cargo check --quiet --manifest-path fuzz/Cargo.toml --target-dir {target}").run()?)
}

fn rustdoc(Workspace { sh, .. }: &Workspace) -> Result<()> {
    Ok(cmd!(sh, "cargo doc --quiet --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings").run()?)
}

/// Checks licences, sources and, where the advisory database is reachable, known vulnerabilities.
fn deny(workspace: &Workspace) -> Result<()> {
    let sh = &workspace.sh;
    workspace.install("cargo-deny")?;
    let deny = ["deny", "--log-level", "error", "--all-features"];
    cmd!(sh, "cargo {deny...} check licenses bans sources").run()?;
    if cmd!(sh, "cargo {deny...} fetch db").ignore_stderr().run().is_err() {
        eprintln!("advisories: NOT CHECKED, the advisory database is unreachable");
        return Ok(());
    }
    Ok(cmd!(sh, "cargo {deny...} check --disable-fetch advisories").run()?)
}

/// Compares the API of the client crate, the only stable one (docs/versions.md), with the last release.
fn semver(workspace: &Workspace) -> Result<()> {
    let sh = &workspace.sh;
    let describe = cmd!(sh, "git describe --tags --abbrev=0 --match v[0-9]*");
    let Ok(release) = describe.quiet().ignore_stderr().read() else {
        eprintln!("no release to compare with");
        return Ok(());
    };
    workspace.install("cargo-semver-checks")?;
    Ok(cmd!(sh, "cargo semver-checks --package onego --baseline-rev {release}").run()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        fs::write(&page, "# One page, two `words`\n```\n# code\n```\n").unwrap();
        assert!(resolves(&page, "#one-page-two-words") && resolves(&page, "page.md"));
        assert!(!resolves(&page, "#code") && !resolves(&page, "none.md") && !resolves(&page, "none.md#a"));
    }
}
