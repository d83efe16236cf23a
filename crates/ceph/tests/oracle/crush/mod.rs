//! CRUSH maps and placement, compared with `crushtool`.

pub(crate) mod map;
pub(crate) mod placement;
mod random;
mod text;

use onego_ceph::crush::{CrushMap, Workspace};
use onego_msgr::encoding::{Decode, Encode};
use onego_testkit::Need;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

const CRUSHTOOL: &[Need] = &[Need::Program("crushtool")];

pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("onego-crush-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder for the maps");
        Self(path)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It is a temporary directory, so a failure is harmless.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn crushtool<'a>(arguments: impl IntoIterator<Item = &'a str>) -> String {
    let arguments: Vec<&str> = arguments.into_iter().collect();
    let output = Command::new("crushtool").args(&arguments).output().expect("crushtool was found on PATH");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "crushtool {arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("crushtool prints UTF-8")
}

/// Reads a map that crushtool wrote, which must encode to the same bytes again.
pub(super) fn load(file: &Path) -> CrushMap {
    let bytes = std::fs::read(file).expect("crushtool wrote the map");
    let map = CrushMap::from_bytes(&bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert_eq!(map.to_bytes(), bytes, "{} encodes differently", file.display());
    map
}

pub(super) fn compile(folder: &Folder, text: &str) -> PathBuf {
    let (source, compiled) = (folder.path("map.txt"), folder.path("map"));
    std::fs::write(&source, text).expect("a file in our folder");
    let (from, to) = (source.to_str().unwrap(), compiled.to_str().unwrap());
    // crushtool's exit code does not indicate success here.
    let _ = std::fs::remove_file(&compiled);
    let output = crushtool(["-c", from, "--enable-unsafe-tunables", "-o", to]);
    assert!(compiled.exists(), "crushtool refuses the map: {output}\n{text}");
    compiled
}

pub(super) struct Inputs {
    pub(super) xs: std::ops::RangeInclusive<u32>,
    pub(super) result_max: usize,
    pub(super) reweights: Vec<(i32, f32)>,
}

/// Compares the mappings by all rules with crushtool's, and returns their number.
pub(super) fn compare_mappings(file: &Path, map: &CrushMap, inputs: &Inputs) -> usize {
    let mut arguments: Vec<String> = ["--test", "--show-mappings", "-i", file.to_str().unwrap()]
        .map(str::to_owned)
        .into_iter()
        .chain(["--min-x".to_owned(), inputs.xs.start().to_string()])
        .chain(["--max-x".to_owned(), inputs.xs.end().to_string()])
        .chain(["--num-rep".to_owned(), inputs.result_max.to_string()])
        .collect();
    for (device, weight) in &inputs.reweights {
        arguments.extend(["--weight".to_owned(), device.to_string(), weight.to_string()]);
    }
    let weights = device_weights(map, &inputs.reweights);
    let expected = crushtool(arguments.iter().map(String::as_str));
    let (mut workspace, mut found) = (Workspace::default(), Vec::new());
    let mut compared = 0;
    for line in expected.lines() {
        let Some((rule, x, devices)) = parse_mapping(line) else { continue };
        map.do_rule_with(&mut workspace, rule, x, inputs.result_max, &weights, Some(0), &mut found);
        assert_eq!(found, devices, "rule {rule} x {x} of crushtool {}", arguments.join(" "));
        compared += 1;
    }
    compared
}

fn device_weights(map: &CrushMap, reweights: &[(i32, f32)]) -> Vec<u32> {
    let mut weights = vec![0; map.max_devices as usize];
    for &device in map.buckets.iter().flatten().flat_map(|bucket| &bucket.items) {
        if let Ok(device) = usize::try_from(device) {
            weights[device] = 0x1_0000;
        }
    }
    for &(device, weight) in reweights {
        weights[device as usize] = (weight * 65536.0) as u32;
    }
    weights
}

/// Reads `CRUSH rule 1 x 7 [3,0,5]`.
fn parse_mapping(line: &str) -> Option<(u32, u32, Vec<i32>)> {
    let (rule, rest) = line.strip_prefix("CRUSH rule ")?.split_once(" x ")?;
    let (x, devices) = rest.split_once(" [")?;
    let devices = devices.strip_suffix(']')?;
    let devices = devices.split(',').filter(|d| !d.is_empty()).map(|d| d.parse().unwrap()).collect();
    Some((rule.parse().unwrap(), x.parse().unwrap(), devices))
}
