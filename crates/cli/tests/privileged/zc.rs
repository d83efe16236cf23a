//! Short measurements of sends, whose form is checked and not their figures.

use crate::support::{Place, interrupt};
use onego_testkit::{Need, NeedyTest, needy_tests};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

const ROOT: &[Need] = &[Need::Root, Need::Program("ip")];
const ROOT_AND_URING: &[Need] = &[Need::Root, Need::Program("ip"), Need::Uring];

pub(crate) const TESTS: &[NeedyTest] = &needy_tests![
    ROOT;
    an_interrupted_measurement_leaves_no_namespace,
    a_user_other_than_root_is_told,
];

pub(crate) const URING: &[NeedyTest] = &needy_tests![
    ROOT_AND_URING;
    what_the_kernel_copies_is_told_on_every_path,
    thresholds_are_found_where_calibrate_writes_them_and_a_bad_file_is_named,
];

/// Is a namespace left that this process has made?
fn has_namespaces(pid: u32) -> bool {
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    names
        .map(|name| name.file_name())
        .any(|name| name.to_string_lossy().starts_with(&format!("onego-{pid}-")))
}

fn what_the_kernel_copies_is_told_on_every_path() {
    let place = Place::new();
    let printed = place.onego(
        "bench zc --sender send,msg_zerocopy,zc,bare-fixed,fixed,adaptive --batch 1,8 --size 16384 --seconds 0.03 \
         --json rows.json --svg rows.svg",
    );
    let text = fs::read_to_string(place.path("rows.json")).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 3 * (2 + 3 + 2 + 3 + 3));
    for row in &rows {
        assert_eq!((&row["bench"], &row["block_size"]), (&"zc".into(), &16384.into()), "{row}");
        assert!(
            row["ios"].as_u64().unwrap() > 0 && row["cpu_seconds_per_gb"]["client"].as_f64().unwrap() > 0.0
        );
        let (mode, over_tcp) = (row["mode"].as_str().unwrap(), row["path"] != "sink");
        assert_eq!(row["cpu_seconds"]["server"].is_null(), !over_tcp, "{row}");
        match mode {
            "send" => assert!(row["copied"].is_null(), "{row}"),
            // It asks again now and then.
            "adaptive" if over_tcp => assert!(row["copied"].is_null() || row["copied"] == 1.0, "{row}"),
            _ => assert_eq!(row["copied"].as_f64(), Some(f64::from(u8::from(over_tcp))), "{row}"),
        }
    }
    assert!(
        printed.contains("==== UDP to a sink, 16k ====") && printed.contains("==== TCP over veth, 16k ====")
    );
    assert!(printed.contains("fixed n=8 flush a batch"), "{printed}");
    assert!(fs::read_to_string(place.path("rows.svg")).unwrap().ends_with("</svg>\n"));
}

fn an_interrupted_measurement_leaves_no_namespace() {
    let place = Place::new();
    let mut child = place.command("bench zc --path veth --seconds 60").stderr(Stdio::null()).spawn().unwrap();
    while !has_namespaces(child.id()) {
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        std::thread::sleep(Duration::from_millis(10));
    }
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!has_namespaces(child.id()));
}

fn a_user_other_than_root_is_told() {
    let place = Place::new();
    // Where the program lies, others may not look.
    let folder = place.path("for-everybody");
    let program = folder.join("onego");
    fs::create_dir(&folder).unwrap();
    fs::copy(place.command("").get_program(), &program).unwrap();
    fs::set_permissions(place.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&program);
    command.args(["bench", "zc", "--path", "sink", "--seconds", "0.01"]).current_dir("/").env("HOME", "/");
    let output = command.uid(65_534).gid(65_534).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("run as root") && said.contains("--path loopback"), "{said}");
}

fn thresholds_are_found_where_calibrate_writes_them_and_a_bad_file_is_named() {
    let place = Place::new();
    let printed = place.onego("calibrate --seconds 0.005 --repeat 1 --output config/onego/zero-copy.conf");
    assert!(
        printed.contains("registered") && printed.contains("written to config/onego/zero-copy.conf"),
        "{printed}"
    );
    let file = place.path("config/onego/zero-copy.conf");
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains(" = ")).count(), 4, "{text}");

    let run = || {
        let mut command =
            place.command("bench zc --path loopback --sender adaptive --size 4k --seconds 0.01");
        command.env("XDG_CONFIG_HOME", place.path("config")).output().unwrap()
    };
    assert!(run().status.success());
    fs::write(&file, text.replace("segment", "segments")).unwrap();
    let output = run();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("zero-copy.conf: line 5 is none of") && said.contains("onego calibrate"), "{said}");
}
