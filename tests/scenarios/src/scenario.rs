//! A scenario: something that must work between our programs and others'.

use anyhow::{Context as _, Result, bail};
use onego_sandbox::{RealCeph, Release, Sandbox, Server, Store};
use std::time::Duration;

/// A function that fails if something does not work.
pub(crate) type Run = fn(&Sandbox) -> Result<()>;

/// Cluster that the checks of a scenario share.
#[derive(Debug, Clone, Copy)]
enum Fixture {
    None,
    /// A real cluster with its objects in memory.
    Real,
    /// Our embedded cluster with these arguments.
    Embedded(&'static str),
}

/// The tests it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Tier {
    /// Every change: fifteen minutes, with one release of Ceph.
    Smoke,
    /// Nightly and before a release.
    All,
    /// Soaks, which last as long as they are given.
    Long,
}

/// A row of the table of scenarios.
pub(crate) struct Scenario {
    name: &'static str,
    about: &'static str,
    fixture: Fixture,
    checks: Vec<(&'static str, Run)>,
    tier: Tier,
    releases: &'static [Release],
    needs_root: bool,
    limit: Duration,
}

impl Scenario {
    /// A scenario in a sandbox of its own, with the tools and Ceph 16.2.
    pub(crate) fn new(name: &'static str, about: &'static str, run: Run) -> Self {
        Self {
            name,
            about,
            fixture: Fixture::None,
            checks: vec![(name, run)],
            tier: Tier::All,
            releases: &[Release::Pacific],
            needs_root: false,
            limit: Duration::from_secs(15 * 60),
        }
    }

    /// Checks that share one real cluster with its objects in memory; each finds a pool `rbd` without objects.
    pub(crate) fn on_real_ceph(
        name: &'static str,
        about: &'static str,
        checks: &[(&'static str, Run)],
    ) -> Self {
        Self { fixture: Fixture::Real, checks: checks.into(), ..Self::new(name, about, |_| Ok(())) }
    }

    /// Checks that share one embedded cluster with these arguments; each finds a pool `rbd` without objects.
    pub(crate) fn on_embedded(
        name: &'static str,
        about: &'static str,
        arguments: &'static str,
        checks: &[(&'static str, Run)],
    ) -> Self {
        Self {
            fixture: Fixture::Embedded(arguments),
            checks: checks.into(),
            ..Self::new(name, about, |_| Ok(()))
        }
    }

    /// Part of the smoke tests: there with one release, the host's or else the first of the list.
    pub(crate) fn smoke(self) -> Self {
        Self { tier: Tier::Smoke, ..self }
    }

    /// A soak.
    pub(crate) fn soak(self) -> Self {
        Self { tier: Tier::Long, ..self }.minutes(70)
    }

    /// Releases of Ceph that it runs with.
    pub(crate) fn releases(self, releases: &'static [Release]) -> Self {
        Self { releases, ..self }
    }

    /// Needs several users' rights, so an ordinary user cannot run it.
    pub(crate) fn root(self) -> Self {
        Self { needs_root: true, ..self }
    }

    /// Time limit, 15 minutes unless set.
    pub(crate) fn minutes(self, minutes: u64) -> Self {
        Self { limit: Duration::from_secs(60 * minutes), ..self }
    }

    pub(crate) fn about(&self) -> &'static str {
        self.about
    }

    pub(crate) fn tier(&self) -> Tier {
        self.tier
    }

    pub(crate) fn needs_root(&self) -> bool {
        self.needs_root
    }

    /// Returns the releases for the tests of a tier.
    pub(crate) fn releases_for(&self, tier: Tier) -> Vec<Release> {
        let host = Release::of_host();
        match tier {
            Tier::Smoke if self.releases.contains(&host) => vec![host],
            Tier::Smoke => self.releases.iter().copied().take(1).collect(),
            Tier::All | Tier::Long => self.releases.to_vec(),
        }
    }

    /// Returns the name with a release: `ceph18-restart`, without the release where there is only one.
    pub(crate) fn name_with(&self, release: Release) -> String {
        match self.releases {
            [Release::Pacific] => self.name.to_owned(),
            _ => format!("ceph{}-{}", release.number(), self.name),
        }
    }

    /// Runs all checks, also after one has failed; fails if one has.
    pub(crate) fn run(&self, release: Release, onego: &std::path::Path) -> Result<()> {
        let name = self.name_with(release);
        let sandbox = Sandbox::new(&name, release, onego, self.limit)?;
        let failures = match self.fixture {
            Fixture::None => return (self.checks[0].1)(&sandbox).and_then(|()| sandbox.clear()),
            Fixture::Real => {
                let _ceph = RealCeph::start(&sandbox, Store::Memory)?;
                self.run_checks(&sandbox)
            }
            Fixture::Embedded(arguments) => {
                let _cluster = Server::cluster(&sandbox, arguments)?;
                sandbox.ceph("ceph osd pool create rbd 32")?;
                self.run_checks(&sandbox)
            }
        };
        if failures.is_empty() { sandbox.clear() } else { bail!("{}", failures.join("\n")) }
    }

    fn run_checks(&self, sandbox: &Sandbox) -> Vec<String> {
        let failures = self.checks.iter().filter_map(|(name, run)| {
            let checked = sandbox.with_folder(name).and_then(|sandbox| run(&sandbox));
            // The next check finds an empty cluster also after a failure.
            let emptied = empty_cluster(sandbox);
            let result = checked.and(emptied).with_context(|| format!("check {name}"));
            result.err().map(|error| format!("{error:#}"))
        });
        failures.collect()
    }
}

/// Removes all pools and creates `rbd` again.
fn empty_cluster(sandbox: &Sandbox) -> Result<()> {
    for pool in sandbox.ceph("ceph osd pool ls")?.lines() {
        sandbox.ceph(&format!("ceph osd pool rm {pool} {pool} --yes-i-really-really-mean-it"))?;
    }
    sandbox.ceph("ceph osd pool create rbd 32")?;
    sandbox.ceph("ceph osd pool application enable rbd rbd").map(drop)
}
