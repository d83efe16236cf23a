//! Prometheus and its promtool read the metrics of our commands.

use crate::steps::json;
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{ADDRESS, Daemon, Sandbox, Server, disk, sh};
use serde_json::Value;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// Time a query gets until it has an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Address of Prometheus's API.
const API: &str = "127.0.0.1:9090";

/// Ports of the metrics of the cluster, the export and the file server.
const PORTS: [u16; 3] = [9719, 9720, 9721];

/// Fetches a page into a file and lets promtool check it.
const CHECK: &str = "\
set -e
exec 3<> /dev/tcp/$1/$2
printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3
sed '1,/^\\r$/d' <&3 > page
test -s page
promtool check metrics < page
";

const DASHBOARD: &str = include_str!("../../../docs/grafana/onego.json");

/// Returns a line of Prometheus's programs as a command: [`Sandbox::ceph_daemon`] for those of the release.
pub(crate) type Programs = dyn Fn(&Sandbox, &str) -> Command;

/// A running Prometheus. Dropping it kills the process.
pub(crate) struct Prometheus<'a> {
    sandbox: &'a Sandbox,
    programs: &'a Programs,
    daemon: Daemon,
}

impl<'a> Prometheus<'a> {
    /// Starts one that scrapes each of these addresses once a second, and waits until it has reached all of them.
    pub(crate) fn start(sandbox: &'a Sandbox, programs: &'a Programs, targets: &[String]) -> Result<Self> {
        let config = format!(
            "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: onego\n    static_configs:\n      - targets: \
             {targets:?}\n"
        );
        sandbox.write("prometheus.yml", config)?;
        let options = "--config.file=prometheus.yml --storage.tsdb.path=prometheus";
        let command = programs(sandbox, &format!("prometheus {options} --web.listen-address={API}"));
        let daemon = Daemon::spawn("prometheus", command, &sandbox.path("prometheus.out"))?;
        let mut started = Self { sandbox, programs, daemon };
        started.wait_for(&format!("sum(up) == {}", targets.len()))?;
        Ok(started)
    }

    /// Returns the answer to a query.
    pub(crate) fn ask(&self, query: &str) -> Result<Value> {
        ask(self.sandbox, self.programs, query)
    }

    /// Returns the number that a query results in.
    pub(crate) fn value(&self, query: &str) -> Result<f64> {
        let answer = self.ask(query)?;
        let text = answer[0]["value"][1].as_str().with_context(|| format!("{query}: {answer}"))?;
        Ok(text.parse()?)
    }

    /// Waits until a query has an answer.
    pub(crate) fn wait_for(&mut self, query: &str) -> Result<()> {
        let (sandbox, programs) = (self.sandbox, self.programs);
        let ready = || ask(sandbox, programs, query).is_ok_and(|answer| has_rows(&answer));
        self.daemon.wait_until(&format!("answer to {query}"), PATIENCE, ready)
    }

    /// Ends it with SIGTERM and waits for it.
    pub(crate) fn stop(self) -> Result<()> {
        self.daemon.stop()
    }
}

fn ask(sandbox: &Sandbox, programs: &Programs, query: &str) -> Result<Value> {
    let mut command = programs(sandbox, "promtool query instant --format=json");
    json(&sh::text(command.args([&format!("http://{API}"), query]))?)
}

/// Returns whether an answer is not empty.
pub(crate) fn has_rows(answer: &Value) -> bool {
    answer.as_array().is_some_and(|rows| !rows.is_empty())
}

/// Prometheus has all bytes of a known load, promtool accepts the format, and every query of the dashboard has an answer.
pub(crate) fn metrics(sandbox: &Sandbox) -> Result<()> {
    let [of_cluster, of_export, of_files] = PORTS.map(|port| format!("--metrics {ADDRESS}:{port}"));
    let _cluster = Server::cluster(sandbox, &of_cluster)?;
    let _files = Server::nfs(sandbox, &format!("--mem --insecure {of_files}"))?;
    disk::make(&sandbox.path("disk.raw"), 3)?;
    sandbox.onego(&format!("rbd create disk --size {}B", disk::SIZE))?;
    let file = format!("nfs://{ADDRESS}/export/disk.raw");
    sandbox.onego(&format!("nfs put disk.raw {file}"))?;
    let _export = Server::nbd(sandbox, &format!("rbd:rbd/disk {file} {of_export}"))?;
    // A counter's growth is seen only from its first scrape on.
    let targets = PORTS.map(|port| format!("{ADDRESS}:{port}"));
    let mut server = Prometheus::start(sandbox, &Sandbox::ceph_daemon, &targets)?;
    for (export, back) in [("rbd/disk", "back"), ("disk.raw", "back-of-file")] {
        sandbox.onego(&format!("cp disk.raw nbd://127.0.0.1/{export}"))?;
        sandbox.onego(&format!("cp nbd://127.0.0.1/{export} {back}"))?;
        disk::compare(&sandbox.path("disk.raw"), &sandbox.path(back))?;
    }
    for kind in ["read", "write"] {
        // Holes are neither read nor written, and both sides of the export count the same.
        let of = |side: &str| format!("sum(onego_{side}_bytes_total{{kind=\"{kind}\"}})");
        server.wait_for(&format!("{} > 0", of("export")))?;
        // Later scrapes have the rest.
        sleep(Duration::from_secs(3));
        let of_image = format!("sum(onego_export_bytes_total{{kind=\"{kind}\",export=\"rbd/disk\"}})");
        let export = server.value(&of_image)?;
        for side in ["client", "cluster"] {
            let found = server.value(&of(side))?;
            ensure!((found - export).abs() <= export * 0.02, "{side}: {found} bytes, export: {export}");
        }
    }
    sandbox.write("check", CHECK)?;
    for port in PORTS {
        let check = sandbox.ceph(&format!("bash check {ADDRESS} {port}"));
        check.context("promtool checks the metrics")?;
    }
    let queries = DASHBOARD.lines().filter_map(|line| line.trim().strip_prefix("\"expr\": "));
    ensure!(queries.clone().count() >= 40, "the dashboard has few queries");
    for query in queries {
        let query: String = serde_json::from_str(query.trim_end_matches(','))?;
        let asked = query.replace("$__rate_interval", "30s").replace("$instance", ".*");
        ensure!(has_rows(&server.ask(&asked)?), "no answer to {asked}");
    }
    server.stop()
}
