//! Prometheus and its promtool read what our commands tell of themselves.

use crate::cluster::{ADDRESS, Embedded, Stage};
use crate::interop::disk;
use crate::interop::prometheus::{Programs, Prometheus, has_rows};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// Where our commands tell their metrics: the cluster, the export and the server of files.
const PORTS: [u16; 3] = [9719, 9720, 9721];

/// Fetches a page into a file, and has promtool check it.
const CHECK: &str = "\
set -e
exec 3<> /dev/tcp/$1/$2
printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3
sed '1,/^\\r$/d' <&3 > page
test -s page
promtool check metrics < page
";

const DASHBOARD: &str = include_str!("../../../../docs/grafana/onego.json");

/// Prometheus scrapes all of a load that is known, in the format that it prefers, and every query of the dashboard has an answer.
pub(crate) fn prometheus(stage: &Stage) -> Result<()> {
    let [of_cluster, of_export, of_files] = PORTS.map(|port| format!("--metrics {ADDRESS}:{port}"));
    let _cluster = Embedded::start(stage, &of_cluster)?;
    let _files = Embedded::start_nfs(stage, &format!("--mem --insecure {of_files}"))?;
    let size = disk::SIZE;
    disk::make(&stage.path("disk.raw"), 3)?;
    stage.onego(&format!("rbd create disk --size {size}B"))?;
    let file = format!("nfs://{ADDRESS}/export/disk.raw");
    stage.onego(&format!("nfs put disk.raw {file}"))?;
    let _export = Embedded::start_nbd(stage, "", &format!("rbd:rbd/disk {file} {of_export}"))?;
    // A counter that grows is one that Prometheus has seen before.
    let targets = PORTS.map(|port| format!("{ADDRESS}:{port}"));
    let mut server = Prometheus::start(stage, Programs::Stage, &targets)?;
    for (export, back) in [("rbd/disk", "back"), ("disk.raw", "back-of-file")] {
        stage.onego(&format!("cp disk.raw nbd://127.0.0.1/{export}"))?;
        stage.onego(&format!("cp nbd://127.0.0.1/{export} {back}"))?;
        disk::compare(&stage.path("disk.raw"), &stage.path(back))?;
    }
    for kind in ["read", "write"] {
        // Holes are neither read nor written, and both sides of the export see the same.
        let of = |side: &str| format!("sum(onego_{side}_bytes_total{{kind=\"{kind}\"}})");
        server.wait_for(&format!("{} > 0", of("export")))?;
        // The last of it, too.
        sleep(Duration::from_secs(3));
        let export =
            server.value(&format!("sum(onego_export_bytes_total{{kind=\"{kind}\",export=\"rbd/disk\"}})"))?;
        for side in ["client", "cluster"] {
            let found = server.value(&of(side))?;
            ensure!((found - export).abs() <= export * 0.02, "{side}: {found} bytes, export: {export}");
        }
    }
    for port in PORTS {
        fs::write(stage.path("check"), CHECK)?;
        stage
            .ceph_words(&["bash", "check", ADDRESS, &port.to_string()])
            .context("promtool checks the metrics")?;
    }
    let mut queries = Vec::new();
    find_queries(&serde_json::from_str(DASHBOARD)?, &mut queries);
    for query in queries {
        let asked = query.replace("$__rate_interval", "30s").replace("$instance", ".*");
        ensure!(has_rows(&server.ask(&asked)?), "there is no answer to {asked}");
    }
    server.stop()
}

/// All queries of a dashboard.
fn find_queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| find_queries(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| find_queries(value, found)),
        _ => {}
    }
}
