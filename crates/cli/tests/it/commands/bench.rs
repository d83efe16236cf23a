//! Measurements on the embedded cluster: short ones, whose figures mean nothing but whose form does.

use crate::support::{Place, interrupt};
use serde_json::Value;
use std::fs;

fn rows(place: &Place) -> Vec<Value> {
    let text = fs::read_to_string(place.path("rows.json")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn rows_have_both_ends_and_bare_sockets_beside_them() {
    let place = Place::new();
    let printed = place.onego(
        "bench rbd --rw randread,write --block-size 4k,64k --io-depth 8 --size 16M --seconds 0.1 --json rows.json \
         --svg rows.svg",
    );
    let rows = rows(&place);
    let modes: Vec<_> = rows.iter().map(|row| row["mode"].as_str().unwrap()).collect();
    assert_eq!(modes, ["onego", "floor"].repeat(4));
    for row in &rows {
        assert_eq!((&row["bench"], &row["errors"]), (&"rbd".into(), &0.into()), "{row}");
        assert!(row["ios"].as_u64().unwrap() > 0, "{row}");
        for side in ["client", "server"] {
            assert!(row["cpu_us_per_io"][side].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    assert!(printed.contains("==== randread, numjobs=1 iodepth=8, epoll ===="), "{printed}");
    let lines: Vec<_> = printed.lines().filter(|line| line.contains("IOPS=")).collect();
    assert!(lines.len() == 4 && lines[1].trim_start().starts_with("64k  IOPS="), "{printed}");
    assert!(fs::read_to_string(place.path("rows.svg")).unwrap().ends_with("</svg>\n"));
}

#[test]
fn every_way_to_a_block_device_is_measured_on_every_device() {
    let place = Place::new();
    let printed = place.onego(
        "bench block --block-size 64k --rates 100,max --rw write --callers 1,4 --seconds 0.02 --repeat 2 --size 16M \
         --json rows.json --svg rows.svg",
    );
    let rows = rows(&place);
    let of = |device: &str, field: &str| -> Vec<Value> {
        rows.iter().filter(|row| row["device"] == device).map(|row| row[field].clone()).collect()
    };
    let (large, small) = (["containers", "global queue", "pieces"], ["plugs", "global queue", "pieces"]);
    let ways = [large, large, small, small].concat();
    assert_eq!(of("memory", "mode"), ways);
    assert_eq!(of("rbd", "mode"), ways);
    assert_eq!(of("null", "mode"), [vec!["loop alone"], ways].concat());
    // What is merged and what is not: an I/O of 64 KiB is one request or sixteen, and 32 of 4 KiB are one or 32.
    let merged =
        [[1.0, 1.0, 16.0], [1.0, 1.0, 16.0], [1.0 / 32.0, 1.0 / 32.0, 1.0], [1.0 / 32.0, 1.0 / 32.0, 1.0]];
    assert_eq!(of("rbd", "requests_per_io"), merged.concat());
    for row in &rows {
        assert_eq!((&row["bench"], &row["errors"], &row["repeat"]), (&"block".into(), &0.into(), &2.into()));
        assert!(
            row["ios"].as_u64().unwrap() > 0 && row["cpu_share"]["client"].as_f64().unwrap() > 0.0,
            "{row}"
        );
        assert_eq!(row["cpu_share"]["server"].is_null(), row["device"] != "rbd", "{row}");
    }
    assert!(printed.contains("==== null, write of 4k, 4 callers, batches of 32 ===="), "{printed}");
    assert!(fs::read_to_string(place.path("rows.svg")).unwrap().ends_with("</svg>\n"));
}

#[test]
fn several_jobs_verify_on_either_engine_and_leave_nothing() {
    let place = Place::with_cluster("");
    for engine in ["epoll", "uepoll", "uring"] {
        let line = "bench rbd --cluster ceph.conf --rw randrw --block-size 4k,64k --jobs 3 --io-depth 16 --size 24M \
                    --seconds 0.2 --verify --json rows.json --engine";
        place.onego(&format!("{line} {engine}"));
        let rows = rows(&place);
        assert_eq!(rows.len(), 2, "bare sockets do not verify");
        for row in &rows {
            assert_eq!(
                (&row["engine"], &row["jobs"], &row["errors"]),
                (&engine.into(), &3.into(), &0.into())
            );
            assert_eq!(row["cpu_us_per_io"]["server"], Value::Null, "whose process is it?");
        }
        assert_eq!(place.onego("rbd ls"), "");
    }
}

#[test]
fn lost_writes_are_found() {
    let place = Place::with_cluster("--null-writes");
    let (code, said) = place.onego_fails(
        "bench rbd --cluster ceph.conf --rw randwrite --size 4M --seconds 0.1 --verify --io-depth 4",
    );
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("verification failed"), "{said}");
    assert_eq!(place.onego("rbd ls"), "");
}

#[test]
fn what_is_interrupted_while_it_fills_the_image_ends_at_the_first_signal() {
    let place = Place::with_cluster("--memory 8G --null-writes");
    for verify in ["", "--verify"] {
        // To fill it takes many times as long as the test waits.
        let line = format!(
            "bench rbd --cluster ceph.conf --rw randread --block-size 4m --size 64G --seconds 1 {verify}"
        );
        let mut child = place.command(&line).spawn().unwrap();
        while place.onego("rbd ls").is_empty() {
            assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        }
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(child.try_wait().unwrap(), None, "it is still filling");
        interrupt(&child);
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert_eq!(place.onego("rbd ls"), "");
    }
}

#[test]
fn an_interrupted_measurement_leaves_nothing_behind() {
    let place = Place::with_cluster("");
    let mut child = place.command("bench rbd --cluster ceph.conf --size 16M --seconds 60").spawn().unwrap();
    // The image is there before anything is measured.
    while place.onego("rbd ls").is_empty() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
    }
    // It may still be opening what it measures with.
    std::thread::sleep(std::time::Duration::from_millis(300));
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(place.onego("rbd ls"), "");
}

#[test]
fn null_writes_are_measured() {
    let place = Place::new();
    place
        .onego("bench rbd --null-writes --rw randwrite --size 16M --seconds 0.1 --no-floor --json rows.json");
    let rows = rows(&place);
    assert!(rows.len() == 1 && rows[0]["errors"] == 0, "{rows:?}");
}

#[test]
fn the_demo_verifies_measures_and_draws() {
    let place = Place::new();
    let printed = place.onego("demo --seconds 0.05");
    assert!(printed.contains("verified: "), "{printed}");
    for size in ["4k", "16k", "512k", "1m"] {
        let lines = printed.lines().filter(|line| line.trim_start().starts_with(&format!("{size}  IOPS=")));
        assert_eq!(lines.count(), 2, "{size} in\n{printed}");
    }
    assert!(printed.ends_with("onego-demo.svg shows IOPS, bandwidth and CPU by block size\n"), "{printed}");
    let picture = fs::read_to_string(place.path("onego-demo.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("randwrite, bare sockets"));
}

#[test]
fn messengers_are_measured_on_either_engine_beside_bare_sockets() {
    let place = Place::new();
    let printed = place.onego(
        "bench msgr --engines epoll,uring --block-size 512,64k --io-depth 8 --connections 3 --seconds 0.1 \
         --json rows.json --svg rows.svg",
    );
    let rows = rows(&place);
    let modes: Vec<_> = rows.iter().map(|row| row["mode"].as_str().unwrap()).collect();
    assert_eq!(modes, ["onego", "floor"].repeat(4));
    for row in &rows {
        assert_eq!(
            (&row["bench"], &row["errors"], &row["jobs"]),
            (&"msgr".into(), &0.into(), &3.into()),
            "{row}"
        );
        for side in ["client", "server"] {
            assert!(row["cpu_us_per_io"][side].as_f64().unwrap() > 0.0, "{row}");
            assert!(row["system_calls_per_io"][side].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    for engine in ["epoll", "uring"] {
        let head = format!("==== messenger, connections=3 iodepth=8 crc=on, {engine} ====");
        assert!(printed.contains(&head), "{printed}");
    }
    assert!(printed.lines().filter(|line| line.ends_with('%')).count() == 4, "{printed}");
    assert!(fs::read_to_string(place.path("rows.svg")).unwrap().ends_with("</svg>\n"));
}

#[test]
fn messengers_verify_with_and_without_checksums() {
    let place = Place::new();
    for options in ["--crc on --engine epoll", "--crc off --engine uring --spin 50"] {
        let line = "bench msgr --verify --block-size 512,64k,1m --io-depth 5 --connections 2 --seconds 0.1 --json rows.json";
        place.onego(&format!("{line} {options}"));
        let rows = rows(&place);
        assert_eq!(rows.len(), 3, "bare sockets do not verify");
        assert!(rows.iter().all(|row| row["errors"] == 0 && row["ios"].as_u64() > Some(0)), "{rows:?}");
    }
    let (code, said) = place.onego_fails("bench msgr --verify --block-size 1000 --seconds 0.1");
    assert_eq!(code, 2, "{said}");
}

#[test]
fn bare_sockets_can_be_measured_alone() {
    let place = Place::new();
    let printed = place.onego("bench msgr --raw --block-size 4k --seconds 0.1 --json rows.json");
    assert!(printed.contains(", sockets ====") && printed.contains("  4k IOPS="), "{printed}");
    let modes: Vec<_> = rows(&place).iter().map(|row| row["mode"].clone()).collect();
    assert_eq!(modes, ["floor"]);
}
