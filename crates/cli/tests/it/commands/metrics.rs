//! What long-running commands tell of themselves by --metrics, and `onego top`.

use crate::support::{Place, signal};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// A command that serves, and where it tells its metrics.
struct Telling {
    child: Child,
    /// What it printed last before it said where it serves.
    said: Vec<String>,
    addr: String,
}

impl Telling {
    fn start(place: &Place, line: &str) -> Self {
        let line = format!("{line} --metrics 127.0.0.1:0 --die-with-parent");
        let mut child = place.command(&line).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut said = Vec::new();
        for line in lines {
            let is_ready = line.starts_with("ready: ");
            said.push(line);
            if is_ready {
                break;
            }
        }
        let url = said.iter().find_map(|line| line.strip_prefix("metrics http://"));
        let addr = url.and_then(|url| url.strip_suffix("/metrics")).expect("it says where").to_owned();
        Self { child, said, addr }
    }

    /// Where it serves, as it says.
    fn ready(&self) -> &str {
        self.said.last().and_then(|line| line.strip_prefix("ready: ")).unwrap()
    }

    /// A page, with its head.
    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.addr).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    /// The sum of the samples whose lines begin with `name` and have all of `labels`.
    fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let text = self.get("/metrics");
        let of = |line: &&str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|label| line.contains(label))
        };
        text.lines().filter(of).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }

    /// The names of all families.
    fn names(&self) -> BTreeSet<String> {
        let text = self.get("/metrics");
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        types.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn within_two_percent(found: f64, known: f64) {
    assert!((found - known).abs() <= known * 0.02, "{found} is not {known}");
}

/// A file of that many bytes, none of which is zero.
fn file(place: &Place, name: &str, bytes: u64) {
    std::fs::write(place.path(name), vec![7; bytes as usize]).unwrap();
}

#[test]
fn a_load_of_known_size_is_found_on_every_side() {
    let place = Place::new();
    let cluster = Telling::start(&place, "cluster start --conf-dir .");
    place.onego("rbd create disk --size 64M");
    let export = Telling::start(&place, "export nbd rbd:rbd/disk --listen 127.0.0.1:0");
    let uri = export.ready().to_owned();
    assert_eq!(export.sum("onego_client_errors_total", &[]), 0.0, "nothing has failed");
    file(&place, "data", 64 * MIB);
    place.onego(&format!("cp data {uri}"));
    let (bytes, requests) = (64.0 * MIB as f64, "onego_export_request_duration_seconds_count");
    let write: &[&str] = &["kind=\"write\"", "export=\"rbd/disk\"", "protocol=\"nbd\""];
    within_two_percent(export.sum("onego_export_bytes_total", write), bytes);
    let writes = export.sum(requests, write);
    assert!((16.0..=1024.0).contains(&writes), "{writes} writes of 64 MiB");
    // What the export's client sends to OSDs is what the cluster gets, but for headers of images.
    let of_pool: &[&str] = &["kind=\"write\"", "pool=\"rbd\""];
    within_two_percent(export.sum("onego_client_bytes_total", of_pool), bytes);
    within_two_percent(cluster.sum("onego_cluster_bytes_total", of_pool), bytes);
    within_two_percent(cluster.sum("onego_osd_used_bytes", &["osd=\"0\""]), bytes);
    place.onego(&format!("cp {uri} back"));
    within_two_percent(export.sum("onego_export_bytes_total", &["kind=\"read\""]), bytes);
    within_two_percent(cluster.sum("onego_cluster_bytes_total", &["kind=\"read\"", "pool=\"rbd\""]), bytes);
    for (side, thread) in [(&export, "onego-export"), (&cluster, "onego-cluster")] {
        let thread = format!("thread=\"{thread}\"");
        let moved = side.sum("onego_engine_bytes_total", &[&thread, "received"]);
        assert!(moved >= bytes, "{moved} of {bytes} bytes");
        assert!(side.sum("onego_thread_cpu_seconds_total", &[&thread]) > 0.0);
        assert_eq!(side.sum("onego_export_in_flight", &[]) + side.sum("onego_cluster_in_flight", &[]), 0.0);
    }
    assert_eq!(export.sum("onego_client_map_epoch", &[]), cluster.sum("onego_cluster_map_epoch", &[]));
}

#[test]
fn a_server_is_ready_once_it_serves_and_healthy_as_long_as_it_lives() {
    let place = Place::new();
    let server = Telling::start(&place, "export nbd mem:1M --listen 127.0.0.1:0");
    for (path, status) in [("/readyz", "200"), ("/healthz", "200"), ("/nothing", "404")] {
        let reply = server.get(path);
        assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {reply}");
    }
    signal(&server.child, Signal::TERM);
    let began = Instant::now();
    while TcpStream::connect(&server.addr).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(10), "it does not end");
    }
}

#[test]
fn top_shows_the_rates_of_an_interval() {
    let place = Place::new();
    let cluster = Telling::start(&place, "cluster start --conf-dir .");
    let top = format!("top {} --once --json --interval 1500ms", cluster.addr);
    let top = place.command(&top).stdout(Stdio::piped()).spawn().unwrap();
    // Two looks, and all of the load between them: the first comes at once.
    std::thread::sleep(Duration::from_millis(300));
    file(&place, "data", 8 * MIB);
    place.onego("rados -p rbd put object data");
    let output = top.wait_with_output().unwrap();
    assert!(output.status.success());
    let seen: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let written = seen["operations"].as_array().unwrap().iter().find(|of| of["kind"] == "write").unwrap();
    assert_eq!((written["side"].as_str(), written["of"].as_str()), (Some("cluster"), Some("rbd")));
    let bytes = written["bytes_per_second"].as_f64().unwrap() * 1.5;
    let known = 8.0 * MIB as f64;
    // The interval is as long as it was slept, or longer.
    assert!((known * 0.5..=known * 1.02).contains(&bytes), "{bytes} of {known} bytes");
    assert!(seen["threads"].as_array().unwrap().iter().any(|of| of["thread"] == "onego-cluster"), "{seen}");
    let shown = place.onego(&format!("top {} --once --interval 10ms", cluster.addr));
    assert!(shown.contains("OPS/S") && shown.contains("onego-cluster"), "{shown}");
    let nobody = place.onego_fails("top 127.0.0.1:1 --once");
    assert!(nobody.0 == 1 && nobody.1.contains("cannot read metrics at 127.0.0.1:1"), "{nobody:?}");
}

#[test]
fn slow_requests_are_told_of_with_where_their_time_went() {
    let place = Place::new();
    let _cluster = Telling::start(&place, "cluster start --conf-dir .");
    place.onego("rbd create disk --size 8M");
    let line = "export nbd rbd:rbd/disk --listen 127.0.0.1:0 --slow 1ns --die-with-parent";
    let mut export = place.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(export.stdout.take().unwrap()).lines().map_while(Result::ok);
    let uri = lines.into_iter().find_map(|line| line.strip_prefix("ready: ").map(str::to_owned)).unwrap();
    file(&place, "data", 8 * MIB);
    place.onego(&format!("cp data {uri}"));
    signal(&export, Signal::TERM);
    let mut said = String::new();
    export.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    export.wait().unwrap();
    let slow = said.lines().find(|line| line.contains("a request to an OSD was slow")).expect("one is slow");
    for part in ["queue", "wire_and_server", "attempts", "onego::slow"] {
        assert!(slow.contains(part), "{part}: {slow}");
    }
    assert!(said.contains("a request to a device was slow"), "{said}");
}

/// The names of metrics in a query.
fn metrics_in(query: &str) -> impl Iterator<Item = &str> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("onego_") || word.starts_with("process_"))
}

/// All queries of a dashboard.
fn queries(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(|expr| expr.as_str()).map(str::to_owned));
            fields.values().for_each(|value| queries(value, found));
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| queries(value, found)),
        _ => {}
    }
}

#[test]
fn every_query_of_the_dashboard_and_every_name_in_the_guide_is_told_by_somebody() {
    let place = Place::new();
    let cluster = Telling::start(&place, "cluster start --conf-dir .");
    let files = Telling::start(&place, "nfs serve --mem --insecure --listen 127.0.0.1:0");
    place.onego("rbd create disk --size 8M");
    file(&place, "data", 8 * MIB);
    let url = format!("{}/data", files.ready());
    place.onego(&format!("nfs cp data {url}"));
    let export = Telling::start(&place, &format!("export nbd rbd:rbd/disk {url} --listen 127.0.0.1:0"));
    let uri = |line: &String| {
        let (what, uri) = line.split_once(": nbd:")?;
        (what != "ready").then(|| format!("nbd:{uri}"))
    };
    let uris: Vec<String> = export.said.iter().filter_map(uri).collect();
    assert_eq!(uris.len(), 2, "{:?}", export.said);
    uris.iter().for_each(|uri| drop(place.onego(&format!("cp data {uri}"))));
    let told: BTreeSet<String> = [&cluster, &files, &export].into_iter().flat_map(Telling::names).collect();
    let exists = |name: &str| {
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        told.contains(name) || family.is_some_and(|family| told.contains(family))
    };
    let dashboard = include_str!("../../../../../docs/grafana/onego.json");
    let mut found = Vec::new();
    queries(&serde_json::from_str(dashboard).unwrap(), &mut found);
    assert!(found.len() >= 10, "{found:?}");
    for query in &found {
        assert!(metrics_in(query).count() > 0, "{query}");
        metrics_in(query).for_each(|name| assert!(exists(name), "{name} of {query} is in none of {told:?}"));
    }
    let guide = include_str!("../../../../../docs/guide/metrics.md");
    let named: BTreeSet<&str> = metrics_in(guide).collect();
    named.iter().for_each(|name| assert!(exists(name), "{name} of the guide is in none of {told:?}"));
    told.iter().for_each(|name| assert!(named.contains(name.as_str()), "{name} is not in the guide"));
}
